// Evaluates SIMD-group operations lane by lane.
#include "cpu/simd_operations.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <optional>
#include <type_traits>

#include "cpu/small_float.hpp"

namespace metalki::cpu {

namespace {

using compiler::SimdOp;
using compiler::SimdType;

// Lanes first to first + width - 1: a whole SIMD-group or one quad-group of it.
struct Span {
    LaneRequests& requests;
    std::uint32_t active; // bits relative to the SIMD-group
    std::uint32_t first;
    std::uint32_t width;
    std::uint32_t existing; // lanes of this span that exist

    bool has(std::uint32_t lane) const { return lane < width && (active >> (first + lane) & 1) != 0; }
    LaneRequest& operator[](std::uint32_t lane) const { return requests[first + lane]; }

    template <class Function> void for_each_active(Function function) const {
        for (std::uint32_t lane = 0; lane < width; ++lane)
            if (has(lane))
                function(lane, (*this)[lane]);
    }
};

// How values of a SimdType travel (raw bits) and in which type one calculates with them.
template <class T> struct Native {
    using Accumulator = T;
    using Bits = std::conditional_t<
        sizeof(T) == 1, std::uint8_t,
        std::conditional_t<sizeof(T) == 2, std::uint16_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
    static T load(std::uint64_t raw) { return std::bit_cast<T>(static_cast<Bits>(raw)); }
    static std::uint64_t store(T value) { return std::bit_cast<Bits>(value); }
};
struct Half {
    using Accumulator = float;
    static float load(std::uint64_t raw) { return half_to_float(static_cast<std::uint16_t>(raw)); }
    static std::uint64_t store(float value) { return float_to_half(value); }
};
struct Bfloat {
    using Accumulator = float;
    static float load(std::uint64_t raw) { return bfloat_to_float(static_cast<std::uint16_t>(raw)); }
    static std::uint64_t store(float value) { return float_to_bfloat(value); }
};

// Integers wrap: they are calculated in a wide unsigned type and cut off.
template <class T> T add(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
        return a + b;
}
template <class T> T multiply(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else
        return a * b;
}
template <class T> T smaller(T a, T b) {
    if constexpr (std::floating_point<T>)
        return std::fmin(a, b);
    else
        return b < a ? b : a;
}
template <class T> T larger(T a, T b) {
    if constexpr (std::floating_point<T>)
        return std::fmax(a, b);
    else
        return a < b ? b : a;
}

// Values of a span while they are combined; lanes that take no part have none.
template <class Type, class Combine> class Combined {
public:
    using T = typename Type::Accumulator;

    Combined(const Span& span, Combine combine) : combine_(combine) {
        span.for_each_active([&](std::uint32_t lane, LaneRequest& request) { values_[lane] = Type::load(request.value); });
    }

    std::optional<T>& operator[](std::uint32_t lane) { return values_[lane]; }

    // The value of lane `low` and that of lane `high`, in this order.
    std::optional<T> both(std::uint32_t low, std::uint32_t high) const {
        const std::optional<T>&a = values_[low], &b = values_[high];
        return a && b ? combine_(*a, *b) : a ? a : b;
    }

private:
    std::array<std::optional<T>, compiler::simd_width> values_;
    Combine combine_;
};

// Halves are combined until one value is left: vector code adds in the same order, so that both round alike.
template <class Type, class Combine> void reduce(const Span& span, Combine combine) {
    Combined<Type, Combine> values(span, combine);
    for (std::uint32_t half = span.width / 2; half > 0; half /= 2)
        for (std::uint32_t lane = 0; lane < half; ++lane)
            values[lane] = values.both(lane, lane + half);
    if (!values[0])
        return; // nobody takes part
    const std::uint64_t result = Type::store(*values[0]);
    span.for_each_active([&](std::uint32_t, LaneRequest& request) { request.result = result; });
}

// Lanes combine with the one before, then with the one two before, four before, ...: again the order of vector code.
template <class Type, class Combine>
void prefix(const Span& span, bool inclusive, typename Type::Accumulator start, Combine combine) {
    Combined<Type, Combine> values(span, combine);
    span.for_each_active([&](std::uint32_t lane, LaneRequest&) { values[lane] = combine(start, *values[lane]); });
    for (std::uint32_t step = 1; step < span.width; step *= 2)
        for (std::uint32_t lane = span.width; lane-- > step;)
            values[lane] = values.both(lane - step, lane);
    span.for_each_active([&](std::uint32_t lane, LaneRequest& request) {
        const auto before = lane > 0 ? values[lane - 1] : std::nullopt;
        request.result = Type::store(inclusive ? *values[lane] : before.value_or(start));
    });
}

template <class Type> void arithmetic(const Span& span, SimdOp op) {
    using T = typename Type::Accumulator;
    switch (op) {
    case SimdOp::sum:
        return reduce<Type>(span, add<T>);
    case SimdOp::product:
        return reduce<Type>(span, multiply<T>);
    case SimdOp::min:
        return reduce<Type>(span, smaller<T>);
    case SimdOp::max:
        return reduce<Type>(span, larger<T>);
    case SimdOp::prefix_inclusive_sum:
        return prefix<Type>(span, true, T(0), add<T>);
    case SimdOp::prefix_exclusive_sum:
        return prefix<Type>(span, false, T(0), add<T>);
    case SimdOp::prefix_inclusive_product:
        return prefix<Type>(span, true, T(1), multiply<T>);
    case SimdOp::prefix_exclusive_product:
        return prefix<Type>(span, false, T(1), multiply<T>);
    default:
        return;
    }
}

void arithmetic(const Span& span, SimdOp op, SimdType type) {
    switch (type) {
    case SimdType::i8:
        return arithmetic<Native<std::int8_t>>(span, op);
    case SimdType::u8:
        return arithmetic<Native<std::uint8_t>>(span, op);
    case SimdType::i16:
        return arithmetic<Native<std::int16_t>>(span, op);
    case SimdType::u16:
        return arithmetic<Native<std::uint16_t>>(span, op);
    case SimdType::i32:
        return arithmetic<Native<std::int32_t>>(span, op);
    case SimdType::u32:
        return arithmetic<Native<std::uint32_t>>(span, op);
    case SimdType::i64:
        return arithmetic<Native<std::int64_t>>(span, op);
    case SimdType::u64:
        return arithmetic<Native<std::uint64_t>>(span, op);
    case SimdType::f16:
        return arithmetic<Half>(span, op);
    case SimdType::bf16:
        return arithmetic<Bfloat>(span, op);
    case SimdType::f32:
        return arithmetic<Native<float>>(span, op);
    }
}

std::uint64_t value_of(const Span& span, std::uint32_t lane) {
    return span.has(lane) ? span[lane].value : 0;
}
std::uint64_t fill_of(const Span& span, std::uint32_t lane) {
    return span.has(lane) ? span[lane].fill : 0;
}

// The lanes of a span form vectors of `modulo` lanes; what leaves a vector at one end takes the other end of `fill`.
std::uint64_t filled(const Span& span, std::uint32_t lane, const LaneRequest& request) {
    const bool power_of_two = std::has_single_bit(request.modulo);
    const std::uint32_t modulo = power_of_two && request.modulo <= span.width ? request.modulo : span.width;
    const std::uint32_t place = lane % modulo, base = lane - place, distance = request.operand;
    if (distance > modulo)
        return 0;
    if (request.op == SimdOp::fill_up)
        return place >= distance ? value_of(span, lane - distance) : fill_of(span, base + place + modulo - distance);
    return place + distance < modulo ? value_of(span, lane + distance) : fill_of(span, base + place + distance - modulo);
}

std::uint64_t shuffled(const Span& span, std::uint32_t lane, const LaneRequest& request) {
    const std::uint32_t operand = request.operand;
    switch (request.op) {
    case SimdOp::shuffle:
        return value_of(span, operand);
    case SimdOp::shuffle_up:
        return operand > lane ? request.value : value_of(span, lane - operand);
    case SimdOp::shuffle_down:
        return operand >= span.width - lane ? request.value : value_of(span, lane + operand);
    case SimdOp::shuffle_xor:
        return value_of(span, lane ^ operand);
    case SimdOp::shuffle_rotate_up:
        return value_of(span, (lane + span.existing - operand % span.existing) % span.existing);
    case SimdOp::shuffle_rotate_down:
        return value_of(span, (lane + operand % span.existing) % span.existing);
    default:
        return filled(span, lane, request);
    }
}

std::uint64_t ballot(const Span& span) {
    std::uint64_t bits = 0;
    span.for_each_active([&](std::uint32_t lane, LaneRequest& request) {
        if (request.value != 0)
            bits |= std::uint64_t{1} << lane;
    });
    return bits;
}

void set_all(const Span& span, std::uint64_t result) {
    span.for_each_active([&](std::uint32_t, LaneRequest& request) { request.result = result; });
}

std::uint64_t first_value(const Span& span) {
    for (std::uint32_t lane = 0; lane < span.width; ++lane)
        if (span.has(lane))
            return span[lane].value;
    return 0;
}

void evaluate_span(const Span& span, SimdOp op, SimdType type) {
    using Word = Native<std::uint64_t>;
    switch (op) {
    case SimdOp::shuffle:
    case SimdOp::shuffle_up:
    case SimdOp::shuffle_down:
    case SimdOp::shuffle_xor:
    case SimdOp::shuffle_rotate_up:
    case SimdOp::shuffle_rotate_down:
    case SimdOp::fill_up:
    case SimdOp::fill_down:
        return span.for_each_active(
            [&](std::uint32_t lane, LaneRequest& request) { request.result = shuffled(span, lane, request); });
    case SimdOp::broadcast_first:
        return set_all(span, first_value(span));
    case SimdOp::ballot:
        return set_all(span, ballot(span));
    case SimdOp::barrier:
        return set_all(span, 0);
    case SimdOp::bit_and:
        return reduce<Word>(span, [](std::uint64_t a, std::uint64_t b) { return a & b; });
    case SimdOp::bit_or:
        return reduce<Word>(span, [](std::uint64_t a, std::uint64_t b) { return a | b; });
    case SimdOp::bit_xor:
        return reduce<Word>(span, [](std::uint64_t a, std::uint64_t b) { return a ^ b; });
    default:
        return arithmetic(span, op, type);
    }
}

struct Element {
    std::uint32_t row, column;
};

// Where the first of a lane's two matrix elements lies; the second is its right neighbour.
Element matrix_element(std::uint32_t lane) {
    return {(lane / 4 & 4) + lane / 2 % 4, (lane / 4 & 2) * 2 + lane % 2 * 2};
}

// Elements of absent lanes count as zero.
void multiply_matrices(LaneRequests& requests, std::uint32_t active) {
    float a[8][8]{}, b[8][8]{}, c[8][8]{};
    for (std::uint32_t lanes = active; lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
        const auto [row, column] = matrix_element(lane);
        for (std::uint32_t i = 0; i < 2; ++i) {
            a[row][column + i] = requests[lane].abc[i];
            b[row][column + i] = requests[lane].abc[2 + i];
            c[row][column + i] = requests[lane].abc[4 + i];
        }
    }
    for (std::uint32_t lanes = active; lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
        const auto [row, column] = matrix_element(lane);
        for (std::uint32_t i = 0; i < 2; ++i) {
            float total = c[row][column + i];
            for (std::uint32_t k = 0; k < 8; ++k)
                total = std::fma(a[row][k], b[k][column + i], total);
            requests[lane].d[i] = total;
        }
    }
}

} // namespace

void evaluate(LaneRequests& requests, std::uint32_t active, std::uint32_t lanes) {
    const LaneRequest& any = requests[static_cast<std::size_t>(std::countr_zero(active))];
    if (any.kind == LaneRequest::Kind::converge)
        return;
    if (any.kind == LaneRequest::Kind::matrix)
        return multiply_matrices(requests, active);

    const SimdOp op = any.op;
    const SimdType type = any.type;
    const std::uint32_t width = any.width == compiler::quad_width ? compiler::quad_width : compiler::simd_width;
    for (std::uint32_t first = 0; first < lanes; first += width) {
        const std::uint32_t existing = lanes - first < width ? lanes - first : width;
        evaluate_span(Span{requests, active, first, width, existing}, op, type);
    }
}

} // namespace metalki::cpu
