// Rules of MSL that C++ does not have: recursion, implicit address space changes, initialised threadgroup variables.
#pragma once

#include <vector>

#include "clang/AST/Decl.h"
#include "clang/Sema/Sema.h"

namespace metalki::compiler {

void check_msl_rules(clang::Sema& sema, const std::vector<clang::Decl*>& declarations);

} // namespace metalki::compiler
