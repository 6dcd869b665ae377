// See the header.
#include "codegen/function_pointers.hpp"

#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace metalki::compiler {
namespace {

constexpr std::size_t max_choices = 64; // beyond that code would grow without bound; such calls stay as they are

std::vector<llvm::CallInst*> calls_through_pointers(llvm::Module& module) {
    std::vector<llvm::CallInst*> out;
    for (llvm::Function& function : module) {
        for (llvm::Instruction& instruction : llvm::instructions(function)) {
            auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            if (call && call->isIndirectCall()) {
                out.push_back(call);
            }
        }
    }
    return out;
}

std::vector<llvm::Function*> functions_of_type(llvm::Module& module, const llvm::FunctionType* type) {
    std::vector<llvm::Function*> out;
    for (llvm::Function& function : module) {
        if (function.getFunctionType() == type && !function.isIntrinsic() && function.hasAddressTaken()) {
            out.push_back(&function);
        }
    }
    return out;
}

// if (p == f) f(); else if (p == g) g(); ... A pointer that names none of them calls nothing.
void choose(llvm::CallInst& call, const std::vector<llvm::Function*>& choices) {
    llvm::Value* pointer = call.getCalledOperand();
    llvm::BasicBlock* before = call.getParent();
    llvm::BasicBlock* after = before->splitBasicBlock(&call, "called");
    llvm::PHINode* result = nullptr;
    if (!call.getType()->isVoidTy()) {
        result = llvm::PHINode::Create(call.getType(), static_cast<unsigned>(choices.size()) + 1, "", after->begin());
    }
    before->getTerminator()->eraseFromParent();
    for (llvm::Function* choice : choices) {
        auto* hit = llvm::BasicBlock::Create(call.getContext(), "", before->getParent(), after);
        auto* miss = llvm::BasicBlock::Create(call.getContext(), "", before->getParent(), after);
        llvm::IRBuilder<>(before).CreateCondBr(llvm::IRBuilder<>(before).CreateICmpEQ(pointer, choice), hit, miss);
        auto* copy = llvm::cast<llvm::CallInst>(call.clone());
        copy->setCalledFunction(choice);
        copy->insertInto(hit, hit->end());
        llvm::IRBuilder<>(hit).CreateBr(after);
        if (result) {
            result->addIncoming(copy, hit);
        }
        before = miss;
    }
    llvm::IRBuilder<>(before).CreateBr(after);
    if (result) {
        result->addIncoming(llvm::Constant::getNullValue(call.getType()), before);
        call.replaceAllUsesWith(result);
    }
    call.eraseFromParent();
}

} // namespace

void resolve_function_pointers(llvm::Module& module) {
    for (llvm::CallInst* call : calls_through_pointers(module)) {
        std::vector<llvm::Function*> choices = functions_of_type(module, call->getFunctionType());
        if (!choices.empty() && choices.size() <= max_choices) {
            choose(*call, choices);
        }
    }
}

} // namespace metalki::compiler
