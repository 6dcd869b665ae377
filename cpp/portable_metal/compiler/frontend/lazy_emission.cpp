// Clang asks of each definition whether it must be emitted even if nothing refers to it; the linker's --wrap leads the
// question here.
#include "frontend/lazy_emission.hpp"

#include "clang/AST/ASTContext.h"
#include "clang/AST/Decl.h"

namespace metalki::compiler {
namespace {

thread_local const std::set<std::string>* wanted = nullptr;

} // namespace

EmitOnly::EmitOnly(const std::set<std::string>& names) {
    wanted = &names;
}
EmitOnly::~EmitOnly() {
    wanted = nullptr;
}

bool clangs_answer(clang::ASTContext* context,
                   const clang::Decl* declaration) asm("__real__ZN5clang10ASTContext17DeclMustBeEmittedEPKNS_4DeclE");

__attribute__((used)) bool
must_be_emitted(clang::ASTContext* context,
                const clang::Decl* declaration) asm("__wrap__ZN5clang10ASTContext17DeclMustBeEmittedEPKNS_4DeclE");

bool must_be_emitted(clang::ASTContext* context, const clang::Decl* declaration) {
    if (!wanted) {
        return clangs_answer(context, declaration);
    }
    const auto* function = llvm::dyn_cast<clang::FunctionDecl>(declaration);
    return function && function->getIdentifier() && wanted->count(function->getName().str()) > 0;
}

} // namespace metalki::compiler
