// Takes Clang's code as it comes, before any optimisation.
#include "codegen/whole_loops.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"

#include "codegen/simd_calls.hpp"

namespace metalki::compiler {
namespace {

using Blocks = std::set<llvm::BasicBlock*>;
struct Way {
    llvm::BasicBlock* from;
    llvm::BasicBlock* to;
};

// One loop whose last blocks are to be brought into it.
class LoopToComplete {
public:
    LoopToComplete(llvm::BasicBlock& header, unsigned end, SourceLoops& source)
        : header_(header), function_(*header.getParent()), end_(end), source_(source), dominators_(function_),
          loops_(dominators_), loop_(loops_.getLoopFor(&header)) {
        if (!loop_ || loop_->getHeader() != &header) {
            loop_ = nullptr; // nothing goes round
            return;
        }
        for (llvm::BasicBlock& block : function_) {
            auto written = source.written.find(&block);
            if (written != source.written.end() && written->second <= end && !loop_->contains(&block) &&
                dominators_.dominates(&header, &block)) {
                leaving_.insert(&block);
            }
        }
    }

    bool is_complete(const SimdCalls& calls) const {
        return !loop_ || std::ranges::none_of(leaving_, [&](const llvm::BasicBlock* block) { return calls.are_in(*block); });
    }

    void complete() {
        give_returns_blocks();
        keep_values_in_memory();
        std::vector<Way> round, out;
        for (llvm::BasicBlock* before : llvm::predecessors(&header_)) {
            if (loop_->contains(before)) {
                round.push_back({before, &header_});
            }
        }
        for (llvm::BasicBlock* block : leaving_) {
            for (llvm::BasicBlock* next : llvm::successors(block)) {
                if (!is_inside(next)) {
                    out.push_back({block, next});
                }
            }
        }
        lead_through_end(round, out);
    }

private:
    bool is_inside(llvm::BasicBlock* block) const { return loop_->contains(block) || leaving_.count(block) > 0; }

    llvm::BasicBlock* add_block(const char* name) {
        auto* block = llvm::BasicBlock::Create(function_.getContext(), name, &function_);
        source_.written[block] = end_;
        return block;
    }

    // What ends the function lies behind the loop.
    void give_returns_blocks() {
        for (llvm::BasicBlock* block : leaving_) {
            if (llvm::isa<llvm::ReturnInst>(block->getTerminator())) {
                llvm::SplitBlock(block, block->getTerminator());
            }
        }
    }

    // Blocks behind the loop will not come directly after those in it.
    void keep_values_in_memory() {
        std::vector<llvm::Instruction*> values;
        for (llvm::BasicBlock& block : function_) {
            if (!is_inside(&block)) {
                continue;
            }
            for (llvm::Instruction& value : block) {
                bool leaves = std::ranges::any_of(value.users(), [&](llvm::User* user) {
                    return !is_inside(llvm::cast<llvm::Instruction>(user)->getParent());
                });
                if (leaves && !llvm::isa<llvm::AllocaInst>(value)) {
                    values.push_back(&value);
                }
            }
        }
        for (llvm::PHINode& phi : llvm::make_early_inc_range(header_.phis())) {
            llvm::DemotePHIToStack(&phi);
        }
        for (llvm::Instruction* value : values) {
            llvm::DemoteRegToStack(*value);
        }
    }

    void lead_through_end(const std::vector<Way>& round, const std::vector<Way>& out) {
        llvm::BasicBlock* end = add_block("iteration.end");
        llvm::IRBuilder<> builder(end);
        llvm::PHINode* which = builder.CreatePHI(builder.getInt32Ty(), static_cast<unsigned>(round.size() + out.size()));
        llvm::SwitchInst* onwards = builder.CreateSwitch(which, &header_);
        std::map<llvm::BasicBlock*, llvm::ConstantInt*> numbers{{&header_, builder.getInt32(0)}};
        for (const Way& way : out) {
            if (!numbers.count(way.to)) {
                numbers[way.to] = builder.getInt32(static_cast<unsigned>(numbers.size()));
                for (llvm::PHINode& phi : llvm::make_early_inc_range(way.to->phis())) {
                    llvm::DemotePHIToStack(&phi);
                }
                onwards->addCase(numbers[way.to], way.to);
            }
        }
        if (llvm::MDNode* pragmas = loop_->getLoopID()) {
            onwards->setMetadata(llvm::LLVMContext::MD_loop, pragmas);
        }
        for (const std::vector<Way>& ways : {round, out}) {
            for (const Way& way : ways) {
                llvm::BasicBlock* between = add_block("iteration.way");
                llvm::BranchInst::Create(end, between);
                which->addIncoming(numbers.at(way.to), between);
                replace_one(*way.from->getTerminator(), way.to, between);
            }
        }
    }

    // A block may go two ways to the same place.
    static void replace_one(llvm::Instruction& terminator, llvm::BasicBlock* from, llvm::BasicBlock* to) {
        for (unsigned i = 0; i < terminator.getNumSuccessors(); ++i) {
            if (terminator.getSuccessor(i) == from) {
                terminator.setSuccessor(i, to);
                return;
            }
        }
    }

    llvm::BasicBlock& header_;
    llvm::Function& function_;
    unsigned end_;
    SourceLoops& source_;
    llvm::DominatorTree dominators_;
    llvm::LoopInfo loops_;
    llvm::Loop* loop_;
    Blocks leaving_; // of the source's loop, but not of LLVM's
};

} // namespace

void keep_loops_whole(llvm::Module& module, SourceLoops& loops) {
    const SimdCalls calls(module);
    if (calls.callers().empty()) {
        return;
    }
    for (const SourceLoops::Loop& loop : loops.loops) {
        auto* header = llvm::dyn_cast_or_null<llvm::BasicBlock>(static_cast<llvm::Value*>(loop.header));
        if (!header || !header->getParent() || !calls.callers().count(header->getParent())) {
            continue;
        }
        LoopToComplete one(*header, loop.end, loops);
        if (!one.is_complete(calls)) {
            one.complete();
        }
    }
}

} // namespace metalki::compiler
