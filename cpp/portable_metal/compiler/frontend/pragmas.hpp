// `#pragma METAL fp ...`: the math mode and contraction of a file or a block.
#pragma once

#include "clang/Lex/Preprocessor.h"

namespace metalki::compiler {

// Before the first token is lexed. Other METAL pragmas are accepted and have no effect.
void add_metal_pragmas(clang::Preprocessor& preprocessor);

} // namespace metalki::compiler
