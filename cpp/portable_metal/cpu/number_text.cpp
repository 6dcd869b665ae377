// Built on std::to_chars, which knows no locale and allocates nothing.
#include "cpu/number_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "cpu/small_float.hpp"

namespace metalki::cpu {

namespace {

// A double has 309 digits before the point at most.
using Digits = std::array<char, 320 + compiler::largest_log_width>;

bool is_capital(char letter) {
    return letter >= 'A' && letter <= 'Z';
}

void to_capitals(char* begin, char* end) {
    std::transform(begin, end, begin, [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
}

std::string_view sign_of(bool negative, const FieldStyle& style) {
    return negative ? "-" : style.plus ? "+" : style.space ? " " : "";
}

// sign or prefix, zeros, digits
void put_number(MessageText& out, std::string_view sign, std::string_view prefix, std::size_t zeros, std::string_view digits,
                const FieldStyle& style, bool pad_with_zeros) {
    const std::size_t length = sign.size() + prefix.size() + zeros + digits.size();
    const std::size_t missing =
        static_cast<std::size_t>(std::max(style.width, 0)) > length ? static_cast<std::size_t>(style.width) - length : 0;
    if (!style.left && !pad_with_zeros)
        out.fill(' ', missing);
    out.put(sign);
    out.put(prefix);
    out.fill('0', zeros + (!style.left && pad_with_zeros ? missing : 0));
    out.put(digits);
    if (style.left)
        out.fill(' ', missing);
}

void put_integer(MessageText& out, std::string_view sign, std::uint64_t magnitude, const FieldStyle& style) {
    const char lower = static_cast<char>(style.letter | 0x20);
    const int base = lower == 'x' ? 16 : lower == 'o' ? 8 : 10;
    std::array<char, 24> buffer{};
    char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base).ptr;
    if (magnitude == 0 && style.precision == 0)
        end = buffer.data();
    if (is_capital(style.letter))
        to_capitals(buffer.data(), end);
    const std::string_view digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    std::size_t zeros = 0;
    if (style.precision > 0 && static_cast<std::size_t>(style.precision) > digits.size())
        zeros = static_cast<std::size_t>(style.precision) - digits.size();
    if (base == 8 && style.alternate && zeros == 0 && !digits.starts_with('0'))
        zeros = 1;
    const bool has_prefix = base == 16 && style.alternate && magnitude != 0;
    const std::string_view prefix = !has_prefix ? "" : is_capital(style.letter) ? "0X" : "0x";
    put_number(out, sign, prefix, zeros, digits, style, style.zero && style.precision < 0);
}

// %#g keeps its zeros: the exponent after rounding decides the form, as in C.
char* alternate_general(Digits& buffer, double magnitude, int precision) {
    char* const begin = buffer.data();
    char* const limit = begin + buffer.size();
    precision = std::max(precision, 1);
    char* end = std::to_chars(begin, limit, magnitude, std::chars_format::scientific, precision - 1).ptr;
    int exponent = 0;
    const char* mark = std::find(begin, end, 'e');
    std::from_chars(mark + (mark + 1 < end && mark[1] == '+' ? 2 : 1), end, exponent);
    if (exponent >= -4 && exponent < precision)
        end = std::to_chars(begin, limit, magnitude, std::chars_format::fixed, precision - 1 - exponent).ptr;
    return end;
}

// `end` moves on when the point had to be put in.
char* with_point(char* begin, char* end) {
    if (std::find(begin, end, '.') != end)
        return end;
    char* place = std::find_if(begin, end, [](char c) { return c == 'e' || c == 'p'; });
    std::copy_backward(place, end, end + 1);
    *place = '.';
    return end + 1;
}

char* write_finite(Digits& buffer, double magnitude, const FieldStyle& style) {
    char* const begin = buffer.data();
    char* const limit = begin + buffer.size() - 1; // room for a point
    const int precision = style.precision < 0 ? 6 : style.precision;
    char* end = begin;
    switch (style.letter | 0x20) {
    case 'e':
        end = std::to_chars(begin, limit, magnitude, std::chars_format::scientific, precision).ptr;
        break;
    case 'f':
        end = std::to_chars(begin, limit, magnitude, std::chars_format::fixed, precision).ptr;
        break;
    case 'a':
        end = style.precision < 0 ? std::to_chars(begin, limit, magnitude, std::chars_format::hex).ptr
                                  : std::to_chars(begin, limit, magnitude, std::chars_format::hex, precision).ptr;
        break;
    default:
        end = style.alternate ? alternate_general(buffer, magnitude, precision)
                              : std::to_chars(begin, limit, magnitude, std::chars_format::general, precision).ptr;
        break;
    }
    if (style.alternate)
        end = with_point(begin, end);
    if (is_capital(style.letter))
        to_capitals(begin, end);
    return end;
}

template <class Encode, class Decode>
void put_shortest_small(MessageText& out, std::uint16_t bits, Encode encode, Decode decode) {
    const float value = decode(bits);
    std::array<char, 32> buffer{};
    char* const limit = buffer.data() + buffer.size();
    for (int precision = 1; precision < 8 && std::isfinite(value); ++precision) {
        char* end = std::to_chars(buffer.data(), limit, value, std::chars_format::general, precision).ptr;
        float read = 0;
        std::from_chars(buffer.data(), end, read);
        if (encode(read) == bits) {
            std::from_chars(buffer.data(), end, read);
            return put_shortest(out, read);
        }
    }
    put_shortest(out, value);
}

} // namespace

void put_field(MessageText& out, std::string_view text, const FieldStyle& style) {
    put_number(out, {}, {}, 0, text, style, false);
}

void put_signed(MessageText& out, std::int64_t value, const FieldStyle& style) {
    const auto bits = static_cast<std::uint64_t>(value);
    put_integer(out, sign_of(value < 0, style), value < 0 ? 0 - bits : bits, style);
}

void put_unsigned(MessageText& out, std::uint64_t value, const FieldStyle& style) {
    put_integer(out, {}, value, style);
}

void put_real(MessageText& out, double value, const FieldStyle& style) {
    if (!std::isfinite(value)) {
        const bool capital = is_capital(style.letter);
        const std::string_view digits = std::isnan(value) ? (capital ? "NAN" : "nan") : (capital ? "INF" : "inf");
        // A sign of NaN says nothing.
        return put_number(out, sign_of(std::signbit(value) && !std::isnan(value), style), {}, 0, digits, style, false);
    }
    Digits buffer;
    char* const end = write_finite(buffer, std::fabs(value), style);
    const std::string_view digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    const std::string_view prefix = style.letter == 'a' ? "0x" : style.letter == 'A' ? "0X" : "";
    put_number(out, sign_of(std::signbit(value), style), prefix, 0, digits, style, style.zero);
}

void put_shortest(MessageText& out, float value) {
    if (std::isnan(value))
        return out.put("nan");
    std::array<char, 64> buffer{};
    char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    const std::string_view digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    out.put(digits);
    if (digits.find_first_not_of("-0123456789") == std::string_view::npos)
        out.put(".0");
}

void put_shortest_half(MessageText& out, std::uint16_t bits) {
    put_shortest_small(out, bits, float_to_half, half_to_float);
}

void put_shortest_bfloat(MessageText& out, std::uint16_t bits) {
    put_shortest_small(out, bits, float_to_bfloat, bfloat_to_float);
}

} // namespace metalki::cpu
