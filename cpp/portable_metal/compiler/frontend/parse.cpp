// Drives Clang: lex everything, rewrite, parse, reflect, append entry points, generate code.
#include "frontend/parse.hpp"

#include <functional>
#include <set>

#include "clang/AST/ASTConsumer.h"
#include "clang/AST/Mangle.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/FrontendActions.h"
#include "clang/Parse/Parser.h"
#include "clang/Sema/Sema.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"

#include "frontend/clang_invocation.hpp"
#include "frontend/diagnostics.hpp"
#include "frontend/entry_points.hpp"
#include "frontend/kernel_table.hpp"
#include "frontend/pragmas.hpp"
#include "frontend/precompiled_header.hpp"
#include "frontend/repairs.hpp"
#include "frontend/semantic_checks.hpp"
#include "frontend/token_rewriter.hpp"

namespace metalki::compiler {
namespace {

// Code generation must wait until annotations are read and stripped: records Clang's callbacks and plays them back.
class Recorder : public clang::ASTConsumer {
public:
    std::vector<clang::Decl*> top_level;

    bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
        top_level.insert(top_level.end(), group.begin(), group.end());
        return record([group](clang::ASTConsumer& c) { c.HandleTopLevelDecl(group); });
    }
    void HandleInlineFunctionDefinition(clang::FunctionDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleInlineFunctionDefinition(d); });
    }
    void HandleInterestingDecl(clang::DeclGroupRef group) override {
        record([group](clang::ASTConsumer& c) { c.HandleInterestingDecl(group); });
    }
    void HandleTagDeclDefinition(clang::TagDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleTagDeclDefinition(d); });
    }
    void HandleTagDeclRequiredDefinition(const clang::TagDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleTagDeclRequiredDefinition(d); });
    }
    void HandleCXXImplicitFunctionInstantiation(clang::FunctionDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleCXXImplicitFunctionInstantiation(d); });
    }
    void HandleCXXStaticMemberVarInstantiation(clang::VarDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleCXXStaticMemberVarInstantiation(d); });
    }
    void CompleteTentativeDefinition(clang::VarDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.CompleteTentativeDefinition(d); });
    }
    void HandleVTable(clang::CXXRecordDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleVTable(d); });
    }

    // From here on `consumer` hears of everything at once: code generation loads more of the standard library as it goes.
    void play(clang::ASTConsumer& consumer) {
        listener_ = &consumer;
        for (const auto& event : events_) {
            event(consumer);
        }
    }

private:
    bool record(std::function<void(clang::ASTConsumer&)> event) {
        if (listener_) {
            event(*listener_);
        } else {
            events_.push_back(std::move(event));
        }
        return true;
    }
    std::vector<std::function<void(clang::ASTConsumer&)>> events_;
    clang::ASTConsumer* listener_ = nullptr;
};

class ParseAction : public clang::ASTFrontendAction {
public:
    ParseAction(ParsedSource& out, const Repairs& repairs) : out_(out), repairs_(repairs) {}

protected:
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&, llvm::StringRef) override {
        auto recorder = std::make_unique<Recorder>();
        recorder_ = recorder.get();
        return recorder;
    }

    void ExecuteAction() override {
        clang::CompilerInstance& instance = getCompilerInstance();
        instance.createSema(getTranslationUnitKind(), nullptr);
        clang::Sema& sema = instance.getSema();
        clang::Preprocessor& preprocessor = instance.getPreprocessor();
        clang::Parser parser(preprocessor, sema, /*SkipFunctionBodies=*/false); // first: it registers the pragma handlers
        sema.Initialize();
        add_metal_pragmas(preprocessor);
        preprocessor.EnterMainSourceFile();
        if (auto* external = sema.getASTContext().getExternalSource()) {
            external->StartTranslationUnit(&sema.getASTConsumer());
        }
        enter_rewritten_tokens(preprocessor);
        parse(sema, parser);
        if (!instance.getDiagnostics().hasErrorOccurred()) {
            generate(instance);
        }
    }

private:
    void enter_rewritten_tokens(clang::Preprocessor& preprocessor) {
        std::vector<clang::Token> tokens;
        do {
            preprocessor.Lex(tokens.emplace_back());
        } while (tokens.back().isNot(clang::tok::eof));
        tokens = rewrite_msl_tokens(preprocessor, std::move(tokens), repairs_, says_thread_);
        auto owned = std::make_unique<clang::Token[]>(tokens.size());
        std::copy(tokens.begin(), tokens.end(), owned.get());
        preprocessor.EnterTokenStream(std::move(owned), static_cast<unsigned>(tokens.size()), /*DisableMacroExpansion=*/true,
                                      /*IsReinject=*/false);
    }

    void parse(clang::Sema& sema, clang::Parser& parser) {
        parser.Initialize();
        clang::Parser::DeclGroupPtrTy group;
        clang::Sema::ModuleImportState imports;
        bool first = true, entries_added = false;
        for (bool at_end = false; !at_end;) {
            if (!entries_added && parser.getCurToken().is(clang::tok::eof)) {
                entries_added = true;
                add_entry_points(sema, parser);
            }
            at_end = first ? parser.ParseFirstTopLevelDecl(group, imports) : parser.ParseTopLevelDecl(group, imports);
            first = false;
            if (!at_end && group) {
                sema.getASTConsumer().HandleTopLevelDecl(group.get());
            }
        }
        for (clang::Decl* weak : sema.WeakTopLevelDecls()) {
            sema.getASTConsumer().HandleTopLevelDecl(clang::DeclGroupRef(weak));
        }
    }

    // All of the user's declarations are parsed and the translation unit is still open.
    void add_entry_points(clang::Sema& sema, clang::Parser& parser) {
        if (sema.getDiagnostics().hasErrorOccurred()) {
            return;
        }
        sema.PerformPendingInstantiations(); // checks look into templates as well
        std::vector<clang::Decl*> declarations = users_declarations();
        table_ = collect_kernels(sema, declarations);
        check_msl_rules(sema, declarations, says_thread_);
        if (sema.getDiagnostics().hasErrorOccurred()) {
            return;
        }
        entry_tokens_ = entry_point_tokens(sema, table_);
        sema.getPreprocessor().EnterTokenStream(llvm::ArrayRef<clang::Token>(entry_tokens_), /*DisableMacroExpansion=*/true,
                                                /*IsReinject=*/false);
        parser.ConsumeAnyToken();
    }

    std::vector<clang::Decl*> users_declarations() const {
        std::vector<clang::Decl*> out;
        for (clang::Decl* d : recorder_->top_level) {
            if (d->getDeclContext()->isFileContext() && d->getLexicalDeclContext()->isTranslationUnit()) {
                out.push_back(d);
            }
        }
        return out;
    }

    void generate(clang::CompilerInstance& instance) {
        clang::ASTContext& context = instance.getASTContext();
        std::unique_ptr<clang::MangleContext> mangler(context.createMangleContext());
        for (const ConstantEntry& constant : table_.constants) {
            out_.constants.push_back(constant.info);
            std::string symbol;
            llvm::raw_string_ostream stream(symbol);
            if (mangler->shouldMangleDeclName(constant.declaration)) {
                mangler->mangleName(clang::GlobalDecl(constant.declaration), stream);
            } else {
                stream << constant.declaration->getName();
            }
            out_.constant_symbols.push_back(symbol);
        }
        for (KernelEntry& kernel : table_.kernels) {
            auto& slots = out_.conditional_slots.emplace_back();
            for (const Parameter& p : kernel.parameters) {
                for (unsigned k = 0; !p.active_if.empty() && k < p.slots; ++k) {
                    slots.push_back(p.slot + k);
                }
            }
            out_.functions.push_back(std::move(kernel.info));
        }
        strip_annotations(users_declarations());
        llvm::LLVMContext llvm_context;
        std::unique_ptr<clang::CodeGenerator> generator(clang::CreateLLVMCodeGen(
            instance.getDiagnostics(), source_name, &instance.getVirtualFileSystem(), instance.getHeaderSearchOpts(),
            instance.getPreprocessorOpts(), instance.getCodeGenOpts(), llvm_context));
        generator->Initialize(context);
        recorder_->play(*generator);
        generator->HandleTranslationUnit(context);
        std::unique_ptr<llvm::Module> module(generator->ReleaseModule());
        if (!module || instance.getDiagnostics().hasErrorOccurred()) {
            return;
        }
        llvm::raw_string_ostream stream(out_.bitcode);
        llvm::WriteBitcodeToFile(*module, stream);
    }

    ParsedSource& out_;
    const Repairs& repairs_;
    Recorder* recorder_ = nullptr;
    KernelTable table_;
    std::set<unsigned> says_thread_;
    std::vector<clang::Token> entry_tokens_; // the preprocessor keeps a reference
};

ParsedSource parse_once(std::string_view source, const Options& options, const std::string& prefix, const Repairs& repairs,
                        RepairCollector& collector) {
    ParsedSource out;
    SourceFiles files = make_file_system(options, prefix, source);
    auto instance = make_instance(options, Purpose::parse_source, files.all, &collector);
    if (!instance) {
        std::string text = "the compiler does not accept these options: " + collector.text();
        throw CompileError(text, collector.take());
    }
    ParseAction action(out, repairs);
    instance->ExecuteAction(action);
    if (files.disk) {
        out.dependencies = files.disk->dependencies();
    }
    return out;
}

} // namespace

ParsedSource parse_source(std::string_view source, const Options& options) {
    constexpr int max_rounds = 8;
    std::shared_ptr<const std::string> prefix = precompiled_prefix(options);
    Repairs repairs;
    for (int round = 1;; ++round) {
        RepairCollector collector(repairs);
        ParsedSource out = parse_once(source, options, *prefix, repairs, collector);
        bool failed = collector.has_errors() || out.bitcode.empty();
        if (!failed) {
            out.warnings = collector.take();
            return out;
        }
        if (collector.repairs() == repairs || round == max_rounds) {
            std::string text = collector.text();
            throw CompileError(text.empty() ? "the source does not compile" : text, collector.take());
        }
        repairs = collector.repairs();
    }
}

} // namespace metalki::compiler
