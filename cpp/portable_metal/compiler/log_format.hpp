// The conversions of a format string: what printf has, and MSL's vectors (%v4hlf). Only reads within the given text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace metalki::compiler {

struct LogConversion {
    enum class Length : std::uint8_t { plain, char_, short_, int_, long_ };

    std::string_view text; // from the % to the letter
    bool left = false, plus = false, space = false, alternate = false, zero = false;
    bool width_argument = false, precision_argument = false; // given as *
    int width = -1, precision = -1;                          // -1: not given
    int vector = 0;                                          // 0: a scalar
    Length length = Length::plain;
    char letter = 0; // 0: the text ended before it
};

// Wider fields and finer precisions are refused.
constexpr int largest_log_width = 1024;

// What an argument is to a conversion; vectors count by their components.
enum class LogClass : std::uint8_t { integer, real, pointer, text, other };

inline bool is_log_conversion(char letter) {
    return std::string_view("diuoxXcfFeEgGaAps").find(letter) != std::string_view::npos;
}

inline bool takes(char letter, LogClass argument) {
    if (letter == 's')
        return argument == LogClass::text;
    if (letter == 'p')
        return argument == LogClass::pointer || argument == LogClass::text;
    const bool real = std::string_view("fFeEgGaA").find(letter) != std::string_view::npos;
    return argument == (real ? LogClass::real : LogClass::integer);
}

inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Takes pieces of a format string from the front.
class LogFormatReader {
public:
    explicit LogFormatReader(std::string_view format) : rest_(format) {}

    // Text up to the next conversion. %% counts as text and ends a piece.
    std::string_view literal() {
        const std::size_t percent = rest_.find('%');
        if (percent == 0 && rest_.starts_with("%%")) {
            rest_.remove_prefix(2);
            return "%";
        }
        const std::string_view piece = rest_.substr(0, percent);
        rest_.remove_prefix(piece.size());
        return piece;
    }

    // The conversion at the front; nothing when text comes first or the format has ended.
    std::optional<LogConversion> conversion() {
        if (!rest_.starts_with('%') || rest_.starts_with("%%"))
            return std::nullopt;
        const std::string_view start = rest_;
        rest_.remove_prefix(1);
        LogConversion result;
        skip_privacy();
        flags(result);
        result.width_argument = take('*');
        if (!result.width_argument && !rest_.empty() && is_digit(rest_.front()))
            result.width = number();
        if (take('.')) {
            result.precision_argument = take('*');
            if (!result.precision_argument)
                result.precision = number();
        }
        if (take('v'))
            result.vector = number();
        result.length = length();
        if (!rest_.empty()) {
            result.letter = rest_.front();
            rest_.remove_prefix(1);
        }
        result.text = start.substr(0, start.size() - rest_.size());
        return result;
    }

    bool at_end() const { return rest_.empty(); }

private:
    bool take(char c) {
        if (!rest_.starts_with(c))
            return false;
        rest_.remove_prefix(1);
        return true;
    }
    bool take(std::string_view text) {
        if (!rest_.starts_with(text))
            return false;
        rest_.remove_prefix(text.size());
        return true;
    }
    // %{public}d: who may read it is no question here.
    void skip_privacy() {
        const std::size_t end = rest_.starts_with('{') ? rest_.find('}') : std::string_view::npos;
        if (end != std::string_view::npos)
            rest_.remove_prefix(end + 1);
    }
    void flags(LogConversion& result) {
        for (bool more = true; more;) {
            more = false;
            for (auto [flag, set] : {std::pair{'-', &result.left}, std::pair{'+', &result.plus}, std::pair{' ', &result.space},
                                     std::pair{'#', &result.alternate}, std::pair{'0', &result.zero}}) {
                if (take(flag))
                    *set = more = true;
            }
        }
    }
    // Saturates just above what is allowed. 0 when there are no digits.
    int number() {
        int value = 0;
        for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1))
            value = value > largest_log_width ? value : value * 10 + (rest_.front() - '0');
        return value;
    }
    LogConversion::Length length() {
        if (take("hl"))
            return LogConversion::Length::int_;
        if (take("hh"))
            return LogConversion::Length::char_;
        if (take('h'))
            return LogConversion::Length::short_;
        if (take("ll") || take('l') || take('j') || take('z') || take('t') || take('q') || take('L'))
            return LogConversion::Length::long_;
        return LogConversion::Length::plain;
    }

    std::string_view rest_;
};

} // namespace metalki::compiler
