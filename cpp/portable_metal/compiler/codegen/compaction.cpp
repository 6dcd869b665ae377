// See compaction.hpp.
#include "codegen/compaction.hpp"

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

namespace metalki::compiler {
namespace {

using namespace llvm::PatternMatch;

// 0, 1, 3, 7, ...: for each lane the bits of those below it.
bool selects_lanes_below(const llvm::Constant* bits) {
    const auto* data = llvm::dyn_cast<llvm::ConstantDataVector>(bits);
    if (!data) {
        return false;
    }
    for (unsigned lane = 0; lane < data->getNumElements(); ++lane) {
        if (data->getElementAsInteger(lane) != (std::uint64_t{1} << lane) - 1) {
            return false;
        }
    }
    return true;
}

// Whether lane i of `value` counts the lanes below i that are in `mask`.
bool is_rank(llvm::Value* value, llvm::Value* mask) {
    llvm::Value *counted = nullptr, *bits = nullptr;
    llvm::Constant* below = nullptr;
    if (!match(value, m_Intrinsic<llvm::Intrinsic::ctpop>(m_Value(counted))) ||
        !match(counted, m_c_And(m_Value(bits), m_Constant(below))) || !selects_lanes_below(below)) {
        return false;
    }
    const llvm::Value* ballot = llvm::getSplatValue(bits);
    return ballot && match(ballot, m_ZExtOrSelf(m_BitCast(m_Specific(mask))));
}

// Where the first value goes; null: the lanes' places are not in the order of their ranks, side by side.
llvm::Value* start_of_ranks(llvm::Value* places, llvm::Value* mask, std::uint64_t bytes, const llvm::DataLayout& layout) {
    auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(places);
    llvm::Value *index = nullptr, *rank = nullptr;
    const llvm::APInt* scale = nullptr;
    if (!address || address->getNumIndices() != 1 || !match(address->getOperand(1), m_ZExtOrSExtOrSelf(m_Value(index)))) {
        return nullptr;
    }
    if (!match(index, m_Shl(m_ZExtOrSExtOrSelf(m_Value(rank)), m_APInt(scale)))) {
        rank = index;
    }
    const std::uint64_t shift = scale ? scale->getLimitedValue(64) : 0;
    const std::uint64_t step = layout.getTypeAllocSize(address->getSourceElementType());
    if (shift > 3 || step << shift != bytes || !is_rank(rank, mask)) {
        return nullptr;
    }
    llvm::Value* base = address->getPointerOperand();
    return base->getType()->isVectorTy() ? llvm::getSplatValue(base) : base;
}

} // namespace

llvm::PreservedAnalyses CompressScatters::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    const llvm::DataLayout& layout = function.getParent()->getDataLayout();
    std::vector<llvm::IntrinsicInst*> done;
    for (llvm::BasicBlock& block : function) {
        for (llvm::Instruction& instruction : block) {
            auto* scatter = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
            if (!scatter || scatter->getIntrinsicID() != llvm::Intrinsic::masked_scatter) {
                continue;
            }
            llvm::Value *value = scatter->getArgOperand(0), *mask = scatter->getArgOperand(3);
            llvm::Type* element = llvm::cast<llvm::VectorType>(value->getType())->getElementType();
            const std::uint64_t bits = layout.getTypeSizeInBits(element);
            if (bits != 32 && bits != 64) {
                continue; // narrower ones need more than AVX-512's foundation
            }
            if (llvm::Value* start = start_of_ranks(scatter->getArgOperand(1), mask, bits / 8, layout)) {
                llvm::IRBuilder<>(scatter).CreateMaskedCompressStore(value, start, mask);
                done.push_back(scatter);
            }
        }
    }
    for (llvm::IntrinsicInst* scatter : done) {
        scatter->eraseFromParent();
    }
    return done.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

} // namespace metalki::compiler
