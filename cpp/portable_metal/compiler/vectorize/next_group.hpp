// Where a loop reads in the threadgroup that runs next on the same core.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"

namespace metalki::compiler::vectorize {

// Computes in front of the loop where its first iteration reads for the next position of the threadgroup along x.
class NextGroup {
public:
    // The loop has a preheader and a latch.
    NextGroup(const llvm::Loop& loop, const llvm::DominatorTree& dominators);

    // Null where that takes more than some plain operations, or all threadgroups read there.
    llvm::Value* of(llvm::Value& address);
    // In bytes from where this threadgroup reads, of the first lane; null as above.
    llvm::Value* distance(llvm::Value& address);

    llvm::Instruction& place() { return place_; }

private:
    // For which thread a value is computed.
    enum class Of : unsigned { next_group, first_lane, first_lane_of_next_group };

    llvm::Value* copy(llvm::Value& value, Of thread);
    llvm::Value* copy_input(llvm::Instruction& input, Of thread);
    llvm::Value* copy_operation(llvm::Instruction& instruction, Of thread);

    const llvm::Loop& loop_;
    llvm::Instruction& place_;
    const llvm::DominatorTree& dominators_;
    llvm::IRBuilder<> builder_;
    std::map<std::pair<const llvm::Instruction*, Of>, llvm::Value*> known_; // null: cannot be computed
    std::map<const llvm::Value*, bool> of_group_;                           // of copies
    std::vector<llvm::Instruction*> made_;
};

} // namespace metalki::compiler::vectorize
