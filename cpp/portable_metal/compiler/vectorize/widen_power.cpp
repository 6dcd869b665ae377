// x to the power of y as 2 to the power of (y log2 x), for all lanes at once. The logarithm has more digits than a float: it is
// a sum of two, with tables of 32 numbers where an instruction looks them up for all lanes, or in double precision.
#include <array>
#include <cmath>
#include <limits>

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/MDBuilder.h"

#include "vectorize/polynomial.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// log2(1 + z) / z between sqrt(1/2) - 1 and sqrt(2) - 1, within 2^-30.
constexpr double logarithm[] = {1.4426950417996436,  -0.7213475156601237,  0.4808978892089317,  -0.3606741493072033,
                                0.2885761734217065,  -0.24046720906481106, 0.20504348950230153, -0.17890870281831647,
                                0.17205684558990003, -0.1690633925180926,  0.09703389158643048};
// (log2(1 + z) / z - 1 / ln 2) / z between -0.021 and 1/32, within 2^-27.
constexpr double rest_of_logarithm[] = {-0.72134751, 0.48090050, -0.36080074, 0.28281665};
// 64ths that make a mantissa from 1 + i/32 on nearly 1: their product has no more digits than a float, less 1.
constexpr std::array<std::uint8_t, 32> inverses{64, 61, 59, 58, 56, 55, 53, 52, 51, 49, 48, 47, 46, 45, 44, 43,
                                                42, 41, 41, 40, 39, 38, 38, 37, 36, 36, 35, 34, 34, 33, 33, 32};
// 2^f between -1/2 and 1/2, within 2^-28.
constexpr double exponential[] = {1, 0.693147207, 0.240226509, 0.0555032723, 0.00961805668, 0.00134004282, 0.000154614446};

constexpr std::int32_t one_half_root = 0x3f3504f3; // sqrt(1/2) in bits
constexpr unsigned mantissa_bits = 23;
constexpr std::int32_t bias = 127;
constexpr std::int32_t one = 0x3f800000, mantissa_mask = 0x007fffff;
constexpr std::int32_t least_normal = 0x00800000, infinite_bits = 0x7f800000;
constexpr double largest_normal = 125; // 2^t is normal, on either side of 1
constexpr double far = 320;            // 2^far is no float, nor is 2^-far

// An exponent: in double precision, or the sum of two floats.
struct PowerOfTwo {
    llvm::Value *high = nullptr, *low = nullptr;
};

// log2 of a positive number that is neither denormal nor infinite, in double; less `lifted`.
PowerOfTwo log2_in_double(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* lifted) {
    llvm::Type* integers = lifted->getType();
    auto* doubles = llvm::VectorType::get(builder.getDoubleTy(), llvm::cast<llvm::VectorType>(integers)->getElementCount());
    auto integer = [&](std::int32_t value) { return llvm::ConstantInt::getSigned(integers, value); };
    llvm::Value* bits = builder.CreateBitCast(x, integers);
    llvm::Value* exponent =
        builder.CreateAShr(builder.CreateSub(bits, integer(one_half_root)), integer(static_cast<std::int32_t>(mantissa_bits)));
    llvm::Value* mantissa = builder.CreateSub(bits, builder.CreateShl(exponent, mantissa_bits));
    exponent = builder.CreateSub(exponent, lifted);
    llvm::Value* z = builder.CreateFSub(builder.CreateBitCast(mantissa, x->getType()), number(x, 1));
    z = builder.CreateFPExt(z, doubles);
    return {builder.CreateIntrinsic(llvm::Intrinsic::fmuladd, {doubles},
                                    {polynomial(builder, z, logarithm), z, builder.CreateSIToFP(exponent, doubles)}),
            nullptr};
}

// What `value(i)` is for the number i in the low five bits of each lane.
template <typename Value> llvm::Value* look_up(llvm::IRBuilderBase& builder, llvm::Value* number, const Value& value) {
    constexpr unsigned of_register = 16;
    std::array<std::vector<float>, 2> table;
    for (unsigned i = 0; i < inverses.size(); ++i) {
        table[i / of_register].push_back(static_cast<float>(value(i)));
    }
    auto half_table = [&](unsigned half) { return llvm::ConstantDataVector::get(builder.getContext(), table[half]); };
    std::vector<llvm::Value*> halves;
    for (int first : {0, static_cast<int>(of_register)}) {
        llvm::Value* which = builder.CreateShuffleVector(number, llvm::createSequentialMask(first, of_register, 0));
        halves.push_back(
            builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_512, {}, {half_table(0), which, half_table(1)}));
    }
    return llvm::concatenateVectors(builder, halves);
}

// The same in two floats.
PowerOfTwo log2_by_tables(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* lifted) {
    constexpr double after_point = 32768; // the larger part has 15 bits there: with a whole number before, it is a float
    auto log_of = [](unsigned i) { return -std::log2(inverses[i] / 64.0); };
    auto large = [&](unsigned i) { return std::nearbyint(log_of(i) * after_point) / after_point; };
    llvm::Type *floats = x->getType(), *integers = lifted->getType();
    auto integer = [&](std::int32_t value) { return llvm::ConstantInt::getSigned(integers, value); };
    llvm::Value* bits = builder.CreateBitCast(x, integers);
    llvm::Value* exponent =
        builder.CreateSub(builder.CreateLShr(bits, mantissa_bits), builder.CreateAdd(lifted, integer(bias)));
    llvm::Value* mantissa = builder.CreateOr(builder.CreateAnd(bits, integer(mantissa_mask)), integer(one));
    llvm::Value* interval = builder.CreateLShr(bits, mantissa_bits - 5);
    llvm::Value* inverse = look_up(builder, interval, [](unsigned i) { return inverses[i] / 64.0; });
    llvm::Value* z = fused(builder, builder.CreateBitCast(mantissa, floats), inverse, number(x, -1));
    llvm::Value* start = builder.CreateFAdd(builder.CreateSIToFP(exponent, floats), look_up(builder, interval, large));

    constexpr double slope = 1.4426950408889634;
    llvm::Value *steep = number(x, static_cast<float>(slope)), *flat = number(x, slope - static_cast<float>(slope));
    llvm::Value* step = builder.CreateFMul(z, steep);
    llvm::Value* low = fused(builder, z, flat, fused(builder, z, steep, builder.CreateFNeg(step)));
    low = fused(builder, builder.CreateFMul(z, z), polynomial(builder, z, rest_of_logarithm), low);
    low = builder.CreateFAdd(low, look_up(builder, interval, [&](unsigned i) { return log_of(i) - large(i); }));
    llvm::Value* high = builder.CreateFAdd(start, step);
    llvm::Value* lost = builder.CreateFSub(step, builder.CreateFSub(high, start));
    return {high, builder.CreateFAdd(low, lost)};
}

PowerOfTwo times(llvm::IRBuilderBase& builder, llvm::Value* y, const PowerOfTwo& logarithm_of_x) {
    if (!logarithm_of_x.low) {
        return {builder.CreateFMul(builder.CreateFPExt(y, logarithm_of_x.high->getType()), logarithm_of_x.high), nullptr};
    }
    llvm::Value* high = builder.CreateFMul(y, logarithm_of_x.high);
    llvm::Value* low = fused(builder, y, logarithm_of_x.high, builder.CreateFNeg(high));
    return {high, fused(builder, y, logarithm_of_x.low, low)};
}

llvm::Value* power_of_two(llvm::IRBuilderBase& builder, llvm::Value* exponent, llvm::Type* floats) {
    llvm::Value* biased = builder.CreateAdd(exponent, llvm::ConstantInt::getSigned(exponent->getType(), bias));
    return builder.CreateBitCast(builder.CreateShl(biased, mantissa_bits), floats);
}

// 2^t as float; where that may be no normal number, in two steps, so that neither of its factors overflows.
llvm::Value* exp2_of(llvm::IRBuilderBase& builder, const PowerOfTwo& t, llvm::Type* integers, llvm::Type* floats, bool normal) {
    // Added to a number this large, t is rounded to a whole number, which then stands in the low bits.
    llvm::Type* type = t.high->getType();
    const double whole_in_low_bits = t.low ? 0x1.8p23 : 0x1.8p52;
    llvm::Value* large = number(t.high, whole_in_low_bits);
    llvm::Value* shifted = builder.CreateFAdd(t.low ? builder.CreateFAdd(t.high, t.low) : t.high, large);
    llvm::Value* rest = builder.CreateFSub(t.high, builder.CreateFSub(shifted, large));
    rest = t.low ? builder.CreateFAdd(rest, t.low) : builder.CreateFPTrunc(rest, floats);
    auto* bits = llvm::VectorType::getInteger(llvm::cast<llvm::VectorType>(type));
    llvm::Value* exponent = builder.CreateTrunc(builder.CreateBitCast(shifted, bits), integers);
    llvm::Value* fraction = polynomial(builder, rest, exponential);
    if (normal) {
        llvm::Value* places = builder.CreateShl(exponent, mantissa_bits);
        return builder.CreateBitCast(builder.CreateAdd(builder.CreateBitCast(fraction, integers), places), floats);
    }
    // Nine bits of it, with their sign.
    exponent = builder.CreateAShr(builder.CreateShl(exponent, mantissa_bits), mantissa_bits);
    llvm::Value* half = builder.CreateAShr(exponent, 1);
    llvm::Value* near = builder.CreateFMul(fraction, power_of_two(builder, half, floats));
    return builder.CreateFMul(near, power_of_two(builder, builder.CreateSub(exponent, half), floats));
}

} // namespace

// Where all lanes have a normal, positive base and a normal result, nothing else need be looked at; the numbers are the same.
llvm::Value* Widener::emit_power(llvm::Value* x, llvm::Value* y) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(builder_);
    builder_.clearFastMathFlags();
    const auto log2 = vector_registers_.masks ? log2_by_tables : log2_in_double;
    auto* integers = vector_of(builder_.getInt32Ty());
    auto integer = [&](std::int32_t value) { return llvm::ConstantInt::getSigned(integers, value); };
    const PowerOfTwo t = times(builder_, y, log2(builder_, x, integer(0)));
    llvm::Value* normal_base = builder_.CreateICmpULT(
        builder_.CreateSub(builder_.CreateBitCast(x, integers), integer(least_normal)), integer(infinite_bits - least_normal));
    llvm::Value* normal_result =
        builder_.CreateFCmpOLT(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, t.high), number(t.high, largest_normal));
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
    const auto log2 = vector_registers_.masks ? log2_by_tables : log2_in_double;
    auto* integers = vector_of(builder_.getInt32Ty());
    constexpr double infinite = std::numeric_limits<double>::infinity();
    llvm::Value *zero = number(x, 0), *one = number(x, 1), *infinity = number(x, infinite);
    llvm::Value* size = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);

    constexpr double lift = 16777216; // 2^24 makes denormals normal
    llvm::Value* small = builder_.CreateFCmpOLT(size, number(x, std::numeric_limits<float>::min()));
    llvm::Value* lifted =
        builder_.CreateSelect(small, llvm::ConstantInt::get(integers, 24), llvm::ConstantInt::get(integers, 0));
    llvm::Value* normal = builder_.CreateSelect(small, builder_.CreateFMul(size, number(x, lift)), size);
    PowerOfTwo logs = log2(builder_, normal, lifted);
    logs.high = builder_.CreateSelect(builder_.CreateFCmpOEQ(size, zero), number(logs.high, -infinite), logs.high);
    logs.high = builder_.CreateSelect(builder_.CreateFCmpOEQ(size, infinity), number(logs.high, infinite), logs.high);
    PowerOfTwo t = times(builder_, y, logs);
    llvm::Value *most = number(t.high, far / 2), *least = number(t.high, -far / 2), *none = number(t.high, 0);
    llvm::Value *above = builder_.CreateFCmpOGT(t.high, most), *below = builder_.CreateFCmpOLT(t.high, least);
    // Not a number where zero met infinity, which is 1; what is no number itself comes back below.
    llvm::Value* unknown = builder_.CreateFCmpUNO(t.high, t.high);
    t.high = builder_.CreateSelect(unknown, none, t.high);
    t.high = builder_.CreateSelect(above, most, t.high);
    t.high = builder_.CreateSelect(below, least, t.high);
    if (t.low) {
        t.low = builder_.CreateSelect(builder_.CreateOr(unknown, builder_.CreateOr(above, below)), none, t.low);
    }
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
