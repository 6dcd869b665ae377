// `float4 v = {5}` sets the first component and clears the rest, as any short list does, while float4(5) sets all. For C++ both
// call the constructor of one number; where it was a list, another constructor takes its place. The linker's --wrap leads here.
#include "clang/AST/DeclTemplate.h"
#include "clang/AST/Expr.h"
#include "clang/AST/ExprCXX.h"
#include "clang/Sema/Initialization.h"
#include "clang/Sema/Sema.h"

namespace metalki::compiler {
namespace {

bool is_vector(const clang::CXXRecordDecl& record) {
    const auto* made = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(&record);
    return made && (made->getName() == "vec" || made->getName() == "packed_vec") && made->getTemplateArgs().size() == 2;
}

// vec(T), which sets all components.
bool sets_all(const clang::CXXConstructorDecl& constructor) {
    if (constructor.getNumParams() != 1 || !is_vector(*constructor.getParent())) {
        return false;
    }
    const auto& vector = llvm::cast<clang::ClassTemplateSpecializationDecl>(*constructor.getParent());
    return constructor.getASTContext().hasSameType(constructor.getParamDecl(0)->getType(),
                                                   vector.getTemplateArgs()[0].getAsType());
}

// vec(T, __native), which sets the first.
clang::CXXConstructorDecl* first_only(const clang::CXXConstructorDecl& constructor) {
    for (clang::CXXConstructorDecl* other : constructor.getParent()->ctors()) {
        const clang::CXXRecordDecl* tag =
            other->getNumParams() == 2 ? other->getParamDecl(1)->getType()->getAsCXXRecordDecl() : nullptr;
        if (tag && tag->getName() == "__native") {
            return other;
        }
    }
    return nullptr;
}

// Arguments that complete_call has completed for the other constructor.
void choose(clang::CXXConstructorDecl*& constructor, std::size_t arguments) {
    if (arguments == 2 && sets_all(*constructor)) {
        constructor = first_only(*constructor);
    }
}

} // namespace

#define REAL(symbol) asm("__real_" symbol)
#define WRAP(symbol) asm("__wrap_" symbol) __attribute__((used))

#define COMPLETE                                                                                                               \
    "_ZN5clang4Sema23CompleteConstructorCallEPNS_18CXXConstructorDeclENS_8QualTypeEN4llvm15MutableArrayRefIPNS_4ExprEEENS_"    \
    "14SourceLocationERNS4_15SmallVectorImplIS7_EEbb"
bool clangs_completion(clang::Sema*, clang::CXXConstructorDecl*, clang::QualType, clang::MultiExprArg, clang::SourceLocation,
                       llvm::SmallVectorImpl<clang::Expr*>&, bool, bool) REAL(COMPLETE);
bool complete_call(clang::Sema*, clang::CXXConstructorDecl*, clang::QualType, clang::MultiExprArg, clang::SourceLocation,
                   llvm::SmallVectorImpl<clang::Expr*>&, bool, bool) WRAP(COMPLETE);
bool complete_call(clang::Sema* sema, clang::CXXConstructorDecl* constructor, clang::QualType type,
                   clang::MultiExprArg arguments, clang::SourceLocation at, llvm::SmallVectorImpl<clang::Expr*>& converted,
                   bool allow_explicit, bool is_list) {
    if (clangs_completion(sema, constructor, type, arguments, at, converted, allow_explicit, is_list)) {
        return true;
    }
    clang::CXXConstructorDecl* other =
        is_list && converted.size() == 1 && sets_all(*constructor) ? first_only(*constructor) : nullptr;
    if (other) {
        auto* nothing = new (sema->Context) clang::InitListExpr(sema->Context, at, {}, at);
        nothing->setType(sema->Context.VoidTy);
        clang::ExprResult tag = sema->PerformCopyInitialization(
            clang::InitializedEntity::InitializeParameter(sema->Context, other->getParamDecl(1)), at, nothing);
        if (tag.isUsable()) {
            sema->MarkFunctionReferenced(at, other);
            converted.push_back(tag.get());
        }
    }
    return false;
}

#define BUILD                                                                                                                  \
    "_ZN5clang4Sema21BuildCXXConstructExprENS_14SourceLocationENS_8QualTypeEPNS_9NamedDeclEPNS_18CXXConstructorDeclEN4llvm"    \
    "15MutableArrayRefIPNS_4ExprEEEbbbbNS_19CXXConstructionKindENS_11SourceRangeE"
#define PARAMETERS                                                                                                             \
    clang::MultiExprArg arguments, bool candidates, bool is_list, bool is_standard_list, bool zero,                            \
        clang::CXXConstructionKind kind, clang::SourceRange range
#define ARGUMENTS arguments, candidates, is_list, is_standard_list, zero, kind, range
clang::ExprResult clangs_build(clang::Sema*, clang::SourceLocation, clang::QualType, clang::NamedDecl*,
                               clang::CXXConstructorDecl*, PARAMETERS) REAL(BUILD);
clang::ExprResult build(clang::Sema*, clang::SourceLocation, clang::QualType, clang::NamedDecl*, clang::CXXConstructorDecl*,
                        PARAMETERS) WRAP(BUILD);
clang::ExprResult build(clang::Sema* sema, clang::SourceLocation at, clang::QualType type, clang::NamedDecl* found,
                        clang::CXXConstructorDecl* constructor, PARAMETERS) {
    choose(constructor, arguments.size());
    return clangs_build(sema, at, type, found, constructor, ARGUMENTS);
}

#define BUILD_ELIDABLE                                                                                                         \
    "_ZN5clang4Sema21BuildCXXConstructExprENS_14SourceLocationENS_8QualTypeEPNS_9NamedDeclEPNS_18CXXConstructorDeclEbN4llvm"   \
    "15MutableArrayRefIPNS_4ExprEEEbbbbNS_19CXXConstructionKindENS_11SourceRangeE"
clang::ExprResult clangs_build_elidable(clang::Sema*, clang::SourceLocation, clang::QualType, clang::NamedDecl*,
                                        clang::CXXConstructorDecl*, bool elidable, PARAMETERS) REAL(BUILD_ELIDABLE);
clang::ExprResult build_elidable(clang::Sema*, clang::SourceLocation, clang::QualType, clang::NamedDecl*,
                                 clang::CXXConstructorDecl*, bool elidable, PARAMETERS) WRAP(BUILD_ELIDABLE);
clang::ExprResult build_elidable(clang::Sema* sema, clang::SourceLocation at, clang::QualType type, clang::NamedDecl* found,
                                 clang::CXXConstructorDecl* constructor, bool elidable, PARAMETERS) {
    choose(constructor, arguments.size());
    return clangs_build_elidable(sema, at, type, found, constructor, elidable, ARGUMENTS);
}

#define TEMPORARY                                                                                                              \
    "_ZN5clang22CXXTemporaryObjectExpr6CreateERKNS_10ASTContextEPNS_18CXXConstructorDeclENS_8QualTypeEPNS_14TypeSourceInfoEN"  \
    "4llvm8ArrayRefIPNS_4ExprEEENS_11SourceRangeEbbbb"
clang::CXXTemporaryObjectExpr* clangs_temporary(const clang::ASTContext&, clang::CXXConstructorDecl*, clang::QualType,
                                                clang::TypeSourceInfo*, llvm::ArrayRef<clang::Expr*>, clang::SourceRange, bool,
                                                bool, bool, bool) REAL(TEMPORARY);
clang::CXXTemporaryObjectExpr* temporary(const clang::ASTContext&, clang::CXXConstructorDecl*, clang::QualType,
                                         clang::TypeSourceInfo*, llvm::ArrayRef<clang::Expr*>, clang::SourceRange, bool, bool,
                                         bool, bool) WRAP(TEMPORARY);
clang::CXXTemporaryObjectExpr* temporary(const clang::ASTContext& context, clang::CXXConstructorDecl* constructor,
                                         clang::QualType type, clang::TypeSourceInfo* written,
                                         llvm::ArrayRef<clang::Expr*> arguments, clang::SourceRange range, bool candidates,
                                         bool is_list, bool is_standard_list, bool zero) {
    choose(constructor, arguments.size());
    return clangs_temporary(context, constructor, type, written, arguments, range, candidates, is_list, is_standard_list, zero);
}

} // namespace metalki::compiler
