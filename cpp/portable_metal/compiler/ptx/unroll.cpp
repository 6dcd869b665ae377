// See the header.
#include "ptx/unroll.hpp"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

#include "codegen/analyses.hpp"
#include "ptx/loads.hpp"

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
        const std::size_t size = instructions_of(loop);
        if (count > 0 && count <= most_iterations && count * size <= most_instructions &&
            !llvm::getBooleanLoopAttribute(&loop, "llvm.loop.unroll.disable") && indexes_own_array(loop)) {
            llvm::addStringMetadataToLoop(&loop, "llvm.loop.unroll.full", 1);
        }
        return llvm::PreservedAnalyses::all();
    }
};

constexpr std::size_t short_loop = 40;

// Short, and without access to memory or other threads.
bool only_calculates(const llvm::Loop& loop) {
    for (const llvm::BasicBlock* block : loop.blocks()) {
        for (const llvm::Instruction& instruction : *block) {
            const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
            if (instruction.mayReadOrWriteMemory() || (call && call->isConvergent())) {
                return false;
            }
        }
    }
    return loop.isInnermost() && instructions_of(loop) <= short_loop;
}

bool counts(const llvm::Value* condition, const llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
    const auto* comparison = llvm::dyn_cast<llvm::ICmpInst>(condition);
    return comparison && llvm::any_of(comparison->operands(), [&](llvm::Value* operand) {
               const auto* steps = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution.getSCEV(operand));
               return steps && steps->getLoop() == &loop;
           });
}

// "Go on while it counts and something holds": two tests one after the other, so that of several rounds in a row only the last
// has to count.
bool split_condition(llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
    llvm::BasicBlock* latch = loop.getLoopLatch();
    auto* branch = latch ? llvm::dyn_cast<llvm::BranchInst>(latch->getTerminator()) : nullptr;
    llvm::Value *first = nullptr, *second = nullptr;
    if (!branch || !branch->isConditional() || branch->getSuccessor(0) != loop.getHeader() ||
        !llvm::PatternMatch::match(
            branch->getCondition(),
            llvm::PatternMatch::m_LogicalAnd(llvm::PatternMatch::m_Value(first), llvm::PatternMatch::m_Value(second)))) {
        return false;
    }
    if (counts(second, loop, evolution)) {
        std::swap(first, second);
    }
    if (!counts(first, loop, evolution)) {
        return false;
    }
    llvm::BasicBlock* exit = branch->getSuccessor(1);
    llvm::BasicBlock* counting =
        llvm::BasicBlock::Create(latch->getContext(), "counts", latch->getParent(), latch->getNextNode());
    llvm::BranchInst::Create(loop.getHeader(), exit, first, counting);
    branch->setSuccessor(0, counting);
    branch->setCondition(new llvm::FreezeInst(second, "", branch->getIterator())); // it may have meant nothing by now
    for (llvm::PHINode& phi : loop.getHeader()->phis()) {
        phi.replaceIncomingBlockWith(latch, counting);
    }
    for (llvm::PHINode& phi : exit->phis()) {
        phi.addIncoming(phi.getIncomingValueForBlock(latch), counting);
    }
    return true;
}

struct SplitConditions : llvm::PassInfoMixin<SplitConditions> {
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
        auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
        auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
        bool changed = false;
        for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
            changed |= only_calculates(*loop) && split_condition(*loop, evolution);
        }
        return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
    }
};

struct MarkOpenLoops : llvm::PassInfoMixin<MarkOpenLoops> {
    llvm::PreservedAnalyses run(llvm::Loop& loop, llvm::LoopAnalysisManager&, llvm::LoopStandardAnalysisResults& analyses,
                                llvm::LPMUpdater&) {
        if (only_calculates(loop) && !llvm::findOptionMDForLoop(&loop, "llvm.loop.unroll.disable") &&
            llvm::isa<llvm::SCEVCouldNotCompute>(analyses.SE.getBackedgeTakenCount(&loop))) {
            llvm::BasicBlock* latch = loop.getLoopLatch();
            const unsigned count = latch && loop.isLoopExiting(latch) ? analyses.SE.getSmallConstantTripCount(&loop, latch) : 0;
            llvm::addStringMetadataToLoop(&loop, "llvm.loop.unroll.count", count > 0 && count % 8 == 0 ? 8 : 4);
        }
        return llvm::PreservedAnalyses::all();
    }
};

// Other threads, or whoever watches, may be why such a loop does not end.
bool is_seen_outside(const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
    return (call && call->isConvergent()) || (load && !load->isSimple()) || (store && !store->isSimple()) ||
           (instruction.mayReadOrWriteMemory() && !load && !store);
}

// `for (uint i = start; i < n; i += 32)`: should the counter run over, the loop would never end, whatever it does with memory
// that nobody else sees at that time. C++ lets the compiler assume that such loops end, and then it can count their rounds.
void assume_end(llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
    llvm::BasicBlock* latch = loop.getLoopLatch();
    auto* branch = latch ? llvm::dyn_cast<llvm::BranchInst>(latch->getTerminator()) : nullptr;
    auto* comparison = branch && branch->isConditional() ? llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition()) : nullptr;
    if (!comparison || comparison->getPredicate() != llvm::ICmpInst::ICMP_ULT || branch->getSuccessor(0) != loop.getHeader() ||
        loop.getExitingBlock() != latch || !loop.isLoopInvariant(comparison->getOperand(1))) {
        return;
    }
    auto* next = llvm::dyn_cast<llvm::BinaryOperator>(comparison->getOperand(0));
    const llvm::APInt* step = nullptr;
    if (next && llvm::PatternMatch::match(
                    next, llvm::PatternMatch::m_Add(llvm::PatternMatch::m_Value(), llvm::PatternMatch::m_Power2(step)))) {
        const auto* steps = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution.getSCEV(next));
        if (steps && steps->getLoop() == &loop) {
            next->setHasNoUnsignedWrap();
            evolution.forgetLoop(&loop);
        }
    }
}

constexpr std::size_t reading_loop = 64;

// A loop that reads a few words a round waits for each: in four rounds at a time, the reads are under way together.
struct MarkReadingLoops : llvm::PassInfoMixin<MarkReadingLoops> {
    llvm::PreservedAnalyses run(llvm::Loop& loop, llvm::LoopAnalysisManager&, llvm::LoopStandardAnalysisResults& analyses,
                                llvm::LPMUpdater&) {
        std::size_t loads = 0;
        for (const llvm::BasicBlock* block : loop.blocks()) {
            for (const llvm::Instruction& instruction : *block) {
                if (is_seen_outside(instruction)) {
                    return llvm::PreservedAnalyses::all();
                }
                loads += llvm::isa<llvm::LoadInst>(instruction);
            }
        }
        if (!loop.isInnermost() || loads == 0 || instructions_of(loop) > reading_loop ||
            llvm::findOptionMDForLoop(&loop, "llvm.loop.unroll.disable") || analyses.SE.getSmallConstantTripCount(&loop) > 0) {
            return llvm::PreservedAnalyses::all();
        }
        assume_end(loop, analyses.SE);
        if (!llvm::isa<llvm::SCEVCouldNotCompute>(analyses.SE.getBackedgeTakenCount(&loop))) {
            llvm::addStringMetadataToLoop(&loop, "llvm.loop.unroll.count", 4);
        }
        return llvm::PreservedAnalyses::all();
    }
};

} // namespace

void unroll_open_loops(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    llvm::LoopPassManager rotation, marks;
    rotation.addPass(llvm::LoopRotatePass());
    rotation.addPass(llvm::LICMPass(llvm::LICMOptions())); // what is read again and again is no reason to have more rounds
    marks.addPass(MarkOpenLoops());
    marks.addPass(MarkReadingLoops());
    llvm::FunctionPassManager functions;
    functions.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(rotation), /*UseMemorySSA=*/true));
    functions.addPass(SplitConditions());
    functions.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(marks), /*UseMemorySSA=*/false));
    functions.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(3, /*OnlyWhenForced=*/true)));
    llvm::createModuleToFunctionPassAdaptor(std::move(functions)).run(module, analyses.modules);
}

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
