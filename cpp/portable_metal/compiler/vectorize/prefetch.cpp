// Rows of matrices lie on a page each, where the processor sees no stream to follow: it waits for their first bytes in every
// iteration. What is read next is where this iteration would read if its counters were those of the next.
#include "vectorize/prefetch.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"

namespace metalki::compiler::vectorize {
namespace {

// In instructions of a thread: what a loop does while a line is fetched, and what a call of the runtime stands for.
constexpr std::uint64_t long_iteration = 300;
constexpr std::uint64_t of_matrices = 32;
constexpr unsigned most_copied = 32; // instructions of an address
constexpr unsigned most_of_loop = 32;
constexpr std::int64_t line = 64;
constexpr unsigned into_first_level = 3;

bool is_long(const llvm::Loop& loop) {
    std::uint64_t work = 0;
    for (const llvm::BasicBlock* block : loop.blocks()) {
        for (const llvm::Instruction& instruction : *block) {
            work += callee_name(instruction) == runtime::simd_mma ? of_matrices : 1;
        }
    }
    return work >= long_iteration;
}

bool is_own_memory(const llvm::Value& pointer) {
    const llvm::Value* object = llvm::getUnderlyingObject(&pointer, 0);
    const auto* made_by = llvm::dyn_cast<llvm::Instruction>(object);
    return llvm::isa<llvm::AllocaInst, llvm::GlobalValue>(object) ||
           (made_by && callee_name(*made_by) == runtime::threadgroup_memory);
}

// Computes values as they are in the next iteration of a loop, in front of an instruction inside.
class NextIteration {
public:
    NextIteration(const llvm::Loop& loop, llvm::Instruction& place, const llvm::DominatorTree& dominators)
        : loop_(loop), place_(place), dominators_(dominators), builder_(&place) {}

    // Null where that takes more than a few plain operations, or the value stays the same.
    llvm::Value* of(llvm::Value& value) {
        llvm::Value* out = copy(value, true);
        if (!out || out == &value) {
            discard();
            return nullptr;
        }
        return out;
    }

private:
    llvm::Value* copy(llvm::Value& value, bool next) {
        auto* instruction = llvm::dyn_cast<llvm::Instruction>(&value);
        if (!instruction || !loop_.contains(instruction)) {
            return &value;
        }
        auto& known = known_[next];
        if (auto found = known.find(instruction); found != known.end()) {
            return found->second;
        }
        llvm::Value* out = nullptr;
        if (auto* phi = llvm::dyn_cast<llvm::PHINode>(instruction)) {
            out = copy_phi(*phi, next);
        } else if (!next && dominators_.dominates(instruction, &place_)) {
            out = instruction;
        } else {
            out = copy_operation(*instruction, next);
        }
        return known[instruction] = out;
    }

    llvm::Value* copy_phi(llvm::PHINode& phi, bool next) {
        if (phi.getParent() != loop_.getHeader()) {
            return nullptr;
        }
        llvm::Value* latched = loop_.getLoopLatch() ? phi.getIncomingValueForBlock(loop_.getLoopLatch()) : nullptr;
        return !next ? &phi : latched ? copy(*latched, false) : nullptr;
    }

    llvm::Value* copy_operation(llvm::Instruction& instruction, bool next) {
        std::vector<llvm::Value*> operands;
        bool same = dominators_.dominates(&instruction, &place_);
        for (llvm::Use& operand : instruction.operands()) {
            operands.push_back(copy(*operand.get(), next));
            if (!operands.back()) {
                return nullptr;
            }
            same &= operands.back() == operand.get();
        }
        if (same) {
            return &instruction;
        }
        bool plain = llvm::isa<llvm::BinaryOperator, llvm::CastInst, llvm::GetElementPtrInst>(instruction) &&
                     llvm::isSafeToSpeculativelyExecute(&instruction);
        if (!plain || made_.size() >= most_copied) {
            return nullptr;
        }
        llvm::Instruction* out = instruction.clone(); // where it wraps round behind the last iteration, any place will do
        out->dropUnknownNonDebugMetadata();
        for (unsigned i = 0; i < operands.size(); ++i) {
            out->setOperand(i, operands[i]);
        }
        made_.push_back(llvm::cast<llvm::Instruction>(builder_.Insert(out)));
        return out;
    }

    void discard() {
        for (; !made_.empty(); made_.pop_back()) {
            made_.back()->eraseFromParent();
        }
    }

    const llvm::Loop& loop_;
    llvm::Instruction& place_;
    const llvm::DominatorTree& dominators_;
    llvm::IRBuilder<> builder_;
    std::map<const llvm::Instruction*, llvm::Value*> known_[2]; // as they are now, and next
    std::vector<llvm::Instruction*> made_;
};

class Prefetcher {
public:
    explicit Prefetcher(llvm::Function& kernel) : dominators_(kernel), loops_(dominators_) {}

    // A loop with others inside would ask for all their lines at once, and wait for those instead of for what it needs.
    void run() {
        for (const llvm::Loop* loop : loops_.getLoopsInPreorder()) {
            if (loop->isInnermost() && is_long(*loop)) {
                run(*loop);
            }
        }
    }

private:
    using Line = std::tuple<const llvm::BasicBlock*, const llvm::Value*, std::int64_t>;

    void run(const llvm::Loop& loop) {
        std::vector<llvm::LoadInst*> loads;
        std::set<Line> lines;
        for (llvm::BasicBlock* block : loop.blocks()) {
            for (llvm::Instruction& instruction : *block) {
                auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
                if (load && load->isSimple() && !is_own_memory(*load->getPointerOperand()) &&
                    lines.insert(line_of(*load)).second) {
                    loads.push_back(load);
                }
            }
        }
        if (loads.size() > most_of_loop) {
            return;
        }
        for (llvm::LoadInst* load : loads) {
            llvm::Instruction& place = *load->getParent()->getTerminator();
            if (llvm::Value* next = NextIteration(loop, place, dominators_).of(*load->getPointerOperand())) {
                llvm::IRBuilder<> builder(&place);
                builder.CreateIntrinsic(llvm::Intrinsic::prefetch, {next->getType()},
                                        {next, builder.getInt32(0), builder.getInt32(into_first_level), builder.getInt32(1)});
            }
        }
    }

    static Line line_of(const llvm::LoadInst& load) {
        const llvm::DataLayout& layout = load.getModule()->getDataLayout();
        llvm::APInt offset(layout.getIndexTypeSizeInBits(load.getPointerOperandType()), 0);
        const llvm::Value* base =
            load.getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
        return {load.getParent(), base, offset.getSExtValue() / line};
    }

    llvm::DominatorTree dominators_;
    llvm::LoopInfo loops_;
};

} // namespace

void prefetch_next_iterations(llvm::Function& kernel) {
    Prefetcher(kernel).run();
}

} // namespace metalki::compiler::vectorize
