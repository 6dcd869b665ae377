// Integers of 8 and 16 bits, in whole words.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// What becomes a word, or a float, is computed in 32 bits from where it is loaded: a GPU has no narrower arithmetic, and a fast
// conversion to float for words only. After optimisation.
void widen_numbers(llvm::Module& module);

} // namespace metalki::compiler::ptx
