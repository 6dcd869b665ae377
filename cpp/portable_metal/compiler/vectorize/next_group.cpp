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

llvm::Value* NextGroup::of(llvm::Value& address) {
    llvm::Value* next = copy(address, Of::next_group);
    return next && of_group_[next] ? next : nullptr;
}

llvm::Value* NextGroup::distance(llvm::Value& address) {
    llvm::Value *next = copy(address, Of::first_lane_of_next_group), *own = copy(address, Of::first_lane);
    if (!next || !own || !of_group_[next]) {
        return nullptr;
    }
    llvm::Type* bytes = builder_.getInt64Ty();
    return builder_.CreateSub(builder_.CreatePtrToInt(next, bytes), builder_.CreatePtrToInt(own, bytes));
}

llvm::Value* NextGroup::copy(llvm::Value& value, Of thread) {
    auto* instruction = llvm::dyn_cast<llvm::Instruction>(&value);
    if (!instruction) {
        return &value;
    }
    auto key = std::pair(static_cast<const llvm::Instruction*>(instruction), thread);
    if (auto found = known_.find(key); found != known_.end()) {
        return found->second;
    }
    known_[key] = nullptr; // for values that depend on themselves in loops around this one
    llvm::Value* out = nullptr;
    if (input_number(*instruction)) {
        out = copy_input(*instruction, thread);
    } else if (auto* phi = llvm::dyn_cast<llvm::PHINode>(instruction); phi && phi->getParent() == loop_.getHeader()) {
        out = copy(*phi->getIncomingValueForBlock(loop_.getLoopPreheader()), thread);
    } else {
        out = copy_operation(*instruction, thread);
    }
    return known_[key] = out;
}

llvm::Value* NextGroup::copy_input(llvm::Instruction& input, Of thread) {
    const unsigned number = *input_number(input);
    if (number == unsigned(ThreadInput::index_in_simdgroup) && thread != Of::next_group) {
        return builder_.getInt32(0);
    }
    if (!dominators_.dominates(&input, &place_)) {
        return nullptr;
    }
    if (number != unsigned(ThreadInput::threadgroup_position) || thread == Of::first_lane) {
        return &input;
    }
    llvm::Value* next = builder_.CreateAdd(&input, builder_.getInt32(1));
    of_group_[next] = true;
    return next;
}

llvm::Value* NextGroup::copy_operation(llvm::Instruction& instruction, Of thread) {
    bool here = dominators_.dominates(&instruction, &place_);
    if (!is_plain(instruction)) {
        return here ? &instruction : nullptr;
    }
    std::vector<llvm::Value*> operands;
    bool same = here, of_group = false;
    for (llvm::Use& operand : instruction.operands()) {
        llvm::Value* own = copy(*operand.get(), thread);
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
