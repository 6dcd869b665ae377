// How deep expressions and statements nest: the compiler goes down its stack for each level.
#pragma once

#include <vector>

#include "clang/Lex/Preprocessor.h"

namespace metalki::compiler {

// Reports an error and leaves only the end of the file where the tokens nest too deep.
void refuse_deep_nesting(clang::Preprocessor& preprocessor, std::vector<clang::Token>& tokens);

// Sources whose macros expand to more are refused.
constexpr std::size_t most_tokens = std::size_t{16} << 20;
void refuse_so_many_tokens(clang::Preprocessor& preprocessor, std::vector<clang::Token>& tokens);

} // namespace metalki::compiler
