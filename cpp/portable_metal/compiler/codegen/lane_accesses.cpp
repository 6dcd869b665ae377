// See the header.
#include "codegen/lane_accesses.hpp"

#include <map>
#include <vector>

#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace metalki::compiler {
namespace {

// The operands of a masked load, store, gather or scatter.
struct Access {
    llvm::IntrinsicInst* call = nullptr;
    llvm::FixedVectorType* type = nullptr; // of the value
    llvm::Value* value = nullptr;          // stores
    llvm::Value* otherwise = nullptr;      // loads: what lanes that are off get
    llvm::Value* places = nullptr;         // one address, or one a lane
    llvm::Value* mask = nullptr;
    llvm::Align align;

    bool is_load() const { return value == nullptr; }
    bool is_consecutive() const { return !places->getType()->isVectorTy(); }
    unsigned lanes() const { return type->getNumElements(); }
};

bool read_access(llvm::IntrinsicInst& call, Access& out) {
    bool load =
        call.getIntrinsicID() == llvm::Intrinsic::masked_load || call.getIntrinsicID() == llvm::Intrinsic::masked_gather;
    bool store =
        call.getIntrinsicID() == llvm::Intrinsic::masked_store || call.getIntrinsicID() == llvm::Intrinsic::masked_scatter;
    if (!load && !store) {
        return false;
    }
    unsigned first = load ? 0 : 1;
    out.call = &call;
    out.value = load ? nullptr : call.getArgOperand(0);
    out.places = call.getArgOperand(first);
    out.align = llvm::cast<llvm::ConstantInt>(call.getArgOperand(first + 1))->getAlignValue();
    out.mask = call.getArgOperand(first + 2);
    out.otherwise = load ? call.getArgOperand(first + 3) : nullptr;
    out.type = llvm::cast<llvm::FixedVectorType>(load ? call.getType() : out.value->getType());
    return true;
}

bool machine_knows(const Access& access, const llvm::TargetTransformInfo& target) {
    if (access.is_consecutive()) {
        return access.is_load() ? target.isLegalMaskedLoad(access.type, access.align)
                                : target.isLegalMaskedStore(access.type, access.align);
    }
    if (access.is_load()) {
        return target.isLegalMaskedGather(access.type, access.align) &&
               !target.forceScalarizeMaskedGather(access.type, access.align);
    }
    return target.isLegalMaskedScatter(access.type, access.align) &&
           !target.forceScalarizeMaskedScatter(access.type, access.align);
}

class Lowering {
public:
    Lowering(llvm::Function& function, const llvm::TargetTransformInfo& target)
        : function_(function), target_(target), layout_(function.getParent()->getDataLayout()),
          builder_(function.getContext()) {}

    void run();

private:
    llvm::Value* gather_in_words(const Access& access);
    void write_loop(const Access& access);
    llvm::AllocaInst* scratch(llvm::Type* type, const char* use);
    bool fits_words(const Access& access) const;

    llvm::Function& function_;
    const llvm::TargetTransformInfo& target_;
    const llvm::DataLayout& layout_;
    llvm::IRBuilder<> builder_;
    std::map<std::pair<llvm::Type*, std::string>, llvm::AllocaInst*> scratch_;
};

// Memory of one operation only, shared by all of them.
llvm::AllocaInst* Lowering::scratch(llvm::Type* type, const char* use) {
    llvm::AllocaInst*& memory = scratch_[{type, use}];
    if (!memory) {
        memory = llvm::IRBuilder<>(&*function_.getEntryBlock().getFirstInsertionPt()).CreateAlloca(type, nullptr, use);
        memory->setAlignment(llvm::Align(64));
    }
    return memory;
}

bool Lowering::fits_words(const Access& access) const {
    unsigned bits = access.type->getScalarSizeInBits();
    auto* words = llvm::FixedVectorType::get(llvm::Type::getInt32Ty(function_.getContext()), access.lanes());
    return access.is_load() && !access.is_consecutive() && (bits == 8 || bits == 16) &&
           target_.isLegalMaskedGather(words, llvm::Align(4));
}

// The aligned words in which the first and the last byte lie: they are on no page but those of the number itself.
llvm::Value* Lowering::gather_in_words(const Access& access) {
    unsigned bits = access.type->getScalarSizeInBits(), bytes = bits / 8;
    auto* addresses = llvm::FixedVectorType::get(builder_.getInt64Ty(), access.lanes());
    auto* words = llvm::FixedVectorType::get(builder_.getInt32Ty(), access.lanes());
    auto word_at = [&](llvm::Value* places) {
        llvm::Value* keep = llvm::ConstantInt::getSigned(addresses, -4);
        llvm::Value* aligned =
            builder_.CreateIntrinsic(llvm::Intrinsic::ptrmask, {places->getType(), addresses}, {places, keep});
        return builder_.CreateMaskedGather(words, aligned, llvm::Align(4), access.mask, llvm::PoisonValue::get(words));
    };
    llvm::Value* low = word_at(access.places);
    llvm::Value* high = low;
    if (access.align.value() < bytes) {
        high = word_at(builder_.CreateGEP(builder_.getInt8Ty(), access.places, builder_.getInt64(bytes - 1)));
    }
    llvm::Value* inside = builder_.CreateTrunc(builder_.CreatePtrToInt(access.places, addresses), words);
    llvm::Value* shift = builder_.CreateShl(builder_.CreateAnd(inside, 3), 3);
    llvm::Value* number = builder_.CreateIntrinsic(llvm::Intrinsic::fshr, {words}, {high, low, shift});
    number = builder_.CreateTrunc(number, llvm::FixedVectorType::get(builder_.getIntNTy(bits), access.lanes()));
    return builder_.CreateSelect(access.mask, builder_.CreateBitCast(number, access.type), access.otherwise);
}

void Lowering::write_loop(const Access& access) {
    llvm::BasicBlock* before = access.call->getParent();
    llvm::BasicBlock* behind = llvm::SplitBlock(before, access.call);
    auto block = [&](const char* name) { return llvm::BasicBlock::Create(function_.getContext(), name, &function_, behind); };
    llvm::BasicBlock *start = block("lanes"), *loop = block("lane");
    before->getTerminator()->eraseFromParent();
    builder_.SetInsertPoint(before);
    auto* bits_type = builder_.getIntNTy(access.lanes());
    llvm::Value* bits = builder_.CreateBitCast(access.mask, bits_type);
    llvm::Type* element = access.type->getElementType();
    llvm::Value* whole = nullptr;
    llvm::BasicBlock* wide = nullptr;
    if (access.is_consecutive()) {
        wide = block("all");
        builder_.CreateCondBr(builder_.CreateICmpEQ(bits, llvm::ConstantInt::getAllOnesValue(bits_type)), wide, start);
        builder_.SetInsertPoint(wide);
        if (access.is_load()) {
            whole = builder_.CreateAlignedLoad(access.type, access.places, access.align);
        } else {
            builder_.CreateAlignedStore(access.value, access.places, access.align);
        }
        builder_.CreateBr(behind);
    } else {
        builder_.CreateBr(start);
    }

    builder_.SetInsertPoint(start);
    llvm::AllocaInst* values = scratch(llvm::ArrayType::get(element, access.lanes()), "values");
    builder_.CreateAlignedStore(access.is_load() ? access.otherwise : access.value, values, llvm::Align(64));
    llvm::AllocaInst* places = nullptr;
    if (!access.is_consecutive()) {
        places = scratch(llvm::ArrayType::get(builder_.getPtrTy(), access.lanes()), "places");
        builder_.CreateAlignedStore(access.places, places, llvm::Align(64));
    }
    llvm::BasicBlock* end = block("lanes.end");
    builder_.CreateCondBr(builder_.CreateIsNotNull(bits), loop, end);
    builder_.SetInsertPoint(loop);
    llvm::PHINode* left = builder_.CreatePHI(bits_type, 2);
    left->addIncoming(bits, start);
    llvm::Value* lane = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, builder_.getTrue());
    lane = builder_.CreateZExtOrTrunc(lane, builder_.getInt64Ty());
    llvm::Value* place = places
                             ? builder_.CreateLoad(builder_.getPtrTy(), builder_.CreateGEP(builder_.getPtrTy(), places, lane))
                             : builder_.CreateGEP(element, access.places, lane);
    llvm::Align align =
        access.is_consecutive() ? llvm::commonAlignment(access.align, layout_.getTypeStoreSize(element)) : access.align;
    llvm::Value* value = builder_.CreateGEP(element, values, lane);
    if (access.is_load()) {
        builder_.CreateStore(builder_.CreateAlignedLoad(element, place, align), value);
    } else {
        builder_.CreateAlignedStore(builder_.CreateLoad(element, value), place, align);
    }
    llvm::Value* rest = builder_.CreateAnd(left, builder_.CreateSub(left, llvm::ConstantInt::get(bits_type, 1)));
    left->addIncoming(rest, loop);
    builder_.CreateCondBr(builder_.CreateIsNotNull(rest), loop, end);
    builder_.SetInsertPoint(end);
    llvm::Value* result = access.is_load() ? builder_.CreateAlignedLoad(access.type, values, llvm::Align(64)) : nullptr;
    builder_.CreateBr(behind);
    if (result && wide) {
        builder_.SetInsertPoint(behind, behind->begin());
        llvm::PHINode* either = builder_.CreatePHI(access.type, 2);
        either->addIncoming(whole, wide);
        either->addIncoming(result, end);
        result = either;
    }
    if (result) {
        access.call->replaceAllUsesWith(result);
    }
    access.call->eraseFromParent();
}

void Lowering::run() {
    std::vector<llvm::IntrinsicInst*> calls;
    for (llvm::Instruction& instruction : llvm::instructions(function_)) {
        if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction)) {
            calls.push_back(call);
        }
    }
    for (llvm::IntrinsicInst* call : calls) {
        Access access;
        if (!read_access(*call, access) || machine_knows(access, target_)) {
            continue;
        }
        builder_.SetInsertPoint(call);
        if (fits_words(access)) {
            call->replaceAllUsesWith(gather_in_words(access));
            call->eraseFromParent();
        } else if (access.lanes() <= 64 && !llvm::isa<llvm::Constant>(access.mask)) {
            write_loop(access);
        }
    }
}

} // namespace

void lower_lane_accesses(llvm::Function& function, llvm::TargetMachine& machine) {
    Lowering(function, machine.getTargetTransformInfo(function)).run();
}

} // namespace metalki::compiler
