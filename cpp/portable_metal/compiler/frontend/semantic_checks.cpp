// One walk over the user's declarations that reports what Metal's compiler would refuse and C++ accepts.
#include "frontend/semantic_checks.hpp"

#include <map>
#include <set>

#include "clang/AST/Attr.h"
#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Basic/SourceManager.h"

#include "frontend/language_versions.hpp"
#include "frontend/log_checks.hpp"

namespace metalki::compiler {
namespace {

class Checker : public clang::RecursiveASTVisitor<Checker> {
public:
    Checker(clang::Sema& sema, unsigned language_version, const std::set<unsigned>& says_thread)
        : sema_(sema), language_version_(language_version), says_thread_(says_thread) {}

    bool shouldVisitTemplateInstantiations() const { return true; }
    // What names of types are made of is never run.
    bool TraverseTemplateSpecializationTypeLoc(clang::TemplateSpecializationTypeLoc) { return true; }
    bool TraverseElaboratedTypeLoc(clang::ElaboratedTypeLoc) { return true; }
    bool TraverseDecltypeTypeLoc(clang::DecltypeTypeLoc) { return true; }

    bool TraverseFunctionDecl(clang::FunctionDecl* function) {
        return in_function(function, &Checker::walk_function, function);
    }
    bool TraverseCXXMethodDecl(clang::CXXMethodDecl* method) { return in_function(method, &Checker::walk_method, method); }

    bool VisitCallExpr(clang::CallExpr* call) {
        check_log_call(sema_, *call, checked_logs_);
        const auto* callee = call->getDirectCallee();
        if (callee && callee->getIdentifier() && callee->getName() == "__metalki_is_defined" &&
            !names_function_constant(*call->getArg(0))) {
            report(call->getBeginLoc(), "'is_function_constant_defined' takes a function constant");
        }
        bool becomes_loop =
            tail_calls_.count(call) > 0 && callee && current_ && callee->getCanonicalDecl() == current_->getCanonicalDecl();
        if (callee && is_kernel(*callee)) {
            report(call->getBeginLoc(), "kernel '%0' cannot be called: only a launch runs kernels")
                << callee->getNameAsString();
        }
        if (callee && current_ && !becomes_loop) {
            calls_[current_->getCanonicalDecl()].emplace(callee->getCanonicalDecl(), call->getBeginLoc());
        }
        return true;
    }

    bool VisitLambdaExpr(clang::LambdaExpr* lambda) {
        if (language_version_ < metal_3_2) {
            report(lambda->getBeginLoc(), "lambda expressions need Metal 3.2; the language version is %0")
                << version_text(language_version_);
        }
        return true;
    }

    bool VisitVarDecl(clang::VarDecl* variable) {
        check_storage(variable);
        check_pointers(*variable, variable->getTypeSourceInfo());
        if (variable->hasLocalStorage() && !llvm::isa<clang::ParmVarDecl>(variable) && is_atomic(variable->getType())) {
            report(variable->getLocation(), "atomic variable '%0' must be in device or threadgroup memory")
                << variable->getNameAsString();
        }
        if (variable->getType()->isVariableArrayType()) {
            report(variable->getLocation(),
                   "the length of array '%0' is not a constant: variable length arrays are not supported "
                   "in Metal")
                << variable->getNameAsString();
        }
        if (const clang::ValueDecl* local = run_time_part(*variable)) {
            report(variable->getLocation(), "constant variable '%0' needs an initializer that is known when the program is "
                                            "compiled: '%1' is not")
                << variable->getNameAsString() << local->getNameAsString();
        }
        bool threadgroup = variable->getType().getAddressSpace() == clang::LangAS::sycl_local;
        if (threadgroup && variable->hasInit() && !llvm::isa<clang::ParmVarDecl>(variable) &&
            !is_empty_initialiser(variable->getInit())) {
            report(variable->getLocation(), "threadgroup variable '%0' cannot have an initializer")
                << variable->getNameAsString();
        }
        return true;
    }

    // What differs from thread to thread in the initialiser of a variable that all of them share.
    const clang::ValueDecl* run_time_part(const clang::VarDecl& variable) {
        bool shared = variable.isStaticLocal() && variable.getType().getAddressSpace() == clang::LangAS::sycl_global_host;
        const clang::Expr* value = shared && !variable.getType()->isDependentType() ? variable.getInit() : nullptr;
        if (!value || value->isValueDependent() || value->isConstantInitializer(sema_.getASTContext(), false)) {
            return nullptr;
        }
        struct Finder : clang::RecursiveASTVisitor<Finder> {
            const clang::ValueDecl* found = nullptr;
            bool VisitDeclRefExpr(clang::DeclRefExpr* name) {
                const auto* used = llvm::dyn_cast<clang::VarDecl>(name->getDecl());
                if (used && used->hasLocalStorage() && !used->isConstexpr() && !used->getType().isConstQualified()) {
                    found = used;
                }
                return !found;
            }
        } finder;
        finder.TraverseStmt(const_cast<clang::Expr*>(value));
        return finder.found;
    }

    // The question arrives with the address of what it is about.
    static bool names_function_constant(const clang::Expr& argument) {
        const auto* address = llvm::dyn_cast<clang::UnaryOperator>(argument.IgnoreParenImpCasts());
        const auto* name = address ? llvm::dyn_cast<clang::DeclRefExpr>(address->getSubExpr()->IgnoreParenImpCasts()) : nullptr;
        return name && llvm::any_of(name->getDecl()->specific_attrs<clang::AnnotateAttr>(), [](const auto* attribute) {
                   return attribute->getAnnotation() == "msl:function_constant";
               });
    }

    // A device has no memory for variables that live longer than a thread.
    void check_storage(clang::VarDecl* variable) {
        clang::QualType type = variable->getType();
        bool named_space =
            type.getAddressSpace() == clang::LangAS::sycl_local || type.getAddressSpace() == clang::LangAS::sycl_global_host;
        bool threadgroup = type.getAddressSpace() == clang::LangAS::sycl_local;
        if (threadgroup && variable->hasGlobalStorage() && !variable->isLocalVarDecl() && !variable->isStaticDataMember()) {
            report(variable->getLocation(),
                   "program scope variable '%0' must be in the constant address space: declare threadgroup "
                   "variables inside a kernel")
                << variable->getNameAsString();
            return;
        }
        if (variable->hasGlobalStorage() && !named_space && !type.isConstQualified() && !variable->isConstexpr() &&
            !variable->isStaticDataMember() && !type->isReferenceType()) {
            report(variable->getLocation(), "variable '%0' outlives its thread and must be in the constant address space")
                << variable->getNameAsString();
        }
    }

    // Conversions from a named space to `thread` are silent for Clang; MSL has none.
    bool VisitImplicitCastExpr(clang::ImplicitCastExpr* cast) {
        if (cast->getCastKind() != clang::CK_AddressSpaceConversion || is_object_argument(cast)) {
            return true;
        }
        if (!cast->getType()->isPointerType()) {
            check_reference(*cast);
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

    // `c ? device_object : thread_object` is a copy of one of them.
    bool VisitConditionalOperator(clang::ConditionalOperator* choice) {
        object_arguments_.insert(choice->getTrueExpr());
        object_arguments_.insert(choice->getFalseExpr());
        return true;
    }

    // A constant reference binds to a copy; any other needs an object in its own space.
    void check_reference(const clang::ImplicitCastExpr& cast) {
        clang::LangAS source = cast.getSubExpr()->getType().getAddressSpace();
        bool leaves = cast.isLValue() && source != clang::LangAS::Default && !cast.getType().hasAddressSpace();
        if (leaves && !cast.getType().isConstQualified()) {
            report(cast.getBeginLoc(), "cannot bind a thread reference to an object in %0 memory: the address space differs")
                << space_name(source);
        }
    }

    bool VisitExplicitCastExpr(clang::ExplicitCastExpr* cast) {
        if (cast->getCastKind() == clang::CK_AddressSpaceConversion && cast->getType()->isPointerType()) {
            clang::LangAS from = cast->getSubExpr()->getType()->getPointeeType().getAddressSpace();
            clang::LangAS to = cast->getType()->getPointeeType().getAddressSpace();
            if (to != from && (from != clang::LangAS::Default || is_address_of_local(*cast->getSubExpr()))) {
                report(cast->getBeginLoc(), "cannot cast a pointer to %0 memory to a pointer to %1 memory: the address space "
                                            "of a pointer cannot change")
                    << space_name(from) << space_name(to);
            }
        }
        return true;
    }

    // Any other pointer to `thread` may come from a member function, whose object can be anywhere.
    static bool is_address_of_local(const clang::Expr& pointer) {
        const clang::Expr* inner = pointer.IgnoreParenCasts();
        const auto* address = llvm::dyn_cast<clang::UnaryOperator>(inner);
        inner = address && address->getOpcode() == clang::UO_AddrOf ? address->getSubExpr()->IgnoreParens() : inner;
        const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(inner);
        const auto* variable = name ? llvm::dyn_cast<clang::VarDecl>(name->getDecl()) : nullptr;
        bool itself = address || (variable && variable->getType()->isArrayType());
        return variable && itself && variable->hasLocalStorage() && !variable->getType()->isReferenceType();
    }

    static bool is_atomic(clang::QualType type) {
        const clang::CXXRecordDecl* record = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
        return record && record->getIdentifier() && record->getName() == "atomic" && record->getDeclContext()->isNamespace() &&
               llvm::cast<clang::NamespaceDecl>(record->getDeclContext())->getName() == "metal";
    }

    bool VisitFieldDecl(clang::FieldDecl* field) {
        check_pointers(*field, field->getTypeSourceInfo());
        return true;
    }
    bool VisitTypedefNameDecl(clang::TypedefNameDecl* name) {
        check_pointers(*name, name->getTypeSourceInfo());
        return true;
    }

    // MSL has no generic address space: each pointer and reference says where it points to.
    void check_pointers(const clang::Decl& declaration, const clang::TypeSourceInfo* written) {
        if (!written || declaration.isImplicit() || declaration.getLocation().isInvalid() ||
            declaration.getBeginLoc().isMacroID() || declaration.getLocation().isMacroID() || is_instantiated(declaration)) {
            return;
        }
        clang::TypeLoc type = written->getTypeLoc();
        bool reference = type.getAs<clang::LValueReferenceTypeLoc>().isNull() == false;
        clang::QualType pointee;
        for (; !type.isNull(); type = type.getNextTypeLoc()) {
            if (type.getAs<clang::PointerTypeLoc>() || type.getAs<clang::LValueReferenceTypeLoc>()) {
                pointee = type.getType()->getPointeeType();
            } else if (!type.getAs<clang::ArrayTypeLoc>() && !type.getAs<clang::QualifiedTypeLoc>() &&
                       !type.getAs<clang::ParenTypeLoc>() && !type.getAs<clang::AttributedTypeLoc>()) {
                break;
            }
        }
        bool has_none = !pointee.isNull() && !pointee.hasAddressSpace() && !pointee->isDependentType() &&
                        !pointee->isFunctionType() && !pointee->getContainedAutoType() && !pointee->isArrayType() &&
                        !pointee->isPointerType() && !pointee->isAnyCharacterType();
        auto first = says_thread_.lower_bound(declaration.getBeginLoc().getRawEncoding());
        if (has_none && (first == says_thread_.end() || *first > declaration.getLocation().getRawEncoding())) {
            report(declaration.getLocation(), "%0 type must have an explicit address space qualifier: device, constant, "
                                              "threadgroup or thread")
                << (reference ? "reference" : "pointer");
        }
    }

    bool is_instantiated(const clang::Decl& declaration) const {
        const auto* context = llvm::dyn_cast<clang::DeclContext>(&declaration);
        for (context = context ? context : declaration.getDeclContext(); context; context = context->getParent()) {
            if (context->isDependentContext()) {
                return false;
            }
            if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(context);
                function && function->getTemplateInstantiationPattern()) {
                return true;
            }
            if (llvm::isa<clang::ClassTemplateSpecializationDecl>(context) &&
                !llvm::isa<clang::ClassTemplatePartialSpecializationDecl>(context)) {
                return true;
            }
        }
        return false;
    }

    // float3(1, 2): a list in braces may be short, a constructor call may not.
    bool VisitCXXConstructExpr(clang::CXXConstructExpr* call) {
        if (current_) {
            calls_[current_->getCanonicalDecl()].emplace(call->getConstructor()->getCanonicalDecl(), call->getBeginLoc());
        }
        const auto* record = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(call->getConstructor()->getParent());
        if (!record || record->getName() != "vec" || record->getTemplateArgs().size() != 2 || call->isListInitialization()) {
            return true;
        }
        auto given = call->getConstructor()->getNumParams();
        auto needed = record->getTemplateArgs()[1].getAsIntegral().getZExtValue();
        clang::QualType scalar = record->getTemplateArgs()[0].getAsType();
        bool scalars = llvm::all_of(call->getConstructor()->parameters(), [&](const clang::ParmVarDecl* p) {
            return sema_.getASTContext().hasSameType(p->getType(), scalar);
        });
        if (scalars && given > 1 && given < needed) {
            report(call->getBeginLoc(), "too few components for %0: it needs %1, %2 are given")
                << call->getType() << static_cast<unsigned>(needed) << static_cast<unsigned>(given);
        }
        return true;
    }

    bool VisitAsmStmt(clang::AsmStmt* assembly) {
        report(assembly->getAsmLoc(), "inline assembly is not supported in Metal");
        return true;
    }
    bool VisitFileScopeAsmDecl(clang::FileScopeAsmDecl* assembly) {
        report(assembly->getLocation(), "inline assembly is not supported in Metal");
        return true;
    }

    bool VisitMemberExpr(clang::MemberExpr* member) {
        object_arguments_.insert(member->getBase());
        return true;
    }
    bool VisitCXXMemberCallExpr(clang::CXXMemberCallExpr* call) {
        object_arguments_.insert(call->getImplicitObjectArgument());
        check_object(*call);
        return true;
    }
    bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) {
        if (call->getNumArgs() > 0 && llvm::isa_and_nonnull<clang::CXXMethodDecl>(call->getDirectCallee())) {
            object_arguments_.insert(call->getArg(0));
        }
        return true;
    }

    // Member functions qualified by address spaces serve objects in those only.
    void check_object(const clang::CXXMemberCallExpr& call) {
        const clang::CXXMethodDecl* method = call.getMethodDecl();
        const clang::Expr* object = call.getImplicitObjectArgument();
        if (!method || !object || llvm::isa<clang::CXXThisExpr>(object->IgnoreImplicit())) {
            return; // `this` may point into any space
        }
        for (const auto* annotation : method->specific_attrs<clang::AnnotateAttr>()) {
            if (annotation->getAnnotation() != "msl:object" || annotation->args_size() == 0) {
                continue;
            }
            object = object->IgnoreImplicit();
            clang::QualType type = object->getType();
            type = type->isPointerType() ? type->getPointeeType() : type;
            std::string space = space_name(type.getAddressSpace());
            const auto* spaces = llvm::dyn_cast<clang::StringLiteral>((*annotation->args_begin())->IgnoreParenImpCasts());
            if (spaces && !reaches_this(object) && !spaces->getString().contains(space + " ")) {
                report(call.getExprLoc(), "'%0' is a member function for objects in %1memory, this object is in %2 memory")
                    << method->getNameAsString() << spaces->getString() << space;
            }
        }
    }

    static bool reaches_this(const clang::Expr* object) {
        while (true) {
            object = object->IgnoreParenImpCasts();
            if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(object)) {
                object = member->getBase();
            } else if (const auto* element = llvm::dyn_cast<clang::ArraySubscriptExpr>(object)) {
                object = element->getBase();
            } else if (const auto* operation = llvm::dyn_cast<clang::UnaryOperator>(object)) {
                object = operation->getSubExpr();
            } else {
                return llvm::isa<clang::CXXThisExpr>(object);
            }
        }
    }

    static bool is_kernel(const clang::FunctionDecl& function) {
        return llvm::any_of(function.specific_attrs<clang::AnnotateAttr>(),
                            [](const clang::AnnotateAttr* a) { return a->getAnnotation() == "msl:kernel"; });
    }

    // Nothing is linked to a source: what its kernels call, it must define.
    void report_undefined() {
        std::set<const clang::FunctionDecl*> reached;
        std::vector<const clang::FunctionDecl*> open;
        for (const auto& [function, callees] : calls_) {
            if (is_kernel(*function) && reached.insert(function).second) {
                open.push_back(function);
            }
        }
        const clang::SourceManager& sources = sema_.getSourceManager();
        while (!open.empty()) {
            const clang::FunctionDecl* caller = open.back();
            open.pop_back();
            auto callees = calls_.find(caller);
            if (callees == calls_.end()) {
                continue;
            }
            for (const auto& [callee, at] : callees->second) {
                if (!reached.insert(callee).second || callee->getBuiltinID() != 0 ||
                    sources.isInSystemHeader(callee->getLocation())) {
                    continue;
                }
                open.push_back(callee);
                bool defined = callee->isDefined() || callee->isDefaulted() || callee->isDeleted() || callee->isImplicit();
                const clang::FunctionDecl* pattern = callee->getTemplateInstantiationPattern();
                if (!defined && !(pattern && pattern->isDefined())) {
                    report(at, "function '%0' is declared but nowhere defined") << callee->getQualifiedNameAsString();
                    note(callee->getLocation(), "the declaration is here");
                }
            }
        }
    }

    // Metal has no recursion, but its compiler lets widely used headers pass that have some.
    void report_recursion() {
        const clang::SourceManager& sources = sema_.getSourceManager();
        for (const auto& [function, callees] : calls_) {
            std::set<const clang::FunctionDecl*> visited;
            for (const auto& [callee, at] : callees) {
                if (sources.isInMainFile(sources.getExpansionLoc(at)) && reaches(callee, function, visited)) {
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

    void note(clang::SourceLocation at, llvm::StringRef text) {
        sema_.Diag(at, sema_.getDiagnostics().getDiagnosticIDs()->getCustomDiagID(clang::DiagnosticIDs::Note, text));
    }
    clang::SemaBase::SemaDiagnosticBuilder report(clang::SourceLocation at, llvm::StringRef text) {
        auto id = sema_.getDiagnostics().getDiagnosticIDs()->getCustomDiagID(clang::DiagnosticIDs::Error, text);
        return sema_.Diag(at, id);
    }

    clang::Sema& sema_;
    unsigned language_version_;
    const std::set<unsigned>& says_thread_;
    const clang::FunctionDecl* current_ = nullptr;
    std::map<const clang::FunctionDecl*, std::map<const clang::FunctionDecl*, clang::SourceLocation>> calls_;
    llvm::DenseSet<const clang::Expr*> object_arguments_;
    llvm::DenseSet<const clang::CallExpr*> tail_calls_;
    std::set<unsigned> checked_logs_;
};

} // namespace

void check_msl_rules(clang::Sema& sema, const std::vector<clang::Decl*>& declarations, unsigned language_version,
                     const std::set<unsigned>& says_thread) {
    Checker checker(sema, language_version, says_thread);
    for (clang::Decl* declaration : declarations) {
        checker.TraverseDecl(declaration);
    }
    checker.report_recursion();
    checker.report_undefined();
}

} // namespace metalki::compiler
