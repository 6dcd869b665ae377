// Names that came with a later version of the language than the one that a program asks for.
#pragma once

#include <vector>

#include "clang/Lex/Preprocessor.h"

namespace metalki::compiler {

constexpr unsigned metal_2_3 = 0x20003, metal_2_4 = 0x20004, metal_3_0 = 0x30000, metal_3_1 = 0x30001, metal_3_2 = 0x30002;

// "3.1" for 0x30001.
std::string version_text(unsigned language_version);

// Reports each such name once, where the program first uses it. `language_version`: as in Options.
void check_language_version(clang::Preprocessor& preprocessor, const std::vector<clang::Token>& tokens,
                            unsigned language_version);

} // namespace metalki::compiler
