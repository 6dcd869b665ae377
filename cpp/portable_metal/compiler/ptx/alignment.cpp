// See the header.
#include "ptx/alignment.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace metalki::compiler::ptx {
namespace {

// The width of the single instruction that does it when the address allows; 0 when it goes in pieces anyway.
std::uint64_t wanted_alignment(llvm::Type* type, const llvm::DataLayout& layout) {
    const std::uint64_t bits = layout.getTypeSizeInBits(type).getFixedValue();
    const bool is_whole = bits == 64 || (bits == 128 && type->isVectorTy());
    return is_whole && !type->isPtrOrPtrVectorTy() ? bits / 8 : 0;
}

bool is_private(const llvm::Value* address) {
    return llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(address));
}

std::vector<llvm::Instruction*> doubtful_accesses(llvm::Function& function) {
    const llvm::DataLayout& layout = function.getParent()->getDataLayout();
    std::vector<llvm::Instruction*> out;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
        auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
        auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
        if ((!load || !load->isSimple()) && (!store || !store->isSimple())) {
            continue;
        }
        const llvm::Value* address = llvm::getLoadStorePointerOperand(&instruction);
        const llvm::Align known = llvm::getLoadStoreAlignment(&instruction);
        if (known.value() < wanted_alignment(llvm::getLoadStoreType(&instruction), layout) && !is_private(address)) {
            out.push_back(&instruction);
        }
    }
    return out;
}

llvm::Value* is_aligned(llvm::IRBuilder<>& builder, llvm::Value* address, std::uint64_t alignment) {
    const llvm::DataLayout& layout = builder.GetInsertBlock()->getModule()->getDataLayout();
    llvm::Type* word = layout.getIntPtrType(address->getType());
    llvm::Value* low = builder.CreateAnd(builder.CreatePtrToInt(address, word), llvm::ConstantInt::get(word, alignment - 1));
    return builder.CreateICmpEQ(low, llvm::ConstantInt::get(word, 0));
}

void guard(llvm::Instruction& access) {
    llvm::Type* type = llvm::getLoadStoreType(&access);
    llvm::Value* address = llvm::getLoadStorePointerOperand(&access);
    const llvm::Align wide(wanted_alignment(type, access.getModule()->getDataLayout()));
    const llvm::Align narrow = llvm::getLoadStoreAlignment(&access);
    llvm::IRBuilder<> builder(&access);
    auto* piece = builder.getIntNTy(static_cast<unsigned>(narrow.value() * 8));
    const auto count = static_cast<unsigned>(wide.value() / narrow.value());
    auto* pieces = llvm::FixedVectorType::get(piece, count);
    const auto place = [&](unsigned i) { return builder.CreateConstInBoundsGEP1_64(piece, address, i); };
    llvm::Instruction *then = nullptr, *otherwise = nullptr;
    llvm::SplitBlockAndInsertIfThenElse(is_aligned(builder, address, wide.value()), &access, &then, &otherwise);
    llvm::Instruction* whole = access.clone();
    whole->insertBefore(then);
    builder.SetInsertPoint(otherwise);
    if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&access)) {
        llvm::cast<llvm::StoreInst>(whole)->setAlignment(wide);
        llvm::Value* parts = builder.CreateBitCast(store->getValueOperand(), pieces);
        for (unsigned i = 0; i < count; ++i) {
            builder.CreateAlignedStore(builder.CreateExtractElement(parts, builder.getInt64(i)), place(i), narrow);
        }
    } else {
        llvm::cast<llvm::LoadInst>(whole)->setAlignment(wide);
        llvm::Value* parts = llvm::PoisonValue::get(pieces);
        for (unsigned i = 0; i < count; ++i) {
            llvm::LoadInst* part = builder.CreateAlignedLoad(piece, place(i), narrow);
            part->copyMetadata(access, {llvm::LLVMContext::MD_invariant_load});
            parts = builder.CreateInsertElement(parts, part, builder.getInt64(i));
        }
        llvm::Value* joined = builder.CreateBitCast(parts, type);
        builder.SetInsertPoint(&access);
        llvm::PHINode* result = builder.CreatePHI(type, 2);
        result->addIncoming(whole, then->getParent());
        result->addIncoming(joined, otherwise->getParent());
        access.replaceAllUsesWith(result);
    }
    access.eraseFromParent();
}

constexpr std::uint64_t longest_copy = 128;

void widen(llvm::MemTransferInst& copy, std::uint64_t bytes) {
    llvm::IRBuilder<> builder(&copy);
    struct Piece {
        llvm::Value* value;
        std::uint64_t place;
    };
    const auto at = [&](llvm::Value* base, std::uint64_t place) {
        return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, place);
    };
    std::vector<Piece> pieces; // all loaded before the first is stored: the places may overlap
    for (std::uint64_t place = 0; place < bytes;) {
        const std::uint64_t size = std::min<std::uint64_t>(16, std::bit_floor(bytes - place));
        llvm::Type* type =
            size > 4
                ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(builder.getInt32Ty(), static_cast<unsigned>(size / 4)))
                : builder.getIntNTy(static_cast<unsigned>(size * 8));
        const llvm::Align alignment = llvm::commonAlignment(copy.getSourceAlign().valueOrOne(), place);
        pieces.push_back({builder.CreateAlignedLoad(type, at(copy.getRawSource(), place), alignment), place});
        place += size;
    }
    for (const Piece& piece : pieces) {
        const llvm::Align alignment = llvm::commonAlignment(copy.getDestAlign().valueOrOne(), piece.place);
        builder.CreateAlignedStore(piece.value, at(copy.getRawDest(), piece.place), alignment);
    }
    copy.eraseFromParent();
}

} // namespace

void widen_copies(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(&instruction);
            const auto* bytes = copy ? llvm::dyn_cast<llvm::ConstantInt>(copy->getLength()) : nullptr;
            if (bytes && !copy->isVolatile() && bytes->getZExtValue() <= longest_copy) {
                widen(*copy, bytes->getZExtValue());
            }
        }
    }
}

void guard_alignment(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::Instruction* access : doubtful_accesses(function)) {
            guard(*access);
        }
    }
}

} // namespace metalki::compiler::ptx
