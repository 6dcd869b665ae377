// See the header.
#include "ptx/simd_functions.hpp"

#include <stdexcept>

#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "codegen/simd_types.hpp"
#include "compiler/kernel_abi.hpp"
#include "ptx/builder.hpp"
#include "ptx/simd_reductions.hpp"

namespace metalki::compiler::ptx {
namespace {

// One call: __metalki_simd(op, type, width, value, fill, operand, modulo).
class SimdCall {
public:
    SimdCall(llvm::CallInst& call, unsigned architecture)
        : call_(call), builder_(&call), op_(static_cast<SimdOp>(number(0))), type_(static_cast<SimdType>(number(1))),
          width_(number(2) == quad_width ? quad_width : simd_width), architecture_(architecture) {
        llvm::Type* type = element_type(type_, builder_.getContext());
        bits_ = builder_.getIntNTy(type->getScalarSizeInBits());
        value_ = builder_.CreateTrunc(call.getArgOperand(3), bits_);
        fill_ = builder_.CreateTrunc(call.getArgOperand(4), bits_);
        operand_ = call.getArgOperand(5);
        modulo_ = call.getArgOperand(6);
    }

    void lower() {
        mask_ = builder_.active();
        llvm::Value* result = made();
        call_.replaceAllUsesWith(builder_.CreateZExt(result, builder_.getInt64Ty()));
        call_.eraseFromParent();
    }

private:
    unsigned number(unsigned argument) const {
        const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(call_.getArgOperand(argument));
        if (!constant) {
            throw std::runtime_error("a SIMD-group function whose kind is not known when it is compiled");
        }
        return static_cast<unsigned>(constant->getZExtValue());
    }

    llvm::Value* made() {
        switch (op_) {
        case SimdOp::shuffle:
        case SimdOp::shuffle_up:
        case SimdOp::shuffle_down:
        case SimdOp::shuffle_xor:
        case SimdOp::shuffle_rotate_up:
        case SimdOp::shuffle_rotate_down:
            return shuffled();
        case SimdOp::fill_up:
        case SimdOp::fill_down:
            return filled();
        case SimdOp::broadcast_first: {
            llvm::Value* lowest = builder_.lowest_lane(builder_.CreateAnd(mask_, builder_.CreateShl(span_bits(), first())));
            return builder_.shuffle(mask_, value_, lowest);
        }
        case SimdOp::ballot:
            return ballot();
        case SimdOp::barrier:
            builder_.call(llvm::Intrinsic::nvvm_bar_warp_sync, {mask_});
            return llvm::Constant::getNullValue(bits_);
        default: {
            const Lanes lanes{mask_, lane(), width_, architecture_};
            llvm::Value* result = reduce_lanes(builder_, op_, type_, value_, lanes);
            builder_.SetInsertPoint(&call_);
            return result;
        }
        }
    }

    llvm::Value* lane() {
        if (!lane_) {
            llvm::Module& module = *call_.getModule();
            auto callee = module.getOrInsertFunction(runtime::simd_lane, builder_.getInt32Ty());
            lane_ = builder_.CreateCall(callee);
        }
        return lane_;
    }
    llvm::Value* place() { return width_ == quad_width ? builder_.CreateAnd(lane(), 3) : lane(); }
    llvm::Value* first() { return width_ == quad_width ? builder_.CreateAnd(lane(), 28) : builder_.getInt32(0); }
    llvm::Value* span_bits() { return builder_.getInt32(width_ == quad_width ? 0xf : 0xffffffff); }
    llvm::Value* is_in_span(llvm::Value* lane) { return builder_.CreateICmpULT(lane, builder_.getInt32(width_)); }

    // Value of a lane of this span; zero when it is not active or not in the span.
    llvm::Value* from(llvm::Value* value, llvm::Value* source) {
        llvm::Value* at = builder_.CreateAdd(first(), source);
        llvm::Value* there = builder_.CreateAnd(is_in_span(source), builder_.has_lane(mask_, at));
        llvm::Value* brought = builder_.shuffle(mask_, value, builder_.CreateAnd(at, 31));
        return builder_.CreateSelect(there, brought, llvm::Constant::getNullValue(bits_));
    }

    llvm::Value* input(ThreadInput which, unsigned axis = 0) {
        llvm::Module& module = *call_.getModule();
        auto callee = module.getOrInsertFunction(runtime::input, builder_.getInt32Ty(), builder_.getInt32Ty());
        return builder_.CreateCall(callee, {builder_.getInt32(unsigned(which) + axis)});
    }
    // Lanes of this span that exist: fewer at the end of the threadgroup.
    llvm::Value* existing() {
        const auto size = ThreadInput::threads_in_this_threadgroup;
        llvm::Value* threads = builder_.CreateMul(builder_.CreateMul(input(size, 0), input(size, 1)), input(size, 2));
        llvm::Value* start = builder_.CreateSub(input(ThreadInput::index_in_threadgroup), place());
        return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, builder_.CreateSub(threads, start),
                                              builder_.getInt32(width_));
    }

    llvm::Value* rotated() {
        llvm::Value* lanes = existing();
        llvm::Value* distance = builder_.CreateURem(operand_, lanes);
        llvm::Value* source = op_ == SimdOp::shuffle_rotate_up
                                  ? builder_.CreateSub(builder_.CreateAdd(place(), lanes), distance)
                                  : builder_.CreateAdd(place(), distance);
        llvm::Value* wrapped = builder_.CreateSub(source, lanes);
        return from(value_, builder_.CreateSelect(builder_.CreateICmpUGE(source, lanes), wrapped, source));
    }

    llvm::Value* shuffled() {
        switch (op_) {
        case SimdOp::shuffle_up:
            return builder_.CreateSelect(builder_.CreateICmpUGT(operand_, place()), value_,
                                         from(value_, builder_.CreateSub(place(), operand_)));
        case SimdOp::shuffle_down: {
            llvm::Value* source = builder_.CreateAdd(place(), operand_);
            return builder_.CreateSelect(is_in_span(source), from(value_, source), value_);
        }
        case SimdOp::shuffle_xor:
            return from(value_, builder_.CreateXor(place(), operand_));
        case SimdOp::shuffle_rotate_up:
        case SimdOp::shuffle_rotate_down:
            return rotated();
        default:
            return from(value_, operand_);
        }
    }

    // The lanes of a span form vectors of `modulo` lanes; what leaves a vector at one end takes the other end of `fill`.
    llvm::Value* filled() {
        llvm::Value* bits = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, modulo_);
        llvm::Value* fits = builder_.CreateAnd(builder_.CreateICmpEQ(bits, builder_.getInt32(1)),
                                               builder_.CreateICmpULE(modulo_, builder_.getInt32(width_)));
        llvm::Value* modulo = builder_.CreateSelect(fits, modulo_, builder_.getInt32(width_));
        llvm::Value* at = builder_.CreateAnd(place(), builder_.CreateSub(modulo, builder_.getInt32(1)));
        llvm::Value *inside = nullptr, *source = nullptr, *other = nullptr;
        if (op_ == SimdOp::fill_up) {
            inside = builder_.CreateICmpUGE(at, operand_);
            source = builder_.CreateSub(place(), operand_);
            other = builder_.CreateAdd(source, modulo);
        } else {
            inside = builder_.CreateICmpULT(builder_.CreateAdd(at, operand_), modulo);
            source = builder_.CreateAdd(place(), operand_);
            other = builder_.CreateSub(source, modulo);
        }
        llvm::Value* result = builder_.CreateSelect(inside, from(value_, source), from(fill_, other));
        return builder_.CreateSelect(builder_.CreateICmpUGT(operand_, modulo), llvm::Constant::getNullValue(bits_), result);
    }

    llvm::Value* ballot() {
        llvm::Value* voted = builder_.call(llvm::Intrinsic::nvvm_vote_ballot_sync,
                                           {mask_, builder_.CreateICmpNE(value_, llvm::Constant::getNullValue(bits_))});
        return builder_.CreateAnd(builder_.CreateLShr(voted, first()), span_bits());
    }

    llvm::CallInst& call_;
    WarpBuilder builder_;
    SimdOp op_;
    SimdType type_;
    unsigned width_;
    unsigned architecture_;
    llvm::IntegerType* bits_ = nullptr;
    llvm::Value *value_ = nullptr, *fill_ = nullptr, *operand_ = nullptr, *modulo_ = nullptr, *mask_ = nullptr,
                *lane_ = nullptr;
};

} // namespace

void lower_simd_functions(llvm::Function& thread, unsigned architecture) {
    for (llvm::CallInst* call : calls_of(thread, runtime::barrier)) {
        WarpBuilder builder(call);
        builder.call(llvm::Intrinsic::nvvm_barrier0);
        call->eraseFromParent();
    }
    for (llvm::CallInst* call : calls_of(thread, runtime::simd)) {
        SimdCall(*call, architecture).lower();
    }
}

} // namespace metalki::compiler::ptx
