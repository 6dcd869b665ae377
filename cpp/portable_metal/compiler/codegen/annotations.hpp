// MSL's attributes are annotations for Clang, which writes them into the code it generates.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// What the annotations said is known by now; in the code they would keep functions alive and hide memory accesses.
void drop_annotations(llvm::Module& module);

} // namespace metalki::compiler
