// Where all lanes of a SIMD-group come by together. MSL has products of matrices only where they do; what follows from that:
// they are together as well in blocks that lead to a product and nowhere else, or that come behind one without fail.
//
// Values may only be moved between lanes in such places: lanes that are elsewhere take no part in a shuffle.
#pragma once

#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::ptx {

class ConvergentPlaces {
public:
    // Gives loops preheaders and single latches. Blocks have to stay as they are from then on.
    ConvergentPlaces(llvm::Function& function, llvm::ArrayRef<llvm::CallInst*> products);

    bool contains(const llvm::BasicBlock& block) const;
    // All lanes come to it over the same edge.
    bool is_reached_alike(const llvm::PHINode& phi) const;

    // The earliest such place on the way from `values` to `user`, which they dominate, and to which all lanes come together.
    llvm::Instruction* first_before(const llvm::Instruction& user, llvm::ArrayRef<llvm::Value*> values) const;
    // The latest such block on the way from `home`, where all lanes are, to `block`.
    llvm::BasicBlock* last_before(llvm::BasicBlock& block, const llvm::BasicBlock& home) const;

    const llvm::DominatorTree& dominators() const { return dominators_; }

private:
    bool leads_to(const llvm::BasicBlock& block, const llvm::BasicBlock& product) const;
    bool follows(const llvm::BasicBlock& block, const llvm::BasicBlock& product) const;
    bool is_in_every_round(const llvm::BasicBlock& block, const llvm::Loop* loop) const;

    llvm::DominatorTree dominators_;
    llvm::LoopInfo loops_;
    llvm::PostDominatorTree post_dominators_;
    llvm::SmallSetVector<const llvm::BasicBlock*, 8> products_;
};

} // namespace metalki::compiler::ptx
