// See the header.
#include "ptx/simd_reductions.hpp"

#include <optional>

#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include "codegen/simd_types.hpp"

namespace metalki::compiler::ptx {
namespace {

class Reduction {
public:
    Reduction(WarpBuilder& builder, SimdOp op, SimdType type, const Lanes& lanes)
        : builder_(builder), op_(op), type_(type), lanes_(lanes) {}

    llvm::Value* run(llvm::Value* bits) {
        llvm::Value* value = widened(bits);
        llvm::Value* result = nullptr;
        if (is_prefix()) {
            result = lanes_.width == quad_width ? quad_prefix(value) : prefix(value);
        } else if (auto instruction = reduction_instruction(); instruction && lanes_.width == simd_width) {
            result = by_instruction(*instruction, value);
        } else {
            result = lanes_.width == quad_width ? by_classes(value) : by_halves(value);
        }
        return narrowed(result, bits->getType());
    }

private:
    bool is_prefix() const { return op_ >= SimdOp::prefix_inclusive_sum && op_ <= SimdOp::prefix_exclusive_product; }
    bool is_exclusive() const { return op_ == SimdOp::prefix_exclusive_sum || op_ == SimdOp::prefix_exclusive_product; }
    bool multiplies() const {
        return op_ == SimdOp::product || op_ == SimdOp::prefix_inclusive_product || op_ == SimdOp::prefix_exclusive_product;
    }
    bool compares() const { return op_ == SimdOp::min || op_ == SimdOp::max; }
    bool is_bitwise() const { return op_ == SimdOp::bit_and || op_ == SimdOp::bit_or || op_ == SimdOp::bit_xor; }

    // What one calculates in: float for all floating-point types, 32 bits for the small integers.
    llvm::Value* widened(llvm::Value* bits) {
        if (is_float(type_) && !is_bitwise()) {
            if (type_ == SimdType::f32) {
                return builder_.CreateBitCast(bits, builder_.getFloatTy());
            }
            llvm::Type* small = type_ == SimdType::f16 ? builder_.getHalfTy() : builder_.getBFloatTy();
            return builder_.CreateFPExt(builder_.CreateBitCast(bits, small), builder_.getFloatTy());
        }
        llvm::Type* wide = bits->getType()->getIntegerBitWidth() > 32 ? builder_.getInt64Ty() : builder_.getInt32Ty();
        return is_signed(type_) ? builder_.CreateSExt(bits, wide) : builder_.CreateZExt(bits, wide);
    }
    llvm::Value* narrowed(llvm::Value* value, llvm::Type* bits) {
        if (!value->getType()->isFloatTy()) {
            return builder_.CreateTrunc(value, bits);
        }
        if (type_ == SimdType::f32) {
            return builder_.CreateBitCast(value, bits);
        }
        llvm::Type* small = type_ == SimdType::f16 ? builder_.getHalfTy() : builder_.getBFloatTy();
        return builder_.CreateBitCast(builder_.CreateFPTrunc(value, small), bits);
    }

    llvm::Value* combine(llvm::Value* a, llvm::Value* b) {
        const bool real = a->getType()->isFloatTy();
        if (compares()) {
            const bool smaller = op_ == SimdOp::min;
            const auto id = real               ? (smaller ? llvm::Intrinsic::minnum : llvm::Intrinsic::maxnum)
                            : is_signed(type_) ? (smaller ? llvm::Intrinsic::smin : llvm::Intrinsic::smax)
                                               : (smaller ? llvm::Intrinsic::umin : llvm::Intrinsic::umax);
            return builder_.CreateBinaryIntrinsic(id, a, b);
        }
        if (multiplies()) {
            return real ? builder_.CreateFMul(a, b) : builder_.CreateMul(a, b);
        }
        switch (op_) {
        case SimdOp::bit_and:
            return builder_.CreateAnd(a, b);
        case SimdOp::bit_or:
            return builder_.CreateOr(a, b);
        case SimdOp::bit_xor:
            return builder_.CreateXor(a, b);
        default:
            return real ? builder_.CreateFAdd(a, b) : builder_.CreateAdd(a, b);
        }
    }

    llvm::Value* neutral(llvm::Type* type) {
        const unsigned one = multiplies() ? 1 : 0;
        return type->isFloatTy() ? static_cast<llvm::Value*>(llvm::ConstantFP::get(type, one))
                                 : llvm::ConstantInt::get(type, one);
    }

    std::optional<llvm::Intrinsic::ID> reduction_instruction() const {
        if (lanes_.architecture < 80 || (is_float(type_) && !is_bitwise()) || type_ == SimdType::i64 ||
            type_ == SimdType::u64) {
            return std::nullopt;
        }
        switch (op_) {
        case SimdOp::sum:
            return llvm::Intrinsic::nvvm_redux_sync_add;
        case SimdOp::min:
            return is_signed(type_) ? llvm::Intrinsic::nvvm_redux_sync_min : llvm::Intrinsic::nvvm_redux_sync_umin;
        case SimdOp::max:
            return is_signed(type_) ? llvm::Intrinsic::nvvm_redux_sync_max : llvm::Intrinsic::nvvm_redux_sync_umax;
        case SimdOp::bit_and:
            return llvm::Intrinsic::nvvm_redux_sync_and;
        case SimdOp::bit_or:
            return llvm::Intrinsic::nvvm_redux_sync_or;
        case SimdOp::bit_xor:
            return llvm::Intrinsic::nvvm_redux_sync_xor;
        default:
            return std::nullopt;
        }
    }
    llvm::Value* by_instruction(llvm::Intrinsic::ID id, llvm::Value* value) {
        return builder_.call(id, {value, lanes_.active});
    }

    // All lanes are active nearly always: then a lane's partner is just there.
    llvm::Value* by_halves(llvm::Value* value) {
        return when_all_are_active(
            value,
            [&](llvm::Value* total) {
                for (unsigned distance = simd_width / 2; distance > 0; distance /= 2) {
                    total = combine(total, builder_.shuffle_xor(lanes_.active, total, distance));
                }
                return total;
            },
            [&](llvm::Value* total) { return by_classes(total); });
    }

    // Step by step, all lanes that are equal modulo `distance` come to hold the same: what they brought together. A lane takes
    // the other half from any active lane that holds it.
    llvm::Value* by_classes(llvm::Value* value) {
        const std::uint32_t bits = lanes_.width == quad_width ? 0xf : 0xffffffff;
        llvm::Value* first = builder_.CreateAnd(lanes_.own, ~(lanes_.width - 1));
        for (unsigned distance = lanes_.width / 2; distance > 0; distance /= 2) {
            std::uint32_t pattern = 0;
            for (unsigned lane = 0; lane < simd_width; lane += 2 * distance) {
                pattern |= 1u << lane;
            }
            llvm::Value* other = builder_.CreateAnd(builder_.CreateXor(lanes_.own, distance), 2 * distance - 1);
            llvm::Value* members = builder_.CreateShl(builder_.getInt32(pattern & bits), builder_.CreateOr(first, other));
            llvm::Value* holders = builder_.CreateAnd(lanes_.active, members);
            llvm::Value* any = builder_.CreateICmpNE(holders, builder_.getInt32(0));
            llvm::Value* source = builder_.CreateSelect(any, holders, lanes_.active);
            llvm::Value* brought = builder_.shuffle(lanes_.active, value, builder_.lowest_lane(source));
            value = builder_.CreateSelect(any, combine(value, brought), value);
        }
        return value;
    }

    llvm::Value* prefix(llvm::Value* value) {
        return when_all_are_active(
            value, [&](llvm::Value* total) { return whole_prefix(total); },
            [&](llvm::Value* own) { return partial_prefix(own); });
    }

    llvm::Value* below(llvm::Value* value, unsigned distance) {
        llvm::Value* source = builder_.CreateAnd(builder_.CreateSub(lanes_.own, builder_.getInt32(distance)), simd_width - 1);
        return builder_.shuffle(lanes_.active, value, source);
    }
    llvm::Value* is_at_least(unsigned lane) { return builder_.CreateICmpUGE(lanes_.own, builder_.getInt32(lane)); }

    llvm::Value* whole_prefix(llvm::Value* total) {
        for (unsigned distance = 1; distance < simd_width; distance *= 2) {
            total = builder_.CreateSelect(is_at_least(distance), combine(below(total, distance), total), total);
        }
        return is_exclusive() ? builder_.CreateSelect(is_at_least(1), below(total, 1), neutral(total->getType())) : total;
    }

    // One active lane after the other.
    llvm::Value* partial_prefix(llvm::Value* own) {
        llvm::BasicBlock* before = builder_.GetInsertBlock();
        llvm::BasicBlock* after = before->splitBasicBlock(builder_.GetInsertPoint(), "prefix.done");
        llvm::BasicBlock* loop = llvm::BasicBlock::Create(builder_.getContext(), "prefix", before->getParent(), after);
        before->getTerminator()->setSuccessor(0, loop);
        builder_.SetInsertPoint(loop);
        llvm::PHINode* rest = builder_.CreatePHI(builder_.getInt32Ty(), 2);
        llvm::PHINode* total = builder_.CreatePHI(own->getType(), 2);
        llvm::Value* lane = builder_.lowest_lane(rest);
        llvm::Value* brought = builder_.shuffle(lanes_.active, own, lane);
        llvm::Value* is_before = builder_.CreateICmpULT(lane, lanes_.own);
        llvm::Value* grown = builder_.CreateSelect(is_before, combine(total, brought), total);
        llvm::Value* left = builder_.CreateAnd(rest, builder_.CreateSub(rest, builder_.getInt32(1)));
        rest->addIncoming(lanes_.active, before);
        rest->addIncoming(left, loop);
        total->addIncoming(neutral(own->getType()), before);
        total->addIncoming(grown, loop);
        builder_.CreateCondBr(builder_.CreateICmpEQ(left, builder_.getInt32(0)), after, loop);
        builder_.SetInsertPoint(after, after->getFirstInsertionPt());
        return is_exclusive() ? grown : combine(grown, own);
    }

    llvm::Value* quad_prefix(llvm::Value* own) {
        llvm::Value* first = builder_.CreateAnd(lanes_.own, ~(quad_width - 1));
        llvm::Value* place = builder_.CreateAnd(lanes_.own, quad_width - 1);
        llvm::Value* total = neutral(own->getType());
        for (unsigned i = 0; i < quad_width - 1; ++i) {
            llvm::Value* source = builder_.CreateOr(first, i);
            llvm::Value* counts = builder_.CreateAnd(builder_.has_lane(lanes_.active, source),
                                                     builder_.CreateICmpULT(builder_.getInt32(i), place));
            llvm::Value* brought = builder_.shuffle(lanes_.active, own, source);
            total = builder_.CreateSelect(counts, combine(total, brought), total);
        }
        return is_exclusive() ? total : combine(total, own);
    }

    // The same answer in all lanes, so that this is no divergence.
    template <class Whole, class Partial> llvm::Value* when_all_are_active(llvm::Value* value, Whole whole, Partial partial) {
        llvm::Value* all = builder_.CreateICmpEQ(lanes_.active, builder_.getInt32(0xffffffff));
        llvm::Instruction *then = nullptr, *otherwise = nullptr;
        llvm::Instruction* at = &*builder_.GetInsertPoint();
        llvm::SplitBlockAndInsertIfThenElse(all, at, &then, &otherwise);
        builder_.SetInsertPoint(then);
        llvm::Value* fast = whole(value);
        llvm::BasicBlock* fast_end = builder_.GetInsertBlock();
        builder_.SetInsertPoint(otherwise);
        llvm::Value* slow = partial(value);
        llvm::BasicBlock* slow_end = builder_.GetInsertBlock();
        builder_.SetInsertPoint(at->getParent(), at->getParent()->getFirstInsertionPt());
        llvm::PHINode* result = builder_.CreatePHI(value->getType(), 2);
        result->addIncoming(fast, fast_end);
        result->addIncoming(slow, slow_end);
        builder_.SetInsertPoint(at);
        return result;
    }

    WarpBuilder& builder_;
    SimdOp op_;
    SimdType type_;
    const Lanes& lanes_;
};

} // namespace

llvm::Value* reduce_lanes(WarpBuilder& builder, SimdOp op, SimdType type, llvm::Value* value, const Lanes& lanes) {
    return Reduction(builder, op, type, lanes).run(value);
}

} // namespace metalki::compiler::ptx
