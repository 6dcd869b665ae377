// Drives Clang: lex everything, rewrite, parse, reflect, append entry points; code is generated when it is asked for.
#include "frontend/parse.hpp"

#include <mutex>
#include <optional>
#include <set>

#include "clang/AST/Mangle.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/FrontendActions.h"
#include "clang/Parse/Parser.h"
#include "clang/Sema/Sema.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include "codegen/annotations.hpp"
#include "codegen/small_float_casts.hpp"
#include "deep_stack.hpp"
#include "frontend/clang_invocation.hpp"
#include "frontend/diagnostics.hpp"
#include "frontend/entry_points.hpp"
#include "frontend/kernel_table.hpp"
#include "frontend/language_versions.hpp"
#include "frontend/lazy_emission.hpp"
#include "frontend/nesting.hpp"
#include "frontend/pragmas.hpp"
#include "frontend/precompiled_header.hpp"
#include "frontend/recorder.hpp"
#include "frontend/repairs.hpp"
#include "frontend/repeated_checks.hpp"
#include "frontend/semantic_checks.hpp"
#include "frontend/source_loops.hpp"
#include "frontend/token_rewriter.hpp"

namespace metalki::compiler {
namespace {

class ParseAction : public clang::ASTFrontendAction {
public:
    ParseAction(ParsedSource& out, unsigned language_version, const Repairs& repairs)
        : out_(out), language_version_(language_version), repairs_(repairs) {}

    std::unique_ptr<llvm::Module> generate(clang::CompilerInstance& instance, llvm::LLVMContext& llvm_context) {
        std::unique_ptr<clang::CodeGenerator> generator(clang::CreateLLVMCodeGen(
            instance.getDiagnostics(), source_name, &instance.getVirtualFileSystem(), instance.getHeaderSearchOpts(),
            instance.getPreprocessorOpts(), instance.getCodeGenOpts(), llvm_context));
        clang::ASTContext& context = instance.getASTContext();
        generator->Initialize(context);
        SourceLoops loops;
        {
            NoteLoops notes(loops);
            recorder_->play(*generator);
            generator->HandleTranslationUnit(context);
            recorder_->stop();
        }
        std::unique_ptr<llvm::Module> module(generator->ReleaseModule());
        if (module) {
            keep_loops_whole(*module, loops);
            drop_annotations(*module);
            replace_small_float_casts(*module);
        }
        return instance.getDiagnostics().hasErrorOccurred() ? nullptr : std::move(module);
    }

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
        // Comments and pragmas may make Sema complain while tokens are read, and its complaints look for a context.
        sema.CurContext = sema.getASTContext().getTranslationUnitDecl();
        enter_rewritten_tokens(preprocessor);
        sema.CurContext = nullptr;
        parse(sema, parser);
        if (!instance.getDiagnostics().hasErrorOccurred()) {
            describe(instance);
        }
    }

private:
    void enter_rewritten_tokens(clang::Preprocessor& preprocessor) {
        std::vector<clang::Token> tokens;
        do {
            preprocessor.Lex(tokens.emplace_back());
        } while (tokens.back().isNot(clang::tok::eof) && tokens.size() < most_tokens);
        if (tokens.back().isNot(clang::tok::eof)) {
            refuse_so_many_tokens(preprocessor, tokens);
        }
        refuse_deep_nesting(preprocessor, tokens);
        check_language_version(preprocessor, tokens, language_version_);
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
        check_msl_rules(sema, declarations, language_version_, says_thread_);
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

    void describe(clang::CompilerInstance& instance) {
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
    }

    ParsedSource& out_;
    unsigned language_version_;
    const Repairs& repairs_;
    Recorder* recorder_ = nullptr;
    KernelTable table_;
    std::set<unsigned> says_thread_;
    std::vector<clang::Token> entry_tokens_; // the preprocessor keeps a reference
};

// One parse and everything that it needs to stay alive.
class ParsedUnit final : public TranslationUnit {
public:
    ParsedUnit(std::string_view source, const Options& options, Repairs repairs)
        : repairs_(std::move(repairs)), collector_(repairs_), files_(make_file_system(options, precompiled_prefix(), source)),
          action_(parsed, options.language_version, repairs_) {
        instance_ = make_instance(options, Purpose::parse_source, files_.all, &collector_);
        if (!instance_) {
            std::string text = "the compiler does not accept these options: " + collector_.text();
            throw CompileError(text, collector_.take());
        }
        open_ = action_.PrepareToExecute(*instance_) &&
                action_.BeginSourceFile(*instance_, instance_->getFrontendOpts().Inputs.front());
        if (open_) {
            FewerRepeatedChecks fewer;
            llvm::consumeError(action_.Execute());
        }
        if (files_.disk) {
            parsed.dependencies = files_.disk->dependencies();
        }
    }
    ~ParsedUnit() override {
        if (open_) {
            action_.EndSourceFile();
        }
    }

    std::unique_ptr<llvm::Module> generate(llvm::LLVMContext& context, const std::set<std::string>& names) override {
        std::lock_guard lock(mutex_);
        return on_deep_stack([&] { return generate_here(context, names); });
    }

    bool failed() const { return !open_ || collector_.has_errors(); }
    RepairCollector& collector() { return collector_; }

    ParsedSource parsed;

private:
    std::unique_ptr<llvm::Module> generate_here(llvm::LLVMContext& context, const std::set<std::string>& names) {
        std::optional<EmitOnly> only;
        if (!names.empty()) {
            only.emplace(names);
        }
        auto module = action_.generate(*instance_, context);
        if (!module) {
            instance_->getDiagnostics().Reset(/*soft=*/true); // other kernels may do better
            std::string text = collector_.text();
            throw CompileError(text.empty() ? "no code can be generated for the source" : text, collector_.take());
        }
        return module;
    }

    Repairs repairs_;
    RepairCollector collector_;
    SourceFiles files_;
    ParseAction action_;
    std::unique_ptr<clang::CompilerInstance> instance_;
    bool open_ = false;
    std::mutex mutex_;
};

ParsedSource parse_in_rounds(std::string_view source, const Options& options) {
    constexpr int max_rounds = 8;
    Repairs repairs;
    for (int round = 1;; ++round) {
        auto unit = std::make_shared<ParsedUnit>(source, options, repairs);
        RepairCollector& collector = unit->collector();
        if (!unit->failed()) {
            ParsedSource out = std::move(unit->parsed);
            out.warnings = collector.take();
            out.unit = std::move(unit);
            return out;
        }
        if (collector.repairs() == repairs || round == max_rounds) {
            std::string text = collector.text();
            throw CompileError(text.empty() ? "the source does not compile" : text, collector.take());
        }
        repairs = collector.repairs();
    }
}

} // namespace

ParsedSource parse_source(std::string_view source, const Options& options) {
    return on_deep_stack([&] { return parse_in_rounds(source, options); });
}

} // namespace metalki::compiler
