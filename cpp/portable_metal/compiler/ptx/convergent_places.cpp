// See the header.
#include "ptx/convergent_places.hpp"

#include "llvm/Transforms/Utils/LoopSimplify.h"

namespace metalki::compiler::ptx {

ConvergentPlaces::ConvergentPlaces(llvm::Function& function, llvm::ArrayRef<llvm::CallInst*> products)
    : dominators_(function), loops_(dominators_) {
    for (llvm::Loop* loop : std::vector<llvm::Loop*>(loops_.begin(), loops_.end())) {
        llvm::simplifyLoop(loop, &dominators_, &loops_, nullptr, nullptr, nullptr, /*PreserveLCSSA=*/false);
    }
    post_dominators_.recalculate(function);
    for (const llvm::CallInst* product : products) {
        products_.insert(product->getParent());
    }
}

bool ConvergentPlaces::is_in_every_round(const llvm::BasicBlock& block, const llvm::Loop* loop) const {
    return !loop || (loop->contains(&block) && loop->getLoopLatch() && dominators_.dominates(&block, loop->getLoopLatch()));
}

// Each time that a lane comes by `block`, it comes to the product before it can come by again.
bool ConvergentPlaces::leads_to(const llvm::BasicBlock& block, const llvm::BasicBlock& product) const {
    return dominators_.dominates(&block, &product) && post_dominators_.dominates(&product, &block) &&
           is_in_every_round(product, loops_.getLoopFor(&block));
}

bool ConvergentPlaces::follows(const llvm::BasicBlock& block, const llvm::BasicBlock& product) const {
    const llvm::Loop* loop = loops_.getLoopFor(&block);
    return dominators_.dominates(&product, &block) && post_dominators_.dominates(&block, &product) &&
           (!loop || loop->contains(&product)) && is_in_every_round(block, loop);
}

bool ConvergentPlaces::contains(const llvm::BasicBlock& block) const {
    return llvm::any_of(products_, [&](const llvm::BasicBlock* product) {
        return product == &block || leads_to(block, *product) || follows(block, *product);
    });
}

bool ConvergentPlaces::is_reached_alike(const llvm::PHINode& phi) const {
    const llvm::BasicBlock& block = *phi.getParent();
    // Into a loop, and then from round to round.
    if (const llvm::Loop* loop = loops_.getLoopFor(&block); loop && loop->getHeader() == &block) {
        return loop->getLoopPreheader() && loop->getLoopLatch() && contains(block);
    }
    return llvm::all_of(phi.blocks(), [&](const llvm::BasicBlock* from) { return contains(*from); });
}

llvm::Instruction* ConvergentPlaces::first_before(const llvm::Instruction& user, llvm::ArrayRef<llvm::Value*> values) const {
    llvm::Instruction* latest = nullptr;
    for (llvm::Value* value : values) {
        auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (instruction && (!latest || dominators_.dominates(latest, instruction))) {
            latest = instruction;
        }
    }
    if (!dominators_.isReachableFromEntry(user.getParent())) {
        return &*const_cast<llvm::BasicBlock*>(user.getParent())->getFirstInsertionPt();
    }
    const llvm::BasicBlock* const home = latest ? latest->getParent() : &user.getFunction()->getEntryBlock();
    const llvm::BasicBlock* first = user.getParent();
    for (const llvm::BasicBlock* block = first; block != home;) {
        block = dominators_.getNode(block)->getIDom()->getBlock();
        first = contains(*block) ? block : first;
    }
    if (latest && first == home && !llvm::isa<llvm::PHINode>(latest)) {
        return latest->getNextNode();
    }
    return &*const_cast<llvm::BasicBlock*>(first)->getFirstInsertionPt();
}

llvm::BasicBlock* ConvergentPlaces::last_before(llvm::BasicBlock& block, const llvm::BasicBlock& home) const {
    llvm::BasicBlock* last = &block;
    while (last != &home && dominators_.isReachableFromEntry(last) && !contains(*last)) {
        last = dominators_.getNode(last)->getIDom()->getBlock();
    }
    return last;
}

} // namespace metalki::compiler::ptx
