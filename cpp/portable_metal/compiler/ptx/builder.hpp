// An IR builder that knows the instructions of a warp.
#pragma once

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

constexpr unsigned global_space = 1, shared_space = 3;

class WarpBuilder : public llvm::IRBuilder<> {
public:
    using llvm::IRBuilder<>::IRBuilder;

    llvm::Value* call(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value*> arguments = {}) {
        return CreateCall(llvm::Intrinsic::getDeclaration(GetInsertBlock()->getModule(), id), arguments);
    }
    // The lanes that execute this together.
    llvm::Value* active() { return call(llvm::Intrinsic::nvvm_activemask); }

    // 32 bits of lane `source`, which must be one of the lanes `mask`.
    llvm::Value* shuffle_word(llvm::Value* mask, llvm::Value* word, llvm::Value* source) {
        return call(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {mask, word, source, getInt32(31)});
    }
    llvm::Value* shuffle_word_xor(llvm::Value* mask, llvm::Value* word, unsigned distance) {
        return call(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {mask, word, getInt32(distance), getInt32(31)});
    }

    // The same for a value of any scalar type of up to 64 bits.
    template <class Word> llvm::Value* by_words(llvm::Value* value, Word word) {
        llvm::Type* type = value->getType();
        const unsigned bits = type->getScalarSizeInBits();
        llvm::Value* raw = CreateBitCast(value, getIntNTy(bits));
        if (bits <= 32) {
            raw = CreateTrunc(word(CreateZExt(raw, getInt32Ty())), getIntNTy(bits));
        } else {
            llvm::Value* low = word(CreateTrunc(raw, getInt32Ty()));
            llvm::Value* high = word(CreateTrunc(CreateLShr(raw, 32), getInt32Ty()));
            raw = CreateOr(CreateZExt(low, getInt64Ty()), CreateShl(CreateZExt(high, getInt64Ty()), 32));
        }
        return CreateBitCast(raw, type);
    }
    llvm::Value* shuffle(llvm::Value* mask, llvm::Value* value, llvm::Value* source) {
        return by_words(value, [&](llvm::Value* word) { return shuffle_word(mask, word, source); });
    }
    llvm::Value* shuffle_xor(llvm::Value* mask, llvm::Value* value, unsigned distance) {
        return by_words(value, [&](llvm::Value* word) { return shuffle_word_xor(mask, word, distance); });
    }

    // (word & mask) | other, for which ptxas takes two instructions where both are constants.
    llvm::Value* choose_or(llvm::Value* word, const llvm::APInt& mask, llvm::Value* other) {
        llvm::Type* type = getInt32Ty();
        llvm::InlineAsm* code = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type, type, type}, false),
                                                     "lop3.b32 $0, $1, $2, $3, 0xea;", "=r,r,n,r", /*hasSideEffects=*/false);
        llvm::CallInst* call = CreateCall(code, {word, llvm::ConstantInt::get(type, mask.getZExtValue()), other});
        call->setDoesNotAccessMemory();
        call->setDoesNotThrow();
        return call;
    }

    llvm::Value* has_lane(llvm::Value* mask, llvm::Value* lane) {
        return CreateTrunc(CreateLShr(mask, CreateAnd(lane, getInt32(31))), getInt1Ty());
    }
    llvm::Value* lowest_lane(llvm::Value* mask) {
        return CreateIntrinsic(llvm::Intrinsic::cttz, {getInt32Ty()}, {mask, getTrue()});
    }
};

} // namespace metalki::compiler::ptx
