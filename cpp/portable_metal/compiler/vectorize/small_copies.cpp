// See the header.
#include "vectorize/small_copies.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace metalki::compiler::vectorize {
namespace {

constexpr std::uint64_t most_numbers = 8;

// As few numbers as fill it; null: none, or too many.
llvm::Type* type_of_copy(llvm::LLVMContext& context, std::uint64_t bytes) {
    std::uint64_t size = std::min<std::uint64_t>(bytes & -bytes, sizeof(std::uint64_t));
    if (bytes == 0 || bytes / size > most_numbers) {
        return nullptr;
    }
    llvm::Type* number = llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * size));
    return bytes == size ? number : llvm::FixedVectorType::get(number, static_cast<unsigned>(bytes / size));
}

// A thread's own arrays keep their elements' type: it decides how their lanes lie.
bool is_own(const llvm::Value* address) {
    return llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(address, /*MaxLookup=*/0));
}

void load_and_store(llvm::MemTransferInst& copy) {
    const auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(copy.getLength());
    llvm::Type* type = bytes && !copy.isVolatile() ? type_of_copy(copy.getContext(), bytes->getZExtValue()) : nullptr;
    if (!type || is_own(copy.getRawDest()) || is_own(copy.getRawSource())) {
        return;
    }
    llvm::IRBuilder<> builder(&copy);
    llvm::Value* moved = builder.CreateAlignedLoad(type, copy.getRawSource(), copy.getSourceAlign().valueOrOne());
    builder.CreateAlignedStore(moved, copy.getRawDest(), copy.getDestAlign().valueOrOne());
    copy.eraseFromParent();
}

} // namespace

void load_and_store_small_copies(llvm::Function& kernel) {
    std::vector<llvm::MemTransferInst*> copies;
    for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
        if (auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(&instruction)) {
            copies.push_back(copy);
        }
    }
    for (llvm::MemTransferInst* copy : copies) {
        load_and_store(*copy);
    }
}

} // namespace metalki::compiler::vectorize
