// Lines of the cache that are asked for twice.
#pragma once

#include "llvm/IR/PassManager.h"

namespace metalki::compiler {

// Loads from different fields of a structure ask for their lines each: what lies beside or between lines that a block asks for
// anyhow is left out.
class DropRepeatedPrefetches : public llvm::PassInfoMixin<DropRepeatedPrefetches> {
public:
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&);
};

} // namespace metalki::compiler
