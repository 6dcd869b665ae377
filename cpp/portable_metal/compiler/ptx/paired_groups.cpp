// See the header.
#include "ptx/paired_groups.hpp"

#include <algorithm>
#include <vector>

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include "ptx/builder.hpp"

namespace metalki::compiler::ptx {
namespace {

// Of registers that a round of a loop waits for: what both read, and all. With more there would be too few threadgroups.
constexpr std::uint64_t least_shared_bits = 8 * 32, most_shared_bits = 24 * 32, most_bits = 60 * 32;

bool exchanges_between_lanes(const llvm::CallBase& call) {
    switch (call.getIntrinsicID()) {
    case llvm::Intrinsic::nvvm_activemask:
    case llvm::Intrinsic::nvvm_shfl_sync_idx_i32:
    case llvm::Intrinsic::nvvm_shfl_sync_bfly_i32:
    case llvm::Intrinsic::nvvm_vote_all_sync:
    case llvm::Intrinsic::nvvm_vote_ballot_sync:
        return true;
    default:
        return false;
    }
}

// Memory that only one thread sees, or the whole grid, in no order.
bool has_no_order(const llvm::Instruction& instruction, const llvm::Value& address, bool is_simple) {
    const unsigned space = address.getType()->getPointerAddressSpace();
    return is_simple && (space == global_space || llvm::isa<llvm::Argument>(llvm::getUnderlyingObject(&address)) ||
                         instruction.hasMetadata(llvm::LLVMContext::MD_invariant_load));
}

class Pairing {
public:
    explicit Pairing(llvm::Function& function) : function_(function), dominators_(function), loops_(dominators_) {}

    bool run() {
        for (llvm::Instruction& instruction : llvm::instructions(function_)) {
            if (!is_possible(instruction)) {
                return false;
            }
            const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
            if (call && call->getIntrinsicID() == llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x) {
                groups_.push_back(&instruction);
            }
        }
        find_dependent();
        llvm::BasicBlock* last = nullptr;
        if (groups_.empty() || !find_tail(last) || !is_worth_it() || !writes_last()) {
            return false;
        }
        llvm::BasicBlock* tail = last ? llvm::SplitBlock(last, last->getTerminator()) : nullptr;
        number_groups();
        double_head();
        if (tail) {
            double_tail(*tail);
        }
        return true;
    }

private:
    static bool is_possible(const llvm::Instruction& instruction) {
        if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
            return has_no_order(*load, *load->getPointerOperand(), load->isSimple());
        }
        if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
            return has_no_order(*store, *store->getPointerOperand(), store->isSimple());
        }
        if (const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction)) {
            return exchanges_between_lanes(*call) || (call->doesNotAccessMemory() && !call->isConvergent()) ||
                   instruction.isLifetimeStartOrEnd() || call->getIntrinsicID() == llvm::Intrinsic::assume;
        }
        return !instruction.mayReadOrWriteMemory() && !llvm::isa<llvm::AllocaInst>(instruction);
    }

    // All that follows from the threadgroup's number.
    void find_dependent() {
        std::vector<llvm::Instruction*> open(groups_);
        while (!open.empty()) {
            llvm::Instruction* next = open.back();
            open.pop_back();
            for (llvm::User* user : next->users()) {
                auto* instruction = llvm::cast<llvm::Instruction>(user);
                if (dependent_.insert(instruction)) {
                    open.push_back(instruction);
                }
            }
        }
    }

    // From the first branch on whose way differs, one threadgroup comes after the other; `last` ends what both do together.
    bool find_tail(llvm::BasicBlock*& last) {
        for (llvm::Instruction* instruction : dependent_) {
            if (instruction->isTerminator()) {
                llvm::BasicBlock* block = instruction->getParent();
                last = last ? dominators_.findNearestCommonDominator(last, block) : block;
            }
        }
        while (last && !ends_head(*last)) {
            const auto* above = dominators_.getNode(last)->getIDom();
            if (!above) {
                return false;
            }
            last = above->getBlock();
        }
        return true;
    }
    bool ends_head(llvm::BasicBlock& block) {
        tail_.clear();
        std::vector<llvm::BasicBlock*> open(llvm::succ_begin(&block), llvm::succ_end(&block));
        while (!open.empty()) {
            llvm::BasicBlock* next = open.back();
            open.pop_back();
            if (next == &block || !dominators_.dominates(&block, next)) {
                return false;
            }
            if (tail_.insert(next)) {
                open.insert(open.end(), llvm::succ_begin(next), llvm::succ_end(next));
            }
        }
        return true;
    }

    bool is_worth_it() const {
        return llvm::any_of(loops_.getLoopsInPreorder(), [&](const llvm::Loop* loop) {
            return loop->isInnermost() && !tail_.contains(loop->getHeader()) && reads_the_same(*loop);
        });
    }
    bool reads_the_same(const llvm::Loop& loop) const {
        std::uint64_t same = 0, own = 0;
        for (llvm::BasicBlock* block : loop.blocks()) {
            for (llvm::Instruction& instruction : *block) {
                if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
                    const std::uint64_t bits =
                        function_.getParent()->getDataLayout().getTypeSizeInBits(load->getType()).getFixedValue();
                    (dependent_.contains(load) ? own : same) += std::max<std::uint64_t>(32, bits);
                }
            }
        }
        return own > 0 && own <= 2 * same && same >= least_shared_bits && same <= most_shared_bits &&
               same + 2 * own <= most_bits;
    }

    // What is read once for both must not be what one of them has written.
    bool writes_last() const {
        std::vector<llvm::Instruction*> stores, loads;
        for (llvm::Instruction& instruction : llvm::instructions(function_)) {
            if (llvm::isa<llvm::StoreInst>(instruction)) {
                stores.push_back(&instruction);
            } else if (llvm::isa<llvm::LoadInst>(instruction) && !dependent_.contains(&instruction) &&
                       !is_in_tail(instruction)) {
                loads.push_back(&instruction);
            }
        }
        return llvm::all_of(stores, [&](const llvm::Instruction* store) {
            return dependent_.contains(const_cast<llvm::Instruction*>(store)) &&
                   llvm::none_of(loads, [&](const llvm::Instruction* load) {
                       return llvm::isPotentiallyReachable(store, load, nullptr, &dominators_, &loops_);
                   });
        });
    }

    void number_groups() {
        for (llvm::Instruction* group : groups_) {
            WarpBuilder builder(group->getNextNode());
            auto* first = llvm::cast<llvm::Instruction>(builder.CreateShl(group, 1, "", /*HasNUW=*/true));
            group->replaceUsesWithIf(first, [&](const llvm::Use& use) { return use.getUser() != first; });
            others_[first] = builder.CreateOr(first, 1);
        }
    }

    // One threadgroup's part of a block stands behind the other's: loops that run through memory keep their order.
    void double_head() {
        std::vector<llvm::Instruction*> originals, made;
        for (llvm::Instruction& instruction : llvm::instructions(function_)) {
            if (dependent_.contains(&instruction) && !instruction.isTerminator() && !is_in_tail(instruction)) {
                originals.push_back(&instruction);
            }
        }
        for (llvm::Instruction* instruction : originals) {
            llvm::BasicBlock& block = *instruction->getParent();
            llvm::Instruction* other = instruction->clone();
            other->insertBefore(llvm::isa<llvm::PHINode>(instruction) ? &*block.getFirstNonPHIIt() : block.getTerminator());
            others_[instruction] = other;
            made.push_back(other);
        }
        for (llvm::Instruction* other : made) {
            llvm::RemapInstruction(other, others_, llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals);
        }
    }
    bool is_in_tail(const llvm::Instruction& instruction) const {
        return tail_.contains(const_cast<llvm::BasicBlock*>(instruction.getParent()));
    }

    void double_tail(llvm::BasicBlock& first) {
        llvm::SmallVector<llvm::BasicBlock*, 16> blocks{&first}, copies;
        blocks.append(tail_.begin(), tail_.end());
        for (llvm::BasicBlock* block : blocks) {
            copies.push_back(llvm::CloneBasicBlock(block, others_, ".other", &function_));
            others_[block] = copies.back();
        }
        llvm::remapInstructionsInBlocks(copies, others_);
        for (llvm::BasicBlock* block : blocks) {
            if (llvm::isa<llvm::ReturnInst>(block->getTerminator())) {
                llvm::ReplaceInstWithInst(block->getTerminator(), llvm::BranchInst::Create(copies.front()));
            }
        }
        // Lanes that went different ways are together again for the second.
        WarpBuilder builder(first.getTerminator());
        llvm::Value* lanes = builder.active();
        builder.SetInsertPoint(&copies.front()->front());
        builder.call(llvm::Intrinsic::nvvm_bar_warp_sync, {lanes});
    }

    llvm::Function& function_;
    llvm::DominatorTree dominators_;
    llvm::LoopInfo loops_;
    std::vector<llvm::Instruction*> groups_;
    llvm::SetVector<llvm::Instruction*> dependent_;
    llvm::SetVector<llvm::BasicBlock*> tail_; // without the branch that leads there
    llvm::ValueToValueMapTy others_;          // of the second threadgroup
};

} // namespace

bool pair_threadgroups(llvm::Function& entry) {
    return Pairing(entry).run();
}

void relate_numbers(llvm::Function& entry) {
    using namespace llvm::PatternMatch;
    llvm::DenseMap<llvm::Value*, llvm::Value*> widened;
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(entry))) {
        llvm::Value* number = nullptr;
        const llvm::APInt* distance = nullptr;
        if (!match(&instruction, m_SExt(m_DisjointOr(m_Value(number), m_APInt(distance)))) || distance->isNegative()) {
            continue;
        }
        llvm::Value*& known = widened[number];
        if (!known) {
            auto* source = llvm::dyn_cast<llvm::Instruction>(number);
            llvm::IRBuilder<> builder(source && !llvm::isa<llvm::PHINode>(source)
                                          ? source->getNextNode()
                                          : &*entry.getEntryBlock().getFirstInsertionPt());
            known = builder.CreateSExt(number, instruction.getType());
        }
        llvm::IRBuilder<> builder(&instruction);
        instruction.replaceAllUsesWith(
            builder.CreateNSWAdd(known, llvm::ConstantInt::get(instruction.getType(), distance->getZExtValue())));
        instruction.eraseFromParent();
    }
}

} // namespace metalki::compiler::ptx
