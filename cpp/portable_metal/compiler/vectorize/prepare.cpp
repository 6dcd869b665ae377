// Stock LLVM passes, and the cuts at barriers.
#include "vectorize/prepare.hpp"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/DCE.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/FixIrreducible.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LowerSwitch.h"
#include "llvm/Transforms/Utils/UnifyFunctionExitNodes.h"

#include "codegen/runtime_names.hpp"

namespace metalki::compiler::vectorize {
namespace {

void cut_at_barriers(llvm::Function& kernel) {
    std::vector<llvm::Instruction*> barriers;
    for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
        auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        if (call && call->getCalledFunction() && call->getCalledFunction()->getName() == runtime::barrier) {
            barriers.push_back(call);
        }
    }
    for (llvm::Instruction* barrier : barriers) {
        llvm::SplitBlock(barrier->getParent(), barrier->getNextNode());
    }
}

} // namespace

void prepare(llvm::Function& kernel, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);

    llvm::FunctionPassManager passes;
    llvm::ScalarizerPassOptions apart;
    apart.ScalarizeVariableInsertExtract = true;
    passes.addPass(llvm::ScalarizerPass(apart));
    passes.addPass(llvm::DCEPass());
    passes.addPass(llvm::LowerSwitchPass());
    passes.addPass(llvm::FixIrreduciblePass());
    passes.addPass(llvm::UnifyFunctionExitNodesPass());
    passes.run(kernel, functions);
    cut_at_barriers(kernel);
    functions.invalidate(kernel, llvm::PreservedAnalyses::none());
    llvm::FunctionPassManager loop_form;
    loop_form.addPass(llvm::LoopSimplifyPass());
    loop_form.addPass(llvm::LCSSAPass());
    loop_form.run(kernel, functions);
}

} // namespace metalki::compiler::vectorize
