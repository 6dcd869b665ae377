// Turns the standard headers into the precompiled form that every program starts from.
#pragma once

#include <string>

namespace metalki::compiler {

// Throws CompileError.
std::string compile_prefix();

} // namespace metalki::compiler
