// Walks a format and its arguments side by side.
#include "cpu/message_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "compiler/log_format.hpp"
#include "cpu/number_text.hpp"
#include "cpu/small_float.hpp"

namespace metalki::cpu {

namespace {

using compiler::LogArgument;
using compiler::LogConversion;
using compiler::LogType;

constexpr std::size_t longest_text = 4096; // of one argument

// One element of an argument.
struct Value {
    LogType type = LogType::i32;
    std::uint64_t bits = 0; // integers: extended as their sign wants it; small floats: as they are
    double real = 0;

    bool is_real() const { return type == LogType::f16 || type == LogType::bf16 || type == LogType::f32; }
    bool is_signed() const {
        return type == LogType::i8 || type == LogType::i16 || type == LogType::i32 || type == LogType::i64;
    }
};

unsigned size_of(LogType type) {
    switch (type) {
    case LogType::i8:
    case LogType::u8:
    case LogType::boolean:
        return 1;
    case LogType::i16:
    case LogType::u16:
    case LogType::f16:
    case LogType::bf16:
        return 2;
    case LogType::i32:
    case LogType::u32:
    case LogType::f32:
        return 4;
    default:
        return 8;
    }
}

bool is_address(LogType type) {
    return type >= LogType::pointer;
}

compiler::LogClass class_of(LogType type) {
    if (type == LogType::f16 || type == LogType::bf16 || type == LogType::f32)
        return compiler::LogClass::real;
    return type == LogType::text      ? compiler::LogClass::text
           : type == LogType::pointer ? compiler::LogClass::pointer
           : type <= LogType::boolean ? compiler::LogClass::integer
                                      : compiler::LogClass::other;
}

std::string_view scalar_name(LogType type) {
    constexpr std::string_view names[] = {"char",  "uchar", "short",  "ushort", "int",  "uint",    "long",
                                          "ulong", "half",  "bfloat", "float",  "bool", "pointer", "text"};
    return names[std::min<std::size_t>(static_cast<std::size_t>(type), std::size(names) - 1)];
}

Value element(const LogArgument& argument, std::size_t index) {
    Value value;
    value.type = argument.type;
    if (is_address(argument.type)) {
        value.bits = reinterpret_cast<std::uintptr_t>(argument.data);
        return value;
    }
    const unsigned size = size_of(argument.type);
    std::memcpy(&value.bits, static_cast<const std::byte*>(argument.data) + index * size, size);
    if (value.is_signed()) {
        const unsigned unused = 64 - 8 * size;
        value.bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(value.bits << unused) >> unused);
    } else if (argument.type == LogType::f16) {
        value.real = half_to_float(static_cast<std::uint16_t>(value.bits));
    } else if (argument.type == LogType::bf16) {
        value.real = bfloat_to_float(static_cast<std::uint16_t>(value.bits));
    } else if (argument.type == LogType::f32) {
        value.real = std::bit_cast<float>(static_cast<std::uint32_t>(value.bits));
    }
    return value;
}

void put_decimal(MessageText& out, int number) {
    put_signed(out, number, {});
}

void put_address(MessageText& out, std::uint64_t address, FieldStyle style = {}) {
    std::array<char, 24> buffer{'0', 'x'};
    char* const end = std::to_chars(buffer.data() + 2, buffer.data() + buffer.size(), address, 16).ptr;
    put_field(out, {buffer.data(), static_cast<std::size_t>(end - buffer.data())}, style);
}

std::string_view text_of(const LogArgument& argument, int precision) {
    const auto* text = static_cast<const char*>(argument.data);
    const std::size_t most = precision < 0 ? longest_text : static_cast<std::size_t>(precision);
    return text == nullptr ? std::string_view("(null)") : std::string_view(text, strnlen(text, most));
}

void put_type(MessageText& out, const LogArgument& argument) {
    out.put(scalar_name(argument.type));
    if (argument.columns > 1) {
        put_decimal(out, argument.columns);
        out.put('x');
    }
    if (argument.rows > 1)
        put_decimal(out, argument.rows);
}

void put_natural(MessageText& out, const Value& value) {
    if (value.type == LogType::boolean)
        out.put(value.bits != 0 ? "true" : "false");
    else if (value.type == LogType::f32)
        put_shortest(out, static_cast<float>(value.real));
    else if (value.type == LogType::f16)
        put_shortest_half(out, static_cast<std::uint16_t>(value.bits));
    else if (value.type == LogType::bf16)
        put_shortest_bfloat(out, static_cast<std::uint16_t>(value.bits));
    else if (value.is_signed())
        put_signed(out, static_cast<std::int64_t>(value.bits), {});
    else
        put_unsigned(out, value.bits, {.letter = 'u'});
}

void put_column(MessageText& out, const LogArgument& argument, std::size_t first) {
    if (argument.rows == 1)
        return put_natural(out, element(argument, first));
    out.put('(');
    for (std::size_t row = 0; row < argument.rows; ++row) {
        out.put(row == 0 ? "" : ", ");
        put_natural(out, element(argument, first + row));
    }
    out.put(')');
}

// (1.0, 2.0) for vectors, ((1.0, 0.0), (0.0, 1.0)) for matrices, by column.
void put_natural(MessageText& out, const LogArgument& argument) {
    if (argument.type == LogType::text)
        return out.put(text_of(argument, -1));
    if (is_address(argument.type))
        return put_address(out, reinterpret_cast<std::uintptr_t>(argument.data));
    if (argument.columns <= 1)
        return put_column(out, argument, 0);
    const std::size_t stride = argument.rows == 3 ? 4 : argument.rows;
    out.put('(');
    for (std::size_t column = 0; column < argument.columns; ++column) {
        out.put(column == 0 ? "" : ", ");
        put_column(out, argument, column * stride);
    }
    out.put(')');
}

void put_typed(MessageText& out, const LogArgument& argument) {
    put_type(out, argument);
    out.put('=');
    if (argument.type == LogType::text) // a mark must not read what the format does not ask for
        put_address(out, reinterpret_cast<std::uintptr_t>(argument.data));
    else
        put_natural(out, argument);
}

class Formatter {
public:
    Formatter(MessageText& out, std::string_view format, std::span<const LogArgument> arguments)
        : out_(out), reader_(format), arguments_(arguments) {}

    void run() {
        while (!reader_.at_end()) {
            if (const std::optional<LogConversion> conversion = reader_.conversion())
                convert(*conversion);
            else
                out_.put(reader_.literal());
        }
    }

    std::span<const LogArgument> rest() const { return arguments_.subspan(next_); }

private:
    const LogArgument* take() { return next_ < arguments_.size() ? &arguments_[next_++] : nullptr; }

    // %!d(why)
    void mark(const LogConversion& conversion, std::string_view why, const LogArgument* argument = nullptr) {
        out_.put("%!");
        out_.put(conversion.text.substr(1));
        out_.put('(');
        out_.put(why);
        if (argument != nullptr)
            put_typed(out_, *argument);
        out_.put(')');
    }

    // The value of a *; nothing when the argument is no int.
    std::optional<int> star() {
        const LogArgument* argument = take();
        if (argument == nullptr || argument->rows != 1 || argument->columns != 1 || argument->type >= LogType::f16)
            return std::nullopt;
        const Value value = element(*argument, 0);
        const auto number = static_cast<std::int64_t>(value.bits);
        constexpr std::int64_t beyond = compiler::largest_log_width + 1;
        if (!value.is_signed() && number < 0)
            return beyond;
        return static_cast<int>(std::clamp(number, -beyond, beyond));
    }

    void convert(const LogConversion& conversion) {
        FieldStyle style{conversion.left, conversion.plus,  conversion.space,     conversion.alternate,
                         conversion.zero, conversion.width, conversion.precision, conversion.letter};
        if (conversion.letter == 0)
            return mark(conversion, "incomplete");
        if (conversion.letter == '%')
            return out_.put('%');
        if (conversion.width_argument) {
            const std::optional<int> width = star();
            if (!width)
                return mark(conversion, "the width is no int");
            style.left = style.left || *width < 0;
            style.width = std::abs(*width);
        }
        if (conversion.precision_argument) {
            const std::optional<int> precision = star();
            if (!precision)
                return mark(conversion, "the precision is no int");
            style.precision = std::max(*precision, -1);
        }
        const LogArgument* argument = take();
        if (argument == nullptr)
            return mark(conversion, "missing");
        if (style.width > compiler::largest_log_width || style.precision > compiler::largest_log_width)
            return mark(conversion, "width or precision above 1024: ", argument);
        convert(conversion, *argument, style);
    }

    void convert(const LogConversion& conversion, const LogArgument& argument, const FieldStyle& style) {
        if (conversion.letter == 'n')
            return mark(conversion, "not supported");
        if (!compiler::is_log_conversion(conversion.letter))
            return mark(conversion, "unknown conversion: ", &argument);
        const int components = std::max(conversion.vector, 1);
        if (argument.columns != 1 || argument.rows != components ||
            !compiler::takes(conversion.letter, class_of(argument.type)))
            return mark(conversion, "", &argument);
        if (conversion.letter == 's')
            return put_field(out_, text_of(argument, style.precision), style);
        if (conversion.letter == 'p')
            return put_address(out_, reinterpret_cast<std::uintptr_t>(argument.data), style);
        for (int i = 0; i < components; ++i) {
            out_.put(i == 0 ? "" : ",");
            put(conversion, element(argument, static_cast<std::size_t>(i)), style);
        }
    }

    void put(const LogConversion& conversion, const Value& value, const FieldStyle& style) {
        if (value.is_real())
            return put_real(out_, value.real, style);
        if (style.letter == 'c') {
            const char c = static_cast<char>(value.bits);
            return put_field(out_, c == 0 ? std::string_view("\\0") : std::string_view(&c, 1), style);
        }
        // As C does: small types become int, and the length cuts them back.
        unsigned width = std::max(32u, 8 * size_of(value.type));
        if (conversion.length == LogConversion::Length::char_)
            width = 8;
        else if (conversion.length == LogConversion::Length::short_)
            width = 16;
        const unsigned unused = 64 - width;
        const std::uint64_t high = value.bits << unused;
        if (style.letter == 'd' || style.letter == 'i')
            put_signed(out_, static_cast<std::int64_t>(high) >> unused, style);
        else
            put_unsigned(out_, high >> unused, style);
    }

    MessageText& out_;
    compiler::LogFormatReader reader_;
    std::span<const LogArgument> arguments_;
    std::size_t next_ = 0;
};

} // namespace

void MessageText::put(std::string_view text) {
    constexpr std::string_view ellipsis = "...";
    const std::size_t room = bytes_.size() - size_;
    const std::size_t taken = std::min(text.size(), room);
    std::copy_n(text.data(), taken, bytes_.data() + size_);
    size_ += taken;
    if (taken < text.size())
        std::copy(ellipsis.begin(), ellipsis.end(), bytes_.end() - ellipsis.size());
}

void MessageText::fill(char c, std::size_t count) {
    for (; count > 0; --count)
        put(c);
}

void format_message(MessageText& out, std::string_view format, std::span<const compiler::LogArgument> arguments,
                    bool prints_extras) {
    const bool ends_line = !prints_extras && format.ends_with('\n');
    if (ends_line)
        format.remove_suffix(1);
    Formatter formatter(out, format, arguments);
    formatter.run();
    const std::span<const LogArgument> extras = formatter.rest();
    for (std::size_t i = 0; i < extras.size(); ++i) {
        if (prints_extras) {
            put_natural(out, extras[i]);
        } else {
            out.put(i == 0 ? "%!(extra: " : ", ");
            put_typed(out, extras[i]);
            out.put(i + 1 == extras.size() ? ")" : "");
        }
    }
    if (ends_line)
        out.put('\n');
}

} // namespace metalki::cpu
