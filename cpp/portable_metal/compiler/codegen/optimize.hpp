// Runs LLVM's standard pipelines on a kernel's module.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler {

// Brings all functions into their callers and nothing else: branches stay as they are in the source.
void inline_calls(llvm::Module& module, llvm::TargetMachine& machine);

// Inlines everything but recursion into the entry points and optimises at level 2.
void optimize(llvm::Module& module, llvm::TargetMachine& machine);

// Inlines and simplifies, but leaves loops as they are and makes no vectors: what the vectoriser starts from.
void simplify(llvm::Module& module, llvm::TargetMachine& machine);

// Cleans up after the vectoriser.
void optimize_vectors(llvm::Module& module, llvm::TargetMachine& machine);

// Inlines everything and folds what is constant: cheap, and enough to see what a kernel really needs.
void inline_and_fold(llvm::Module& module);

// Promotes variables and folds constant branches, nothing more: enough to see which globals are still read.
void fold_branches(llvm::Module& module);

} // namespace metalki::compiler
