// One kernel of a library, with all it calls and nothing else, in a module of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace metalki::compiler {

struct KernelModule {
    std::shared_ptr<std::string> problems;      // what LLVM reported as errors while it worked on the module
    std::unique_ptr<llvm::LLVMContext> context; // before the module: outlives it
    std::unique_ptr<llvm::Module> module;
};

// Empty but for a context that collects problems.
KernelModule make_kernel_module();

// Removes from `module` whatever the functions named `roots` do not lead to; only they stay visible.
void keep_only(llvm::Module& module, const std::vector<std::string>& roots);

// Reads from the library's bitcode only the functions reachable from `roots` and the initialisers of globals they use.
KernelModule extract_kernel(const std::string& bitcode, const std::vector<std::string>& roots);

// True when the module calls a barrier or a SIMD-group function.
bool calls_synchronization(const llvm::Module& module);

} // namespace metalki::compiler
