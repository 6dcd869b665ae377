// One walk over the user's declarations that reports what Metal's compiler would refuse and C++ accepts.
#include "frontend/semantic_checks.hpp"

#include <map>
#include <set>

#include "clang/AST/Attr.h"
#include "clang/AST/RecursiveASTVisitor.h"

namespace metalki::compiler {
namespace {

class Checker : public clang::RecursiveASTVisitor<Checker> {
public:
    explicit Checker(clang::Sema& sema) : sema_(sema) {}

    bool shouldVisitTemplateInstantiations() const { return true; }

    bool TraverseFunctionDecl(clang::FunctionDecl* function) {
        return in_function(function, &Checker::walk_function, function);
    }
    bool TraverseCXXMethodDecl(clang::CXXMethodDecl* method) { return in_function(method, &Checker::walk_method, method); }

    bool VisitCallExpr(clang::CallExpr* call) {
        const auto* callee = call->getDirectCallee();
        bool becomes_loop =
            tail_calls_.count(call) > 0 && callee && current_ && callee->getCanonicalDecl() == current_->getCanonicalDecl();
        if (callee && current_ && !becomes_loop) {
            calls_[current_->getCanonicalDecl()].emplace(callee->getCanonicalDecl(), call->getBeginLoc());
        }
        return true;
    }

    bool VisitVarDecl(clang::VarDecl* variable) {
        check_storage(variable);
        bool threadgroup = variable->getType().getAddressSpace() == clang::LangAS::sycl_local;
        if (threadgroup && variable->hasInit() && !llvm::isa<clang::ParmVarDecl>(variable) &&
            !is_empty_initialiser(variable->getInit())) {
            report(variable->getLocation(), "threadgroup variable '%0' cannot have an initializer")
                << variable->getNameAsString();
        }
        return true;
    }

    // A device has no memory for variables that live longer than a thread.
    void check_storage(clang::VarDecl* variable) {
        clang::QualType type = variable->getType();
        bool named_space =
            type.getAddressSpace() == clang::LangAS::sycl_local || type.getAddressSpace() == clang::LangAS::sycl_global_host;
        if (variable->hasGlobalStorage() && !named_space && !type.isConstQualified() && !variable->isConstexpr() &&
            !variable->isStaticDataMember() && !type->isReferenceType()) {
            report(variable->getLocation(), "variable '%0' outlives its thread and must be in the constant address space")
                << variable->getNameAsString();
        }
    }

    // Conversions from a named space to `thread` are silent for Clang; MSL has none.
    bool VisitImplicitCastExpr(clang::ImplicitCastExpr* cast) {
        if (cast->getCastKind() != clang::CK_AddressSpaceConversion || !cast->getType()->isPointerType() ||
            is_object_argument(cast)) {
            return true;
        }
        clang::QualType source = cast->getSubExpr()->getType()->getPointeeType();
        clang::QualType target = cast->getType()->getPointeeType();
        if (!source.isNull() && source.hasAddressSpace() && !target.hasAddressSpace()) {
            report(cast->getBeginLoc(),
                   "cannot convert a pointer to %0 memory to a pointer to thread memory: the address space differs")
                << space_name(source.getAddressSpace());
        }
        return true;
    }

    bool VisitMemberExpr(clang::MemberExpr* member) {
        object_arguments_.insert(member->getBase());
        return true;
    }
    bool VisitCXXMemberCallExpr(clang::CXXMemberCallExpr* call) {
        object_arguments_.insert(call->getImplicitObjectArgument());
        return true;
    }

    void report_recursion() {
        for (const auto& [function, callees] : calls_) {
            std::set<const clang::FunctionDecl*> visited;
            for (const auto& [callee, at] : callees) {
                if (reaches(callee, function, visited)) {
                    report(at, "recursion is not supported in Metal: '%0' calls itself") << function->getNameAsString();
                    return;
                }
            }
        }
    }

private:
    template <class Walk, class Declaration>
    bool in_function(clang::FunctionDecl* function, Walk walk, Declaration* declaration) {
        const clang::FunctionDecl* outer = current_;
        current_ = function;
        if (function->doesThisDeclarationHaveABody()) {
            note_tail_calls(function->getBody());
        }
        bool go_on = (this->*walk)(declaration);
        current_ = outer;
        return go_on;
    }
    bool walk_function(clang::FunctionDecl* f) { return RecursiveASTVisitor::TraverseFunctionDecl(f); }
    bool walk_method(clang::CXXMethodDecl* m) { return RecursiveASTVisitor::TraverseCXXMethodDecl(m); }

    // Default construction and {} or {0}: such initialisers are accepted and have no effect.
    static bool is_empty_initialiser(const clang::Expr* value) {
        value = value->IgnoreImplicit();
        if (const auto* construction = llvm::dyn_cast<clang::CXXConstructExpr>(value)) {
            return llvm::all_of(construction->arguments(), is_empty_initialiser);
        }
        if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(value)) {
            return llvm::all_of(list->inits(), is_empty_initialiser);
        }
        if (const auto* number = llvm::dyn_cast<clang::IntegerLiteral>(value)) {
            return number->getValue().isZero();
        }
        if (const auto* number = llvm::dyn_cast<clang::FloatingLiteral>(value)) {
            return number->getValue().isZero();
        }
        return llvm::isa<clang::ImplicitValueInitExpr>(value);
    }

    // A function that ends by calling itself is a loop for the optimiser; Metal's compiler accepts it, and so do we.
    void note_tail_calls(const clang::Stmt* last) {
        if (const auto* block = llvm::dyn_cast_or_null<clang::CompoundStmt>(last)) {
            if (!block->body_empty()) {
                note_tail_calls(block->body_back());
            }
        } else if (const auto* branch = llvm::dyn_cast_or_null<clang::IfStmt>(last)) {
            note_tail_calls(branch->getThen());
            note_tail_calls(branch->getElse());
        } else if (const auto* result = llvm::dyn_cast_or_null<clang::ReturnStmt>(last)) {
            note_tail_calls(result->getRetValue());
        } else if (const auto* expression = llvm::dyn_cast_or_null<clang::Expr>(last)) {
            if (const auto* call = llvm::dyn_cast<clang::CallExpr>(expression->IgnoreImplicit())) {
                tail_calls_.insert(call);
            }
        }
    }

    bool is_object_argument(const clang::Expr* e) const { return object_arguments_.count(e) > 0; }

    static const char* space_name(clang::LangAS space) {
        switch (space) {
        case clang::LangAS::sycl_global_device:
            return "device";
        case clang::LangAS::sycl_global_host:
            return "constant";
        case clang::LangAS::sycl_local:
            return "threadgroup";
        default:
            return "thread";
        }
    }

    bool reaches(const clang::FunctionDecl* from, const clang::FunctionDecl* target,
                 std::set<const clang::FunctionDecl*>& visited) {
        if (from == target) {
            return true;
        }
        auto found = calls_.find(from);
        if (found == calls_.end() || !visited.insert(from).second) {
            return false;
        }
        for (const auto& [callee, at] : found->second) {
            if (reaches(callee, target, visited)) {
                return true;
            }
        }
        return false;
    }

    clang::SemaBase::SemaDiagnosticBuilder report(clang::SourceLocation at, llvm::StringRef text) {
        auto id = sema_.getDiagnostics().getDiagnosticIDs()->getCustomDiagID(clang::DiagnosticIDs::Error, text);
        return sema_.Diag(at, id);
    }

    clang::Sema& sema_;
    const clang::FunctionDecl* current_ = nullptr;
    std::map<const clang::FunctionDecl*, std::map<const clang::FunctionDecl*, clang::SourceLocation>> calls_;
    std::set<const clang::Expr*> object_arguments_;
    std::set<const clang::CallExpr*> tail_calls_;
};

} // namespace

void check_msl_rules(clang::Sema& sema, const std::vector<clang::Decl*>& declarations) {
    Checker checker(sema);
    for (clang::Decl* declaration : declarations) {
        checker.TraverseDecl(declaration);
    }
    checker.report_recursion();
}

} // namespace metalki::compiler
