// Comparisons of numbers whose low bits alone differ from lane to lane.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// Reads what it writes, so that SIMD-groups begin at multiples of 32. %k: %n, read in front of all else.
std::string counts_where(std::string_view lines) {
    return "  %k = load i32, ptr %number, !metalki.constant_argument !{}\n  %wide = zext i32 %x to i64\n  %mine = "
           "getelementptr i32, ptr %out, i64 %wide\n  %old = load i32, ptr %mine\n" +
           std::string(lines) + "\n  %more = zext i1 %on to i32\n  %new = add i32 %old, %more\n" +
           "  store i32 %new, ptr %mine\n  ret void\n";
}

constexpr const char* predicates[] = {"eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"};
constexpr std::uint32_t numbers[] = {0, 1, 6, 16, 31, 32, 33, 40, 64, 127, 0x80000000, 0x80000011, 0xffffffff};

void compare_rows(const std::string& text) {
    for (std::uint32_t number : numbers) {
        Launch launch{flat(), {160, 1, 1}, {32, 1, 1}, number};
        Words out(256, 5);
        CHECK(run_vectors(text, launch, out, Words(1)) == run_threads(text, launch, out, Words(1)));
    }
}

} // namespace

TEST_CASE("positions, bits of which are flipped, taken or set, beside one another and numbers") {
    for (const char* predicate : predicates) {
        std::string compares = "\n  %on = icmp " + std::string(predicate);
        compare_rows(counts_where("  %o = xor i32 %x, %k" + compares + " i32 %o, %x"));
        compare_rows(counts_where("  %o = xor i32 %x, %k" + compares + " i32 %x, %o"));
        compare_rows(counts_where("  %o = and i32 %x, %k" + compares + " i32 %o, 0"));
        compare_rows(counts_where("  %o = or i32 %x, %k\n  %p = xor i32 %o, -1" + compares + " i32 %p, %k"));
        compare_rows(counts_where("  %o = xor i32 %x, 45" + compares + " i32 %o, %k"));
    }
}

TEST_CASE("high bits are compared once for all lanes") {
    const std::string text = counts_where("  %o = xor i32 %x, %k\n  %on = icmp ult i32 %x, %o");
    Kernel kernel(text);
    bool by_bytes = count(vector_code(text, flat()), "<32 x i8>") > 0;
    CHECK(by_bytes == has(kernel.machine(), "+avx512bw"));
}

TEST_CASE("positions that begin anywhere are compared lane by lane") {
    compare("  %o = xor i32 %x, %n\n  %on = icmp ult i32 %x, %o\n  %v = zext i1 %on to i32\n  %wide = zext i32 %x to i64\n"
            "  %mine = getelementptr i32, ptr %out, i64 %wide\n  store i32 %v, ptr %mine\n  ret void\n",
            21);
}
