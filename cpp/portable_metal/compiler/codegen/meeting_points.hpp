// Keeps the places where the lanes of a SIMD-group meet again through LLVM's optimisation.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// In loops with SIMD-group functions: no branch may be led past the block where the ways behind such a function join. Else the
// function could end up outside of a loop that it stands in, and would run once for all iterations.
void mark_meeting_points(llvm::Module& module);

// Takes the marks away. No pass that changes branches may come after.
void forget_meeting_points(llvm::Module& module);

} // namespace metalki::compiler
