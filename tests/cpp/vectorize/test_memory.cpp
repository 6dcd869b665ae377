// Addresses and memory: rows whose distance is known at run time only, places close together, stores past the caches.
#include <bit>

#include <doctest/doctest.h>

#include "llvm/MC/MCSubtargetInfo.h"

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// Stores in[%at] + in[%at + 1] of each lane of one SIMD-group.
std::string sums_at(std::string_view lines) {
    return std::string(lines) + R"(
  %wide = zext i32 %at to i64
  %place = getelementptr i32, ptr %in, i64 %wide
  %beside = getelementptr i32, ptr %place, i64 1
  %a = load i32, ptr %place
  %b = load i32, ptr %beside
  %r = add i32 %a, %b
  %li = zext i32 %lane to i64
  %mine = getelementptr i32, ptr %out, i64 %li
  store i32 %r, ptr %mine
  ret void
)";
}

constexpr std::string_view row_of_eight = "  %row = lshr i32 %lane, 2\n  %start = mul i32 %row, %n\n"
                                          "  %column = and i32 %lane, 3\n  %even = shl i32 %column, 1\n"
                                          "  %at = add i32 %start, %even\n";
constexpr std::string_view row_of_a_tile = "  %row = lshr i32 %lane, 2\n  %start = mul i32 %row, 32\n"
                                           "  %column = and i32 %lane, 3\n  %even = shl i32 %column, 1\n"
                                           "  %at = add i32 %start, %even\n";
constexpr std::string_view rows_of_three_hundred = "  %row = lshr i32 %lane, 4\n  %start = mul i32 %row, 300\n"
                                                   "  %column = and i32 %lane, 15\n  %at = add i32 %start, %column\n";
constexpr std::string_view uneven_rows = "  %row = lshr i32 %lane, 2\n  %start = mul i32 %row, 32\n"
                                         "  %column = mul i32 %lane, %lane\n  %at = add i32 %start, %column\n";
constexpr std::string_view backwards = "  %at = sub i32 31, %lane\n";
constexpr std::string_view neighbours = "  %at = xor i32 %lane, 3\n";
constexpr std::string_view every_row = "  %at = mul i32 %lane, %n\n";

// Stores the sum of `count` floats that lie side by side for each lane, each of them times another number.
std::string sum_of_neighbours(unsigned count) {
    std::string out = "  %li = zext i32 %lane to i64\n  %first = mul i64 %li, " + std::to_string(count) +
                      "\n  %start = getelementptr float, ptr %in, i64 %first\n";
    std::string sum = "0.0";
    for (unsigned i = 0; i < count; ++i) {
        std::string number = std::to_string(i);
        out += "  %p" + number + " = getelementptr float, ptr %start, i64 " + number + "\n  %v" + number +
               " = load float, ptr %p" + number + "\n  %m" + number + " = fmul float %v" + number + ", " + number + ".5\n  %s" +
               number + " = fadd float " + sum + ", %m" + number + "\n";
        sum = "%s" + number;
    }
    return out + "  %mine = getelementptr float, ptr %out, i64 %li\n  store float " + sum + ", ptr %mine\n  ret void\n";
}

// Stores a number of 16 bits. `sharing` lanes in a row lie together, four at one place; the next ones' lie `stride` numbers
// behind.
std::string halves_at(unsigned stride, unsigned sharing) {
    return "  %row = udiv i32 %lane, " + std::to_string(sharing) + "\n  %start = mul i32 %row, " + std::to_string(stride) +
           "\n  %inside = urem i32 %lane, " + std::to_string(sharing) + R"(
  %beside = udiv i32 %inside, 4
  %at = add i32 %start, %beside
  %wide = zext i32 %at to i64
  %place = getelementptr i16, ptr %in, i64 %wide
  %half = load i16, ptr %place
  %word = zext i16 %half to i32
  %li = zext i32 %lane to i64
  %mine = getelementptr i32, ptr %out, i64 %li
  store i32 %word, ptr %mine
  ret void
)";
}

unsigned words_of_register(const llvm::TargetMachine& machine) {
    const llvm::MCSubtargetInfo& processor = *machine.getMCSubtargetInfo();
    bool x86 = machine.getTargetTriple().isX86();
    return x86 && processor.checkFeatures("+avx512f") ? 16 : x86 && processor.checkFeatures("+avx") ? 8 : 4;
}

// Of registers of floats.
std::size_t count_shuffles(std::string_view code, unsigned size) {
    return count(code, "shufflevector <" + std::to_string(size) + " x float>");
}

Words numbered(std::size_t count) {
    Words out(count);
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<std::uint32_t>(i * i + 3);
    }
    return out;
}

} // namespace

TEST_CASE("a lane's row times a number known at run time: one scalar for each row") {
    Kernel kernel(sums_at(row_of_eight));
    Analysed analysed(kernel, rows());
    Shape start = analysed.shape(kernel.value("start"));
    REQUIRE(start.is_parts());
    CHECK(start.partition.count == 8);
    CHECK(start.partition.part[31] == 7);
    Shape at = analysed.shape(kernel.value("at"));
    REQUIRE(at.is_parts());
    CHECK(at.offsets[5] == 2);
    Kernel wide(sums_at(every_row));
    CHECK(Analysed(wide, rows()).shape(wide.value("at")).is_varying());
}

TEST_CASE("numbers that differ only in bits the other side does not have compare alike in all lanes") {
    for (auto [lines, alike] :
         {std::pair{"%v = icmp ult i32 %index, 64", true}, std::pair{"%v = icmp sge i32 %index, 96", true},
          std::pair{"%v = icmp ugt i32 64, %index", true}, std::pair{"%v = icmp ult i32 %index, 65", false},
          std::pair{"%v = icmp ugt i32 %index, 64", false}, std::pair{"%v = icmp ult i32 %index, %n", false}}) {
        Kernel kernel(std::string("  ") + lines + "\n  %s = zext i1 %v to i32\n  store i32 %s, ptr %out\n  ret void\n");
        CAPTURE(lines);
        CHECK(Analysed(kernel, rows()).shape(kernel.value("v")).is_uniform() == alike);
    }
}

TEST_CASE("places close together are read as a whole, others are gathered") {
    for (std::string_view lines : {row_of_eight, row_of_a_tile, rows_of_three_hundred, backwards, neighbours}) {
        CHECK(vector_code(sums_at(lines), rows()).find("call <32 x i32> @llvm.masked.gather") == std::string::npos);
    }
    for (std::string_view lines : {every_row, uneven_rows}) {
        CHECK(vector_code(sums_at(lines), rows()).find("call <32 x i32> @llvm.masked.gather") != std::string::npos);
    }
}

TEST_CASE("a place between those of the lanes is not as aligned as they are") {
    std::string code = vector_code(R"(
  %at = zext i32 %lane to i64
  %place = getelementptr [2 x double], ptr %in, i64 %at
  %v = load double, ptr %place, align 16
  %mine = getelementptr double, ptr %out, i64 %at
  store double %v, ptr %mine, align 8
  ret void
)",
                                   rows());
    CHECK(count(code, "load <32 x double>") == 2);
    CHECK(count(code, "align 16") == 1);
}

TEST_CASE("what is read is what each thread reads by itself") {
    for (std::string_view lines :
         {row_of_eight, row_of_a_tile, rows_of_three_hundred, uneven_rows, backwards, neighbours, every_row}) {
        for (std::uint32_t distance : {0u, 1u, 8u, 13u, 100u}) {
            Launch launch{.geometry = rows(), .number = distance};
            CAPTURE(lines);
            CAPTURE(distance);
            CHECK(run_vectors(sums_at(lines), launch, Words(32), numbered(4000)) ==
                  run_threads(sums_at(lines), launch, Words(32), numbered(4000)));
        }
    }
}

TEST_CASE("stores past the caches: short kernels without branches, buffers that are not read") {
    auto text = [](std::string_view from) {
        return "  %i = zext i32 %x to i64\n  %from = getelementptr i32, ptr " + std::string(from) +
               ", i64 %i\n  %v = load i32, ptr %from\n  %to = getelementptr i32, ptr %out, i64 %i\n"
               "  store i32 %v, ptr %to\n  ret void\n";
    };
    CHECK(vector_code(text("%in"), flat()).find("!nontemporal") != std::string::npos);
    CHECK(vector_code(text("%out"), flat()).find("!nontemporal") == std::string::npos);
}

TEST_CASE("neighbours of whole words are taken apart in registers, pair by pair") {
    for (unsigned count : {2u, 4u, 8u, 16u, 32u}) {
        std::string text = sum_of_neighbours(count);
        Kernel kernel(text);
        std::string code = vector_code(text, rows());
        CAPTURE(count);
        // Each round has as many shuffles as there are registers, and leaves twice as many numbers of a lane alone.
        unsigned size = words_of_register(kernel.machine()), registers = count * 32 / size;
        auto rounds = static_cast<unsigned>(std::countr_zero(std::min(count, size)));
        CHECK(count_shuffles(code, size) <= registers * (rounds + 1));
        Words in(32 * 32 + 40);
        for (std::size_t i = 0; i < in.size(); ++i) {
            in[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i % 1000));
        }
        Launch launch{.geometry = rows()};
        CHECK(run_vectors(text, launch, Words(32), in) == run_threads(text, launch, Words(32), in));
    }
}

TEST_CASE("halves that lie a little apart are read in registers") {
    for (unsigned stride : {1u, 2u, 9u, 17u, 18u, 72u, 500u}) {
        for (unsigned sharing : {1u, 2u, 4u, 8u, 32u}) {
            std::string text = halves_at(stride, sharing);
            CAPTURE(stride);
            CAPTURE(sharing);
            Words in(32 * 500);
            for (std::size_t i = 0; i < in.size(); ++i) {
                in[i] = static_cast<std::uint32_t>(i * 2654435761u);
            }
            Launch launch{.geometry = rows()};
            CHECK(run_vectors(text, launch, Words(32), in) == run_threads(text, launch, Words(32), in));
        }
    }
}

TEST_CASE("halves of few registers are not gathered where the processor moves them freely") {
    Kernel kernel(halves_at(9, 2));
    if (words_of_register(kernel.machine()) < 16) {
        return;
    }
    CHECK(vector_code(halves_at(9, 2), rows()).find("masked.gather") == std::string::npos);
    CHECK(count(vector_code(halves_at(72, 8), rows()), "call <8 x i16> @llvm.vp.load") == 4);
    CHECK(vector_code(halves_at(500, 1), rows()).find("masked.gather") != std::string::npos);
}

TEST_CASE("copies of vectors and structures are loads and stores") {
    for (std::uint32_t bytes : {4u, 12u, 16u, 24u, 32u, 64u}) {
        const std::string text = "  %w = zext i32 %x to i64\n  %b = mul i64 %w, " + std::to_string(bytes) +
                                 "\n  %p = getelementptr i8, ptr %out, i64 %b\n  %q = getelementptr i8, ptr %in, i64 %b\n" +
                                 "  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %p, ptr align 4 %q, i64 " +
                                 std::to_string(bytes) + ", i1 false)\n  ret void\n";
        const char* copy = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n";
        CHECK(count(vector_code(text, flat(), copy), "call void @llvm.memcpy") == 0);
        compare(text, 0, copy);
    }
}
