// A parsed source that Clang still holds: code is generated from it for whatever is asked for.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace metalki::compiler {

class TranslationUnit {
public:
    virtual ~TranslationUnit() = default;

    // Unoptimised code of the functions with these names and of what they use; of the whole source when `names` is empty.
    // Throws CompileError. Safe to call from several threads, which take turns.
    virtual std::unique_ptr<llvm::Module> generate(llvm::LLVMContext& context, const std::set<std::string>& names) = 0;
};

} // namespace metalki::compiler
