// The functions that the executor calls: rows of the grid without a threadgroup's shape, whole and partial SIMD-groups,
// positions.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"
#include "vectorize/vector_math.hpp"
#include "vectorize/vectorize.hpp"

using namespace vectorize_test;
using compiler::vectorize::demands_of;

namespace {

constexpr std::string_view count_up = R"(
  %p = getelementptr i32, ptr %out, i32 %x
  %old = load i32, ptr %p
  %new = add i32 %old, %x
  store i32 %new, ptr %p
  ret void
)";

} // namespace

TEST_CASE("a row of the grid: whole SIMD-groups, then what is left, and nothing beyond") {
    for (std::uint32_t width : {1u, 31u, 32u, 33u, 64u, 1000u}) {
        Words out = run_vectors(count_up, {flat(), {width, 1, 1}, {1, 1, 1}, 0}, Words(1100, 7), Words(1));
        for (std::uint32_t i = 0; i < out.size(); ++i) {
            CHECK(out[i] == (i < width ? 7 + i : 7));
        }
    }
}

TEST_CASE("whole SIMD-groups have no mask, partial ones have") {
    auto masks = [](Geometry geometry) { return count(vector_code(count_up, geometry), "llvm.masked"); };
    CHECK(masks(rows(true)) == 0);
    CHECK(masks(rows(false)) > 0);
    std::string both = vector_code(count_up, flat());
    CHECK(count(both, "store <32 x i32>") == 1);
    CHECK(count(both, "call void @llvm.masked.store") == 1);
}

namespace {

// Copies those of the words that the condition on %i, %x and %old picks; %i is x, and %q where a word comes from.
std::string picked(std::string_view condition) {
    return "  %i = zext i32 %x to i64\n  %q = getelementptr i32, ptr %in, i64 %i\n  %old = load i32, ptr %q\n"
           "  %p = getelementptr i32, ptr %out, i64 %i\n" +
           std::string(condition) + "  br i1 %h, label %then, label %done\nthen:\n  store i32 %old, ptr %p\n" +
           "  br label %done\ndone:\n  ret void\n";
}

} // namespace

TEST_CASE("large launches store past the caches, also behind a condition, and ask for what they read two pages ahead") {
    for (std::string_view condition : {"  %h = icmp ult i32 %x, %n\n", "  %h = icmp sgt i32 %old, 3\n"}) {
        std::string text = vector_code(picked(condition), flat());
        CHECK(count(text, "!nontemporal") == 1);
        CHECK(count(text, "call void @llvm.prefetch") == 4); // two lines of the stream, two ends of rows
        CHECK(count(text, ", i64 8192\n") == 1);
        CHECK(count(text, ", i64 8256\n") == 1);
        CHECK(count(text, "call void @llvm.masked.store") > 1);
    }
    CHECK(count(vector_code(count_up, flat()), "!nontemporal") == 0);
}

TEST_CASE("neighbours are asked for once") {
    std::string text = "  %i = zext i32 %x to i64\n  %q = getelementptr i32, ptr %in, i64 %i\n  %a = load i32, ptr %q\n"
                       "  %x1 = add i32 %x, 1\n  %i1 = zext i32 %x1 to i64\n  %q1 = getelementptr i32, ptr %in, i64 %i1\n"
                       "  %b = load i32, ptr %q1\n  %s = add i32 %a, %b\n  %p = getelementptr i32, ptr %out, i64 %i\n"
                       "  store i32 %s, ptr %p\n  ret void\n";
    CHECK(count(vector_code(text, flat()), "call void @llvm.prefetch") == 4);
}

TEST_CASE("every thread of odd threadgroups comes once, at its own place") {
    constexpr std::string_view text = R"(
  %row = mul i32 %y, 20
  %at = add i32 %row, %x
  %p = getelementptr i32, ptr %out, i32 %at
  %a = mul i32 %ly, 100
  %b = add i32 %a, %lx
  %c1 = mul i32 %index, 10000
  %d = add i32 %b, %c1
  %old = load i32, ptr %p
  %new = add i32 %old, %d
  store i32 %new, ptr %p
  ret void
)";
    struct Shape2 {
        Geometry geometry;
        std::uint32_t width, height;
    };
    for (const Shape2& shape : {Shape2{table(false), 5, 7}, Shape2{table(), 12, 8}, Shape2{columns(4), 4, 8},
                                Shape2{columns(2, false), 2, 9}, Shape2{rows(false), 20, 1}}) {
        Launch launch{shape.geometry, {20, 18, 1}, {shape.width, shape.height, 1}, 0};
        // Groups at the edges would need other code.
        launch.grid = {20 / shape.width * shape.width, 18 / shape.height * shape.height, 1};
        Words want = run_threads(text, launch, Words(400, 1), Words(1));
        CHECK(run_vectors(text, launch, Words(400, 1), Words(1)) == want);
    }
}

TEST_CASE("what a kernel asks for decides how it may be run") {
    auto demands = [](std::string_view text) { return demands_of(Kernel(text).function()); };
    CHECK_FALSE(demands("  store i32 %x, ptr %out\n  ret void\n").threadgroups);
    CHECK(demands("  store i32 %lx, ptr %out\n  ret void\n").threadgroups);
    CHECK(demands("  store i32 %lane, ptr %out\n  ret void\n").threadgroups);
    CHECK(demands("  call void @__metalki_barrier(i32 2)\n  ret void\n").barriers);
    CHECK_FALSE(demands("  store i32 %lane, ptr %out\n  ret void\n").barriers);
}

TEST_CASE("functions of the C library are called for vectors where it has such") {
    Kernel kernel("  ret void\n");
    compiler::vectorize::VectorMath mathematics(kernel.machine());
    const auto* exponential = mathematics.find("expf");
    if (exponential == nullptr) {
        return;
    }
    CHECK(exponential->arguments == 1);
    CHECK(mathematics.find("no such function") == nullptr);
    std::string code = vector_code(R"(
  %p = getelementptr float, ptr %in, i32 %x
  %v = load float, ptr %p
  %e = call float @expf(float %v)
  %q = getelementptr float, ptr %out, i32 %x
  store float %e, ptr %q
  ret void
)",
                                   rows(), "declare float @expf(float) memory(none) nounwind willreturn");
    CHECK(count(code, "call <" + std::to_string(exponential->width) + " x float> @" + exponential->symbol) ==
          32 / exponential->width);
}
