// half and bfloat are of one size, and LLVM has no cast between them, though Clang makes one.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Leads such casts through float, which holds every value of both. To be called before anything reads the module.
void replace_small_float_casts(llvm::Module& module);

} // namespace metalki::compiler
