// A loop in two versions.
#pragma once

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"

namespace metalki::compiler::ptx {

// Whether the loop may be left to a condition that threads of a SIMD-group could answer differently, and what makes their
// answers one: without functions of the SIMD-group any answer does; otherwise all lanes must be there in every round.
enum class Agreement { not_needed, possible, impossible };
Agreement agreement_on(const llvm::Loop& loop, const llvm::DominatorTree& dominators);

// The loop runs where `condition`, known before it, holds; a copy of what it is now runs where not. The loop has a preheader,
// and what it leaves behind is used through phis.
void version_loop(llvm::Loop& loop, llvm::Value* condition, llvm::LoopInfo& loops, llvm::DominatorTree& dominators);

} // namespace metalki::compiler::ptx
