// See the header.
#include "codegen/recursion.hpp"

#include "llvm/ADT/SCCIterator.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler {
namespace {

constexpr std::size_t stack_of_recursion = std::size_t{512} << 10;

// What a pointer leads to is not known, and may be the caller.
bool calls_through_pointer(const llvm::Function& function) {
    return llvm::any_of(llvm::instructions(function), [](const llvm::Instruction& instruction) {
        const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
        return call && call->isIndirectCall();
    });
}

bool has_recursion(llvm::Module& module) {
    llvm::CallGraph calls(module);
    for (auto component = llvm::scc_begin(&calls); !component.isAtEnd(); ++component) {
        if (component.hasCycle()) {
            return true;
        }
    }
    return llvm::any_of(module, calls_through_pointer);
}

} // namespace

std::size_t prepare_recursion(llvm::Module& module) {
    if (!has_recursion(module)) {
        return 0;
    }
    for (llvm::Function& function : module) {
        if (!function.isDeclaration()) {
            function.addFnAttr("probe-stack", "inline-asm");
        }
    }
    return stack_of_recursion;
}

} // namespace metalki::compiler
