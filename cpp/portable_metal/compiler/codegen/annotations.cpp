// See the header.
#include "codegen/annotations.hpp"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

namespace metalki::compiler {

void drop_annotations(llvm::Module& module) {
    if (llvm::GlobalVariable* list = module.getNamedGlobal("llvm.global.annotations")) {
        list->eraseFromParent();
    }
    for (llvm::Function& function : module) {
        const bool of_variables = function.getIntrinsicID() == llvm::Intrinsic::var_annotation;
        if (!of_variables && function.getIntrinsicID() != llvm::Intrinsic::ptr_annotation) {
            continue;
        }
        while (!function.use_empty()) {
            auto* call = llvm::cast<llvm::CallInst>(function.user_back());
            if (!of_variables) {
                call->replaceAllUsesWith(call->getArgOperand(0)); // passes its pointer through
            }
            call->eraseFromParent();
        }
    }
}

} // namespace metalki::compiler
