// See the header.
#include "ptx/unroll.hpp"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

#include "codegen/analyses.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr unsigned most_iterations = 64;
constexpr std::size_t most_instructions = 8192; // after unrolling

bool indexes_own_array(const llvm::Loop& loop) {
    for (const llvm::BasicBlock* block : loop.blocks()) {
        for (const llvm::Instruction& instruction : *block) {
            const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
            if (address && !address->hasAllConstantIndices() &&
                llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(address))) {
                return true;
            }
            const llvm::Value* element = nullptr;
            if (const auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(&instruction)) {
                element = extract->getIndexOperand();
            } else if (const auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(&instruction)) {
                element = insert->getOperand(2);
            }
            if (element && !llvm::isa<llvm::Constant>(element)) {
                return true;
            }
        }
    }
    return false;
}

struct MarkIndexingLoops : llvm::PassInfoMixin<MarkIndexingLoops> {
    llvm::PreservedAnalyses run(llvm::Loop& loop, llvm::LoopAnalysisManager&, llvm::LoopStandardAnalysisResults& analyses,
                                llvm::LPMUpdater&) {
        const unsigned count = analyses.SE.getSmallConstantTripCount(&loop);
        std::size_t size = 0;
        for (const llvm::BasicBlock* block : loop.blocks()) {
            size += block->size();
        }
        if (count > 0 && count <= most_iterations && count * size <= most_instructions &&
            !llvm::getBooleanLoopAttribute(&loop, "llvm.loop.unroll.disable") && indexes_own_array(loop)) {
            llvm::addStringMetadataToLoop(&loop, "llvm.loop.unroll.full", 1);
        }
        return llvm::PreservedAnalyses::all();
    }
};

} // namespace

void unroll_indexing_loops(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    // Once more for what stands around a loop that is gone.
    for (int round = 0; round < 2; ++round) {
        Analyses analyses(builder);
        llvm::LoopPassManager loops;
        loops.addPass(llvm::LoopRotatePass());
        loops.addPass(llvm::IndVarSimplifyPass());
        loops.addPass(MarkIndexingLoops());
        loops.addPass(llvm::LoopFullUnrollPass(3, /*OnlyWhenForced=*/true));
        llvm::FunctionPassManager functions;
        functions.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/false));
        functions.addPass(llvm::InstCombinePass());
        functions.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
        functions.addPass(llvm::EarlyCSEPass());
        functions.addPass(llvm::InstCombinePass());
        functions.addPass(llvm::SimplifyCFGPass());
        functions.addPass(llvm::ADCEPass());
        llvm::ModulePassManager passes;
        passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(functions)));
        passes.run(module, analyses.modules);
    }
}

} // namespace metalki::compiler::ptx
