// See the header.
#include "vectorize/next_group.hpp"

#include <algorithm>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Instructions.h"

#include "codegen/runtime_calls.hpp"
#include "compiler/kernel_abi.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr std::size_t most_made = 160; // instructions for all addresses of a loop

bool is_plain(const llvm::Instruction& instruction) {
    return llvm::isa<llvm::BinaryOperator, llvm::CastInst, llvm::GetElementPtrInst, llvm::ICmpInst, llvm::SelectInst>(
               instruction) &&
           llvm::isSafeToSpeculativelyExecute(&instruction);
}

} // namespace

NextGroup::NextGroup(const llvm::Loop& loop, const llvm::DominatorTree& dominators)
    : loop_(loop), place_(*loop.getLoopPreheader()->getTerminator()), dominators_(dominators), builder_(&place_) {}

llvm::Value* NextGroup::of(llvm::Value& address, unsigned iteration) {
    llvm::Value* out = copy(address, iteration);
    return out && of_group_[out] ? out : nullptr;
}

llvm::Value* NextGroup::copy(llvm::Value& value, unsigned iteration) {
    auto* instruction = llvm::dyn_cast<llvm::Instruction>(&value);
    if (!instruction) {
        return &value;
    }
    auto key = std::pair(static_cast<const llvm::Instruction*>(instruction), loop_.contains(instruction) ? iteration : 0);
    if (auto found = known_.find(key); found != known_.end()) {
        return found->second;
    }
    known_[key] = nullptr; // for values that depend on themselves in loops around this one
    llvm::Value* out = nullptr;
    if (input_number(*instruction) == unsigned(ThreadInput::threadgroup_position)) {
        out = dominators_.dominates(instruction, &place_) ? builder_.CreateAdd(instruction, builder_.getInt32(1)) : nullptr;
        of_group_[out] = true;
    } else if (auto* phi = llvm::dyn_cast<llvm::PHINode>(instruction); phi && phi->getParent() == loop_.getHeader()) {
        out = copy_phi(*phi, iteration);
    } else {
        out = copy_operation(*instruction, iteration);
    }
    return known_[key] = out;
}

llvm::Value* NextGroup::copy_phi(llvm::PHINode& phi, unsigned iteration) {
    return iteration == 0 ? copy(*phi.getIncomingValueForBlock(loop_.getLoopPreheader()), 0)
                          : copy(*phi.getIncomingValueForBlock(loop_.getLoopLatch()), iteration - 1);
}

llvm::Value* NextGroup::copy_operation(llvm::Instruction& instruction, unsigned iteration) {
    bool here = dominators_.dominates(&instruction, &place_);
    if (!is_plain(instruction)) {
        return here ? &instruction : nullptr;
    }
    std::vector<llvm::Value*> operands;
    bool same = here, of_group = false;
    for (llvm::Use& operand : instruction.operands()) {
        llvm::Value* own = copy(*operand.get(), iteration);
        if (!own) {
            return nullptr;
        }
        operands.push_back(own);
        same &= own == operand.get();
        of_group |= of_group_[own];
    }
    if (same) {
        return &instruction;
    }
    if (made_.size() >= most_made) {
        return nullptr;
    }
    llvm::Instruction* out = instruction.clone(); // where it wraps round, any place will do
    out->dropUnknownNonDebugMetadata();
    out->dropPoisonGeneratingFlags();
    for (unsigned i = 0; i < operands.size(); ++i) {
        out->setOperand(i, operands[i]);
    }
    made_.push_back(llvm::cast<llvm::Instruction>(builder_.Insert(out)));
    of_group_[out] = of_group;
    return out;
}

} // namespace metalki::compiler::vectorize
