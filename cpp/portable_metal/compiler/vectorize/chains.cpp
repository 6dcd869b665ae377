// A sum of many numbers, one after the other, takes as long as all its additions in a row, each of which waits for the one
// before. Fast mathematics allows to add every second number apart, and the two sums in the end.
#include "vectorize/chains.hpp"

#include <algorithm>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::vectorize {
namespace {

constexpr std::size_t shortest = 8; // additions

bool is_link(const llvm::Value& value) {
    const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(&value);
    return sum && sum->getOpcode() == llvm::Instruction::FAdd && sum->hasAllowReassoc() && sum->hasNoSignedZeros();
}

// Which of the two numbers is the sum so far: one that only this addition uses, in the same block.
llvm::BinaryOperator* link_before(const llvm::BinaryOperator& link) {
    for (llvm::Value* operand : link.operands()) {
        auto* before = llvm::dyn_cast<llvm::BinaryOperator>(operand);
        if (before && is_link(*before) && before->hasOneUse() && before->getParent() == link.getParent()) {
            return before;
        }
    }
    return nullptr;
}

// From the first addition to `last`.
std::vector<llvm::BinaryOperator*> chain_to(llvm::BinaryOperator& last) {
    std::vector<llvm::BinaryOperator*> chain;
    for (llvm::BinaryOperator* link = &last; link; link = link_before(*link)) {
        chain.push_back(link);
    }
    std::ranges::reverse(chain);
    return chain;
}

llvm::Value* term_of(const llvm::BinaryOperator& link, const llvm::Value* before) {
    return link.getOperand(link.getOperand(0) == before ? 1 : 0);
}

void split(const std::vector<llvm::BinaryOperator*>& chain) {
    llvm::BinaryOperator& last = *chain.back();
    llvm::Value* apart = term_of(*chain[1], chain[0]);
    llvm::Value* sums[2] = {chain[0], apart};
    for (std::size_t i = 2; i < chain.size(); ++i) {
        llvm::Value* term = term_of(*chain[i], chain[i - 1]);
        llvm::IRBuilder<> builder(chain[i]);
        builder.setFastMathFlags(last.getFastMathFlags());
        sums[i % 2] = builder.CreateFAdd(sums[i % 2], term);
    }
    llvm::IRBuilder<> builder(&last);
    builder.setFastMathFlags(last.getFastMathFlags());
    last.replaceAllUsesWith(builder.CreateFAdd(sums[0], sums[1]));
    for (std::size_t i = chain.size(); i-- > 1;) {
        chain[i]->eraseFromParent();
    }
}

} // namespace

void split_chains(llvm::Function& kernel) {
    std::vector<std::vector<llvm::BinaryOperator*>> chains;
    for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
        auto* last = llvm::dyn_cast<llvm::BinaryOperator>(&instruction);
        const bool ends = last && is_link(*last) && llvm::none_of(last->users(), [&](const llvm::User* user) {
                              const auto* next = llvm::dyn_cast<llvm::BinaryOperator>(user);
                              return next && is_link(*next) && link_before(*next) == last;
                          });
        if (ends) {
            if (std::vector<llvm::BinaryOperator*> chain = chain_to(*last); chain.size() >= shortest) {
                chains.push_back(std::move(chain));
            }
        }
    }
    for (const std::vector<llvm::BinaryOperator*>& chain : chains) {
        split(chain);
    }
}

} // namespace metalki::compiler::vectorize
