// x to the power of y as 2 to the power of (y log2 x), the logarithm in double precision, for all lanes at once.
#include <limits>
#include <span>

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// log2(1 + z) / z between sqrt(1/2) - 1 and sqrt(2) - 1, within 2^-35.
constexpr double logarithm[] = {1.4426950408708801,  -0.7213475209631548,  0.48089836017622356, -0.36067365531625506,
                                0.28853739437916792, -0.24045433693453042, 0.20617283227009581, -0.18027102671471987,
                                0.15878356869670862, -0.14349038146984067, 0.14495051755318408, -0.14144793836863884,
                                0.075537990172838992};
// 2^f between -1/2 and 1/2, within 2^-28.
constexpr double exponential[] = {1, 0.693147207, 0.240226509, 0.0555032723, 0.00961805668, 0.00134004282, 0.000154614446};

constexpr std::int32_t one_half_root = 0x3f3504f3; // sqrt(1/2) in bits
constexpr unsigned mantissa_bits = 23;
constexpr std::int32_t bias = 127;
constexpr double far = 320; // 2^far is no float, nor is 2^-far

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

// log2 of a positive number that is finite, in double.
llvm::Value* log2_of(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Type* integers, llvm::Type* doubles) {
    auto integer = [&](std::int32_t value) { return llvm::ConstantInt::getSigned(integers, value); };
    constexpr double lift = 16777216; // 2^24 makes denormals normal
    llvm::Value* small = builder.CreateFCmpOLT(x, number(x, std::numeric_limits<float>::min()));
    llvm::Value* bits = builder.CreateBitCast(builder.CreateSelect(small, builder.CreateFMul(x, number(x, lift)), x), integers);
    llvm::Value* exponent =
        builder.CreateAShr(builder.CreateSub(bits, integer(one_half_root)), integer(static_cast<std::int32_t>(mantissa_bits)));
    llvm::Value* mantissa = builder.CreateSub(bits, builder.CreateShl(exponent, mantissa_bits));
    exponent = builder.CreateSub(exponent, builder.CreateSelect(small, integer(24), integer(0)));
    llvm::Value* z = builder.CreateFSub(builder.CreateBitCast(mantissa, x->getType()), number(x, 1));
    z = builder.CreateFPExt(z, doubles);
    return builder.CreateIntrinsic(llvm::Intrinsic::fmuladd, {doubles},
                                   {polynomial(builder, z, logarithm), z, builder.CreateSIToFP(exponent, doubles)});
}

// 2^t as float, in two steps so that neither of its factors overflows.
llvm::Value* exp2_of(llvm::IRBuilderBase& builder, llvm::Value* t, llvm::Type* integers, llvm::Type* floats) {
    llvm::Value* whole = builder.CreateUnaryIntrinsic(llvm::Intrinsic::rint, t);
    llvm::Value* rest = builder.CreateFPTrunc(builder.CreateFSub(t, whole), floats);
    llvm::Value* exponent = builder.CreateFPToSI(whole, integers);
    llvm::Value* half = builder.CreateAShr(exponent, 1);
    auto scale = [&](llvm::Value* power) {
        llvm::Value* biased = builder.CreateAdd(power, llvm::ConstantInt::getSigned(integers, bias));
        return builder.CreateBitCast(builder.CreateShl(biased, mantissa_bits), floats);
    };
    llvm::Value* near = builder.CreateFMul(polynomial(builder, rest, exponential), scale(half));
    return builder.CreateFMul(near, scale(builder.CreateSub(exponent, half)));
}

} // namespace

llvm::Value* Widener::emit_power(llvm::Value* x, llvm::Value* y) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(builder_);
    builder_.clearFastMathFlags();
    auto* floats = x->getType();
    auto* doubles = vector_of(builder_.getDoubleTy());
    auto* integers = vector_of(builder_.getInt32Ty());
    constexpr double infinite = std::numeric_limits<double>::infinity();
    llvm::Value *zero = number(x, 0), *one = number(x, 1), *infinity = number(x, infinite);
    llvm::Value* size = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);

    llvm::Value* logs = log2_of(builder_, size, integers, doubles);
    logs = builder_.CreateSelect(builder_.CreateFCmpOEQ(size, zero), number(logs, -infinite), logs);
    logs = builder_.CreateSelect(builder_.CreateFCmpOEQ(size, infinity), number(logs, infinite), logs);
    llvm::Value* t = builder_.CreateFMul(builder_.CreateFPExt(y, doubles), logs);
    // Not a number where zero met infinity, which is 1; what is no number itself comes back below.
    t = builder_.CreateSelect(builder_.CreateFCmpUNO(t, t), number(t, 0), t);
    t = builder_.CreateSelect(builder_.CreateFCmpOGT(t, number(t, far / 2)), number(t, far / 2), t);
    t = builder_.CreateSelect(builder_.CreateFCmpOLT(t, number(t, -far / 2)), number(t, -far / 2), t);
    llvm::Value* result = exp2_of(builder_, t, integers, floats);

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
