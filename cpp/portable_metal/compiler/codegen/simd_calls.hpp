// Which calls come to a SIMD-group function, directly or through other functions.
#pragma once

#include <set>

#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

namespace metalki::compiler {

class SimdCalls {
public:
    explicit SimdCalls(llvm::Module& module);

    // Functions that contain such a call.
    const std::set<llvm::Function*>& callers() const { return callers_; }
    bool are_in(const llvm::BasicBlock& block) const;

private:
    std::set<llvm::Function*> callers_;
    std::set<const llvm::Instruction*> calls_;
};

} // namespace metalki::compiler
