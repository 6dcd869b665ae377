// See the header.
#include "codegen/long_blocks.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

namespace metalki::compiler {
namespace {

// A processor looks ahead about as far.
constexpr std::size_t long_block = 256;
constexpr std::size_t scheduled_together = 64;

// A product that becomes one operation with the sum that it goes into is computed there anyhow.
bool is_of_sum(const llvm::Instruction& instruction) {
    const auto* sum = instruction.hasOneUse() ? llvm::dyn_cast<llvm::Instruction>(*instruction.user_begin()) : nullptr;
    return instruction.getOpcode() == llvm::Instruction::FMul && instruction.hasAllowContract() && sum &&
           sum->getOpcode() == llvm::Instruction::FAdd && sum->hasAllowContract();
}

// Some bits of a number, which stays in its register for others.
bool takes_bits(const llvm::Instruction& instruction) {
    const auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(&instruction);
    return operation && (operation->isBitwiseLogicOp() || operation->isShift()) &&
           llvm::isa<llvm::Constant>(operation->getOperand(1));
}

bool reads(const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return llvm::isa<llvm::LoadInst>(instruction) || (call && call->getIntrinsicID() == llvm::Intrinsic::vp_load);
}

// Other arithmetic stays in its order: independent chains are mixed in it.
bool may_move(const llvm::Instruction& instruction) {
    bool moves = llvm::isa<llvm::ShuffleVectorInst, llvm::InsertElementInst, llvm::ExtractElementInst, llvm::CastInst,
                           llvm::GetElementPtrInst>(instruction);
    return (moves || reads(instruction) || takes_bits(instruction) || is_of_sum(instruction)) &&
           !instruction.mayHaveSideEffects();
}

void load_late(llvm::BasicBlock& block) {
    std::vector<llvm::Instruction*> order;
    // Where an instruction stands: the number of the one that it was moved before, and its place among those.
    using Place = std::pair<std::size_t, std::size_t>;
    llvm::DenseMap<const llvm::Instruction*, Place> places;
    std::vector<unsigned> writes_before;
    unsigned writes = 0;
    for (llvm::Instruction& instruction : block) {
        places[&instruction] = {order.size(), std::numeric_limits<std::size_t>::max()};
        order.push_back(&instruction);
        writes_before.push_back(writes);
        writes += instruction.mayWriteToMemory();
    }
    std::vector<llvm::Instruction*> front = order; // of what was moved before an instruction
    for (std::size_t i = order.size(); i-- > 0;) {
        llvm::Instruction* instruction = order[i];
        llvm::Instruction* first = nullptr;
        for (llvm::User* user : instruction->users()) {
            auto* other = llvm::cast<llvm::Instruction>(user);
            bool here = other->getParent() == &block && !llvm::isa<llvm::PHINode>(other);
            if (here && (!first || places[other] < places[first])) {
                first = other;
            }
        }
        if (!first || !may_move(*instruction)) {
            continue;
        }
        std::size_t target = places[first].first;
        if (instruction->mayReadFromMemory() && writes_before[target] != writes_before[i]) {
            continue;
        }
        instruction->moveBefore(front[target]);
        places[instruction] = {target, places[front[target]].second - 1};
        front[target] = instruction;
    }
}

// A label that nobody sees: nothing is scheduled across it.
void add_boundaries(llvm::BasicBlock& block) {
    llvm::LLVMContext& context = block.getContext();
    llvm::Value* text = llvm::MetadataAsValue::get(context, llvm::MDNode::get(context, llvm::MDString::get(context, "part")));
    std::vector<llvm::Instruction*> starts;
    std::size_t count = 0;
    for (llvm::Instruction& instruction : block) {
        if (!llvm::isa<llvm::PHINode>(instruction) && ++count % scheduled_together == 0) {
            starts.push_back(&instruction);
        }
    }
    for (llvm::Instruction* start : starts) {
        llvm::IRBuilder<>(start).CreateIntrinsic(llvm::Intrinsic::codeview_annotation, {}, {text});
    }
}

} // namespace

void order_long_blocks(llvm::Function& function) {
    for (llvm::BasicBlock& block : function) {
        if (block.size() >= long_block) {
            load_late(block);
            add_boundaries(block);
        }
    }
}

} // namespace metalki::compiler
