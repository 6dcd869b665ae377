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

// What one instruction does: its 16 rows are those of two products with the same B, or the upper half stays empty.
struct TensorProduct {
    llvm::CallInst* lower;
    llvm::CallInst* upper; // just before `lower`; null: none
    llvm::CallInst* place() const { return upper ? upper : lower; }
};

void multiply_on_tensor_cores(const TensorProduct& product, llvm::Type* small, MatrixFragments& fragments) {
    WarpBuilder zeros(product.place());
    const auto row_fragment = [&](const llvm::CallInst* call) -> llvm::Value* {
        return call ? fragments.row_fragment({source(*call, 0), source(*call, 1)}, *product.place()) : zeros.getInt32(0);
    };
    const auto accumulator = [&](const llvm::CallInst* call) -> Pair {
        llvm::Value* zero = llvm::ConstantFP::get(zeros.getFloatTy(), 0.0);
        const Pair elements = call ? Pair{call->getArgOperand(4), call->getArgOperand(5)} : Pair{zero, zero};
        return fragments.accumulator(elements, *product.place());
    };
    std::array<llvm::Value*, 3> factors{
        row_fragment(product.lower), row_fragment(product.upper),
        fragments.column_fragment({source(*product.lower, 2), source(*product.lower, 3)}, *product.place())};
    const Pair lower = accumulator(product.lower), upper = accumulator(product.upper);
    WarpBuilder builder(product.place());
    llvm::Intrinsic::ID id = llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_bf16;
    if (small->isHalfTy()) {
        id = llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_f32_f32;
        for (llvm::Value*& factor : factors) {
            factor = builder.CreateBitCast(factor, llvm::FixedVectorType::get(small, 2));
        }
    }
    llvm::Value* d = builder.call(id, {factors[0], factors[1], factors[2], lower[0], lower[1], upper[0], upper[1]});
    fragments.set_result(*product.lower, {builder.CreateExtractValue(d, 0), builder.CreateExtractValue(d, 1)});
    if (product.upper) {
        fragments.set_result(*product.upper, {builder.CreateExtractValue(d, 2), builder.CreateExtractValue(d, 3)});
    }
}

// What takes elements of the result before `later`, in the same block; false when one of them is used before it.
bool find_early_elements(const llvm::Value& value, const llvm::CallInst& later, std::vector<llvm::Instruction*>& elements) {
    for (const llvm::User* user : value.users()) {
        auto* instruction = llvm::cast<llvm::Instruction>(const_cast<llvm::User*>(user));
        if (instruction->getParent() != later.getParent() || llvm::isa<llvm::PHINode>(instruction) ||
            later.comesBefore(instruction)) {
            continue;
        }
        if (!llvm::isa<llvm::ExtractElementInst>(instruction) || !find_early_elements(*instruction, later, elements)) {
            return false;
        }
        elements.push_back(instruction);
    }
    return true;
}

// Moves the product behind `later`, in the same block, if nothing before that needs it.
bool postpone(llvm::CallInst& call, llvm::CallInst& later) {
    std::vector<llvm::Instruction*> elements;
    if (!find_early_elements(call, later, elements)) {
        return false;
    }
    call.moveAfter(&later);
    for (llvm::Instruction* element : elements) {
        element->moveAfter(&call);
    }
    return true;
}

// In an order in which definitions come before uses, but for those around loops.
std::vector<TensorProduct> pair_products(llvm::ArrayRef<llvm::CallInst*> calls, unsigned architecture) {
    std::vector<TensorProduct> products;
    std::map<std::pair<const llvm::BasicBlock*, Pair>, std::size_t> halves; // by block and B: where the upper rows are free
    for (llvm::CallInst* call : calls) {
        if (!small_type(*call, architecture)) {
            continue;
        }
        const std::pair key(static_cast<const llvm::BasicBlock*>(call->getParent()), Pair{source(*call, 2), source(*call, 3)});
        const auto found = halves.find(key);
        if (found != halves.end() &&
            small_type(*products[found->second].lower, architecture) == small_type(*call, architecture) &&
            postpone(*products[found->second].lower, *call)) {
            products.push_back({products[found->second].lower, call});
            products[found->second].lower = nullptr;
            halves.erase(found);
        } else {
            halves[key] = products.size();
            products.push_back({call, nullptr});
        }
    }
    std::erase_if(products, [](const TensorProduct& product) { return !product.lower; });
    return products;
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
    MatrixFragments fragments(thread, calls);
    for (const TensorProduct& product : pair_products(calls, architecture)) {
        multiply_on_tensor_cores(product, small_type(*product.lower, architecture), fragments);
    }
    for (llvm::CallInst* call : calls) {
        if (!small_type(*call, architecture)) {
            multiply_by_lanes(*call, fragments.lane());
        }
    }
    fragments.finish();
}

} // namespace metalki::compiler::ptx
