// Threads that exchange numbers with those whose position differs in a few bits.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// %v of each thread: what stands in `in` at its position, bits of which are flipped.
std::string read_at(std::string_view position, std::string_view type, std::string_view bits) {
    std::string name(position), element(type), flipped(bits);
    return "  %o = xor i32 " + name + ", " + flipped + "\n  %wo = zext i32 %o to i64\n  %there = getelementptr " + element +
           ", ptr %in, i64 %wo\n  %v = load " + element + ", ptr %there\n";
}

std::string write_at(std::string_view position, std::string_view type, std::string_view value) {
    return "  %wi = zext i32 " + std::string(position) + " to i64\n  %mine = getelementptr " + std::string(type) +
           ", ptr %out, i64 %wi\n  store " + std::string(type) + " " + std::string(value) + ", ptr %mine\n";
}

// Reads and writes the same buffer, so that it cannot be written past the caches.
constexpr std::string_view step_of_a_sort = R"(
  %o = xor i32 %x, %n
  %first = icmp ult i32 %x, %o
  br i1 %first, label %pair, label %done
pair:
  %wx = zext i32 %x to i64
  %mine = getelementptr i32, ptr %out, i64 %wx
  %a = load i32, ptr %mine
  %wo = zext i32 %o to i64
  %other = getelementptr i32, ptr %out, i64 %wo
  %b = load i32, ptr %other
  %wrong = icmp ugt i32 %a, %b
  br i1 %wrong, label %swap, label %done
swap:
  store i32 %b, ptr %mine
  store i32 %a, ptr %other
  br label %done
done:
  ret void
)";

// The same with %n read in front of all else, as numbers that a launch is given are.
std::string step_of_a_launch() {
    std::string out(step_of_a_sort);
    out.replace(out.find("%n"), 2, "%k");
    return "  %k = load i32, ptr %number, !metalki.constant_argument !{}\n" + out;
}

constexpr std::uint32_t some_bits[] = {0, 1, 2, 6, 16, 31, 32, 40, 64, 127};

} // namespace

TEST_CASE("numbers of all sizes from a position with some bits flipped") {
    for (std::uint32_t bits : some_bits) {
        for (std::string_view type : {"i8", "i16", "i32", "i64", "half", "float", "<2 x float>", "<4 x i8>"}) {
            compare(read_at("%x", type, "%n") + write_at("%x", type, "%v") + "  ret void\n", bits);
        }
    }
}

TEST_CASE("positions in a threadgroup and lanes of a SIMD-group exchange as well") {
    for (std::uint32_t bits : some_bits) {
        compare(read_at("%index", "i32", "%n") + write_at("%x", "i32", "%v") + "  ret void\n", bits);
        compare(read_at("%lane", "i16", "%n") + write_at("%x", "i16", "%v") + "  ret void\n", bits);
    }
}

TEST_CASE("numbers are written to positions with bits flipped, by some lanes only") {
    for (std::uint32_t bits : some_bits) {
        for (std::string_view type : {"i8", "i16", "i32", "i64"}) {
            std::string stored(type);
            std::string text = "  %odd = and i32 %x, 5\n  %on = icmp ne i32 %odd, 4\n  br i1 %on, label %write, label %done\n"
                               "write:\n  %o = xor i32 %n, %x\n  %wo = zext i32 %o to i64\n  %there = getelementptr " +
                               stored + ", ptr %out, i64 %wo\n  %v = " + (type == "i64" ? "zext" : "trunc") + " i32 %x to " +
                               stored + "\n  store " + stored + " %v, ptr %there\n  br label %done\n" + "done:\n  ret void\n";
            if (type == "i32") {
                text.replace(text.find("trunc i32 %x to i32"), 19, "add i32 %x, 3");
            }
            compare(text, bits);
        }
    }
}

TEST_CASE("a distance is added before and after the bits are flipped") {
    for (std::uint32_t bits : some_bits) {
        compare("  %p = add i32 %x, 7\n" + read_at("%p", "i32", "%n") + write_at("%x", "i32", "%v") + "  ret void\n", bits);
        compare("  %o = xor i32 %x, %n\n  %p = add i32 %o, %n\n  %wp = zext i32 %p to i64\n"
                "  %there = getelementptr i32, ptr %in, i64 %wp\n  %v = load i32, ptr %there\n" +
                    write_at("%x", "i32", "%v") + "  ret void\n",
                bits);
    }
}

TEST_CASE("bits that differ from lane to lane are no exchange") {
    compare("  %p = mul i32 %x, %x\n  %q = and i32 %p, 63\n" + read_at("%x", "i32", "%q") + write_at("%x", "i32", "%v") +
                "  ret void\n",
            0);
}

TEST_CASE("a step of a sort moves whole blocks") {
    std::string code = vector_code(step_of_a_sort, flat());
    CHECK(count(code, "call <32 x i32> @llvm.masked.gather") == 0);
    CHECK(count(code, "call void @llvm.masked.scatter") == 0);
    for (std::uint32_t bits : some_bits) {
        Launch launch{flat(), {128, 1, 1}, {32, 1, 1}, bits};
        Words out(256);
        for (std::uint32_t i = 0; i < out.size(); ++i) {
            out[i] = i * 2654435761u >> 5;
        }
        CHECK(run_vectors(step_of_a_sort, launch, out, Words(1)) == run_threads(step_of_a_sort, launch, out, Words(1)));
    }
}

TEST_CASE("lanes that exchange numbers within their SIMD-group write its block once") {
    const std::string text = step_of_a_launch();
    // Three where the block is another, and as many behind the last whole SIMD-group: this thread's, and the other's in order
    // or not.
    CHECK(count(vector_code(step_of_a_sort, flat()), "call void @llvm.masked.store") == 6);
    CHECK(count(vector_code(text, flat()), "call void @llvm.masked.store") == 7);
    for (std::uint32_t bits : some_bits) {
        for (std::uint32_t threads : {128u, 100u}) {
            Launch launch{flat(), {threads, 1, 1}, {32, 1, 1}, bits};
            Words out(256);
            for (std::uint32_t i = 0; i < out.size(); ++i) {
                out[i] = i * 2654435761u >> 5;
            }
            CHECK(run_vectors(text, launch, out, Words(1)) == run_threads(text, launch, out, Words(1)));
        }
    }
}

TEST_CASE("nothing is read or written beside the threads' own positions") {
    // 40 threads, of which 8 are in a SIMD-group of their own: what they do not own is not touched.
    for (std::uint32_t bits : {0u, 1u, 4u, 7u}) {
        Launch launch{flat(), {40, 1, 1}, {40, 1, 1}, bits};
        Words out(64, 9);
        Words found = run_vectors(step_of_a_sort, launch, out, Words(1));
        CHECK(found == out);
    }
}

TEST_CASE("where rows begin decides at run time") {
    std::string text = read_at("%x", "i32", "%n") + write_at("%x", "i32", "%v") + "  ret void\n";
    CHECK(count(vector_code(text, rows()), "masked.gather.v32i32") > 0);
    for (std::uint32_t width : {32u, 48u, 64u}) {
        Launch launch{rows(width % 32 == 0), {192, 1, 1}, {width, 1, 1}, 5};
        Words in(512);
        for (std::uint32_t i = 0; i < in.size(); ++i) {
            in[i] = i * i;
        }
        CHECK(run_vectors(text, launch, Words(512), in) == run_threads(text, launch, Words(512), in));
    }
}
