// See the header.
#include "ptx/conversions.hpp"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PatternMatch.h"

namespace metalki::compiler::ptx {
namespace {

using namespace llvm::PatternMatch;

// Bits are chosen from the wide number, which is at hand where several are.
llvm::Value* extended(llvm::IRBuilder<>& builder, llvm::Value* number, bool is_signed) {
    llvm::Type* word = builder.getInt32Ty();
    llvm::Value* whole = nullptr;
    const llvm::APInt* mask = nullptr;
    if (!is_signed && match(number, m_And(m_Value(whole), m_APInt(mask)))) {
        return builder.CreateAnd(builder.CreateZExt(whole, word), llvm::ConstantInt::get(word, mask->zext(32)));
    }
    return is_signed ? builder.CreateSExt(number, word) : builder.CreateZExt(number, word);
}

} // namespace

void widen_conversions(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            auto* conversion = llvm::dyn_cast<llvm::CastInst>(&instruction);
            if (!conversion || !llvm::isa<llvm::UIToFPInst, llvm::SIToFPInst>(conversion) ||
                !conversion->getType()->isFloatTy() || conversion->getSrcTy()->getIntegerBitWidth() >= 32) {
                continue;
            }
            llvm::IRBuilder<> builder(conversion);
            const bool is_signed = llvm::isa<llvm::SIToFPInst>(conversion);
            llvm::Value* word = extended(builder, conversion->getOperand(0), is_signed);
            conversion->replaceAllUsesWith(is_signed ? builder.CreateSIToFP(word, conversion->getType())
                                                     : builder.CreateUIToFP(word, conversion->getType()));
            conversion->eraseFromParent();
        }
    }
}

} // namespace metalki::compiler::ptx
