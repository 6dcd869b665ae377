// A library of a thousand instantiations spends a fifth of its time on warnings that were given already, and on questions that
// SYCL has and MSL has not. Clang has no switch for either; the linker's --wrap leads the calls here.
#include "frontend/repeated_checks.hpp"

#include <unordered_map>

#include "clang/AST/DeclCXX.h"
#include "clang/Sema/AnalysisBasedWarnings.h"
#include "clang/Sema/ScopeInfo.h"
#include "clang/Sema/Sema.h"
#include "clang/Sema/SemaSYCL.h"

namespace metalki::compiler {
namespace {

constexpr unsigned checked_instantiations = 4;

// How many instantiations of each template were seen, and the number of each.
struct Seen {
    std::unordered_map<const clang::FunctionDecl*, unsigned> of_template, number;
};
thread_local Seen* seen = nullptr;

bool is_repeated(const clang::FunctionDecl& function) {
    auto [known, is_new] = seen->number.try_emplace(&function, 0);
    if (is_new) {
        const clang::FunctionDecl* pattern = function.getTemplateInstantiationPattern();
        known->second = pattern ? seen->of_template[pattern]++ : 0;
    }
    return known->second >= checked_instantiations;
}

// Lambdas and local classes share the fate of the function around them.
bool in_repeated_instantiation(const clang::DeclContext* context) {
    for (; seen && context && !context->isFileContext(); context = context->getParent()) {
        const auto* function = llvm::dyn_cast<clang::FunctionDecl>(context);
        if (function && is_repeated(*function)) {
            return true;
        }
    }
    return false;
}

} // namespace

FewerRepeatedChecks::FewerRepeatedChecks() {
    seen = new Seen;
}
FewerRepeatedChecks::~FewerRepeatedChecks() {
    delete seen;
    seen = nullptr;
}

#define WRAP(symbol) asm("__wrap_" symbol)
#define REAL(symbol) asm("__real_" symbol)

#define COMPLETED "_ZN5clang4Sema18CheckCompletedExprEPNS_4ExprENS_14SourceLocationEb"
void clangs_completed_check(clang::Sema* sema, clang::Expr* expression, clang::SourceLocation at, bool is_constant)
    REAL(COMPLETED);
__attribute__((used)) void check_completed(clang::Sema* sema, clang::Expr* expression, clang::SourceLocation at,
                                           bool is_constant) WRAP(COMPLETED);
void check_completed(clang::Sema* sema, clang::Expr* expression, clang::SourceLocation at, bool is_constant) {
    if (!in_repeated_instantiation(sema->CurContext)) {
        clangs_completed_check(sema, expression, at, is_constant);
    }
}

#define ISSUE                                                                                                                  \
    "_ZN5clang4sema21AnalysisBasedWarnings13IssueWarningsENS1_6PolicyEPNS0_17FunctionScopeInfoEPKNS_4DeclENS_8QualTypeE"
using Warnings = clang::sema::AnalysisBasedWarnings;
void clangs_flow_warnings(Warnings* self, Warnings::Policy policy, clang::sema::FunctionScopeInfo* scope,
                          const clang::Decl* function, clang::QualType block) REAL(ISSUE);
__attribute__((used)) void flow_warnings(Warnings* self, Warnings::Policy policy, clang::sema::FunctionScopeInfo* scope,
                                         const clang::Decl* function, clang::QualType block) WRAP(ISSUE);
void flow_warnings(Warnings* self, Warnings::Policy policy, clang::sema::FunctionScopeInfo* scope, const clang::Decl* function,
                   clang::QualType block) {
    if (!in_repeated_instantiation(llvm::dyn_cast<clang::DeclContext>(function))) {
        clangs_flow_warnings(self, policy, scope, function, block);
    }
}

// Whether the target has a type: kernel code has types of MSL only, and each target has those.
__attribute__((used)) void type_support(clang::Sema*, clang::QualType, clang::SourceLocation, clang::ValueDecl*)
    WRAP("_ZN5clang4Sema16checkTypeSupportENS_8QualTypeENS_14SourceLocationEPNS_9ValueDeclE");
void type_support(clang::Sema*, clang::QualType, clang::SourceLocation, clang::ValueDecl*) {}

__attribute__((used)) void device_types(clang::SemaSYCL*, clang::SourceLocation, llvm::DenseSet<clang::QualType>,
                                        clang::ValueDecl*)
    WRAP("_ZN5clang8SemaSYCL22deepTypeCheckForDeviceENS_14SourceLocationEN4llvm8DenseSetINS_8QualTypeENS2_12DenseMapInfoIS4_"
         "vEEEEPNS_9ValueDeclE");
void device_types(clang::SemaSYCL*, clang::SourceLocation, llvm::DenseSet<clang::QualType>, clang::ValueDecl*) {}

} // namespace metalki::compiler
