// SIMD-group and quad-group operations against a plain model, whole and partial groups, divergent lanes.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "executor_fixture.hpp"

using namespace executor_test;

namespace {

// One operation, executed by the lanes whose bit in `active` is set; the others take the other branch.
struct Case {
    SimdOp op;
    SimdType type;
    uint32_t width, operand, modulo;
    uint32_t active;
};

void one_operation(const ThreadgroupContext* c, uint32_t x, uint32_t y, uint32_t z) {
    const Case& test = *argument<Case>(c, 0);
    const uint32_t i = index_of(c, x, y, z);
    auto* results = argument<uint64_t>(c, 3);
    if (test.active >> i % 32 & 1)
        results[i] = simd(1, test.op, test.type, test.width, argument<uint64_t>(c, 1)[i], argument<uint64_t>(c, 2)[i],
                          test.operand, test.modulo);
    else
        results[i] = simd(2, SimdOp::barrier, SimdType::u32, 32, 0) + 77;
    converge(3);
}

unsigned bits_of(SimdType type) {
    constexpr unsigned bits[]{8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32};
    return bits[static_cast<unsigned>(type)];
}
bool is_signed(SimdType t) {
    return t == SimdType::i8 || t == SimdType::i16 || t == SimdType::i32 || t == SimdType::i64;
}
bool is_float(SimdType t) {
    return t == SimdType::f16 || t == SimdType::bf16 || t == SimdType::f32;
}
uint64_t mask_of(SimdType t) {
    return bits_of(t) == 64 ? ~uint64_t{0} : (uint64_t{1} << bits_of(t)) - 1;
}

// Small whole numbers and halves: every sum and most products are exact, so that the order cannot matter.
uint64_t encode(SimdType type, float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (type == SimdType::f32)
        return bits;
    if (type == SimdType::bf16)
        return bits >> 16;
    if (value == 0)
        return 0;
    return (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 0x3ff);
}
double decode(SimdType type, uint64_t raw) {
    if (type == SimdType::f32)
        return std::bit_cast<float>(static_cast<uint32_t>(raw));
    if (type == SimdType::bf16)
        return std::bit_cast<float>(static_cast<uint32_t>(raw << 16));
    const int exponent = static_cast<int>(raw >> 10 & 31);
    const double fraction = static_cast<double>(raw & 0x3ff);
    const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return raw >> 15 & 1 ? -size : size;
}

uint64_t combine(SimdOp op, SimdType type, uint64_t a, uint64_t b) {
    const bool sum = op == SimdOp::sum || op == SimdOp::prefix_inclusive_sum || op == SimdOp::prefix_exclusive_sum;
    const bool lowest = op == SimdOp::min, highest = op == SimdOp::max;
    if (op == SimdOp::bit_and)
        return a & b;
    if (op == SimdOp::bit_or)
        return a | b;
    if (op == SimdOp::bit_xor)
        return a ^ b;
    if (is_float(type)) {
        const double x = decode(type, a), y = decode(type, b);
        if (lowest || highest)
            return (x < y) == lowest ? a : b;
        return encode(type, static_cast<float>(sum ? x + y : x * y));
    }
    const unsigned shift = 64 - bits_of(type);
    const auto less = is_signed(type) ? static_cast<std::int64_t>(a << shift) < static_cast<std::int64_t>(b << shift) : a < b;
    if (lowest || highest)
        return less == lowest ? a : b;
    return (sum ? a + b : a * b) & mask_of(type);
}

uint64_t model(const Case& test, const std::vector<uint64_t>& values, const std::vector<uint64_t>& fills, uint32_t i) {
    const auto threads = static_cast<uint32_t>(values.size());
    const uint32_t width = test.width, base = i / width * width, lane = i - base;
    const uint32_t existing = std::min(width, threads - base);
    const auto has = [&](int64_t l) {
        return l >= 0 && l < width && base + l < threads && (test.active >> (base + l) % 32 & 1);
    };
    const auto value = [&](int64_t l) { return has(l) ? values[base + static_cast<uint32_t>(l)] : 0; };
    const auto fill = [&](int64_t l) { return has(l) ? fills[base + static_cast<uint32_t>(l)] : 0; };
    const int64_t l = lane, n = test.operand, m = std::min(test.modulo, width), start = l - l % m;
    switch (test.op) {
    case SimdOp::shuffle:
        return value(n);
    case SimdOp::shuffle_up:
        return l - n < 0 ? values[i] : value(l - n);
    case SimdOp::shuffle_down:
        return l + n >= width ? values[i] : value(l + n);
    case SimdOp::shuffle_xor:
        return value(l ^ n);
    case SimdOp::shuffle_rotate_up:
        return value(((l - n) % existing + existing) % existing);
    case SimdOp::shuffle_rotate_down:
        return value((l + n) % existing);
    case SimdOp::fill_up:
        return n > m ? 0 : l - n >= start ? value(l - n) : fill(l - n + m);
    case SimdOp::fill_down:
        return n > m ? 0 : l + n < start + m ? value(l + n) : fill(l + n - m);
    default:
        break;
    }
    std::vector<uint64_t> active, before;
    uint64_t ballot = 0;
    for (uint32_t other = 0; other < width; ++other) {
        if (!has(other))
            continue;
        active.push_back(value(other));
        if (other < lane)
            before.push_back(value(other));
        ballot |= uint64_t{value(other) != 0} << other;
    }
    if (test.op == SimdOp::ballot)
        return ballot;
    if (test.op == SimdOp::broadcast_first)
        return active.front();
    if (test.op == SimdOp::barrier)
        return 0;
    const bool product = test.op == SimdOp::prefix_exclusive_product || test.op == SimdOp::prefix_inclusive_product;
    if (test.op < SimdOp::prefix_inclusive_sum) {
        uint64_t total = active.front();
        for (std::size_t k = 1; k < active.size(); ++k)
            total = combine(test.op, test.type, total, active[k]);
        return total;
    }
    uint64_t total = !product ? 0 : is_float(test.type) ? encode(test.type, 1) : 1;
    for (const uint64_t v : before)
        total = combine(test.op, test.type, total, v);
    const bool inclusive = test.op == SimdOp::prefix_inclusive_sum || test.op == SimdOp::prefix_inclusive_product;
    return inclusive ? combine(test.op, test.type, total, values[i]) : total;
}

void check_operation(cpu::Executor& executor, const Case& test, uint32_t threads, std::mt19937_64& random) {
    const bool product = test.op == SimdOp::product || test.op == SimdOp::prefix_inclusive_product ||
                         test.op == SimdOp::prefix_exclusive_product;
    std::vector<uint64_t> values(threads), fills(threads), results(threads, 5);
    for (uint32_t i = 0; i < threads; ++i) {
        // Factors 1, -1, and few 2s; terms small enough for the 8 bits of bfloat's fraction.
        const float factor = random() % 12 == 0 && i % 32 < 8 ? 2.0f : random() % 2 == 0 ? 1.0f : -1.0f;
        const float term = static_cast<float>(random() % 8) - 3;
        values[i] = is_float(test.type) ? encode(test.type, product ? factor : term) : random() & mask_of(test.type);
        if (test.op == SimdOp::ballot && random() % 2 == 0)
            values[i] = 0;
        fills[i] = random() & mask_of(test.type);
    }
    Case copy = test;
    const std::vector<void*> arguments{&copy, values.data(), fills.data(), results.data()};
    const auto fault = launch(executor, waiting(one_operation), {threads, 1, 1}, {threads, 1, 1}, arguments);
    REQUIRE_FALSE(fault);
    for (uint32_t i = 0; i < threads; ++i) {
        const uint64_t expected = test.active >> i % 32 & 1 ? model(test, values, fills, i) : 77;
        if (results[i] != expected) {
            CAPTURE(static_cast<unsigned>(test.op));
            CAPTURE(static_cast<unsigned>(test.type));
            CAPTURE(test.width);
            CAPTURE(test.operand);
            CAPTURE(test.active);
            CAPTURE(threads);
            CAPTURE(i);
            CHECK(results[i] == expected);
            return;
        }
    }
}

bool uses_operand(SimdOp op) {
    return op <= SimdOp::fill_down && op != SimdOp::broadcast_first;
}

void scan_loop(const ThreadgroupContext* c, uint32_t x, uint32_t, uint32_t) {
    auto* out = argument<uint32_t>(c, 0);
    uint32_t total = 0;
    for (uint32_t k = 0; k <= x; ++k) { // lane x takes part in x + 1 rounds
        total += static_cast<uint32_t>(simd(1, SimdOp::sum, SimdType::u32, 32, 1));
        converge(2);
    }
    out[x] = total;
    out[32 + x] = static_cast<uint32_t>(simd(3, SimdOp::sum, SimdType::u32, 32, 1));
}

void matrix_product(const ThreadgroupContext* c, uint32_t lane, uint32_t, uint32_t) {
    const auto multiply = symbol<compiler::SimdMmaFunction>("__metalki_rt_simd_mma");
    const uint32_t row = (lane / 4 & 4) + lane / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2;
    const float* matrices = argument<float>(c, 0);
    float abc[6], d[2];
    for (uint32_t m = 0; m < 3; ++m)
        for (uint32_t i = 0; i < 2; ++i)
            abc[m * 2 + i] = matrices[m * 64 + row * 8 + column + i];
    multiply(1, abc, d);
    argument<float>(c, 1)[row * 8 + column] = d[0];
    argument<float>(c, 1)[row * 8 + column + 1] = d[1];
}

} // namespace

TEST_CASE("every SIMD-group operation of every type equals the model") {
    cpu::Executor executor(1);
    std::mt19937_64 random(7);
    for (unsigned op = 0; op <= static_cast<unsigned>(SimdOp::barrier); ++op)
        for (unsigned type = 0; type <= static_cast<unsigned>(SimdType::f32); ++type)
            for (const uint32_t width : {32u, 4u})
                for (const uint32_t active : {~0u, 0x55555555u, 0x1u, 0x80000000u, static_cast<uint32_t>(random())})
                    for (const uint32_t threads : {1u, 31u, 32u, 70u}) {
                        Case test{static_cast<SimdOp>(op), static_cast<SimdType>(type), width, 0, 32, active};
                        for (const uint32_t operand : {0u, 1u, 3u, 16u, 31u, 40u}) {
                            test.operand = operand;
                            test.modulo = 2u << random() % 5;
                            check_operation(executor, test, threads, random);
                            if (!uses_operand(test.op))
                                break;
                        }
                    }
}

TEST_CASE("minimum and maximum ignore values that are no numbers") {
    cpu::Executor executor(1);
    Case test{SimdOp::min, SimdType::f32, 32, 0, 32, ~0u};
    std::vector<uint64_t> values(32, std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN())), fills(32), results(32);
    values[9] = std::bit_cast<uint32_t>(2.5f);
    const std::vector<void*> arguments{&test, values.data(), fills.data(), results.data()};
    for (const SimdOp op : {SimdOp::min, SimdOp::max}) {
        test.op = op;
        REQUIRE_FALSE(launch(executor, waiting(one_operation), {32, 1, 1}, {32, 1, 1}, arguments));
        CHECK(std::bit_cast<float>(static_cast<uint32_t>(results[31])) == 2.5f);
    }
}

TEST_CASE("lanes of a loop with different trip counts meet in each round and after the loop") {
    cpu::Executor executor(1);
    std::vector<uint32_t> out(64);
    REQUIRE_FALSE(launch(executor, waiting(scan_loop), {32, 1, 1}, {32, 1, 1}, {out.data()}));
    for (uint32_t lane = 0; lane < 32; ++lane) {
        uint32_t expected = 0;
        for (uint32_t k = 0; k <= lane; ++k)
            expected += 32 - k;
        CHECK(out[lane] == expected);
        CHECK(out[32 + lane] == 32);
    }
}

TEST_CASE("the 8 x 8 matrix product equals the sum of products") {
    cpu::Executor executor(1);
    std::vector<float> matrices(192), d(64);
    for (std::size_t i = 0; i < matrices.size(); ++i)
        matrices[i] = static_cast<float>(i * 7 % 13) - 6;
    REQUIRE_FALSE(launch(executor, waiting(matrix_product), {32, 1, 1}, {32, 1, 1}, {matrices.data(), d.data()}));
    for (std::size_t row = 0; row < 8; ++row)
        for (std::size_t column = 0; column < 8; ++column) {
            float expected = matrices[128 + row * 8 + column];
            for (std::size_t k = 0; k < 8; ++k)
                expected += matrices[row * 8 + k] * matrices[64 + k * 8 + column];
            CHECK(d[row * 8 + column] == expected);
        }
}
