// Places in memory where a widened function keeps its values from block to block.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::vectorize {

using Slots = std::set<llvm::AllocaInst*>;
using LiveSlots = std::map<llvm::BasicBlock*, Slots>; // what is still read from a block's start on

LiveSlots live_slots(llvm::Function& body, const std::vector<llvm::AllocaInst*>& slots);

// Where one slot is copied into another and neither changes while the other is still to be read, one does for both: what a loop
// over barriers adds up would else be copied for each SIMD-group in each phase.
void merge_slots(std::vector<llvm::AllocaInst*>& slots, LiveSlots& live);

} // namespace metalki::compiler::vectorize
