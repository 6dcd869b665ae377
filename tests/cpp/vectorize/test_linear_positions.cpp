// Kernels that only number the threads of the grid.
#include <doctest/doctest.h>

#include <string>

#include "vectorize/linear_positions.hpp"

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// `text` computes %at; the kernel stores there.
unsigned axes(const std::string& text) {
    Kernel kernel("  %w = call i32 @__metalki_input(i32 12)\n  %h = call i32 @__metalki_input(i32 13)\n" + text +
                  "  %to = getelementptr i32, ptr %out, i32 %at\n  store i32 %at, ptr %to\n  ret void\n");
    return compiler::vectorize::number_threads_along_x(kernel.function());
}

} // namespace

TEST_CASE("the number of a thread in the grid, whatever way it is written") {
    CHECK(axes("  %zh = mul i32 %z, %h\n  %row = add i32 %zh, %y\n  %start = mul i32 %row, %w\n"
               "  %at = add i32 %x, %start\n") == 3);
    CHECK(axes("  %slice = mul i32 %h, %w\n  %zs = mul i32 %slice, %z\n  %yw = mul i32 %w, %y\n"
               "  %a = add i32 %yw, %zs\n  %at = add i32 %a, %x\n") == 3);
    CHECK(axes("  %yw = mul i32 %w, %y\n  %at = add i32 %yw, %x\n") == 2);
}

TEST_CASE("rows stay rows where a position is used for anything else, or the number is another") {
    const std::string in_slice = "  %yw = mul i32 %w, %y\n  %at = add i32 %yw, %x\n";
    CHECK(axes(in_slice + "  %also = add i32 %y, 1\n  store i32 %also, ptr %out\n") == 1);
    CHECK(axes(in_slice + "  %end = icmp ult i32 %x, 5\n  store i1 %end, ptr %out\n") == 1);
    CHECK(axes(in_slice + "  %plus = add i32 %at, %y\n  store i32 %plus, ptr %out\n") == 1);
    CHECK(axes("  %yw = mul i32 %n, %y\n  %at = add i32 %yw, %x\n") == 1);
    CHECK(axes("  %yw = mul i32 %h, %y\n  %at = add i32 %yw, %x\n") == 1);
    CHECK(axes("  %xh = mul i32 %h, %x\n  %at = add i32 %xh, %y\n") == 1);
    CHECK(axes("  %at = add i32 %x, 7\n") == 1);
}

TEST_CASE("what is computed from the number may use it in any way") {
    CHECK(axes("  %yw = mul i32 %w, %y\n  %at = add i32 %yw, %x\n  %twice = mul i32 %at, 2\n"
               "  %few = icmp ult i32 %at, %n\n  store i1 %few, ptr %out\n  store i32 %twice, ptr %out\n") == 2);
    CHECK(axes("  %yw = mul i32 %w, %y\n  %at = add i32 %yw, %x\n  store i32 %z, ptr %out\n") == 2);
}
