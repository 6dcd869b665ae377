// Warns where a format of os_log, printf or KI.print does not fit its arguments.
#pragma once

#include <set>

#include "clang/AST/Expr.h"
#include "clang/Sema/Sema.h"

namespace metalki::compiler {

// Does nothing for calls of other functions, and for formats that are no literals. `checked`: places that were looked at, as
// a template shows its calls once for each instantiation.
void check_log_call(clang::Sema& sema, const clang::CallExpr& call, std::set<unsigned>& checked);

} // namespace metalki::compiler
