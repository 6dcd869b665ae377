// Numbers as printf writes them, whatever the locale of the process, and as people write them.
#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/log_format.hpp"
#include "cpu/message_format.hpp"

namespace metalki::cpu {

// How a conversion lays out its field: width and precision are final, -1 where not given.
struct FieldStyle {
    bool left = false, plus = false, space = false, alternate = false, zero = false;
    int width = -1, precision = -1;
    char letter = 'd';
};

void put_signed(MessageText& out, std::int64_t value, const FieldStyle& style);
void put_unsigned(MessageText& out, std::uint64_t value, const FieldStyle& style); // u, o, x, X
void put_real(MessageText& out, double value, const FieldStyle& style);            // e, f, g, a and their capitals
void put_field(MessageText& out, std::string_view text, const FieldStyle& style);  // padded with blanks

// The shortest text that reads back as the same number, with a point or an exponent: 1.0, 0.1, 1e+20, inf.
void put_shortest(MessageText& out, float value);
void put_shortest_half(MessageText& out, std::uint16_t bits);
void put_shortest_bfloat(MessageText& out, std::uint16_t bits);

} // namespace metalki::cpu
