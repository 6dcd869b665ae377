// Rows of matrices lie on a page each, where the processor sees no stream to follow: it waits for their first bytes in every
// iteration. What is read next is where this iteration would read if its counters were those of a later one. A stream is
// followed to the end of its page only: a short loop asks for what lies two pages on, for the second level of the caches. One
// that goes down columns asks for what lies beside them, which the next SIMD-group reads: so memory is read in longer pieces,
// and more of it is under way. What threads copy between barriers is waited for there by all of them: the copy of one iteration
// asks for that of the one after next, since a small tile is computed in less time than memory takes.
#include "vectorize/prefetch.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "compiler/kernel_abi.hpp"
#include "vectorize/next_group.hpp"

namespace metalki::compiler::vectorize {
namespace {

// In instructions of a thread: what a loop does while a line is fetched, where it is worth to look further ahead than to the
// next iteration, and what stands for more than one.
constexpr std::uint64_t long_iteration = 300, short_iteration = 50;
constexpr std::uint64_t of_matrices = 32, lane_by_lane = 48;
constexpr std::uint64_t far = 1024;  // bytes from one iteration to the next: no stream
constexpr unsigned most_copied = 32; // instructions of an address
constexpr unsigned most_of_loop = 32;
constexpr std::uint64_t line = 64;
constexpr unsigned tiles_ahead = 2;

// None where the loop waits for others: nothing may stand behind a barrier in its block.
std::uint64_t work_of(const llvm::Loop& loop) {
    std::uint64_t work = 0;
    for (const llvm::BasicBlock* block : loop.blocks()) {
        for (const llvm::Instruction& instruction : *block) {
            llvm::StringRef name = callee_name(instruction);
            if (name == runtime::barrier) {
                return 0;
            }
            work += name == runtime::simd_mma ? of_matrices : llvm::isa<llvm::AtomicRMWInst>(instruction) ? lane_by_lane : 1;
        }
    }
    return work;
}

bool multiplies_matrices(const llvm::Loop& loop) {
    return llvm::any_of(loop.blocks(), [](const llvm::BasicBlock* block) {
        return llvm::any_of(*block, [](const llvm::Instruction& each) { return callee_name(each) == runtime::simd_mma; });
    });
}

bool is_own_memory(const llvm::Value& pointer) {
    const llvm::Value* object = llvm::getUnderlyingObject(&pointer, 0);
    const auto* made_by = llvm::dyn_cast<llvm::Instruction>(object);
    return llvm::isa<llvm::AllocaInst, llvm::GlobalValue>(object) ||
           (made_by && callee_name(*made_by) == runtime::threadgroup_memory);
}

template <typename Wanted> bool depends_on_input(const llvm::Value& value, Wanted is_wanted) {
    llvm::SmallPtrSet<const llvm::Instruction*, 32> seen;
    llvm::SmallVector<const llvm::Value*, 16> left{&value};
    while (!left.empty()) {
        const auto* instruction = llvm::dyn_cast<llvm::Instruction>(left.pop_back_val());
        if (!instruction || !seen.insert(instruction).second) {
            continue;
        }
        if (std::optional<unsigned> number = input_number(*instruction); number && is_wanted(*number)) {
            return true;
        }
        left.append(instruction->op_begin(), instruction->op_end());
    }
    return false;
}

// Whether other threadgroups read elsewhere: what all of them read is in the caches already.
bool is_of_threadgroup(const llvm::Value& pointer) {
    return depends_on_input(pointer, [](unsigned number) {
        const auto which = static_cast<ThreadInput>(number / 3 * 3);
        return which == ThreadInput::position_in_grid || which == ThreadInput::threadgroup_position;
    });
}

// Whether the next SIMD-group may go on where the lanes of this one end.
bool follows_lanes(const llvm::Value& pointer) {
    return depends_on_input(pointer, [](unsigned number) {
        return number == unsigned(ThreadInput::position_in_grid) || number == unsigned(ThreadInput::position_in_threadgroup) ||
               number == unsigned(ThreadInput::index_in_threadgroup);
    });
}

// Whether what is read is stored as it is, or as a number of another type.
bool is_copied(const llvm::Value& read) {
    return llvm::any_of(read.users(), [&](const llvm::User* user) {
        const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
        return store ? store->getValueOperand() == &read : llvm::isa<llvm::CastInst>(user) && is_copied(*user);
    });
}

void add_prefetch(llvm::Instruction& place, llvm::Value* address, unsigned level) {
    llvm::IRBuilder<> builder(&place);
    builder.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                            {address, builder.getInt32(0), builder.getInt32(level), builder.getInt32(1)});
}

// Computes values as they are some iterations later, in front of an instruction inside a loop.
class LaterIteration {
public:
    LaterIteration(const llvm::Loop& loop, llvm::Instruction& place, const llvm::DominatorTree& dominators)
        : loop_(loop), place_(place), dominators_(dominators), builder_(&place) {}

    // Null where that takes more than a few plain operations, or the value stays the same.
    llvm::Value* of(llvm::Value& value, unsigned ahead) {
        llvm::Value* out = copy(value, ahead);
        if (!out || out == &value) {
            discard();
            return nullptr;
        }
        return out;
    }

private:
    llvm::Value* copy(llvm::Value& value, unsigned ahead) {
        auto* instruction = llvm::dyn_cast<llvm::Instruction>(&value);
        if (!instruction || !loop_.contains(instruction)) {
            return &value;
        }
        auto& known = known_[ahead];
        if (auto found = known.find(instruction); found != known.end()) {
            return found->second;
        }
        llvm::Value* out = nullptr;
        if (auto* phi = llvm::dyn_cast<llvm::PHINode>(instruction)) {
            out = copy_phi(*phi, ahead);
        } else if (ahead == 0 && dominators_.dominates(instruction, &place_)) {
            out = instruction;
        } else {
            out = copy_operation(*instruction, ahead);
        }
        return known[instruction] = out;
    }

    llvm::Value* copy_phi(llvm::PHINode& phi, unsigned ahead) {
        if (phi.getParent() != loop_.getHeader()) {
            return dominators_.dominates(&phi, &place_) ? &phi : nullptr; // of a loop inside, which counts alike each time
        }
        llvm::Value* latched = loop_.getLoopLatch() ? phi.getIncomingValueForBlock(loop_.getLoopLatch()) : nullptr;
        return ahead == 0 ? &phi : latched ? copy(*latched, ahead - 1) : nullptr;
    }

    llvm::Value* copy_operation(llvm::Instruction& instruction, unsigned ahead) {
        std::vector<llvm::Value*> operands;
        bool same = dominators_.dominates(&instruction, &place_);
        for (llvm::Use& operand : instruction.operands()) {
            operands.push_back(copy(*operand.get(), ahead));
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
        llvm::Instruction* out = copy_of(instruction);
        for (unsigned i = 0; i < operands.size(); ++i) {
            out->setOperand(i, operands[i]);
        }
        made_.push_back(llvm::cast<llvm::Instruction>(builder_.Insert(out)));
        return out;
    }

    // Where it wraps round behind the last iteration, any place will do; so an index is extended in the way that costs least.
    static llvm::Instruction* copy_of(llvm::Instruction& instruction) {
        if (llvm::isa<llvm::ZExtInst>(instruction) && instruction.getOperand(0)->getType()->isIntegerTy(32)) {
            return llvm::CastInst::Create(llvm::Instruction::SExt, instruction.getOperand(0), instruction.getType());
        }
        llvm::Instruction* out = instruction.clone();
        out->dropUnknownNonDebugMetadata();
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
    std::map<unsigned, std::map<const llvm::Instruction*, llvm::Value*>> known_; // by how far ahead
    std::vector<llvm::Instruction*> made_;
};

class Prefetcher {
public:
    Prefetcher(llvm::Function& kernel, llvm::FunctionAnalysisManager& analyses)
        : dominators_(analyses.getResult<llvm::DominatorTreeAnalysis>(kernel)),
          loops_(analyses.getResult<llvm::LoopAnalysis>(kernel)),
          evolution_(analyses.getResult<llvm::ScalarEvolutionAnalysis>(kernel)) {}

    // A loop with others inside would ask for all their lines at once, and wait for those instead of for what it needs.
    void run() {
        for (const llvm::Loop* loop : loops_.getLoopsInPreorder()) {
            if (waits(*loop)) {
                ask_for_copies(*loop);
            }
            const std::uint64_t work = loop->isInnermost() ? work_of(*loop) : 0;
            if (work >= short_iteration) {
                ask_for_iterations(*loop, work);
            } else if (work > 0) {
                follow_streams(*loop);
                ask_for_neighbours(*loop);
            }
        }
    }

private:
    using Line = std::tuple<const llvm::BasicBlock*, const llvm::Value*, std::int64_t>;

    // A barrier stands in it, and in no loop inside it.
    bool waits(const llvm::Loop& loop) const {
        return llvm::any_of(loop.blocks(), [&](const llvm::BasicBlock* block) {
            return loops_.getLoopFor(block) == &loop &&
                   llvm::any_of(*block, [](const llvm::Instruction& each) { return callee_name(each) == runtime::barrier; });
        });
    }

    void ask_for_copies(const llvm::Loop& loop) {
        const std::vector<llvm::LoadInst*> loads = lines_of(loop, [](const llvm::LoadInst& load) { return is_copied(load); });
        if (loads.size() > most_of_loop) {
            return;
        }
        for (llvm::LoadInst* load : loads) {
            if (llvm::Value* later = LaterIteration(loop, *load, dominators_).of(*load->getPointerOperand(), tiles_ahead)) {
                add_prefetch(*load, later, into_second_level);
                asked_for_.insert(load);
            }
        }
    }

    void ask_for_iterations(const llvm::Loop& loop, std::uint64_t work) {
        const auto ahead = static_cast<unsigned>((long_iteration + work - 1) / work);
        const std::vector<llvm::LoadInst*> loads =
            lines_of(loop, [&](const llvm::LoadInst& load) { return ahead == 1 || bytes_of_step(load, loop) >= far; });
        if (loads.size() > most_of_loop) {
            return;
        }
        for (llvm::LoadInst* load : loads) {
            llvm::Instruction& place = *load->getParent()->getTerminator();
            if (llvm::Value* later = LaterIteration(loop, place, dominators_).of(*load->getPointerOperand(), ahead)) {
                add_prefetch(place, later, into_first_level);
            }
        }
        ask_for_next_group(loop, loads);
    }

    // The first iterations of the next threadgroup would wait for all they read, and one iteration may be too short for what
    // comes from memory: each asks for what its like reads there. What products of matrices read is mostly in the caches, where
    // others have read it, and only the first iteration waits.
    void ask_for_next_group(const llvm::Loop& loop, const std::vector<llvm::LoadInst*>& loads) {
        if (!loop.getLoopPreheader() || !loop.getLoopLatch()) {
            return;
        }
        NextGroup next(loop, dominators_);
        const bool of_caches = multiplies_matrices(loop);
        for (llvm::LoadInst* load : loads) {
            llvm::Value& address = *load->getPointerOperand();
            if (of_caches) {
                if (llvm::Value* there = next.of(address)) {
                    add_prefetch(next.place(), there, into_first_level);
                }
            } else if (llvm::Value* distance = next.distance(address)) {
                add_prefetch(*load, llvm::IRBuilder<>(load).CreatePtrAdd(&address, distance), into_first_level);
            }
        }
    }

    void follow_streams(const llvm::Loop& loop) {
        const std::vector<llvm::LoadInst*> loads = lines_of(loop, [&](const llvm::LoadInst& load) {
            const std::uint64_t step = bytes_of_step(load, loop);
            return line <= step && step < far && is_of_threadgroup(*load.getPointerOperand());
        });
        for (llvm::LoadInst* load : loads) {
            llvm::IRBuilder<> builder(load);
            add_prefetch(*load, builder.CreatePtrAdd(load->getPointerOperand(), builder.getInt64(pages_on)), into_second_level);
        }
    }

    void ask_for_neighbours(const llvm::Loop& loop) {
        const std::vector<llvm::LoadInst*> loads = lines_of(loop, [&](const llvm::LoadInst& load) {
            return bytes_of_step(load, loop) >= far && follows_lanes(*load.getPointerOperand());
        });
        for (llvm::LoadInst* load : loads) {
            llvm::IRBuilder<> builder(load);
            const std::uint64_t row = simd_width * load->getModule()->getDataLayout().getTypeStoreSize(load->getType());
            add_prefetch(*load, builder.CreatePtrAdd(load->getPointerOperand(), builder.getInt64(row)), into_second_level);
        }
    }

    // One load for each line that an iteration reads, of those wanted.
    template <typename Wanted> std::vector<llvm::LoadInst*> lines_of(const llvm::Loop& loop, const Wanted& is_wanted) {
        std::vector<llvm::LoadInst*> loads;
        std::set<Line> lines;
        for (llvm::BasicBlock* block : loop.blocks()) {
            for (llvm::Instruction& instruction : *block) {
                auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
                if (load && load->isSimple() && !asked_for_.count(load) && !is_own_memory(*load->getPointerOperand()) &&
                    is_wanted(*load) && lines.insert(line_of(*load)).second) {
                    loads.push_back(load);
                }
            }
        }
        return loads;
    }

    // How far from this iteration the next one reads; `far` where that is known at run time only. Counters of 32 bits are made
    // wider before they are multiplied by the size of an element, of four bytes mostly.
    std::uint64_t bytes_of_step(const llvm::LoadInst& load, const llvm::Loop& loop) {
        std::uint64_t bytes = 0;
        const llvm::SCEV* place = evolution_.getSCEV(const_cast<llvm::Value*>(load.getPointerOperand()));
        llvm::SCEVExprContains(place, [&](const llvm::SCEV* part) {
            const auto* moving = llvm::dyn_cast<llvm::SCEVAddRecExpr>(part);
            if (moving && moving->getLoop() == &loop) {
                const auto* step = llvm::dyn_cast<llvm::SCEVConstant>(moving->getStepRecurrence(evolution_));
                const std::uint64_t own = step ? step->getAPInt().abs().getLimitedValue(far) : far;
                bytes = std::max(bytes, part == place ? own : own * 4);
            }
            return false;
        });
        return bytes;
    }

    static Line line_of(const llvm::LoadInst& load) {
        const llvm::DataLayout& layout = load.getModule()->getDataLayout();
        llvm::APInt offset(layout.getIndexTypeSizeInBits(load.getPointerOperandType()), 0);
        const llvm::Value* base =
            load.getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
        return {load.getParent(), base, offset.getSExtValue() / static_cast<std::int64_t>(line)};
    }

    llvm::DominatorTree& dominators_;
    llvm::LoopInfo& loops_;
    llvm::ScalarEvolution& evolution_;
    std::set<const llvm::LoadInst*> asked_for_;
};

} // namespace

void prefetch_later_iterations(llvm::Function& kernel, llvm::FunctionAnalysisManager& analyses) {
    Prefetcher(kernel, analyses).run();
}

} // namespace metalki::compiler::vectorize
