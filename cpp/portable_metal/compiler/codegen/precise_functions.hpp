// Functions of metal::precise compute exactly what they say, in every math mode of the program.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Takes the program's fast-math flags from the bodies of precise:: functions. Must run before anything is inlined.
void protect_precise_functions(llvm::Module& module);

} // namespace metalki::compiler
