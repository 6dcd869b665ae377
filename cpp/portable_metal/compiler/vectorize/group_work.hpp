// What a threadgroup costs beside the work of its threads.
#pragma once

#include "llvm/IR/Function.h"

#include "compiler/compiler.hpp"

namespace metalki::compiler::vectorize {

// An estimate, from the code of a kernel that prepare() has seen. `threadgroup_slots`: argument slots with threadgroup memory.
GroupWork group_work_of(llvm::Function& kernel, const std::vector<unsigned>& threadgroup_slots);

} // namespace metalki::compiler::vectorize
