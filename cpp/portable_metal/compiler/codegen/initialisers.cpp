// See the header.
#include "codegen/initialisers.hpp"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/IPO/GlobalOpt.h"

#include "codegen/analyses.hpp"

namespace metalki::compiler {
namespace {

constexpr const char* list_name = "llvm.global_ctors";

void drop_invariants(llvm::Function& function) {
    for (llvm::BasicBlock& block : function) {
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(block)) {
            const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
            if (call && call->getIntrinsicID() == llvm::Intrinsic::invariant_start && call->use_empty()) {
                instruction.eraseFromParent();
            }
        }
    }
}

} // namespace

void evaluate_initialisers(llvm::Module& module) {
    if (!module.getNamedGlobal(list_name)) {
        return;
    }
    llvm::PassBuilder builder;
    Analyses analyses(builder);
    llvm::GlobalOptPass().run(module, analyses.modules);
}

void call_initialisers(llvm::Module& module, llvm::Function& entry) {
    llvm::GlobalVariable* list = module.getNamedGlobal(list_name);
    const auto* functions = list ? llvm::dyn_cast<llvm::ConstantArray>(list->getInitializer()) : nullptr;
    if (functions) {
        llvm::IRBuilder<> builder(&entry.getEntryBlock(), entry.getEntryBlock().getFirstInsertionPt());
        for (const llvm::Use& element : functions->operands()) {
            auto* function = llvm::dyn_cast<llvm::Function>(llvm::cast<llvm::Constant>(element)->getAggregateElement(1u));
            if (function) {
                drop_invariants(*function);
                builder.CreateCall(function);
            }
        }
    }
    if (list) {
        list->eraseFromParent();
    }
}

} // namespace metalki::compiler
