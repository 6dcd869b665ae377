// Floats to integers that stop at the ends of their range, NaN being 0: limited first, then converted. LLVM would go lane by
// lane.
#include <algorithm>
#include <cmath>

#include "llvm/IR/Intrinsics.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

struct Range {
    double lowest;
    double limit;   // the first number that is too large
    double highest; // of the numbers below that are no larger than the largest integer
};

Range range_of(unsigned bits, bool is_signed, bool is_double) {
    double limit = std::ldexp(1.0, static_cast<int>(is_signed ? bits - 1 : bits));
    double before = is_double ? std::nextafter(limit, 0.0) : std::nextafterf(static_cast<float>(limit), 0.0F);
    return {is_signed ? -limit : 0.0, limit, std::min(before, limit - 1)};
}

} // namespace

bool Widener::is_saturated_conversion(const llvm::CallInst& call) {
    llvm::Intrinsic::ID id = call.getIntrinsicID();
    return (id == llvm::Intrinsic::fptosi_sat || id == llvm::Intrinsic::fptoui_sat) && call.getType()->isIntegerTy();
}

llvm::Value* Widener::emit_saturated_conversion(const llvm::CallInst& call) {
    bool is_signed = call.getIntrinsicID() == llvm::Intrinsic::fptosi_sat;
    llvm::Value* value = vector(call.getArgOperand(0));
    if (value->getType()->getScalarSizeInBits() < 32) {
        value = builder_.CreateFPExt(value, vector_of(builder_.getFloatTy()));
    }
    unsigned bits = call.getType()->getIntegerBitWidth();
    Range range = range_of(bits, is_signed, value->getType()->getScalarType()->isDoubleTy());
    auto number = [&](double x) { return llvm::ConstantFP::get(value->getType(), x); };
    if (is_signed) {
        value = builder_.CreateSelect(builder_.CreateFCmpORD(value, value), value, number(0.0));
    }
    // The processor's own maximum and minimum; NaN becomes the lowest.
    llvm::Value* limited =
        builder_.CreateSelect(builder_.CreateFCmpOGT(value, number(range.lowest)), value, number(range.lowest));
    limited = builder_.CreateSelect(builder_.CreateFCmpOLT(limited, number(range.highest)), limited, number(range.highest));
    llvm::Type* type = vector_of(call.getType());
    llvm::Type* wide = vector_of(builder_.getIntNTy(std::max(bits, 32U)));
    bool as_signed = is_signed || bits < 32;
    llvm::Value* out = as_signed ? builder_.CreateFPToSI(limited, wide) : builder_.CreateFPToUI(limited, wide);
    out = builder_.CreateTrunc(out, type);
    if (range.highest == range.limit - 1) {
        return out;
    }
    llvm::APInt most = is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
    return builder_.CreateSelect(builder_.CreateFCmpOGE(value, number(range.limit)), llvm::ConstantInt::get(type, most), out);
}

} // namespace metalki::compiler::vectorize
