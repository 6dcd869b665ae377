// Divergence and shapes: what is known of a value across the lanes.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

Shape shape_in(std::string_view text, std::string_view value, Geometry geometry) {
    Kernel kernel(text);
    kernel.prepare();
    Analysed analysed(kernel, geometry);
    return analysed.shape(kernel.value(value));
}

// Of a value of a straight kernel that stores it, so that nothing takes it away.
Shape shape_of(std::string_view lines, Geometry geometry = rows()) {
    Kernel kernel(std::string(lines) + "\n  store volatile i32 %v, ptr %out\n  ret void\n");
    Analysed analysed(kernel, geometry);
    return analysed.shape(kernel.value("v"));
}

std::vector<std::int64_t> first_offsets(const Shape& shape, unsigned count) {
    return {shape.offsets.begin(), shape.offsets.begin() + count};
}

} // namespace

TEST_CASE("positions: a step of one along the lanes of a row, rows within a SIMD-group for narrow threadgroups") {
    CHECK(first_offsets(shape_of("  %v = add i32 %x, 0"), 3) == std::vector<std::int64_t>{0, 1, 2});
    CHECK(shape_of("  %v = add i32 %y, 0").is_uniform());
    Shape column = shape_of("  %v = add i32 %lx, 0", columns(8));
    CHECK(first_offsets(column, 10) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1});
    Shape row = shape_of("  %v = add i32 %ly, 0", columns(8));
    CHECK(row.offsets[7] == 0);
    CHECK(row.offsets[8] == 1);
    CHECK(row.offsets[31] == 3);
    CHECK(shape_of("  %v = add i32 %lx, 0", table()).is_varying());
    CHECK(shape_of("  %v = add i32 %lane, 0", table()).kind == Shape::Kind::affine);
}

TEST_CASE("arithmetic that keeps the distances between lanes") {
    CHECK(first_offsets(shape_of("  %v = mul i32 %x, 12"), 3) == std::vector<std::int64_t>{0, 12, 24});
    CHECK(first_offsets(shape_of("  %v = shl i32 %x, 2"), 3) == std::vector<std::int64_t>{0, 4, 8});
    CHECK(first_offsets(shape_of("  %v = sub i32 %n, %x"), 3) == std::vector<std::int64_t>{0, -1, -2});
    CHECK(shape_of("  %v = sub i32 %x, %x").is_uniform());
    CHECK(shape_of("  %v = mul i32 %n, %n").is_uniform());
    CHECK(shape_of("  %v = mul i32 %x, %x").is_varying());
}

TEST_CASE("bits of a lane number are constants where the scalar part does not reach them") {
    Shape low = shape_of("  %v = and i32 %lane, 7");
    CHECK(first_offsets(low, 10) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1});
    Shape high = shape_of("  %v = lshr i32 %lane, 3");
    CHECK(high.offsets[7] == 0);
    CHECK(high.offsets[8] == 1);
    CHECK(first_offsets(shape_of("  %v = xor i32 %lane, 1"), 4) != std::vector<std::int64_t>{0, 1, 2, 3});
    // The position in the grid may be any number plus the lane.
    CHECK(shape_of("  %v = and i32 %x, 7").is_varying());
}

TEST_CASE("loads: one for all where the address is the same") {
    CHECK(shape_of("  %v = load i32, ptr %in").is_uniform());
    CHECK(shape_of("  %p = getelementptr i32, ptr %in, i32 %x\n  %v = load i32, ptr %p").is_varying());
}

TEST_CASE("an atomic operation gives every lane a value of its own") {
    CHECK(shape_of("  %v = atomicrmw add ptr %in, i32 1 monotonic").is_varying());
}

TEST_CASE("what SIMD-group functions give to all lanes alike is uniform") {
    auto call = [](unsigned op, const char* operand) {
        return "  %w = zext i32 %x to i64\n  %r = call i64 @__metalki_simd(i32 " + std::to_string(op) +
               ", i32 5, i32 32, i64 %w, i64 0, i32 " + operand + ", i32 32)\n  %v = trunc i64 %r to i32";
    };
    using compiler::SimdOp;
    CHECK(shape_of(call(unsigned(SimdOp::sum), "0")).is_uniform());
    CHECK(shape_of(call(unsigned(SimdOp::ballot), "0")).is_uniform());
    CHECK(shape_of(call(unsigned(SimdOp::shuffle), "%n")).is_uniform());
    CHECK(shape_of(call(unsigned(SimdOp::shuffle), "%lane")).is_varying());
    CHECK(shape_of(call(unsigned(SimdOp::shuffle_xor), "1")).is_varying());
    CHECK(shape_of(call(unsigned(SimdOp::prefix_inclusive_sum), "0")).is_varying());
}

TEST_CASE("a value chosen by a branch of the lanes differs by lane, one chosen by all of them does not") {
    auto choice = [](std::string_view condition) {
        return "  %c1 = icmp ult i32 " + std::string(condition) + R"(, 5
  br i1 %c1, label %then, label %join
then:
  store volatile i32 1, ptr %out
  br label %join
join:
  %v = phi i32 [ 1, %entry ], [ 2, %then ]
  store volatile i32 %v, ptr %out
  ret void
)";
    };
    CHECK(shape_in(choice("%x"), "v", rows()).is_varying());
    CHECK(shape_in(choice("%n"), "v", rows()).is_uniform());
}

TEST_CASE("the counter of a loop stays uniform or evenly spaced; what leaves a loop early differs by lane") {
    constexpr std::string_view loop = R"(
  br label %head
head:
  %k = phi i32 [ %lane, %entry ], [ %k2, %body ]
  %j = phi i32 [ 0, %entry ], [ %j2, %body ]
  %more = icmp ult i32 %k, %n
  br i1 %more, label %body, label %end
body:
  %k2 = add i32 %k, 32
  %j2 = add i32 %j, 1
  store volatile i32 %j, ptr %out
  br label %head
end:
  %v = phi i32 [ %j, %head ]
  store volatile i32 %v, ptr %out
  ret void
)";
    CHECK(shape_in(loop, "j", rows()).is_uniform());
    CHECK(shape_in(loop, "k", rows()).kind == Shape::Kind::affine);
    CHECK(shape_in(loop, "j.lcssa", rows()).is_varying());
}

TEST_CASE("lanes that differ in low bits which are zero otherwise still do in a wider number, whatever its sign") {
    for (auto [lines, low_bits] : {std::pair{"%a = shl i32 %n, 9\n  %b = and i32 %lane, 1\n  %o = shl i32 %b, 8", true},
                                   std::pair{"%a = shl i32 %n, 8\n  %b = and i32 %lane, 1\n  %o = shl i32 %b, 8", false},
                                   std::pair{"%a = shl i32 %n, 31\n  %b = and i32 %lane, 3\n  %o = shl i32 %b, 30", false}}) {
        for (const char* wider : {"sext", "zext"}) {
            std::string text = std::string(own_words) + "  " + lines + "\n  %u = add i32 %a, %o\n  %e = " + wider +
                               " i32 %u to i64\n  %h = lshr i64 %e, 8\n  %r = trunc i64 %h to i32\n"
                               "  store i32 %r, ptr %mine\n  ret void\n";
            CAPTURE(lines);
            Kernel kernel(text);
            Shape shape = Analysed(kernel, rows()).shape(kernel.value("e"));
            CHECK((shape.kind == Shape::Kind::affine) == low_bits);
            for (std::uint32_t number : {0u, 1u, 0x00400000u, 0x007fffffu, 0xffffffffu}) {
                compare(text, number);
            }
        }
    }
}
