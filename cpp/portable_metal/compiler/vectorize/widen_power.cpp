// x to the power of y as 2 to the power of (y log2 x), the logarithm in double precision, for all lanes at once.
#include <limits>
#include <span>

#include "llvm/IR/MDBuilder.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// log2(1 + z) / z between sqrt(1/2) - 1 and sqrt(2) - 1, within 2^-30.
constexpr double logarithm[] = {1.4426950417996436,  -0.7213475156601237,  0.4808978892089317,  -0.3606741493072033,
                                0.2885761734217065,  -0.24046720906481106, 0.20504348950230153, -0.17890870281831647,
                                0.17205684558990003, -0.1690633925180926,  0.09703389158643048};
// 2^f between -1/2 and 1/2, within 2^-28.
constexpr double exponential[] = {1, 0.693147207, 0.240226509, 0.0555032723, 0.00961805668, 0.00134004282, 0.000154614446};

constexpr std::int32_t one_half_root = 0x3f3504f3; // sqrt(1/2) in bits
constexpr unsigned mantissa_bits = 23;
constexpr std::int32_t bias = 127;
constexpr double whole_in_low_bits = 6755399441055744; // 1.5 * 2^52
constexpr std::int32_t least_normal = 0x00800000, infinite_bits = 0x7f800000;
constexpr double largest_normal = 125; // 2^t is normal, on either side of 1
constexpr double far = 320;            // 2^far is no float, nor is 2^-far

llvm::Constant* number(llvm::Value* like, double value) {
    return llvm::ConstantFP::get(like->getType(), value);
}

llvm::Value* polynomial(llvm::IRBuilderBase& builder, llvm::Value* x, std::span<const double> coefficients) {
    llvm::Value* out = number(x, coefficients.back());
    for (std::size_t i = coefficients.size() - 1; i-- > 0;) {
        out = builder.CreateIntrinsic(llvm::Intrinsic::fmuladd, {x->getType()}, {out, x, number(x, coefficients[i])});
    }
    return out;
}

// log2 of a positive number that is neither denormal nor infinite, in double; less `lifted`.
llvm::Value* log2_of(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* lifted, llvm::Type* doubles) {
    llvm::Type* integers = lifted->getType();
    auto integer = [&](std::int32_t value) { return llvm::ConstantInt::getSigned(integers, value); };
    llvm::Value* bits = builder.CreateBitCast(x, integers);
    llvm::Value* exponent =
        builder.CreateAShr(builder.CreateSub(bits, integer(one_half_root)), integer(static_cast<std::int32_t>(mantissa_bits)));
    llvm::Value* mantissa = builder.CreateSub(bits, builder.CreateShl(exponent, mantissa_bits));
    exponent = builder.CreateSub(exponent, lifted);
    llvm::Value* z = builder.CreateFSub(builder.CreateBitCast(mantissa, x->getType()), number(x, 1));
    z = builder.CreateFPExt(z, doubles);
    return builder.CreateIntrinsic(llvm::Intrinsic::fmuladd, {doubles},
                                   {polynomial(builder, z, logarithm), z, builder.CreateSIToFP(exponent, doubles)});
}

llvm::Value* power_of_two(llvm::IRBuilderBase& builder, llvm::Value* exponent, llvm::Type* floats) {
    llvm::Value* biased = builder.CreateAdd(exponent, llvm::ConstantInt::getSigned(exponent->getType(), bias));
    return builder.CreateBitCast(builder.CreateShl(biased, mantissa_bits), floats);
}

// 2^t as float; where that may be no normal number, in two steps, so that neither of its factors overflows.
llvm::Value* exp2_of(llvm::IRBuilderBase& builder, llvm::Value* t, llvm::Type* integers, llvm::Type* floats, bool normal) {
    // Added to a number this large, t is rounded to a whole number, which then stands in the low bits.
    llvm::Value* shifted = builder.CreateFAdd(t, number(t, whole_in_low_bits));
    llvm::Value* whole = builder.CreateFSub(shifted, number(t, whole_in_low_bits));
    llvm::Value* rest = builder.CreateFPTrunc(builder.CreateFSub(t, whole), floats);
    auto* bits = llvm::VectorType::getInteger(llvm::cast<llvm::VectorType>(t->getType()));
    llvm::Value* exponent = builder.CreateTrunc(builder.CreateBitCast(shifted, bits), integers);
    llvm::Value* fraction = polynomial(builder, rest, exponential);
    if (normal) {
        return builder.CreateFMul(fraction, power_of_two(builder, exponent, floats));
    }
    llvm::Value* half = builder.CreateAShr(exponent, 1);
    llvm::Value* near = builder.CreateFMul(fraction, power_of_two(builder, half, floats));
    return builder.CreateFMul(near, power_of_two(builder, builder.CreateSub(exponent, half), floats));
}

} // namespace

// Where all lanes have a normal, positive base and a normal result, nothing else need be looked at; the numbers are the same.
llvm::Value* Widener::emit_power(llvm::Value* x, llvm::Value* y) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(builder_);
    builder_.clearFastMathFlags();
    auto* doubles = vector_of(builder_.getDoubleTy());
    auto* integers = vector_of(builder_.getInt32Ty());
    auto integer = [&](std::int32_t value) { return llvm::ConstantInt::getSigned(integers, value); };
    llvm::Value* t = builder_.CreateFMul(builder_.CreateFPExt(y, doubles), log2_of(builder_, x, integer(0), doubles));
    llvm::Value* normal_base = builder_.CreateICmpULT(
        builder_.CreateSub(builder_.CreateBitCast(x, integers), integer(least_normal)), integer(infinite_bits - least_normal));
    llvm::Value* normal_result =
        builder_.CreateFCmpOLT(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, t), number(t, largest_normal));
    auto* plain = llvm::BasicBlock::Create(context_, "plain", body_);
    auto* special = llvm::BasicBlock::Create(context_, "special", body_);
    auto* behind = llvm::BasicBlock::Create(context_, "behind", body_);
    builder_.CreateCondBr(all(builder_.CreateAnd(normal_base, normal_result)), plain, special,
                          llvm::MDBuilder(context_).createLikelyBranchWeights());
    builder_.SetInsertPoint(plain);
    llvm::Value* easy = exp2_of(builder_, t, integers, x->getType(), true);
    builder_.CreateBr(behind);
    builder_.SetInsertPoint(special);
    llvm::Value* other = emit_any_power(x, y);
    builder_.CreateBr(behind);
    builder_.SetInsertPoint(behind);
    llvm::PHINode* out = builder_.CreatePHI(x->getType(), 2);
    out->addIncoming(easy, plain);
    out->addIncoming(other, special);
    return out;
}

llvm::Value* Widener::emit_any_power(llvm::Value* x, llvm::Value* y) {
    auto* floats = x->getType();
    auto* doubles = vector_of(builder_.getDoubleTy());
    auto* integers = vector_of(builder_.getInt32Ty());
    constexpr double infinite = std::numeric_limits<double>::infinity();
    llvm::Value *zero = number(x, 0), *one = number(x, 1), *infinity = number(x, infinite);
    llvm::Value* size = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);

    constexpr double lift = 16777216; // 2^24 makes denormals normal
    llvm::Value* small = builder_.CreateFCmpOLT(size, number(x, std::numeric_limits<float>::min()));
    llvm::Value* lifted =
        builder_.CreateSelect(small, llvm::ConstantInt::get(integers, 24), llvm::ConstantInt::get(integers, 0));
    llvm::Value* normal = builder_.CreateSelect(small, builder_.CreateFMul(size, number(x, lift)), size);
    llvm::Value* logs = log2_of(builder_, normal, lifted, doubles);
    logs = builder_.CreateSelect(builder_.CreateFCmpOEQ(size, zero), number(logs, -infinite), logs);
    logs = builder_.CreateSelect(builder_.CreateFCmpOEQ(size, infinity), number(logs, infinite), logs);
    llvm::Value* t = builder_.CreateFMul(builder_.CreateFPExt(y, doubles), logs);
    // Not a number where zero met infinity, which is 1; what is no number itself comes back below.
    t = builder_.CreateSelect(builder_.CreateFCmpUNO(t, t), number(t, 0), t);
    t = builder_.CreateSelect(builder_.CreateFCmpOGT(t, number(t, far / 2)), number(t, far / 2), t);
    t = builder_.CreateSelect(builder_.CreateFCmpOLT(t, number(t, -far / 2)), number(t, -far / 2), t);
    llvm::Value* result = exp2_of(builder_, t, integers, floats, false);

    // Negative numbers to whole powers; their odd ones are negative.
    auto is_whole = [&](llvm::Value* value) {
        return builder_.CreateFCmpOEQ(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, value), value);
    };
    llvm::Value* whole = is_whole(y);
    llvm::Value* odd = builder_.CreateAnd(whole, builder_.CreateNot(is_whole(builder_.CreateFMul(y, number(y, 0.5)))));
    llvm::Value* signed_result = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, x);
    result = builder_.CreateSelect(odd, signed_result, result);
    llvm::Value* nan = number(x, std::numeric_limits<double>::quiet_NaN());
    llvm::Value* finite_negative = builder_.CreateAnd(builder_.CreateFCmpOLT(x, zero), builder_.CreateFCmpONE(size, infinity));
    result = builder_.CreateSelect(builder_.CreateAnd(finite_negative, builder_.CreateNot(whole)), nan, result);
    result = builder_.CreateSelect(builder_.CreateFCmpUNO(x, y), nan, result);
    llvm::Value* always_one = builder_.CreateOr(builder_.CreateFCmpOEQ(x, one), builder_.CreateFCmpOEQ(y, zero));
    return builder_.CreateSelect(always_one, one, result);
}

} // namespace metalki::compiler::vectorize
