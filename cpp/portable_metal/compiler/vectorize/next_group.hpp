// Where the first iterations of a loop read in the threadgroup that runs next on the same core.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"

namespace metalki::compiler::vectorize {

// Computes addresses as they are for the next position of the threadgroup along x, in front of the loop.
class NextGroup {
public:
    // The loop has a preheader and a latch.
    NextGroup(const llvm::Loop& loop, const llvm::DominatorTree& dominators);

    // Null where that takes more than some plain operations, or all threadgroups read there.
    llvm::Value* of(llvm::Value& address, unsigned iteration);

    llvm::Instruction& place() { return place_; }

private:
    llvm::Value* copy(llvm::Value& value, unsigned iteration);
    llvm::Value* copy_phi(llvm::PHINode& phi, unsigned iteration);
    llvm::Value* copy_operation(llvm::Instruction& instruction, unsigned iteration);

    const llvm::Loop& loop_;
    llvm::Instruction& place_;
    const llvm::DominatorTree& dominators_;
    llvm::IRBuilder<> builder_;
    std::map<std::pair<const llvm::Instruction*, unsigned>, llvm::Value*> known_; // null: cannot be computed
    std::map<const llvm::Value*, bool> of_group_;                                 // of copies
    std::vector<llvm::Instruction*> made_;
};

} // namespace metalki::compiler::vectorize
