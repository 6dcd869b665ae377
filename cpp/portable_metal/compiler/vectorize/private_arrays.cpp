// See the header.
#include "vectorize/private_arrays.hpp"

#include <vector>

#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace metalki::compiler::vectorize {
namespace {

unsigned element_size(llvm::Type* type, const llvm::DataLayout& layout) {
    llvm::Type* scalar = type->getScalarType();
    bool simple = scalar->isIntegerTy() || scalar->isFloatingPointTy() || scalar->isPointerTy();
    if (!simple || layout.getTypeStoreSizeInBits(scalar) != layout.getTypeSizeInBits(scalar)) {
        return 0;
    }
    return static_cast<unsigned>(layout.getTypeStoreSize(scalar).getFixedValue());
}

// All steps of an address are multiples of the element.
bool steps_by(const llvm::GetElementPtrInst& address, unsigned element, const llvm::DataLayout& layout) {
    for (auto step = llvm::gep_type_begin(address), end = llvm::gep_type_end(address); step != end; ++step) {
        std::uint64_t bytes = 0;
        if (llvm::StructType* structure = step.getStructTypeOrNull()) {
            auto field = llvm::cast<llvm::ConstantInt>(step.getOperand())->getZExtValue();
            bytes = layout.getStructLayout(structure)->getElementOffset(static_cast<unsigned>(field)).getFixedValue();
        } else {
            bytes = step.getSequentialElementStride(layout).getFixedValue();
            if (auto* number = llvm::dyn_cast<llvm::ConstantInt>(step.getOperand())) {
                bytes *= static_cast<std::uint64_t>(number->getSExtValue());
            }
        }
        if (bytes % element != 0) {
            return false;
        }
    }
    return true;
}

} // namespace

unsigned interleaving_of(const llvm::AllocaInst& array, const llvm::DataLayout& layout) {
    unsigned element = 0;
    auto agrees = [&](llvm::Type* type) {
        unsigned size = element_size(type, layout);
        bool same = size != 0 && (element == 0 || size == element);
        element = size;
        return same;
    };
    std::vector<const llvm::Value*> open{&array};
    std::vector<const llvm::GetElementPtrInst*> addresses;
    while (!open.empty()) {
        const llvm::Value* pointer = open.back();
        open.pop_back();
        for (const llvm::User* user : pointer->users()) {
            if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(user)) {
                addresses.push_back(address);
                open.push_back(address);
            } else if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(user)) {
                if (!load->isSimple() || !agrees(load->getType())) {
                    return 0;
                }
            } else if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(user)) {
                if (!store->isSimple() || store->getValueOperand() == pointer || !agrees(store->getValueOperand()->getType())) {
                    return 0;
                }
            } else if (const auto* mark = llvm::dyn_cast<llvm::IntrinsicInst>(user); !mark || !mark->isLifetimeStartOrEnd()) {
                return 0;
            }
        }
    }
    for (const llvm::GetElementPtrInst* address : addresses) {
        if (element == 0 || !steps_by(*address, element, layout)) {
            return 0;
        }
    }
    return element;
}

} // namespace metalki::compiler::vectorize
