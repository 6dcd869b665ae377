// See the header.
#include "codegen/simd_calls.hpp"

#include <algorithm>
#include <vector>

#include "codegen/runtime_names.hpp"

namespace metalki::compiler {

SimdCalls::SimdCalls(llvm::Module& module) {
    std::vector<llvm::Function*> open;
    for (const char* name : {runtime::simd, runtime::simd_mma}) {
        if (llvm::Function* function = module.getFunction(name)) {
            open.push_back(function);
        }
    }
    while (!open.empty()) {
        llvm::Function* callee = open.back();
        open.pop_back();
        for (llvm::User* user : callee->users()) {
            auto* call = llvm::dyn_cast<llvm::CallBase>(user);
            if (call && call->getCalledOperand() == callee) {
                calls_.insert(call);
                if (callers_.insert(call->getFunction()).second) {
                    open.push_back(call->getFunction());
                }
            }
        }
    }
}

bool SimdCalls::are_in(const llvm::BasicBlock& block) const {
    return std::ranges::any_of(block, [&](const llvm::Instruction& instruction) { return calls_.count(&instruction) > 0; });
}

} // namespace metalki::compiler
