// Stock LLVM passes, and the cuts at barriers.
#include "vectorize/prepare.hpp"

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/DCE.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/FixIrreducible.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LowerSwitch.h"
#include "llvm/Transforms/Utils/UnifyFunctionExitNodes.h"

#include "codegen/analyses.hpp"
#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "vectorize/chains.hpp"
#include "vectorize/exchanges.hpp"
#include "vectorize/prefetch.hpp"
#include "vectorize/small_copies.hpp"

namespace metalki::compiler::vectorize {
namespace {

void cut_at_barriers(llvm::Function& kernel) {
    for (llvm::CallInst* barrier : calls_of(kernel, runtime::barrier)) {
        llvm::SplitBlock(barrier->getParent(), barrier->getNextNode());
    }
}

// Calling conventions pass a pair of small numbers as one integer. Taken apart by shifts instead of a cast, the numbers keep
// what is known of each.
void unpack_integers(llvm::Function& kernel) {
    std::vector<llvm::BitCastInst*> casts;
    for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
        auto* cast = llvm::dyn_cast<llvm::BitCastInst>(&instruction);
        if (cast && cast->getSrcTy()->isIntOrIntVectorTy() && cast->getSrcTy()->isVectorTy() &&
            cast->getDestTy()->isIntegerTy()) {
            casts.push_back(cast);
        }
    }
    for (llvm::BitCastInst* cast : casts) {
        llvm::IRBuilder<> builder(cast);
        auto* parts = llvm::cast<llvm::FixedVectorType>(cast->getSrcTy());
        llvm::Value* number = llvm::ConstantInt::get(cast->getDestTy(), 0);
        for (unsigned i = 0; i < parts->getNumElements(); ++i) {
            llvm::Value* element = llvm::findScalarElement(cast->getOperand(0), i);
            if (element && llvm::isa<llvm::UndefValue>(element)) {
                continue; // the fourth of three; it must not spoil the others
            }
            element = element ? element : builder.CreateFreeze(builder.CreateExtractElement(cast->getOperand(0), i));
            llvm::Value* part = builder.CreateZExt(element, cast->getDestTy());
            number = builder.CreateOr(number, builder.CreateShl(part, std::uint64_t{i} * parts->getScalarSizeInBits()));
        }
        cast->replaceAllUsesWith(number);
        cast->eraseFromParent();
    }
}

} // namespace

void prepare(llvm::Function& kernel, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    llvm::FunctionAnalysisManager& functions = analyses.functions;

    load_and_store_small_copies(kernel);
    llvm::ScalarizerPassOptions apart;
    apart.ScalarizeVariableInsertExtract = true;
    // The first round brings to light what the second takes apart.
    for (int round = 0; round < 2; ++round) {
        unpack_integers(kernel);
        functions.invalidate(kernel, llvm::PreservedAnalyses::none());
        llvm::FunctionPassManager take_apart;
        take_apart.addPass(llvm::InstCombinePass());
        take_apart.addPass(llvm::ScalarizerPass(apart));
        take_apart.addPass(llvm::InstCombinePass());
        take_apart.run(kernel, functions);
    }
    llvm::FunctionPassManager passes;
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
    split_chains(kernel);
    prefetch_later_iterations(kernel, functions);
    bring_exchanges_near(kernel);
}

} // namespace metalki::compiler::vectorize
