// `v * 2` is `v * float4(2)`, but Clang would first try the operator for each pair of built-in types. A number beside a vector
// is converted before it looks for operators. The linker's --wrap leads here.
#include "clang/AST/DeclTemplate.h"
#include "clang/Basic/SourceManager.h"
#include "clang/Sema/Initialization.h"
#include "clang/Sema/Sema.h"

namespace metalki::compiler {
namespace {

bool has_vector_form(clang::BinaryOperatorKind kind) {
    return clang::BinaryOperator::isMultiplicativeOp(kind) || clang::BinaryOperator::isAdditiveOp(kind) ||
           clang::BinaryOperator::isShiftOp(kind) || clang::BinaryOperator::isBitwiseOp(kind) ||
           clang::BinaryOperator::isComparisonOp(kind) || clang::BinaryOperator::isAssignmentOp(kind);
}

// T of metal::vec<T, n>, or null.
clang::QualType component_type(clang::QualType type) {
    const auto* record = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(type->getAsCXXRecordDecl());
    bool is_vector = record && record->getIdentifier() && record->getName() == "vec" && record->getTemplateArgs().size() == 2 &&
                     record->hasDefinition();
    return is_vector ? record->getTemplateArgs()[0].getAsType() : clang::QualType();
}

// Half and bfloat are no numbers to each other.
bool converts(clang::QualType number, clang::QualType component) {
    return number->isBuiltinType() && number->isArithmeticType() && !(number->isBFloat16Type() && component->isFloat16Type()) &&
           !(number->isFloat16Type() && component->isBFloat16Type());
}

void convert_to_vector(clang::Sema& sema, clang::Expr*& number, clang::QualType vector) {
    clang::QualType type = sema.Context.removeAddrSpaceQualType(vector).getUnqualifiedType();
    clang::ExprResult converted =
        sema.PerformCopyInitialization(clang::InitializedEntity::InitializeTemporary(type), number->getExprLoc(), number);
    if (converted.isUsable()) {
        number = converted.get();
    }
}

// A program's own operators may take numbers.
bool all_ours(const clang::Sema& sema, const clang::UnresolvedSetImpl& functions) {
    return llvm::all_of(functions, [&](const clang::NamedDecl* function) {
        return sema.getSourceManager().isInSystemHeader(function->getLocation());
    });
}

} // namespace

#define SYMBOL                                                                                                                 \
    "_ZN5clang4Sema21CreateOverloadedBinOpENS_14SourceLocationENS_18BinaryOperatorKindERKNS_17UnresolvedSetImplEPNS_4ExprES7_" \
    "bbPNS_12FunctionDeclE"
clang::ExprResult create(clang::Sema* sema, clang::SourceLocation at, clang::BinaryOperatorKind kind,
                         const clang::UnresolvedSetImpl& functions, clang::Expr* left, clang::Expr* right, bool look_up,
                         bool rewrite, clang::FunctionDecl* defaulted) asm("__real_" SYMBOL);
__attribute__((used)) clang::ExprResult create_operation(clang::Sema* sema, clang::SourceLocation at,
                                                         clang::BinaryOperatorKind kind,
                                                         const clang::UnresolvedSetImpl& functions, clang::Expr* left,
                                                         clang::Expr* right, bool look_up, bool rewrite,
                                                         clang::FunctionDecl* defaulted) asm("__wrap_" SYMBOL);

clang::ExprResult create_operation(clang::Sema* sema, clang::SourceLocation at, clang::BinaryOperatorKind kind,
                                   const clang::UnresolvedSetImpl& functions, clang::Expr* left, clang::Expr* right,
                                   bool look_up, bool rewrite, clang::FunctionDecl* defaulted) {
    if (has_vector_form(kind) && all_ours(*sema, functions)) {
        clang::QualType of_left = component_type(left->getType()), of_right = component_type(right->getType());
        if (!of_left.isNull() && converts(right->getType(), of_left)) {
            convert_to_vector(*sema, right, left->getType());
        } else if (!of_right.isNull() && converts(left->getType(), of_right) && !clang::BinaryOperator::isAssignmentOp(kind)) {
            convert_to_vector(*sema, left, right->getType());
        }
    }
    return create(sema, at, kind, functions, left, right, look_up, rewrite, defaulted);
}

} // namespace metalki::compiler
