// See the header.
#include "ptx/simd_matrices.hpp"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "ptx/matrix_fragments.hpp"

namespace metalki::compiler::ptx {
namespace {

// half or bfloat when all elements of A and B come from it; null otherwise, or when the GPU has no such product.
llvm::Type* small_type(const llvm::CallInst& call, unsigned architecture) {
    llvm::Type* type = nullptr;
    for (unsigned i = 0; i < 4; ++i) {
        auto* extended = llvm::dyn_cast<llvm::FPExtInst>(call.getArgOperand(i));
        if (!extended || (type && extended->getSrcTy() != type)) {
            return nullptr;
        }
        type = extended->getSrcTy();
    }
    return architecture >= (type->isHalfTy() ? 75u : 80u) ? type : nullptr;
}

llvm::Value* source(const llvm::CallInst& call, unsigned argument) {
    return llvm::cast<llvm::FPExtInst>(call.getArgOperand(argument))->getOperand(0);
}

// The upper half of the 16 rows that the instruction takes stays empty.
void multiply_on_tensor_cores(llvm::CallInst& call, llvm::Type* small, MatrixFragments& fragments) {
    llvm::Value* a = fragments.row_fragment({source(call, 0), source(call, 1)});
    llvm::Value* b = fragments.column_fragment({source(call, 2), source(call, 3)});
    const Pair c = fragments.accumulator({call.getArgOperand(4), call.getArgOperand(5)});
    WarpBuilder builder(&call);
    llvm::Value* none = builder.getInt32(0);
    llvm::Value* zero = llvm::ConstantFP::get(builder.getFloatTy(), 0.0);
    llvm::Intrinsic::ID id = llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_bf16;
    if (small->isHalfTy()) {
        id = llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_f32_f32;
        llvm::Type* pair = llvm::FixedVectorType::get(small, 2);
        a = builder.CreateBitCast(a, pair);
        b = builder.CreateBitCast(b, pair);
        none = builder.CreateBitCast(none, pair);
    }
    llvm::Value* d = builder.call(id, {a, none, b, c[0], c[1], zero, zero});
    fragments.set_result(call, {builder.CreateExtractValue(d, 0), builder.CreateExtractValue(d, 1)});
}

// Row by column; elements of A and B come from the lanes that hold them.
void multiply_by_lanes(llvm::CallInst& call, llvm::Value* lane) {
    WarpBuilder builder(&call);
    llvm::Value* mask = builder.active();
    llvm::Value* own_row = builder.CreateAnd(lane, 0b10110);
    llvm::Value* own_columns = builder.CreateAnd(lane, 0b01001);
    Pair d{call.getArgOperand(4), call.getArgOperand(5)};
    for (unsigned k = 0; k < 8; ++k) {
        const unsigned pair = k / 2;
        llvm::Value* of_a = builder.CreateOr(own_row, (pair & 2) << 2 | (pair & 1));
        llvm::Value* of_b = builder.CreateOr(own_columns, (k & 4) << 2 | (k & 3) << 1);
        llvm::Value* a = builder.shuffle(mask, call.getArgOperand(k % 2), of_a);
        for (unsigned i = 0; i < 2; ++i) {
            llvm::Value* b = builder.shuffle(mask, call.getArgOperand(2 + i), of_b);
            d[i] = builder.CreateIntrinsic(llvm::Intrinsic::fma, {builder.getFloatTy()}, {a, b, d[i]});
        }
    }
    llvm::Value* result = llvm::PoisonValue::get(call.getType());
    result = builder.CreateInsertElement(result, d[0], builder.getInt64(0));
    result = builder.CreateInsertElement(result, d[1], builder.getInt64(1));
    call.replaceAllUsesWith(result);
    call.eraseFromParent();
}

} // namespace

void declare_matrix_products(llvm::Module& module) {
    llvm::Function* old = module.getFunction(runtime::simd_mma);
    auto* pair = llvm::FixedVectorType::get(llvm::Type::getFloatTy(module.getContext()), 2);
    if (!old || old->getReturnType() == pair) {
        return;
    }
    old->setName("");
    auto* type = llvm::FunctionType::get(pair, old->getFunctionType()->params(), false);
    llvm::Function* made = llvm::Function::Create(type, llvm::Function::ExternalLinkage, runtime::simd_mma, module);
    made->setAttributes(old->getAttributes());
    for (llvm::User* user : llvm::make_early_inc_range(old->users())) {
        auto* call = llvm::cast<llvm::CallInst>(user);
        llvm::IRBuilder<> builder(call);
        llvm::CallInst* product = builder.CreateCall(made, std::vector<llvm::Value*>(call->arg_begin(), call->arg_end()));
        product->setAttributes(call->getAttributes());
        call->replaceAllUsesWith(builder.CreateBitCast(product, call->getType()));
        call->eraseFromParent();
    }
    old->eraseFromParent();
}

void lower_simd_matrices(llvm::Function& thread, unsigned architecture) {
    std::vector<llvm::CallInst*> calls; // definitions come before uses, but for those around loops
    for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal<llvm::Function*>(&thread)) {
        for (llvm::Instruction& instruction : *block) {
            if (callee_name(instruction) == runtime::simd_mma) {
                calls.push_back(llvm::cast<llvm::CallInst>(&instruction));
            }
        }
    }
    if (calls.empty()) {
        return;
    }
    MatrixFragments fragments(thread);
    for (llvm::CallInst* call : calls) {
        if (llvm::Type* small = small_type(*call, architecture)) {
            multiply_on_tensor_cores(*call, small, fragments);
        } else {
            multiply_by_lanes(*call, fragments.lane());
        }
    }
    fragments.finish();
}

} // namespace metalki::compiler::ptx
