// Element types, and conversion of host numbers to them.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "metalki/library.hpp"

namespace metalki {

namespace {

struct ScalarFacts {
    std::string_view name;
    std::size_t size;
};

constexpr ScalarFacts facts[] = {
    {"struct", 0}, {"bool", 1}, {"char", 1},  {"uchar", 1}, {"short", 2},  {"ushort", 2}, {"int", 4},
    {"uint", 4},   {"long", 8}, {"ulong", 8}, {"half", 2},  {"bfloat", 2}, {"float", 4},
};

std::string text_of(const ScalarValue& value) {
    return std::visit(
        [](auto v) -> std::string {
            if constexpr (std::is_same_v<decltype(v), bool>)
                return v ? "true" : "false";
            else if constexpr (std::is_floating_point_v<decltype(v)>) {
                char text[32]; // as people write it: 1e+300, not its 301 digits
                std::snprintf(text, sizeof text, "%.9g", static_cast<double>(v));
                bool looks_whole = std::strpbrk(text, ".eni") == nullptr;
                return looks_whole ? std::string(text) + ".0" : text;
            } else
                return std::to_string(v);
        },
        value);
}

[[noreturn]] void misfit(std::string_view what, ScalarType type, const ScalarValue& value, const char* why) {
    throw ArgumentError(std::string(what) + ": " + text_of(value) + " does not fit " + std::string(name_of(type)) + ": " + why);
}

template <class T> void write_integer(ScalarType type, const ScalarValue& value, void* out, std::string_view what) {
    T result = std::visit(
        [&](auto v) -> T {
            using V = decltype(v);
            if constexpr (std::is_same_v<V, double>)
                misfit(what, type, value, "a floating-point value was given for an integer type");
            else if constexpr (std::is_same_v<V, bool>)
                return static_cast<T>(v);
            else {
                if (!std::in_range<T>(v))
                    misfit(what, type, value, "out of range");
                return static_cast<T>(v);
            }
        },
        value);
    std::memcpy(out, &result, sizeof result);
}

double to_double(const ScalarValue& value) {
    return std::visit([](auto v) { return static_cast<double>(v); }, value);
}

// Rounds once, to nearest even, to a format of `mantissa` explicit bits; `min_exponent` is that of the smallest normal.
double round_to(double value, int mantissa, int min_exponent) {
    if (value == 0 || !std::isfinite(value))
        return value;
    int exponent;
    std::frexp(value, &exponent);
    int quantum = std::max(exponent - 1, min_exponent) - mantissa;
    return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

std::uint16_t half_bits(double value) {
    std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value))
        return sign | 0x7e00;
    double size = std::fabs(round_to(value, 10, -14));
    if (size > 65504)
        return sign | 0x7c00;
    if (size < std::ldexp(1.0, -14))
        return sign | static_cast<std::uint16_t>(std::ldexp(size, 24));
    int exponent;
    double fraction = std::frexp(size, &exponent);
    auto mantissa = static_cast<std::uint16_t>(std::ldexp(fraction, 11)) & 0x3ff;
    return sign | static_cast<std::uint16_t>((exponent + 14) << 10) | mantissa;
}

std::uint16_t bfloat_bits(double value) {
    if (std::isnan(value))
        return 0x7fc0;
    auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(round_to(value, 7, -126)));
    return static_cast<std::uint16_t>(bits >> 16);
}

} // namespace

std::size_t size_of(ScalarType type) {
    return facts[static_cast<std::size_t>(type)].size;
}
std::string_view name_of(ScalarType type) {
    return facts[static_cast<std::size_t>(type)].name;
}

std::size_t encode_scalar(ScalarType type, const ScalarValue& value, void* out, std::string_view what) {
    auto write_half = [&](std::uint16_t bits, std::uint16_t infinity) {
        if ((bits & 0x7fff) == infinity && std::isfinite(to_double(value)))
            misfit(what, type, value, "too large");
        std::memcpy(out, &bits, sizeof bits);
    };
    switch (type) {
    case ScalarType::bool_: {
        std::uint8_t number = 0;
        write_integer<std::uint8_t>(type, value, &number, what);
        if (number > 1)
            misfit(what, type, value, "out of range");
        std::memcpy(out, &number, 1);
        break;
    }
    case ScalarType::int8:
        write_integer<std::int8_t>(type, value, out, what);
        break;
    case ScalarType::uint8:
        write_integer<std::uint8_t>(type, value, out, what);
        break;
    case ScalarType::int16:
        write_integer<std::int16_t>(type, value, out, what);
        break;
    case ScalarType::uint16:
        write_integer<std::uint16_t>(type, value, out, what);
        break;
    case ScalarType::int32:
        write_integer<std::int32_t>(type, value, out, what);
        break;
    case ScalarType::uint32:
        write_integer<std::uint32_t>(type, value, out, what);
        break;
    case ScalarType::int64:
        write_integer<std::int64_t>(type, value, out, what);
        break;
    case ScalarType::uint64:
        write_integer<std::uint64_t>(type, value, out, what);
        break;
    case ScalarType::float16:
        write_half(half_bits(to_double(value)), 0x7c00);
        break;
    case ScalarType::bfloat16:
        write_half(bfloat_bits(to_double(value)), 0x7f80);
        break;
    case ScalarType::float32: {
        double number = to_double(value);
        auto result = static_cast<float>(number);
        if (std::isinf(result) && std::isfinite(number))
            misfit(what, type, value, "too large");
        std::memcpy(out, &result, sizeof result);
        break;
    }
    case ScalarType::none:
        throw ArgumentError(std::string(what) + ": a number was given for a struct");
    }
    return size_of(type);
}

} // namespace metalki
