// SIMD-group functions: the lanes are at hand, so each is a few vector operations. Inactive lanes take no part.
#include <bit>

#include "codegen/simd_types.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

bool is_prefix(SimdOp op) {
    return op >= SimdOp::prefix_inclusive_sum && op <= SimdOp::prefix_exclusive_product;
}

SimdOp combining(SimdOp op) {
    switch (op) {
    case SimdOp::prefix_inclusive_sum:
    case SimdOp::prefix_exclusive_sum:
        return SimdOp::sum;
    case SimdOp::prefix_inclusive_product:
    case SimdOp::prefix_exclusive_product:
        return SimdOp::product;
    default:
        return op;
    }
}

llvm::Constant* identity(SimdOp op, SimdType type, llvm::Type* calculated) {
    unsigned bits = calculated->getScalarSizeInBits();
    auto number = [&](const llvm::APInt& value) { return llvm::ConstantInt::get(calculated->getContext(), value); };
    bool floating = calculated->isFloatingPointTy();
    switch (op) {
    case SimdOp::sum:
        return floating ? llvm::ConstantFP::getZero(calculated, /*Negative=*/true) : llvm::Constant::getNullValue(calculated);
    case SimdOp::product:
        return floating ? llvm::ConstantFP::get(calculated, 1.0) : llvm::ConstantInt::get(calculated, 1);
    case SimdOp::min:
        // A NaN is no number: fmin and fmax pass over it.
        return floating ? llvm::ConstantFP::getNaN(calculated)
                        : number(is_signed(type) ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
    case SimdOp::max:
        return floating ? llvm::ConstantFP::getNaN(calculated)
                        : number(is_signed(type) ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
    case SimdOp::bit_and:
        return llvm::Constant::getAllOnesValue(calculated);
    default:
        return llvm::Constant::getNullValue(calculated);
    }
}

llvm::Value* combine(llvm::IRBuilderBase& builder, SimdOp op, SimdType type, llvm::Value* a, llvm::Value* b) {
    bool floating = a->getType()->isFPOrFPVectorTy();
    switch (op) {
    case SimdOp::sum:
        return floating ? builder.CreateFAdd(a, b) : builder.CreateAdd(a, b);
    case SimdOp::product:
        return floating ? builder.CreateFMul(a, b) : builder.CreateMul(a, b);
    case SimdOp::min:
        return builder.CreateBinaryIntrinsic(floating          ? llvm::Intrinsic::minnum
                                             : is_signed(type) ? llvm::Intrinsic::smin
                                                               : llvm::Intrinsic::umin,
                                             a, b);
    case SimdOp::max:
        return builder.CreateBinaryIntrinsic(floating          ? llvm::Intrinsic::maxnum
                                             : is_signed(type) ? llvm::Intrinsic::smax
                                                               : llvm::Intrinsic::umax,
                                             a, b);
    case SimdOp::bit_and:
        return builder.CreateAnd(a, b);
    case SimdOp::bit_or:
        return builder.CreateOr(a, b);
    default:
        return builder.CreateXor(a, b);
    }
}

std::vector<int> lane_order(auto function) {
    std::vector<int> order;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        order.push_back(static_cast<int>(function(lane)));
    }
    return order;
}

} // namespace

llvm::Value* Widener::emit_simd_operation(const llvm::CallInst& call, Mask mask) {
    auto number = [&](unsigned index) {
        const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(index));
        if (!constant) {
            throw Unsupported("a SIMD-group function whose kind is only known at run time");
        }
        return constant->getZExtValue();
    };
    auto op = static_cast<SimdOp>(number(0));
    auto type = static_cast<SimdType>(number(1));
    unsigned width = number(2) == quad_width ? quad_width : lanes;
    auto* word = builder_.getInt64Ty();
    if (op == SimdOp::barrier) {
        builder_.CreateFence(llvm::AtomicOrdering::AcquireRelease, llvm::SyncScope::SingleThread);
        return builder_.getInt64(0);
    }
    if (op == SimdOp::ballot) {
        return emit_ballot(call.getArgOperand(3), width, mask);
    }
    if (op < SimdOp::sum) {
        return emit_shuffle(op, width, call, mask);
    }
    llvm::Type* element = element_type(type, context_);
    bool bitwise = op == SimdOp::bit_and || op == SimdOp::bit_or || op == SimdOp::bit_xor;
    llvm::Type* bits = llvm::Type::getIntNTy(context_, element->getScalarSizeInBits());
    llvm::Value* value = builder_.CreateTrunc(vector(call.getArgOperand(3)), vector_of(bits));
    llvm::Type* calculated = bitwise ? bits : element;
    if (is_float(type) && !bitwise) {
        value = builder_.CreateBitCast(value, vector_of(element));
        calculated = builder_.getFloatTy();
        value = element->isFloatTy() ? value : builder_.CreateFPExt(value, vector_of(calculated));
    }
    SimdOp basic = combining(op);
    llvm::Constant* none = identity(basic, type, calculated);
    if (is_prefix(op) && basic == SimdOp::sum && calculated->isFloatingPointTy()) {
        none = llvm::Constant::getNullValue(calculated); // what a prefix sum starts with: never a negative zero
        value = builder_.CreateFAdd(value, splat(none));
    }
    value = blend(mask, value, splat(none));
    bool inclusive = op == SimdOp::prefix_inclusive_sum || op == SimdOp::prefix_inclusive_product;
    llvm::Value* result = is_prefix(op) ? emit_prefix(basic, type, value, splat(none), width, inclusive)
                                        : emit_reduction(basic, type, value, width);
    auto like = [&](llvm::Type* scalar) -> llvm::Type* { return result->getType()->isVectorTy() ? vector_of(scalar) : scalar; };
    if (is_float(type) && !bitwise) {
        result = element->isFloatTy() ? result : builder_.CreateFPTrunc(result, like(element));
        result = builder_.CreateBitCast(result, like(bits));
    }
    return builder_.CreateZExt(result, like(word));
}

// Halves are combined until one value is left; the reference executor adds in the same order.
llvm::Value* Widener::emit_reduction(SimdOp op, SimdType type, llvm::Value* value, unsigned width) {
    if (width == quad_width) {
        for (unsigned step : {2u, 1u}) {
            value = combine(builder_, op, type, value,
                            builder_.CreateShuffleVector(value, lane_order([&](unsigned lane) { return lane ^ step; })));
        }
        return value;
    }
    for (unsigned half = lanes / 2; half > 0; half /= 2) {
        std::vector<int> low, high;
        for (unsigned i = 0; i < half; ++i) {
            low.push_back(static_cast<int>(i));
            high.push_back(static_cast<int>(half + i));
        }
        value =
            combine(builder_, op, type, builder_.CreateShuffleVector(value, low), builder_.CreateShuffleVector(value, high));
    }
    return builder_.CreateExtractElement(value, std::uint64_t{0});
}

llvm::Value* Widener::emit_prefix(SimdOp op, SimdType type, llvm::Value* value, llvm::Value* none, unsigned width,
                                  bool inclusive) {
    auto moved_up = [&](llvm::Value* v, unsigned step) {
        return builder_.CreateShuffleVector(
            v, none, lane_order([&](unsigned lane) { return lane % width >= step ? lane - step : lanes + lane; }));
    };
    for (unsigned step = 1; step < width; step *= 2) {
        value = combine(builder_, op, type, moved_up(value, step), value);
    }
    return inclusive ? value : moved_up(value, 1);
}

llvm::Value* Widener::emit_ballot(const llvm::Value* predicate, unsigned width, Mask mask) {
    llvm::Value* yes = builder_.CreateICmpNE(vector(predicate), llvm::Constant::getNullValue(vector_of(builder_.getInt64Ty())));
    llvm::Value* bits = mask_bits(both(mask, yes));
    if (width == lanes) {
        return builder_.CreateZExt(bits, builder_.getInt64Ty());
    }
    LaneOffsets shifts{};
    for (unsigned lane = 0; lane < lanes; ++lane) {
        shifts[lane] = lane / quad_width * quad_width;
    }
    llvm::Value* quads = builder_.CreateLShr(splat(bits), lane_constants(builder_.getInt32Ty(), shifts));
    quads = builder_.CreateAnd(quads, splat(builder_.getInt32(0xf)));
    return builder_.CreateZExt(quads, vector_of(builder_.getInt64Ty()));
}

// Lane numbers from 0 to 31 as source; read through memory where no registers are permuted.
llvm::Value* Widener::permute(llvm::Value* value, llvm::Value* source) {
    auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
    if (auto* constant = llvm::dyn_cast<llvm::ConstantDataVector>(source)) {
        return builder_.CreateShuffleVector(value,
                                            lane_order([&](unsigned lane) { return constant->getElementAsInteger(lane); }));
    }
    if (vector_registers_.masks) {
        return permute_registers(value, source);
    }
    llvm::AllocaInst* array = make_scratch(llvm::ArrayType::get(type->getElementType(), lanes));
    builder_.CreateAlignedStore(value, array, llvm::Align(64));
    llvm::Value* from =
        builder_.CreateGEP(type->getElementType(), array, builder_.CreateZExt(source, vector_of(builder_.getInt64Ty())));
    return builder_.CreateMaskedGather(type, from, llvm::Align(layout_.getTypeStoreSize(type->getElementType())), full_mask());
}

// Lanes of this SIMD-group that exist, as a number.
llvm::Value* Widener::existing_lanes() {
    return all_lanes_ ? static_cast<llvm::Value*>(body_->getArg(unsigned(BodyParameter::active_lanes)))
                      : builder_.getInt32(lanes);
}

llvm::Value* Widener::emit_shuffle(SimdOp op, unsigned width, const llvm::CallInst& call, Mask mask) {
    auto* word = builder_.getInt32Ty();
    auto* long_word = vector_of(builder_.getInt64Ty());
    // Values travel as 64 bits; what they really have is known by their type.
    const auto* type_number = llvm::cast<llvm::ConstantInt>(call.getArgOperand(1));
    auto type = static_cast<SimdType>(type_number->getZExtValue());
    llvm::Type* bits = llvm::Type::getIntNTy(context_, element_type(type, context_)->getScalarSizeInBits());
    auto narrow = [&](const llvm::Value* value) { return builder_.CreateTrunc(vector(value), vector_of(bits)); };
    llvm::Value* zero = llvm::Constant::getNullValue(vector_of(bits));
    llvm::Value* own = narrow(call.getArgOperand(3));
    llvm::Value* value = blend(mask, own, zero);
    llvm::Constant* numbers = lane_constants(word, Shape::linear(1).offsets);
    llvm::Value* in_span = builder_.CreateAnd(numbers, splat(builder_.getInt32(width - 1)));
    llvm::Value* base = builder_.CreateSub(numbers, in_span);
    const llvm::Value* operand_value = call.getArgOperand(5);
    bool same_operand = divergence_.shape_of(operand_value).is_uniform();

    if (op == SimdOp::broadcast_first && width == lanes) {
        llvm::Value* first = builder_.CreateExtractElement(own, first_active(mask));
        return builder_.CreateZExt(first, builder_.getInt64Ty());
    }
    if (op == SimdOp::shuffle && width == lanes && same_operand) {
        llvm::Value* lane = scalar(operand_value);
        llvm::Value* inside = builder_.CreateICmpULT(lane, builder_.getInt32(lanes));
        llvm::Value* found = builder_.CreateExtractElement(value, builder_.CreateAnd(lane, builder_.getInt32(lanes - 1)));
        return builder_.CreateZExt(builder_.CreateSelect(inside, found, llvm::Constant::getNullValue(bits)),
                                   builder_.getInt64Ty());
    }
    llvm::Value* operand = vector(operand_value);
    auto at = [&](llvm::Value* from, llvm::Value* position) {
        llvm::Value* inside = builder_.CreateICmpULT(position, splat(builder_.getInt32(width)));
        llvm::Value* source = builder_.CreateAdd(base, builder_.CreateAnd(position, splat(builder_.getInt32(width - 1))));
        return builder_.CreateSelect(inside, permute(from, source), zero);
    };
    auto widen = [&](llvm::Value* result) { return builder_.CreateZExt(result, long_word); };
    switch (op) {
    case SimdOp::shuffle:
        return widen(at(value, operand));
    case SimdOp::shuffle_up:
        return widen(builder_.CreateSelect(builder_.CreateICmpUGT(operand, in_span), own,
                                           at(value, builder_.CreateSub(in_span, operand))));
    case SimdOp::shuffle_down: {
        llvm::Value* to_end = builder_.CreateSub(splat(builder_.getInt32(width)), in_span);
        return widen(builder_.CreateSelect(builder_.CreateICmpUGE(operand, to_end), own,
                                           at(value, builder_.CreateAdd(in_span, operand))));
    }
    case SimdOp::shuffle_xor:
        return widen(at(value, builder_.CreateXor(in_span, operand)));
    case SimdOp::shuffle_rotate_up:
    case SimdOp::shuffle_rotate_down: {
        // Round the lanes that exist.
        llvm::Value* count = splat(existing_lanes());
        if (width == quad_width) {
            llvm::Value* left = builder_.CreateSub(count, base);
            llvm::Value* full = splat(builder_.getInt32(quad_width));
            count = builder_.CreateSelect(builder_.CreateICmpULT(left, full), left, full);
            count = builder_.CreateSelect(builder_.CreateICmpULT(base, splat(existing_lanes())), count, full);
        }
        llvm::Value* distance = builder_.CreateURem(operand, count);
        if (op == SimdOp::shuffle_rotate_up) {
            distance = builder_.CreateSub(count, distance);
        }
        return widen(at(value, builder_.CreateURem(builder_.CreateAdd(in_span, distance), count)));
    }
    case SimdOp::broadcast_first: {
        // Of a quad-group: the lowest active lane of four.
        llvm::Value* active = builder_.CreateLShr(splat(mask_bits(mask)), base);
        active = builder_.CreateOr(builder_.CreateAnd(active, splat(builder_.getInt32(0xf))), splat(builder_.getInt32(8)));
        llvm::Value* first = builder_.CreateIntrinsic(llvm::Intrinsic::cttz, {active->getType()}, {active, builder_.getTrue()});
        return widen(at(own, first));
    }
    default:
        break;
    }
    // shuffle_and_fill: lanes form vectors of `modulo` lanes; what leaves at one end is replaced from the other end of `fill`.
    llvm::Value* fill = blend(mask, narrow(call.getArgOperand(4)), zero);
    llvm::Value* modulo = vector(call.getArgOperand(6));
    llvm::Value* span = splat(builder_.getInt32(width));
    llvm::Value* one = splat(builder_.getInt32(1));
    llvm::Value* nothing = splat(builder_.getInt32(0));
    llvm::Value* power =
        builder_.CreateAnd(builder_.CreateICmpEQ(builder_.CreateAnd(modulo, builder_.CreateSub(modulo, one)), nothing),
                           builder_.CreateICmpNE(modulo, nothing));
    modulo = builder_.CreateSelect(builder_.CreateAnd(power, builder_.CreateICmpULE(modulo, span)), modulo, span);
    llvm::Value* place = builder_.CreateAnd(in_span, builder_.CreateSub(modulo, one));
    llvm::Value* first = builder_.CreateSub(in_span, place);
    llvm::Value* result = nullptr;
    if (op == SimdOp::fill_up) {
        llvm::Value* inside = builder_.CreateICmpUGE(place, operand);
        llvm::Value* shifted = builder_.CreateAdd(first, builder_.CreateSub(builder_.CreateAdd(place, modulo), operand));
        result = builder_.CreateSelect(inside, at(value, builder_.CreateSub(in_span, operand)), at(fill, shifted));
    } else {
        llvm::Value* sum = builder_.CreateAdd(place, operand);
        llvm::Value* inside = builder_.CreateICmpULT(sum, modulo);
        result = builder_.CreateSelect(inside, at(value, builder_.CreateAdd(in_span, operand)),
                                       at(fill, builder_.CreateAdd(first, builder_.CreateSub(sum, modulo))));
    }
    return widen(builder_.CreateSelect(builder_.CreateICmpUGT(operand, modulo), zero, result));
}

// D = A * B + C of 8x8 matrices; the layout is that of kernel_abi.hpp. Row r of A and D sits in the lanes of row r, so that a
// column of A is spread by a permutation of lanes, and so is a row of B.
llvm::Value* Widener::emit_matrix_multiply(const llvm::CallInst& call, Mask mask) {
    llvm::Value* part[6];
    llvm::Value* zero = llvm::Constant::getNullValue(vector_of(builder_.getFloatTy()));
    for (unsigned i = 0; i < 6; ++i) {
        part[i] = blend(mask, vector(call.getArgOperand(i)), zero);
    }
    auto row = [](unsigned lane) { return (lane / 4 & 4) + lane / 2 % 4; };
    auto column = [](unsigned lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; };
    auto lane_of = [](unsigned r, unsigned c) { return (r & 4) * 4 + (c & 4) * 2 + r % 4 * 2 + c / 2 % 2; };
    llvm::Value* d[2] = {part[4], part[5]};
    for (unsigned k = 0; k < 8; ++k) {
        llvm::Value* a =
            builder_.CreateShuffleVector(part[k % 2], lane_order([&](unsigned lane) { return lane_of(row(lane), k); }));
        for (unsigned i = 0; i < 2; ++i) {
            llvm::Value* b =
                builder_.CreateShuffleVector(part[2 + i], lane_order([&](unsigned lane) { return lane_of(k, column(lane)); }));
            d[i] = builder_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, d[i]});
        }
    }
    llvm::Value* out = llvm::PoisonValue::get(llvm::ArrayType::get(zero->getType(), 2));
    out = builder_.CreateInsertValue(builder_.CreateInsertValue(out, d[0], 0), d[1], 1);
    // How a pair of floats is returned is up to the calling convention.
    return call.getType()->isVectorTy() ? out : builder_.CreateBitCast(interleave(out), vector_of(call.getType()));
}

} // namespace metalki::compiler::vectorize
