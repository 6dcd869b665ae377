// See the header.
#include "codegen/optimize.hpp"

#include "llvm/Passes/PassBuilder.h"

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

} // namespace

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
    module.setDataLayout(machine.createDataLayout());
    inline_everything(module);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = true;
    tuning.SLPVectorization = true;
    llvm::PassBuilder builder(&machine, tuning);
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

} // namespace metalki::compiler
