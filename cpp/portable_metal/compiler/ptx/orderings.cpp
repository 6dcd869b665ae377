// See the header.
#include "ptx/orderings.hpp"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/Local.h"

namespace metalki::compiler::ptx {
namespace {

using namespace llvm::PatternMatch;

bool tells_nan(llvm::Value* condition, const llvm::Value* of) {
    llvm::FCmpInst::Predicate predicate = llvm::FCmpInst::FCMP_FALSE;
    return match(condition, m_FCmp(predicate, m_Specific(of), m_CombineOr(m_Specific(of), m_AnyZeroFP()))) &&
           predicate == llvm::FCmpInst::FCMP_UNO;
}

// minnum or maxnum when `other` is chosen because it is smaller or larger than `kept`; otherwise not_intrinsic.
llvm::Intrinsic::ID order(llvm::Value* condition, const llvm::Value* kept, const llvm::Value* other) {
    const auto* comparison = llvm::dyn_cast<llvm::FCmpInst>(condition);
    if (!comparison) {
        return llvm::Intrinsic::not_intrinsic;
    }
    auto predicate = comparison->getPredicate();
    if (comparison->getOperand(0) == other && comparison->getOperand(1) == kept) {
        predicate = comparison->getSwappedPredicate();
    } else if (comparison->getOperand(0) != kept || comparison->getOperand(1) != other) {
        return llvm::Intrinsic::not_intrinsic;
    }
    return predicate == llvm::FCmpInst::FCMP_OLT   ? llvm::Intrinsic::maxnum
           : predicate == llvm::FCmpInst::FCMP_OGT ? llvm::Intrinsic::minnum
                                                   : llvm::Intrinsic::not_intrinsic;
}

// `kept` is not a number, or `other` is beyond it ? `other` : `kept`
llvm::Intrinsic::ID meaning(llvm::SelectInst& choice, llvm::Value*& kept) {
    llvm::Value *first = nullptr, *second = nullptr, *other = choice.getTrueValue();
    kept = choice.getFalseValue();
    if (match(choice.getCondition(), m_LogicalOr(m_Value(first), m_Value(second))) ||
        match(choice.getCondition(), m_Or(m_Value(first), m_Value(second)))) {
        return tells_nan(first, kept)    ? order(second, kept, other)
               : tells_nan(second, kept) ? order(first, kept, other)
                                         : llvm::Intrinsic::not_intrinsic;
    }
    if (!match(kept, m_Select(m_Value(second), m_Specific(other), m_Value(first))) ||
        !tells_nan(choice.getCondition(), first)) {
        return llvm::Intrinsic::not_intrinsic;
    }
    kept = first;
    return order(second, kept, other);
}

} // namespace

void use_minimum_and_maximum(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            auto* choice = llvm::dyn_cast<llvm::SelectInst>(&instruction);
            if (!choice || !(choice->getType()->isFloatTy() || choice->getType()->isHalfTy())) {
                continue;
            }
            llvm::Value* kept = nullptr;
            const llvm::Intrinsic::ID id = meaning(*choice, kept);
            if (id != llvm::Intrinsic::not_intrinsic) {
                llvm::IRBuilder<> builder(choice);
                choice->replaceAllUsesWith(builder.CreateBinaryIntrinsic(id, kept, choice->getTrueValue()));
            }
        }
    }
}

} // namespace metalki::compiler::ptx
