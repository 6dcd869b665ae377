// Rules of MSL that C++ does not have: implicit address space changes, initialised threadgroup variables.
#pragma once

#include <set>
#include <vector>

#include "clang/AST/Decl.h"
#include "clang/Sema/Sema.h"

namespace metalki::compiler {

// `language_version`: as in Options. `says_thread`: tokens behind the word `thread`, which does not reach Clang (raw
// locations).
void check_msl_rules(clang::Sema& sema, const std::vector<clang::Decl*>& declarations, unsigned language_version,
                     const std::set<unsigned>& says_thread);

} // namespace metalki::compiler
