// See the header.
#include "codegen/private_array_loops.hpp"

#include <algorithm>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

namespace metalki::compiler {
namespace {

constexpr unsigned most_iterations = 64;
constexpr unsigned most_instructions = 2000; // of the unrolled nest

bool indexes_private_array(const llvm::Loop& loop) {
    for (const llvm::BasicBlock* block : loop.blocks()) {
        for (const llvm::Instruction& instruction : *block) {
            const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
            bool moves = address && std::ranges::any_of(address->indices(), [&](const llvm::Use& index) {
                             return !loop.isLoopInvariant(index.get());
                         });
            if (moves && llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(address->getPointerOperand()))) {
                return true;
            }
        }
    }
    return false;
}

// Instructions of the loop with inner loops unrolled; 0: some inner loop cannot be.
unsigned unrolled_size(const llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
    unsigned count = evolution.getSmallConstantTripCount(&loop);
    if (count == 0 || count > most_iterations) {
        return 0;
    }
    unsigned once = 0;
    for (const llvm::BasicBlock* block : loop.blocks()) {
        bool own = std::ranges::none_of(loop, [&](const llvm::Loop* inner) { return inner->contains(block); });
        once += own ? static_cast<unsigned>(block->sizeWithoutDebug()) : 0;
    }
    for (const llvm::Loop* inner : loop) {
        unsigned size = unrolled_size(*inner, evolution);
        if (size == 0 || size > most_instructions) {
            return 0;
        }
        once += size;
    }
    return once * count;
}

} // namespace

llvm::PreservedAnalyses UnrollOverPrivateArrays::run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
        unsigned size = unrolled_size(*loop, evolution);
        if (size > 0 && size <= most_instructions && indexes_private_array(*loop)) {
            llvm::addStringMetadataToLoop(loop, "llvm.loop.unroll.full");
        }
    }
    return llvm::PreservedAnalyses::all();
}

} // namespace metalki::compiler
