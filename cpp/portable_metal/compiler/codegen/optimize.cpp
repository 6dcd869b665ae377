// See the header.
#include "codegen/optimize.hpp"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace metalki::compiler {
namespace {

void inline_everything(llvm::Module& module) {
    for (llvm::Function& function : module) {
        if (function.isDeclaration()) {
            continue;
        }
        function.removeFnAttr(llvm::Attribute::NoInline);
        function.removeFnAttr(llvm::Attribute::OptimizeNone);
        // Clang caps the vector width of scalar functions; widened code would be split to it.
        function.removeFnAttr("min-legal-vector-width");
        function.setUWTableKind(llvm::UWTableKind::None);
        if (function.hasInternalLinkage()) {
            function.addFnAttr(llvm::Attribute::AlwaysInline);
        }
    }
}

// The analysis managers of LLVM's pass infrastructure, wired to each other.
struct Analyses {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;

    explicit Analyses(llvm::PassBuilder& builder) {
        builder.registerModuleAnalyses(modules);
        builder.registerCGSCCAnalyses(sccs);
        builder.registerFunctionAnalyses(functions);
        builder.registerLoopAnalyses(loops);
        builder.crossRegisterProxies(loops, functions, sccs, modules);
    }
};

} // namespace

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
    module.setDataLayout(machine.createDataLayout());
    inline_everything(module);
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = true;
    tuning.SLPVectorization = true;
    llvm::PassBuilder builder(&machine, tuning);
    Analyses analyses(builder);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, analyses.modules);
}

void fold_branches(llvm::Module& module) {
    llvm::PassBuilder builder;
    Analyses analyses(builder);
    llvm::FunctionPassManager functions;
    functions.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    functions.addPass(llvm::EarlyCSEPass());
    functions.addPass(llvm::SimplifyCFGPass());
    functions.addPass(llvm::EarlyCSEPass());
    llvm::createModuleToFunctionPassAdaptor(std::move(functions)).run(module, analyses.modules);
}

} // namespace metalki::compiler
