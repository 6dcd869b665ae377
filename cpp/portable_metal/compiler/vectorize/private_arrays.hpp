// Where the lanes' copies of a private array go.
#pragma once

#include "llvm/IR/Instructions.h"

namespace metalki::compiler::vectorize {

// Size in bytes of the elements that all accesses of `array` have in common, so that the lanes' copies can be interleaved
// element by element (an access with a uniform index is then one wide load); 0 when the accesses are not that regular.
unsigned interleaving_of(const llvm::AllocaInst& array, const llvm::DataLayout& layout);

} // namespace metalki::compiler::vectorize
