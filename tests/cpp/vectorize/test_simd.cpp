// SIMD-group functions as vector operations: of all lanes, of those that are on, of quads.
#include <doctest/doctest.h>

#include <bit>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

using compiler::SimdOp;
using compiler::SimdType;

constexpr std::uint32_t off = 0xabcd; // what lanes that are off leave

struct Call {
    SimdOp op;
    SimdType type = SimdType::u32;
    unsigned width = 32;
    std::string operand = "0";
    std::string fill = "0";
    unsigned modulo = 32;
};

// One SIMD-group in which lane l has the value in[l]; with `some`, only lanes with an odd value call.
Words run(const Call& call, const Words& in, bool some = false) {
    std::string text = R"(
  %lane64 = zext i32 %lane to i64
  %mine = getelementptr i32, ptr %out, i64 %lane64
  %own = getelementptr i32, ptr %in, i64 %lane64
  %v = load i32, ptr %own
  %value = zext i32 %v to i64
  %odd = trunc i32 %v to i1
  br i1 )" + std::string(some ? "%odd" : "true") +
                       R"(, label %call, label %end
call:
  %r = call i64 @__metalki_simd(i32 )" +
                       std::to_string(unsigned(call.op)) + ", i32 " + std::to_string(unsigned(call.type)) + ", i32 " +
                       std::to_string(call.width) + ", i64 %value, i64 " + call.fill + ", i32 " + call.operand + ", i32 " +
                       std::to_string(call.modulo) + R"()
  %w = trunc i64 %r to i32
  store i32 %w, ptr %mine
  br label %end
end:
  ret void
)";
    Launch launch{rows(), {32, 1, 1}, {32, 1, 1}, 0};
    return run_vectors(text, launch, Words(32, off), in);
}

Words numbers(auto function) {
    Words out;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
        out.push_back(function(lane));
    }
    return out;
}

const Words counting = numbers([](std::uint32_t lane) { return lane; });
// Odd, so that the lane is on, for lanes 2, 3, 6, 7, ...
const Words mixed = numbers([](std::uint32_t lane) { return lane * 4 + (lane / 2) % 2; });
bool is_on(std::uint32_t lane) {
    return (mixed[lane] & 1) != 0;
}

std::uint32_t bits(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

} // namespace

TEST_CASE("a sum of no lane is zero, not its negative") {
    Words in = numbers([](std::uint32_t lane) { return lane; }); // floats so small that sums are exact
    for (unsigned width : {4U, 32U}) {
        Words out = run({SimdOp::prefix_exclusive_sum, SimdType::f32, width}, in, true);
        for (std::uint32_t lane = 1; lane < 32; lane += 2) {
            std::uint32_t sum = 0;
            for (std::uint32_t before = width == 4 ? lane / 4 * 4 : 0; before < lane; ++before) {
                sum += before % 2 != 0 ? before : 0;
            }
            CHECK(out[lane] == sum);
        }
    }
}

TEST_CASE("reductions over all lanes") {
    CHECK(run({SimdOp::sum}, counting) == Words(32, 31 * 16));
    CHECK(run({SimdOp::max}, counting) == Words(32, 31));
    CHECK(run({SimdOp::min, SimdType::i32}, numbers([](auto lane) { return lane - 5; })) == Words(32, 0u - 5));
    CHECK(run({SimdOp::bit_xor}, counting) == Words(32, 0));
    CHECK(run({SimdOp::bit_and}, numbers([](auto lane) { return lane | 64; })) == Words(32, 64));
    CHECK(run({SimdOp::product}, numbers([](auto lane) { return lane == 3 ? 7u : lane == 9 ? 5u : 1u; })) == Words(32, 35));
}

TEST_CASE("a sum of floats combines halves") {
    Words values = numbers([](auto lane) { return bits(lane == 0 ? 1e8f : lane == 16 ? -1e8f : 0.25f); });
    CHECK(run({SimdOp::sum, SimdType::f32}, values) == Words(32, bits(7.5f)));
}

TEST_CASE("lanes that are off take no part") {
    std::uint32_t sum = 0, mask = 0, highest = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
        sum += is_on(lane) ? mixed[lane] : 0;
        mask |= is_on(lane) ? 1u << lane : 0;
        highest = is_on(lane) ? std::max(highest, mixed[lane]) : highest;
    }
    auto result = [](std::uint32_t value) { return numbers([&](auto lane) { return is_on(lane) ? value : off; }); };
    CHECK(run({SimdOp::sum}, mixed, true) == result(sum));
    CHECK(run({SimdOp::max}, mixed, true) == result(highest));
    CHECK(run({SimdOp::ballot}, mixed, true) == result(mask));
    CHECK(run({SimdOp::broadcast_first}, mixed, true) == result(mixed[2]));
}

TEST_CASE("prefix sums, of all lanes and of those that are on") {
    CHECK(run({SimdOp::prefix_inclusive_sum}, counting) == numbers([](auto lane) { return lane * (lane + 1) / 2; }));
    CHECK(run({SimdOp::prefix_exclusive_sum}, counting) == numbers([](auto lane) { return lane * (lane - (lane > 0)) / 2; }));
    std::uint32_t before = 0;
    CHECK(run({SimdOp::prefix_exclusive_sum}, mixed, true) == numbers([&](auto lane) {
              std::uint32_t here = before;
              before += is_on(lane) ? mixed[lane] : 0;
              return is_on(lane) ? here : off;
          }));
}

TEST_CASE("shuffles with a lane known when compiling, known to all, and of each lane's own") {
    CHECK(run({SimdOp::shuffle_xor, SimdType::u32, 32, "3"}, counting) == numbers([](auto lane) { return lane ^ 3; }));
    CHECK(run({SimdOp::shuffle, SimdType::u32, 32, "17"}, counting) == Words(32, 17));
    CHECK(run({SimdOp::shuffle, SimdType::u32, 32, "%v"}, numbers([](auto lane) { return 31 - lane; })) == counting);
    CHECK(run({SimdOp::shuffle_down, SimdType::u32, 32, "1"}, counting) ==
          numbers([](auto lane) { return lane == 31 ? 31 : lane + 1; }));
    CHECK(run({SimdOp::shuffle_up, SimdType::u32, 32, "2"}, counting) ==
          numbers([](auto lane) { return lane < 2 ? lane : lane - 2; }));
    CHECK(run({SimdOp::shuffle_rotate_down, SimdType::u32, 32, "5"}, counting) ==
          numbers([](auto lane) { return (lane + 5) % 32; }));
    CHECK(run({SimdOp::shuffle_rotate_up, SimdType::u32, 32, "5"}, counting) ==
          numbers([](auto lane) { return (lane + 27) % 32; }));
}

TEST_CASE("a lane outside of the SIMD-group, or one that is off, gives 0") {
    CHECK(run({SimdOp::shuffle, SimdType::u32, 32, "40"}, counting) == Words(32, 0));
    CHECK(run({SimdOp::shuffle, SimdType::u32, 32, "0"}, mixed, true) ==
          numbers([](auto lane) { return is_on(lane) ? 0u : off; }));
}

TEST_CASE("quads") {
    CHECK(run({SimdOp::sum, SimdType::u32, 4}, counting) == numbers([](auto lane) { return lane / 4 * 16 + 6; }));
    CHECK(run({SimdOp::shuffle_xor, SimdType::u32, 4, "1"}, counting) == numbers([](auto lane) { return lane ^ 1; }));
    CHECK(run({SimdOp::broadcast_first, SimdType::u32, 4}, mixed, true) ==
          numbers([](auto lane) { return is_on(lane) ? mixed[lane / 4 * 4 + 2] : off; }));
    CHECK(run({SimdOp::ballot, SimdType::u32, 4}, mixed, true) == numbers([](auto lane) { return is_on(lane) ? 0xcu : off; }));
}

TEST_CASE("shuffle and fill") {
    Call down{SimdOp::fill_down, SimdType::u32, 32, "3", "99", 8};
    CHECK(run(down, counting) == numbers([](auto lane) { return lane % 8 + 3 < 8 ? lane + 3 : 99; }));
    Call up{SimdOp::fill_up, SimdType::u32, 32, "3", "99", 8};
    CHECK(run(up, counting) == numbers([](auto lane) { return lane % 8 >= 3 ? lane - 3 : 99; }));
}

TEST_CASE("small numbers keep to their width") {
    CHECK(run({SimdOp::sum, SimdType::u8}, numbers([](auto) { return 200u; })) == Words(32, 200 * 32 % 256));
}

TEST_CASE("no call is left") {
    std::string code = vector_code(R"(
  %w = zext i32 %x to i64
  %r = call i64 @__metalki_simd(i32 9, i32 5, i32 32, i64 %w, i64 0, i32 0, i32 32)
  %t = trunc i64 %r to i32
  store i32 %t, ptr %out
  ret void
)",
                                   rows());
    CHECK(count(code, "call i64 @__metalki_simd") == 0);
}
