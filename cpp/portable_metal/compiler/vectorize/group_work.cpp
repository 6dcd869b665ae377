// Work that only the first SIMD-group does, or that the threads share out among them, is there once for each group: the more
// of it, the larger groups should be. The figures are nanoseconds of a processor with vectors of 64 bytes; only their ratios
// matter.
#include "vectorize/group_work.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"

#include "codegen/host_target.hpp"
#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "vectorize/divergence.hpp"

namespace metalki::compiler::vectorize {
namespace {

// Of a SIMD-group.
constexpr double operation = 0.4, uniform_operation = 0.1, division = 8, function_call = 6;
constexpr double reduction = 1.2, matrix_product = 30;
constexpr double device_access = 2, near_access = 1, uniform_access = 0.3, scattered_access = 16;
constexpr double device_atomic = 200, near_atomic = 32, uniform_atomic = 40;
constexpr double barrier_of_simdgroup = 0.4;
// Of a group.
constexpr double start = 5, start_with_barriers = 10, once_in_group = 0.3, barrier_of_group = 2;
// What a single SIMD-group does alone overlaps with nothing, and its branch is taken unexpectedly.
constexpr double alone = 2, branch_taken_alone = 2;

// The more threads of a group write to memory one after the other, the longer nobody asks for what the next group reads; the
// less they do besides, the more it tells. Without barriers each SIMD-group reads, computes and writes by itself.
constexpr double growth = 12.6, most_growth = 0.13, least_growth = 0.03, growth_without_writing = 0.02;
constexpr double growth_of_halves = 0.17;

constexpr double unknown_trips = 8;

bool is_input(const llvm::Value* value, unsigned first, unsigned last) {
    const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
    const std::optional<unsigned> number = instruction ? input_number(*instruction) : std::nullopt;
    return number && *number >= first && *number <= last;
}

// Any operand of operands is a position input of these?
bool depends_on(const llvm::Value* value, unsigned first, unsigned last, unsigned depth = 6) {
    if (is_input(value, first, last)) {
        return true;
    }
    const auto* operation = llvm::dyn_cast<llvm::Instruction>(value);
    if (operation == nullptr || depth == 0 || operation->mayReadOrWriteMemory()) {
        return false;
    }
    return std::ranges::any_of(operation->operands(),
                               [&](const llvm::Use& operand) { return depends_on(operand.get(), first, last, depth - 1); });
}

constexpr unsigned of(ThreadInput input, unsigned axis = 0) {
    return static_cast<unsigned>(input) + axis;
}

// Numbers the threads, or the SIMD-groups, of a group.
bool is_local_index(const llvm::Value* value) {
    while (const auto* step = llvm::dyn_cast<llvm::Instruction>(value)) {
        const bool keeps_order =
            llvm::isa<llvm::CastInst>(step) ||
            (llvm::isa<llvm::BinaryOperator>(step) && llvm::isa<llvm::ConstantInt>(step->getOperand(1)) &&
             (step->getOpcode() == llvm::Instruction::LShr || step->getOpcode() == llvm::Instruction::Add));
        if (!keeps_order) {
            break;
        }
        value = step->getOperand(0);
    }
    return is_input(value, of(ThreadInput::position_in_threadgroup), of(ThreadInput::position_in_threadgroup, 2)) ||
           is_input(value, of(ThreadInput::index_in_threadgroup), of(ThreadInput::index_in_threadgroup)) ||
           is_input(value, of(ThreadInput::simdgroup_index), of(ThreadInput::simdgroup_index));
}

bool grows_with_group(const llvm::Value* value) {
    return depends_on(value, of(ThreadInput::threads_in_this_threadgroup), of(ThreadInput::threads_per_threadgroup, 2));
}

class Estimate {
public:
    Estimate(llvm::Function& kernel, const std::vector<unsigned>& threadgroup_slots)
        : kernel_(kernel), slots_(threadgroup_slots.begin(), threadgroup_slots.end()), dominators_(kernel), loops_(dominators_),
          divergence_(kernel, loops_, Geometry()), along_y_(kernel, loops_, {LaneLayout::columns, 1}) {}

    GroupWork run() {
        const bool has_barriers = !calls_of(kernel_, runtime::barrier).empty();
        for (const llvm::Loop* loop : loops_.getLoopsInPreorder()) {
            const bool halves_group = halves(*loop);
            result_.halves |= halves_group;
            result_.loops |= !halves_group && !trips_of(*loop).known;
        }
        double of_group = has_barriers ? start_with_barriers : start, of_simdgroup = 0.5;
        for (llvm::BasicBlock& block : kernel_) {
            if (!dominators_.isReachableFromEntry(&block)) {
                continue;
            }
            const Times times = times_of(block);
            double atomics = 0;
            const double work = work_of(block, times, atomics, of_group);
            if (times.shared_out) {
                of_group += times.count * (alone * work + atomics);
            } else {
                of_simdgroup += times.count * (work + atomics);
            }
        }
        of_group += branch_taken_alone * static_cast<double>(led_alone_.size());
        if (result_.halves) {
            result_.growth = growth_of_halves;
        } else if (has_barriers && streams_) {
            result_.growth = static_cast<float>(std::clamp(growth / of_simdgroup / of_simdgroup, least_growth, most_growth));
        } else if (has_barriers) {
            result_.growth = growth_without_writing;
        }
        result_.one_way_ahead = host_target().cpu == "znver5";
        result_.of_group = static_cast<float>(of_group);
        result_.of_simdgroup = static_cast<float>(of_simdgroup);
        return result_;
    }

private:
    // How often a block runs for each SIMD-group, or for all SIMD-groups of a group together.
    struct Times {
        double count = 1;
        bool shared_out = false;
        bool known = false;
    };

    Times times_of(const llvm::BasicBlock& block) {
        Times out;
        for (const llvm::Loop* loop = loops_.getLoopFor(&block); loop != nullptr; loop = loop->getParentLoop()) {
            const Times trips = trips_of(*loop);
            out.count *= trips.count;
            out.shared_out |= trips.shared_out;
        }
        if (const llvm::BasicBlock* guarded = guarded_at(block); guarded != nullptr && !out.shared_out) {
            led_alone_.insert(guarded);
            out.shared_out = true;
        }
        return out;
    }

    // for (k = thread; k < bound; k += threads)
    Times trips_of(const llvm::Loop& loop) {
        for (const llvm::PHINode& phi : loop.getHeader()->phis()) {
            const llvm::BasicBlock *entered = loop.getLoopPredecessor(), *latch = loop.getLoopLatch();
            if (entered == nullptr || latch == nullptr) {
                break;
            }
            const auto* step = llvm::dyn_cast<llvm::BinaryOperator>(phi.getIncomingValueForBlock(latch));
            if (step == nullptr || !is_local_index(phi.getIncomingValueForBlock(entered)) ||
                !std::ranges::any_of(step->operands(), [](const llvm::Use& part) { return grows_with_group(part.get()); })) {
                continue;
            }
            const std::optional<double> bound = bound_of(phi);
            return {bound ? std::max(1.0, *bound / simd_width) : unknown_trips, true, bound.has_value()};
        }
        return {halves(loop) ? 2 : unknown_trips, false, false};
    }

    static std::optional<double> bound_of(const llvm::PHINode& phi) {
        for (const llvm::User* user : phi.users()) {
            const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(user);
            const auto* bound = compare ? llvm::dyn_cast<llvm::ConstantInt>(compare->getOperand(1)) : nullptr;
            if (bound != nullptr) {
                return static_cast<double>(bound->getLimitedValue(1 << 20));
            }
        }
        return std::nullopt;
    }

    // Barriers in a loop whose length follows from the group's: half of the threads, and half of those, ...; or the other way.
    static bool halves(const llvm::Loop& loop) {
        bool waits = false, grows = false;
        for (const llvm::BasicBlock* block : loop.blocks()) {
            waits |= std::ranges::any_of(*block, [](const auto& i) { return callee_name(i) == runtime::barrier; });
        }
        llvm::SmallVector<llvm::BasicBlock*> exiting;
        loop.getExitingBlocks(exiting);
        for (const llvm::BasicBlock* block : exiting) {
            const auto* branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
            grows |= branch != nullptr && branch->isConditional() && grows_with_group(branch->getCondition());
        }
        for (const llvm::PHINode& phi : loop.getHeader()->phis()) {
            grows |= std::ranges::any_of(phi.incoming_values(), [](const llvm::Use& in) { return grows_with_group(in.get()); });
        }
        return waits && grows;
    }

    // The block behind a branch on the way here that only threads of one SIMD-group take, or null.
    const llvm::BasicBlock* guarded_at(const llvm::BasicBlock& block) const {
        const llvm::DomTreeNode* node = dominators_.getNode(&block);
        for (; node->getIDom() != nullptr; node = node->getIDom()) {
            const llvm::BasicBlock *here = node->getBlock(), *before = here->getSinglePredecessor();
            const auto* branch = before ? llvm::dyn_cast<llvm::BranchInst>(before->getTerminator()) : nullptr;
            if (branch != nullptr && branch->isConditional() &&
                takes_few(*branch->getCondition(), branch->getSuccessor(0) == here)) {
                return here;
            }
        }
        return nullptr;
    }

    static bool takes_few(const llvm::Value& condition, bool when) {
        const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(&condition);
        if (compare == nullptr || !is_local_index(compare->getOperand(0))) {
            return false;
        }
        const auto* bound = llvm::dyn_cast<llvm::ConstantInt>(compare->getOperand(1));
        const std::uint64_t number = bound != nullptr ? bound->getLimitedValue() : ~std::uint64_t{0};
        switch (when ? compare->getPredicate() : compare->getInversePredicate()) {
        case llvm::CmpInst::ICMP_EQ:
            return true;
        case llvm::CmpInst::ICMP_ULT:
        case llvm::CmpInst::ICMP_ULE:
        case llvm::CmpInst::ICMP_SLT:
        case llvm::CmpInst::ICMP_SLE:
            return number <= simd_width;
        default:
            return false;
        }
    }

    bool is_near(const llvm::Value& address) const {
        const llvm::Value* object = llvm::getUnderlyingObject(&address, 0);
        if (llvm::isa<llvm::AllocaInst>(object)) {
            return true;
        }
        const auto* made_by = llvm::dyn_cast<llvm::Instruction>(object);
        if (made_by != nullptr && callee_name(*made_by) == runtime::threadgroup_memory) {
            return true;
        }
        // An argument: read from its slot of the list that the context begins with.
        const auto* argument = llvm::dyn_cast<llvm::LoadInst>(object);
        llvm::APInt offset(64, 0);
        const llvm::Value* list = argument ? argument->getPointerOperand()->stripAndAccumulateConstantOffsets(
                                                 kernel_.getParent()->getDataLayout(), offset, true)
                                           : nullptr;
        const auto* context = llvm::dyn_cast_or_null<llvm::LoadInst>(list);
        return context != nullptr && context->getPointerOperand() == kernel_.getArg(0) &&
               slots_.count(static_cast<unsigned>(offset.getZExtValue() / sizeof(void*))) != 0;
    }

    double work_of(const llvm::BasicBlock& block, const Times& times, double& atomics, double& of_group) {
        double work = 0;
        for (const llvm::Instruction& instruction : block) {
            if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
                work += access(*load->getPointerOperand(), times);
            } else if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
                work += access(*store->getPointerOperand(), times);
                streams_ |= !times.shared_out && !divergence_.shape_of(store->getPointerOperand()).is_uniform() &&
                            !is_near(*store->getPointerOperand());
            } else if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(instruction)) {
                const llvm::Value& address = *instruction.getOperand(0);
                atomics += divergence_.shape_of(&address).is_uniform() ? uniform_atomic
                           : is_near(address)                          ? near_atomic
                                                                       : device_atomic;
            } else if (callee_name(instruction) == runtime::barrier) {
                work += barrier_of_simdgroup;
                of_group += times.count * barrier_of_group;
            } else if (is_computed_once(instruction)) {
                of_group += once_in_group;
            } else {
                work += work_of(instruction);
            }
        }
        return work;
    }

    // The same for all SIMD-groups, but for few that follow from the SIMD-group's number.
    bool is_computed_once(const llvm::Instruction& instruction) const {
        return llvm::isa<llvm::BinaryOperator>(instruction) && divergence_.shape_of(&instruction).is_uniform() &&
               loops_.getLoopFor(instruction.getParent()) == nullptr;
    }

    double access(const llvm::Value& address, const Times& times) {
        const Shape shape = divergence_.shape_of(&address), along_y = along_y_.shape_of(&address);
        if (shape.is_uniform() && along_y.is_uniform()) {
            return uniform_access;
        }
        const bool goes_far = !times.shared_out && !is_near(address), is_linear = along_y.is_compact() && !along_y.is_uniform();
        if (goes_far && shape.is_compact() && !shape.is_uniform() && !is_linear) {
            result_.row_accesses += static_cast<float>(times.count);
        }
        if (goes_far && !shape.is_compact() && is_linear) {
            result_.column_accesses += static_cast<float>(times.count);
            return device_access;
        }
        return shape.is_uniform()    ? uniform_access
               : !shape.is_compact() ? scattered_access
               : is_near(address)    ? near_access
                                     : device_access;
    }

    double work_of(const llvm::Instruction& instruction) const {
        llvm::StringRef name = callee_name(instruction);
        if (name == runtime::input || name == runtime::simd_lane || name == runtime::threadgroup_memory) {
            return 0;
        }
        if (name == runtime::simd || name == runtime::simd_mma) {
            return name == runtime::simd ? reduction : matrix_product;
        }
        if (divergence_.shape_of(&instruction).is_uniform()) {
            return uniform_operation;
        }
        switch (instruction.getOpcode()) {
        case llvm::Instruction::Br:
        case llvm::Instruction::Ret:
        case llvm::Instruction::PHI:
        case llvm::Instruction::GetElementPtr:
        case llvm::Instruction::ZExt:
        case llvm::Instruction::SExt:
        case llvm::Instruction::Trunc:
        case llvm::Instruction::BitCast:
            return 0;
        case llvm::Instruction::Call:
            return name.starts_with("llvm.") ? operation : function_call;
        case llvm::Instruction::UDiv:
        case llvm::Instruction::SDiv:
        case llvm::Instruction::URem:
        case llvm::Instruction::SRem:
        case llvm::Instruction::FDiv:
            return division;
        default:
            return operation;
        }
    }

    llvm::Function& kernel_;
    std::set<unsigned> slots_;
    llvm::DominatorTree dominators_;
    llvm::LoopInfo loops_;
    Divergence divergence_; // lanes lie along x
    Divergence along_y_;
    std::set<const llvm::BasicBlock*> led_alone_;
    GroupWork result_;
    bool streams_ = false;
};

} // namespace

GroupWork group_work_of(llvm::Function& kernel, const std::vector<unsigned>& threadgroup_slots) {
    return Estimate(kernel, threadgroup_slots).run();
}

} // namespace metalki::compiler::vectorize
