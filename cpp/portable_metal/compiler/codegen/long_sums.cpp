// See long_sums.hpp.
#include "codegen/long_sums.hpp"

#include <algorithm>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler {
namespace {

constexpr std::size_t long_sum = 8; // additions

bool is_addition(const llvm::Value* value, const llvm::BasicBlock& block) {
    const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
    return instruction && instruction->getOpcode() == llvm::Instruction::FAdd && instruction->hasAllowReassoc() &&
           instruction->getParent() == &block;
}

struct Term {
    llvm::BinaryOperator* addition;
    unsigned operand;
};

// The additions that end in `last`, first to last, each with the operand that is not the sum before it.
std::vector<Term> chain_of(llvm::BinaryOperator& last) {
    std::vector<Term> out;
    for (llvm::BinaryOperator* addition = &last; addition;) {
        llvm::BinaryOperator* before = nullptr;
        unsigned term = 1;
        for (unsigned side : {0U, 1U}) {
            llvm::Value* operand = addition->getOperand(side);
            if (!before && operand->hasOneUse() && is_addition(operand, *last.getParent())) {
                before = llvm::cast<llvm::BinaryOperator>(operand);
                term = 1 - side;
            }
        }
        out.push_back({addition, term});
        addition = before;
    }
    std::ranges::reverse(out);
    return out;
}

// a + b + c + d + e + ... becomes (a + b + d + ...) + (c + e + ...), each addition at its place.
void split(const std::vector<Term>& chain) {
    llvm::Value* sums[2] = {chain.front().addition, nullptr};
    for (std::size_t i = 1; i < chain.size(); ++i) {
        auto [addition, operand] = chain[i];
        llvm::Value*& own = sums[i % 2];
        if (!own) {
            own = addition->getOperand(operand);
            continue;
        }
        addition->setOperand(1 - operand, own);
        own = addition;
    }
    llvm::BinaryOperator& last = *chain.back().addition;
    llvm::Instruction* whole = llvm::BinaryOperator::CreateFAdd(last.getOperand(0), last.getOperand(0), last.getName());
    whole->copyIRFlags(&last);
    whole->insertAfter(&last);
    last.replaceUsesWithIf(whole, [&](const llvm::Use& use) { return use.getUser() != whole; });
    whole->setOperand(0, sums[0]);
    whole->setOperand(1, sums[1]);
    chain[1].addition->eraseFromParent();
}

} // namespace

llvm::PreservedAnalyses SplitLongSums::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    std::vector<llvm::BinaryOperator*> ends;
    for (llvm::BasicBlock& block : function) {
        for (llvm::Instruction& instruction : block) {
            if (!is_addition(&instruction, block) || !instruction.getType()->isVectorTy()) {
                continue;
            }
            bool goes_on = instruction.hasOneUse() && is_addition(*instruction.user_begin(), block);
            if (!goes_on) {
                ends.push_back(llvm::cast<llvm::BinaryOperator>(&instruction));
            }
        }
    }
    bool changed = false;
    for (llvm::BinaryOperator* last : ends) {
        std::vector<Term> chain = chain_of(*last);
        if (chain.size() >= long_sum) {
            split(chain);
            changed = true;
        }
    }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

} // namespace metalki::compiler
