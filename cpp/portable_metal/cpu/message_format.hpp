// Turns a format and its arguments into text. A format that does not fit its arguments gives a mark in the text, never a read
// of memory that is no argument: %!d(float=1.5), %!d(missing), %!(extra: int=3).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "compiler/kernel_abi.hpp"

namespace metalki::cpu {

// Text of limited length; what is too long ends in "...".
class MessageText {
public:
    void clear() { size_ = 0; }
    void put(char c) { put(std::string_view(&c, 1)); }
    void put(std::string_view text);
    void fill(char c, std::size_t count);
    std::string_view text() const { return {bytes_.data(), size_}; }

private:
    std::size_t size_ = 0;
    std::array<char, 8192> bytes_;
};

// `prints_extras`: arguments that the format leaves over are printed one after the other, rather than marked.
void format_message(MessageText& out, std::string_view format, std::span<const compiler::LogArgument> arguments,
                    bool prints_extras);

} // namespace metalki::cpu
