// Functions of metal::precise compute exactly what they say, those of metal::fast may be approximate, in every math mode.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Takes the program's fast-math flags from the bodies of precise:: functions, and gives fast:: functions all of them. Must run
// before anything is inlined.
void protect_precise_functions(llvm::Module& module);

} // namespace metalki::compiler
