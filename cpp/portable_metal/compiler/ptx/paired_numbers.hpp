// Few bits of a word that become floats, two of them at a time.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// The last 11 bits of a half that are its whole pattern are a number times 2^-24. One mask chooses such bits in both halves of
// a word, and each half becomes a float in one instruction; the powers of two wait until a sum of products is complete. Where
// sums may be made in any order only: very small products may lose bits. After optimisation.
void convert_in_pairs(llvm::Module& module);

} // namespace metalki::compiler::ptx
