// Copies of a few bytes from memory to memory, such as `a[i] = b[i]` of vectors and structures.
#pragma once

#include "llvm/IR/Function.h"

namespace metalki::compiler::vectorize {

// Makes them loads and stores, which all lanes do at once; a copy is done lane by lane.
void load_and_store_small_copies(llvm::Function& kernel);

} // namespace metalki::compiler::vectorize
