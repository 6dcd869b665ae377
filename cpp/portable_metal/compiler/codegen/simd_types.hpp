// What the element types of SIMD-group functions are.
#pragma once

#include <stdexcept>

#include "llvm/IR/DerivedTypes.h"

#include "compiler/kernel_abi.hpp"

namespace metalki::compiler {

inline bool is_float(SimdType type) {
    return type == SimdType::f16 || type == SimdType::bf16 || type == SimdType::f32;
}

inline bool is_signed(SimdType type) {
    return type == SimdType::i8 || type == SimdType::i16 || type == SimdType::i32 || type == SimdType::i64;
}

inline llvm::Type* element_type(SimdType type, llvm::LLVMContext& context) {
    switch (type) {
    case SimdType::i8:
    case SimdType::u8:
        return llvm::Type::getInt8Ty(context);
    case SimdType::i16:
    case SimdType::u16:
        return llvm::Type::getInt16Ty(context);
    case SimdType::i32:
    case SimdType::u32:
        return llvm::Type::getInt32Ty(context);
    case SimdType::i64:
    case SimdType::u64:
        return llvm::Type::getInt64Ty(context);
    case SimdType::f16:
        return llvm::Type::getHalfTy(context);
    case SimdType::bf16:
        return llvm::Type::getBFloatTy(context);
    case SimdType::f32:
        return llvm::Type::getFloatTy(context);
    }
    throw std::logic_error("a SIMD-group function of an unknown type");
}

} // namespace metalki::compiler
