// Spares Clang the built-in operators as candidates for operands that cannot convert to a built-in type: metal::vec has
// operators of its own and no conversions, and kernels consist of little else. The linker's --wrap leads here.
#include "clang/AST/DeclCXX.h"
#include "clang/Sema/Overload.h"
#include "clang/Sema/Sema.h"

namespace metalki::compiler {

void add_all_candidates(
    clang::Sema* sema, clang::OverloadedOperatorKind kind, clang::SourceLocation at, llvm::ArrayRef<clang::Expr*> operands,
    clang::OverloadCandidateSet& candidates) asm("__real__ZN5clang4Sema28AddBuiltinOperatorCandidatesENS_"
                                                 "22OverloadedOperatorKindENS_14SourceLocationEN4llvm8ArrayRefI"
                                                 "PNS_4ExprEEERNS_20OverloadCandidateSetE");

__attribute__((used)) void
add_candidates(clang::Sema* sema, clang::OverloadedOperatorKind kind, clang::SourceLocation at,
               llvm::ArrayRef<clang::Expr*> operands,
               clang::OverloadCandidateSet& candidates) asm("__wrap__ZN5clang4Sema28AddBuiltinOperatorCandidatesENS_"
                                                            "22OverloadedOperatorKindENS_14SourceLocationEN4llvm8ArrayRefI"
                                                            "PNS_4ExprEEERNS_20OverloadCandidateSetE");

void add_candidates(clang::Sema* sema, clang::OverloadedOperatorKind kind, clang::SourceLocation at,
                    llvm::ArrayRef<clang::Expr*> operands, clang::OverloadCandidateSet& candidates) {
    for (const clang::Expr* operand : operands) {
        clang::CXXRecordDecl* type = operand->getType()->getAsCXXRecordDecl();
        if (type && type->hasDefinition() && type->getVisibleConversionFunctions().empty()) {
            return; // no built-in operator takes an object of this class
        }
    }
    add_all_candidates(sema, kind, at, operands, candidates);
}

} // namespace metalki::compiler
