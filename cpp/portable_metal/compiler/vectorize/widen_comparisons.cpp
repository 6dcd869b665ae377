// Comparisons of numbers that only their low bits tell apart from lane to lane, such as `i ^ j` and `i` where SIMD-groups begin
// at multiples of 32: the high bits are compared once for all lanes, and what the low ones say mostly stays the same in a loop.
#include <algorithm>

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr unsigned longest_chain = 4; // operations from a position to what is compared

bool fills_low_bits(const Shape& shape) {
    auto is_low = [](std::int64_t offset) { return offset >= 0 && offset < std::int64_t{lanes}; };
    return shape.kind == Shape::Kind::affine && shape.zeros >= lane_bits && std::ranges::all_of(shape.offsets, is_low);
}

} // namespace

// None: a value that is not known in front of all else, or whose high bits differ too.
std::optional<Widener::Halves> Widener::halves_of(const llvm::Value* value, unsigned steps) {
    const Shape shape = divergence_.shape_of(value);
    bool known = llvm::isa<llvm::ConstantInt>(value) || is_known_first(value);
    if (known && shape.is_uniform()) {
        llvm::Value* low = builder_.CreateAnd(builder_.CreateTrunc(scalar(value), builder_.getInt8Ty()), lanes - 1);
        return Halves{bits_of_blocks(value), splat(low)};
    }
    if (known && fills_low_bits(shape)) {
        return Halves{scalar(value), lane_constants(builder_.getInt8Ty(), shape.offsets)};
    }
    const auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(value);
    if (!operation || !operation->isBitwiseLogicOp() || steps == 0) {
        return std::nullopt;
    }
    std::optional<Halves> a = halves_of(operation->getOperand(0), steps - 1);
    std::optional<Halves> b = a ? halves_of(operation->getOperand(1), steps - 1) : std::nullopt;
    if (!b) {
        return std::nullopt;
    }
    return Halves{builder_.CreateBinOp(operation->getOpcode(), a->high, b->high),
                  builder_.CreateBinOp(operation->getOpcode(), a->low, b->low)};
}

// Null: it is a comparison of another kind.
llvm::Value* Widener::compare_halves(const llvm::ICmpInst& comparison) {
    llvm::Type* type = comparison.getOperand(0)->getType();
    if (!vector_registers_.masks || !type->isIntegerTy() || type->getIntegerBitWidth() <= 8) {
        return nullptr;
    }
    llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(prologue_->getTerminator());
    std::optional<Halves> a = halves_of(comparison.getOperand(0), longest_chain);
    std::optional<Halves> b = a ? halves_of(comparison.getOperand(1), longest_chain) : std::nullopt;
    if (!b) {
        return nullptr;
    }
    const llvm::CmpInst::Predicate predicate = comparison.getPredicate();
    // Not as a number that is a mask: LLVM 19's combiner goes round in circles over unions of such masks.
    LaneOffsets own_bits{};
    for (unsigned lane = 0; lane < lanes; ++lane) {
        own_bits[lane] = std::int64_t{1} << lane;
    }
    auto to_mask = [&](llvm::Value* bits) {
        llvm::Value* own = builder_.CreateAnd(splat(bits), lane_constants(builder_.getInt32Ty(), own_bits));
        return builder_.CreateICmpNE(own, llvm::Constant::getNullValue(own->getType()));
    };
    llvm::Value* low = mask_bits(builder_.CreateICmp(llvm::ICmpInst::getUnsignedPredicate(predicate), a->low, b->low));
    llvm::Value* same = builder_.CreateICmpEQ(a->high, b->high);
    if (comparison.isEquality()) {
        bool if_different = predicate == llvm::CmpInst::ICMP_NE;
        return to_mask(builder_.CreateSelect(same, low, builder_.getInt32(if_different ? ~0U : 0)));
    }
    llvm::Value* high = builder_.CreateICmp(llvm::CmpInst::getStrictPredicate(predicate), a->high, b->high);
    return to_mask(builder_.CreateSelect(same, low, builder_.CreateSExt(high, builder_.getInt32Ty())));
}

} // namespace metalki::compiler::vectorize
