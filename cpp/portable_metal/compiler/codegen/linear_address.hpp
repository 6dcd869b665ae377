// Addresses as a base, scaled variables and a constant.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Operator.h"

namespace metalki::compiler {

// Those that differ in the constant only are neighbours.
struct LinearAddress {
    using Place = std::pair<const llvm::Value*, std::map<const llvm::Value*, std::int64_t>>; // base and variables

    Place place;
    std::int64_t constant = 0;

    LinearAddress(const llvm::Value& pointer, const llvm::DataLayout& layout) : place(&pointer, {}) {
        unsigned bits = layout.getIndexTypeSizeInBits(pointer.getType());
        while (const auto* step = llvm::dyn_cast<llvm::GEPOperator>(place.first)) {
            llvm::MapVector<llvm::Value*, llvm::APInt> scaled;
            llvm::APInt fixed(bits, 0);
            if (!step->getType()->isPointerTy() || !step->collectOffset(layout, bits, scaled, fixed)) {
                return;
            }
            constant += fixed.getSExtValue();
            for (const auto& [variable, scale] : scaled) {
                place.second[variable] += scale.getSExtValue();
            }
            place.first = step->getPointerOperand();
        }
    }
};

} // namespace metalki::compiler
