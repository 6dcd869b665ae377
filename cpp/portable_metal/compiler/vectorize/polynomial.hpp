// Arithmetic that mathematical functions of all lanes are made of.
#pragma once

#include <span>

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"

namespace metalki::compiler::vectorize {

inline llvm::Constant* number(const llvm::Value* like, double value) {
    return llvm::ConstantFP::get(like->getType(), value);
}

inline llvm::Value* fused(llvm::IRBuilderBase& builder, llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    return builder.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

// The first coefficient is that of x to the power of 0.
inline llvm::Value* polynomial(llvm::IRBuilderBase& builder, llvm::Value* x, std::span<const double> coefficients) {
    llvm::Value* out = number(x, coefficients.back());
    for (std::size_t i = coefficients.size() - 1; i-- > 0;) {
        out = builder.CreateIntrinsic(llvm::Intrinsic::fmuladd, {x->getType()}, {out, x, number(x, coefficients[i])});
    }
    return out;
}

} // namespace metalki::compiler::vectorize
