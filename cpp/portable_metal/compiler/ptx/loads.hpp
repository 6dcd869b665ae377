// What the passes that move loads, or have more of them, ask of the code around.
#pragma once

#include <cstddef>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/InstrTypes.h"

namespace metalki::compiler::ptx {

// What stands behind this must not be loaded earlier.
inline bool separates_loads(const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    return instruction.mayWriteToMemory() || (call && (call->isConvergent() || !call->doesNotAccessMemory()));
}

inline std::size_t instructions_of(const llvm::Loop& loop) {
    std::size_t size = 0;
    for (const llvm::BasicBlock* block : loop.blocks()) {
        size += block->size();
    }
    return size;
}

} // namespace metalki::compiler::ptx
