// The analysis managers of LLVM's pass infrastructure, wired to each other.
#pragma once

#include "llvm/Passes/PassBuilder.h"

namespace metalki::compiler {

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

} // namespace metalki::compiler
