// See the header.
#include "ptx/early_loads.hpp"

#include <vector>

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"

#include "ptx/builder.hpp"
#include "ptx/loads.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr std::uint64_t most_bits = 48 * 32; // of registers that wait for memory
constexpr std::uint64_t many_bits = 24 * 32;

class Hoister {
public:
    explicit Hoister(llvm::BasicBlock& block) : block_(block), point_(&*block.getFirstInsertionPt()) {}

    // Gives the most bits that are under way at a time.
    std::uint64_t run() {
        for (llvm::Instruction* next = point_; next;) {
            llvm::Instruction& instruction = *std::exchange(next, next->getNextNode());
            auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
            // Threadgroup memory is near; more threads at a time do more for it than more registers.
            if (load && load->isSimple() && load->getPointerAddressSpace() != shared_space) {
                consider(*load);
            } else if (separates_loads(instruction)) {
                point_ = instruction.getNextNode();
                bits_ = 0;
            }
        }
        return most_;
    }

private:
    void consider(llvm::LoadInst& load) {
        const std::uint64_t bits =
            std::max<std::uint64_t>(32, block_.getModule()->getDataLayout().getTypeSizeInBits(load.getType()).getFixedValue());
        if (bits_ + bits > most_bits) {
            point_ = &load; // the next of them are asked for from here
            bits_ = 0;
        }
        std::vector<llvm::Instruction*> needed;
        if (!collect(load, needed)) {
            return;
        }
        bits_ += bits;
        most_ = std::max(most_, bits_);
        for (llvm::Instruction* instruction : needed) {
            if (instruction == point_) {
                point_ = point_->getNextNode();
            } else {
                instruction->moveBefore(point_);
            }
        }
    }

    // The load and what leads to its address, operands first; false when that depends on other loads, or is long.
    bool collect(llvm::Instruction& instruction, std::vector<llvm::Instruction*>& needed) {
        constexpr std::size_t longest = 12;
        for (llvm::Value* operand : instruction.operands()) {
            auto* before = llvm::dyn_cast<llvm::Instruction>(operand);
            if (!before || before->getParent() != &block_ || llvm::isa<llvm::PHINode>(before) || before->comesBefore(point_) ||
                llvm::is_contained(needed, before)) {
                continue;
            }
            if (before->mayReadOrWriteMemory() || llvm::isa<llvm::CallBase>(before) || !collect(*before, needed)) {
                return false;
            }
        }
        needed.push_back(&instruction);
        return needed.size() <= longest;
    }

    llvm::BasicBlock& block_;
    llvm::Instruction* point_;
    std::uint64_t bits_ = 0, most_ = 0;
};

} // namespace

bool hoist_loads(llvm::Module& module) {
    std::uint64_t bits = 0;
    for (llvm::Function& function : module) {
        if (function.isDeclaration()) {
            continue;
        }
        const llvm::DominatorTree dominators(function);
        const llvm::LoopInfo loops(dominators);
        for (llvm::BasicBlock& block : function) {
            const llvm::Loop* loop = loops.getLoopFor(&block);
            if (loop && loop->isInnermost()) {
                bits = std::max(bits, Hoister(block).run());
            }
        }
    }
    return bits >= many_bits;
}

} // namespace metalki::compiler::ptx
