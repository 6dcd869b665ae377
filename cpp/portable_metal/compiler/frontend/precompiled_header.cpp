// Precompiles metalki_prefix.h in memory: parsing the headers anew would cost every kernel some 50 ms.
#include "frontend/precompiled_header.hpp"

#include <map>
#include <mutex>

#include "clang/Frontend/FrontendActions.h"
#include "clang/Sema/Sema.h"
#include "clang/Serialization/ASTWriter.h"

#include "cache/disk_cache.hpp"
#include "cache/records.hpp"
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

std::shared_ptr<const std::string> precompile(const Options& options) {
    Options plain;
    plain.math_mode = options.math_mode;
    plain.language_version = options.language_version;
    DiagnosticCollector collector;
    auto instance = make_instance(plain, Purpose::precompile_prefix, make_file_system(plain, "", "").all, &collector);
    PrecompileAction action;
    if (!instance || !instance->ExecuteAction(action) || collector.has_errors()) {
        std::string text = "the standard headers do not compile: " + collector.text();
        throw CompileError(text, collector.take());
    }
    return std::make_shared<const std::string>(action.buffer->Data.begin(), action.buffer->Data.end());
}

} // namespace

std::shared_ptr<const std::string> precompiled_prefix(const Options& options) {
    static std::mutex mutex;
    static std::map<std::string, std::shared_ptr<const std::string>> prefixes;
    std::lock_guard lock(mutex);
    auto& prefix = prefixes[header_key(options)];
    if (!prefix) {
        std::string key = prefix_key(header_key(options));
        if (auto cached = DiskCache::instance().load(key)) {
            prefix = std::make_shared<const std::string>(std::move(*cached));
        } else {
            prefix = precompile(options);
            DiskCache::instance().store(key, *prefix);
        }
    }
    return prefix;
}

} // namespace metalki::compiler
