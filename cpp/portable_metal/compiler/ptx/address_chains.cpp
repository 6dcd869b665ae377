// See the header.
#include "ptx/address_chains.hpp"

#include <vector>

#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

#include "codegen/analyses.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr std::size_t most_addresses = 48;
constexpr unsigned worth_a_register = 4; // addresses at a distance

class Chains {
public:
    Chains(llvm::Loop& loop, llvm::ScalarEvolution& evolution)
        : loop_(loop), evolution_(evolution), block_(*loop.getHeader()),
          expander_(evolution, block_.getModule()->getDataLayout(), "distance") {}

    void run() {
        collect();
        if (addresses_.size() > most_addresses) {
            return;
        }
        for (std::size_t i = 0; i < addresses_.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                if (const llvm::SCEV* distance = between(j, i)) {
                    ++uses_[distance];
                }
            }
        }
        for (std::size_t i = 1; i < addresses_.size(); ++i) {
            chain(i);
        }
        for (llvm::Instruction* old : replaced_) {
            llvm::RecursivelyDeleteTriviallyDeadInstructions(old);
        }
    }

private:
    // What loads add constants to, in the order of the loads.
    void collect() {
        for (llvm::Instruction& instruction : block_) {
            auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
            if (!load) {
                continue;
            }
            llvm::APInt offset(block_.getModule()->getDataLayout().getIndexTypeSizeInBits(load->getPointerOperandType()), 0);
            auto* base = llvm::dyn_cast<llvm::Instruction>(load->getPointerOperand()->stripAndAccumulateConstantOffsets(
                block_.getModule()->getDataLayout(), offset, /*AllowNonInbounds=*/true));
            if (base && base->getParent() == &block_ && base->getType() == load->getPointerOperandType() &&
                !llvm::is_contained(addresses_, base) && llvm::isa<llvm::SCEVAddRecExpr>(evolution_.getSCEV(base))) {
                addresses_.push_back(base);
                numbers_.push_back(evolution_.getSCEV(base));
            }
        }
    }

    // The distance from one address to another that comes behind it, if it is the same in each round; else null.
    const llvm::SCEV* between(std::size_t from, std::size_t to) {
        const llvm::SCEV* distance = evolution_.getMinusSCEV(numbers_[to], numbers_[from]);
        const bool is_fit = !llvm::isa<llvm::SCEVCouldNotCompute, llvm::SCEVConstant>(distance) &&
                            evolution_.isLoopInvariant(distance, &loop_) && addresses_[from]->comesBefore(addresses_[to]);
        return is_fit ? distance : nullptr;
    }

    void chain(std::size_t which) {
        llvm::Instruction* address = addresses_[which];
        const llvm::SCEV* best = nullptr;
        std::size_t from = 0;
        for (std::size_t j = 0; j < which; ++j) {
            const llvm::SCEV* distance = between(j, which);
            if (distance && (!best || uses_[distance] >= uses_[best])) {
                best = distance;
                from = j;
            }
        }
        llvm::Instruction* before = loop_.getLoopPreheader()->getTerminator();
        if (!best || uses_[best] < worth_a_register || llvm::isa<llvm::PHINode>(address) ||
            !expander_.isSafeToExpandAt(best, before)) {
            return;
        }
        llvm::Value*& distance = distances_[best];
        if (!distance) { // frozen, so that nobody takes it apart again
            distance =
                new llvm::FreezeInst(expander_.expandCodeFor(best, best->getType(), before), "distance", before->getIterator());
        }
        llvm::IRBuilder<> builder(address);
        llvm::Value* made = builder.CreateGEP(builder.getInt8Ty(), addresses_[from], distance);
        address->replaceAllUsesWith(made);
        replaced_.push_back(address);
        addresses_[which] = llvm::cast<llvm::Instruction>(made);
    }

    llvm::Loop& loop_;
    llvm::ScalarEvolution& evolution_;
    llvm::BasicBlock& block_;
    llvm::SCEVExpander expander_;
    std::vector<llvm::Instruction*> addresses_, replaced_;
    std::vector<const llvm::SCEV*> numbers_;
    llvm::DenseMap<const llvm::SCEV*, unsigned> uses_; // between pairs
    llvm::DenseMap<const llvm::SCEV*, llvm::Value*> distances_;
};

} // namespace

void chain_addresses(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    llvm::FunctionPassManager forms;
    forms.addPass(llvm::LoopSimplifyPass());
    llvm::createModuleToFunctionPassAdaptor(std::move(forms)).run(module, analyses.modules);
    for (llvm::Function& function : module) {
        if (function.isDeclaration()) {
            continue;
        }
        auto& evolution = analyses.functions.getResult<llvm::ScalarEvolutionAnalysis>(function);
        for (llvm::Loop* loop : analyses.functions.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder()) {
            if (loop->getNumBlocks() == 1 && loop->getLoopPreheader()) {
                Chains(*loop, evolution).run();
            }
        }
    }
}

} // namespace metalki::compiler::ptx
