// What generated code may call besides the executor: the C mathematics library and a few helpers of the compiler's run time.
#pragma once

#include <span>

#include "compiler/compiler.hpp"

namespace metalki::compiler {

std::span<const RuntimeSymbol> math_symbols();

} // namespace metalki::compiler
