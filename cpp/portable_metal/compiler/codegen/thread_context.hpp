// What a kernel asks about the running thread becomes loads from the context that its entry receives.
#pragma once

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include "compiler/kernel_abi.hpp"

namespace metalki::compiler {

// After optimisation: answers the remaining questions (position inputs, which lane is this, where is the threadgroup memory)
// for `entry`, a ThreadEntry. Throws std::runtime_error when one is asked outside of `entry`.
void resolve_context(llvm::Module& module, llvm::Function& entry);

// Field `axis` of a size or position in the ThreadgroupContext at `context`.
llvm::Value* load_context_word(llvm::IRBuilderBase& builder, llvm::Value* context, std::size_t offset, unsigned axis);

// Where the context keeps an input that all threads of a threadgroup share.
std::size_t context_offset(ThreadInput input);

} // namespace metalki::compiler
