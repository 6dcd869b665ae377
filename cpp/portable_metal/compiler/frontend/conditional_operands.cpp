// `c ? a : b` with objects of different address spaces: Metal copies them out of their spaces, Clang would refuse.
// Clang has no hook at this place; the linker's --wrap passes its calls through here.
#include "clang/AST/Expr.h"
#include "clang/Sema/Initialization.h"
#include "clang/Sema/Sema.h"

namespace metalki::compiler {
namespace {

bool is_object_in_named_space(const clang::Expr& operand) {
    return operand.isGLValue() && operand.getType()->isRecordType() && operand.getType().hasAddressSpace();
}

void copy_out_of_space(clang::Sema& sema, clang::ExprResult& operand) {
    if (!is_object_in_named_space(*operand.get())) {
        return;
    }
    clang::QualType type = sema.Context.removeAddrSpaceQualType(operand.get()->getType()).getUnqualifiedType();
    clang::SourceLocation at = operand.get()->getExprLoc();
    operand = sema.PerformCopyInitialization(clang::InitializedEntity::InitializeTemporary(type), at, operand);
}

} // namespace

clang::QualType real_check(clang::Sema* sema, clang::ExprResult& condition, clang::ExprResult& a, clang::ExprResult& b,
                           clang::ExprValueKind& value_kind, clang::ExprObjectKind& object_kind,
                           clang::SourceLocation at) asm("__real__ZN5clang4Sema27CXXCheckConditionalOperandsERNS_"
                                                         "12ActionResultIPNS_4ExprELb1EEES5_S5_RNS_13ExprValueKindE"
                                                         "RNS_14ExprObjectKindENS_14SourceLocationE");

__attribute__((used)) clang::QualType
check_conditional_operands(clang::Sema* sema, clang::ExprResult& condition, clang::ExprResult& a, clang::ExprResult& b,
                           clang::ExprValueKind& value_kind, clang::ExprObjectKind& object_kind,
                           clang::SourceLocation at) asm("__wrap__ZN5clang4Sema27CXXCheckConditionalOperandsERNS_"
                                                         "12ActionResultIPNS_4ExprELb1EEES5_S5_RNS_13ExprValueKindE"
                                                         "RNS_14ExprObjectKindENS_14SourceLocationE");

clang::QualType check_conditional_operands(clang::Sema* sema, clang::ExprResult& condition, clang::ExprResult& a,
                                           clang::ExprResult& b, clang::ExprValueKind& value_kind,
                                           clang::ExprObjectKind& object_kind, clang::SourceLocation at) {
    bool known = a.isUsable() && b.isUsable() && !a.get()->isTypeDependent() && !b.get()->isTypeDependent();
    if (known && a.get()->getType().getAddressSpace() != b.get()->getType().getAddressSpace()) {
        copy_out_of_space(*sema, a);
        copy_out_of_space(*sema, b);
        if (a.isInvalid() || b.isInvalid()) {
            return {};
        }
    }
    return real_check(sema, condition, a, b, value_kind, object_kind, at);
}

} // namespace metalki::compiler
