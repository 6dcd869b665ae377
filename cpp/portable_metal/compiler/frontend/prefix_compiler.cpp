// Parsing the headers anew would cost every kernel some 50 ms.
#include "frontend/prefix_compiler.hpp"

#include "clang/Frontend/FrontendActions.h"
#include "clang/Sema/Sema.h"
#include "clang/Serialization/ASTWriter.h"

#include "frontend/clang_invocation.hpp"
#include "frontend/diagnostics.hpp"

namespace metalki::compiler {
namespace {

// Clang lists all functions for device-side diagnostics, and every user of the header would load that list: two thirds of the
// standard library for an empty kernel. The list is private; naming it in an explicit instantiation is the way past that.
template <auto Member> struct DeferredChecks {
    friend auto& deferred_checks(clang::Sema& sema) { return sema.*Member; }
};
template struct DeferredChecks<&clang::Sema::DeclsToCheckForDeferredDiags>;
auto& deferred_checks(clang::Sema& sema);

class Generator : public clang::PCHGenerator {
public:
    using PCHGenerator::PCHGenerator;

    void InitializeSema(clang::Sema& sema) override {
        sema_ = &sema;
        PCHGenerator::InitializeSema(sema);
    }
    void HandleTranslationUnit(clang::ASTContext& context) override {
        deferred_checks(*sema_).clear();
        PCHGenerator::HandleTranslationUnit(context);
    }

private:
    clang::Sema* sema_ = nullptr;
};

class PrecompileAction : public clang::GeneratePCHAction {
public:
    std::shared_ptr<clang::PCHBuffer> buffer = std::make_shared<clang::PCHBuffer>();

    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& instance, llvm::StringRef) override {
        return std::make_unique<Generator>(instance.getPreprocessor(), instance.getModuleCache(), precompiled_header, "",
                                           buffer, instance.getFrontendOpts().ModuleFileExtensions);
    }
};

} // namespace

std::string compile_prefix() {
    const Options none;
    DiagnosticCollector collector;
    auto instance = make_instance(none, Purpose::precompile_prefix, make_file_system(none, "", "").all, &collector);
    PrecompileAction action;
    if (!instance || !instance->ExecuteAction(action) || collector.has_errors()) {
        std::string text = "the standard headers do not compile: " + collector.text();
        throw CompileError(text, collector.take());
    }
    return std::string(action.buffer->Data.begin(), action.buffer->Data.end());
}

} // namespace metalki::compiler
