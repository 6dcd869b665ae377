// SIMD-group and quad-group functions as instructions of a warp.
#pragma once

#include "llvm/IR/Function.h"

namespace metalki::compiler::ptx {

// Replaces the calls of barriers and SIMD-group functions in `thread`. `architecture` as in GpuTarget. What a lane that is not
// active would have brought counts as zero, as on the CPU.
void lower_simd_functions(llvm::Function& thread, unsigned architecture);

} // namespace metalki::compiler::ptx
