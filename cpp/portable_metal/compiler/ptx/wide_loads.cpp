// See the header.
#include "ptx/wide_loads.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/UniformityAnalysis.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

#include "codegen/analyses.hpp"
#include "ptx/builder.hpp"
#include "ptx/loads.hpp"
#include "ptx/loop_versions.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr std::int64_t widest = 16;
constexpr std::int64_t word_size = 4;
constexpr std::size_t worth_a_branch = 3;       // loads saved
constexpr std::size_t largest_versioned = 2000; // instructions of a loop

struct Part {
    llvm::LoadInst* load;
    std::int64_t offset, size; // bytes
    std::int64_t end() const { return offset + size; }
};

// Loads from one address and a constant, in the order of the constants.
struct Group {
    llvm::Value* base = nullptr;
    std::vector<Part> parts;
};

// Parts side by side that become one load; a single one stays as it is.
struct Piece {
    std::size_t first, count;
    std::int64_t size;
};

bool can_be_part(const llvm::LoadInst& load, const llvm::DataLayout& layout) {
    llvm::Type* type = load.getType();
    if (!load.isSimple() || type->isVectorTy() || type->isPointerTy() || type->isAggregateType() ||
        llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(load.getPointerOperand()))) {
        return false;
    }
    const std::uint64_t bits = layout.getTypeSizeInBits(type).getFixedValue();
    return bits == 8 || bits == 16 || bits == 32;
}

std::vector<Group> groups_of(llvm::BasicBlock& block) {
    const llvm::DataLayout& layout = block.getModule()->getDataLayout();
    std::vector<Group> out;
    llvm::MapVector<llvm::Value*, Group> open;
    const auto close = [&] {
        for (auto& [base, group] : open) {
            std::ranges::stable_sort(group.parts, {}, &Part::offset);
            out.push_back(std::move(group));
        }
        open.clear();
    };
    for (llvm::Instruction& instruction : block) {
        auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
        if (load && can_be_part(*load, layout)) {
            llvm::Value* base = load->getPointerOperand();
            llvm::APInt offset(layout.getIndexTypeSizeInBits(base->getType()), 0);
            base = base->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
            if (base->getType() == load->getPointerOperandType()) {
                open[base].base = base;
                open[base].parts.push_back(
                    {load, offset.getSExtValue(),
                     static_cast<std::int64_t>(layout.getTypeStoreSize(load->getType()).getFixedValue())});
            }
        } else if (separates_loads(instruction)) {
            close();
        }
    }
    close();
    return out;
}

std::int64_t distance_in(std::int64_t offset, std::int64_t width) {
    return ((offset % width) + width) % width;
}

// Pieces that lie at multiples of their width, counted from `anchor`.
std::vector<Piece> cut(const std::vector<Part>& parts, std::int64_t anchor) {
    std::vector<Piece> out;
    for (std::size_t first = 0; first < parts.size();) {
        Piece best{first, 1, parts[first].size};
        std::int64_t end = parts[first].end();
        for (std::size_t next = first + 1;
             next < parts.size() && parts[next].offset == end && parts[next].load->getType() == parts[first].load->getType();
             ++next) {
            end = parts[next].end();
            const std::int64_t size = end - parts[first].offset;
            if (size > widest) {
                break;
            }
            if (std::has_single_bit(static_cast<std::uint64_t>(size)) && size >= 4 &&
                distance_in(parts[first].offset - anchor, size) == 0) {
                best = {first, next - first + 1, size};
            }
        }
        first += best.count;
        out.push_back(best);
    }
    return out;
}

std::size_t saved(const std::vector<Piece>& pieces) {
    std::size_t out = 0;
    for (const Piece& piece : pieces) {
        out += piece.count - 1;
    }
    return out;
}

class Merger {
public:
    Merger(llvm::Function& function, llvm::LoopInfo& loops, llvm::ScalarEvolution& evolution, llvm::DominatorTree& dominators,
           const llvm::UniformityInfo& uniformity)
        : function_(function), loops_(loops), evolution_(evolution), dominators_(dominators), uniformity_(uniformity),
          expander_(evolution, function.getParent()->getDataLayout(), "aligned") {}

    void run() {
        std::vector<Plan> plans;
        for (llvm::BasicBlock& block : function_) {
            for (Group& group : groups_of(block)) {
                if (auto plan = plan_for(std::move(group))) {
                    plans.push_back(std::move(*plan));
                }
            }
        }
        llvm::MapVector<llvm::Loop*, std::vector<Plan*>> of_loops;
        for (Plan& plan : plans) {
            const llvm::SCEV* address = residue(evolution_.getSCEV(plan.group.base), zeros_of(plan));
            llvm::Instruction* place = place_before_loops(address, plan);
            llvm::Loop* loop = loops_.getLoopFor(plan.block());
            if (place && has_versions(*loop)) {
                of_loops[loop].push_back(&plan);
            } else if (saved(plan.pieces) < worth_a_branch) {
                continue;
            }
            plan.is_aligned = place ? test(plan, expander_.expandCodeFor(address, plan.group.base->getType(), place), place)
                                    : test(plan, plan.group.base, plan.first());
        }
        for (const auto& [loop, inside] : of_loops) {
            version(*loop, inside);
        }
        for (const Plan& plan : plans) {
            if (plan.is_aligned) {
                merge_if_aligned(plan);
            }
        }
    }

private:
    struct Plan {
        Group group;
        std::vector<Piece> pieces;
        std::int64_t anchor, width;        // the address at `anchor` has to be a multiple of `width`
        llvm::Value* is_aligned = nullptr; // null: nothing is done, or it is done already

        llvm::LoadInst* first() const {
            return std::ranges::min(group.parts, [](const Part& a, const Part& b) { return a.load->comesBefore(b.load); }).load;
        }
        llvm::BasicBlock* block() const { return group.parts.front().load->getParent(); }
    };

    std::optional<Plan> plan_for(Group group) {
        Plan best{std::move(group), {}, 0, 0};
        if (best.group.parts.size() < 2) {
            return std::nullopt;
        }
        for (const Part& part : best.group.parts) {
            std::vector<Piece> pieces = cut(best.group.parts, part.offset);
            if (best.pieces.empty() || saved(pieces) > saved(best.pieces)) {
                best.pieces = std::move(pieces);
                best.anchor = part.offset;
            }
        }
        best.width = std::ranges::max(best.pieces, {}, &Piece::size).size;
        const bool is_worth_it = saved(best.pieces) >= 1 && !is_known(best) && may_be_aligned(best);
        return is_worth_it ? std::optional(std::move(best)) : std::nullopt;
    }

    // LLVM's own passes merge these.
    static bool is_known(const Plan& plan) {
        return std::ranges::all_of(plan.pieces, [&](const Piece& piece) {
            return piece.count == 1 ||
                   static_cast<std::int64_t>(plan.group.parts[piece.first].load->getAlign().value()) >= piece.size;
        });
    }

    // Threads whose addresses differ in alignment would do the loads both ways.
    bool may_be_aligned(const Plan& plan) { return is_alike(evolution_.getSCEV(plan.group.base), zeros_of(plan)); }
    // Whether the last `zeros` bits can be expected to be the same in all threads. What is the same in a SIMD-group may be
    // anything; a product with it, such as a place in a column of a matrix, is taken to be a multiple.
    bool is_alike(const llvm::SCEV* term, unsigned zeros) {
        if (zeros == 0 || evolution_.getMinTrailingZeros(term) >= zeros || is_uniform(term)) {
            return true;
        }
        const auto is_alike_too = [&](const llvm::SCEV* part) { return is_alike(part, zeros); };
        if (const auto* product = llvm::dyn_cast<llvm::SCEVMulExpr>(term)) {
            const auto* scale = llvm::dyn_cast<llvm::SCEVConstant>(product->getOperand(0));
            if (scale && product->getNumOperands() == 2) {
                return is_alike(product->getOperand(1), zeros - std::min(zeros, scale->getAPInt().countr_zero()));
            }
            return llvm::any_of(product->operands().drop_front(scale ? 1 : 0), is_alike_too);
        }
        return llvm::isa<llvm::SCEVAddExpr, llvm::SCEVAddRecExpr, llvm::SCEVCastExpr>(term) &&
               llvm::all_of(term->operands(), is_alike_too);
    }
    bool is_uniform(const llvm::SCEV* term) {
        return !llvm::SCEVExprContains(term, [&](const llvm::SCEV* part) {
            const auto* unknown = llvm::dyn_cast<llvm::SCEVUnknown>(part);
            return unknown && !is_uniform(unknown->getValue(), 0);
        });
    }
    // LLVM takes what a parameter holds for different in each thread, because its address is a generic one.
    bool is_uniform(const llvm::Value* value, int depth) {
        constexpr int deepest = 8;
        const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (!instruction || uniformity_.isUniform(instruction)) {
            return true;
        }
        const auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction);
        const auto* parameter =
            load ? llvm::dyn_cast<llvm::Argument>(llvm::getUnderlyingObject(load->getPointerOperand())) : nullptr;
        const bool computes = llvm::isa<llvm::BinaryOperator, llvm::CastInst, llvm::GetElementPtrInst>(instruction);
        return depth < deepest && (computes || (parameter && parameter->hasByValAttr())) &&
               llvm::all_of(
                   instruction->operands(), [&](const llvm::Value* operand) { return is_uniform(operand, depth + 1); });
    }
    static unsigned zeros_of(const Plan& plan) {
        return static_cast<unsigned>(std::countr_zero(static_cast<std::uint64_t>(plan.width)));
    }

    // What decides about the last `zeros` bits: the address without its multiples.
    const llvm::SCEV* residue(const llvm::SCEV* address, unsigned zeros) {
        if (const auto* steps = llvm::dyn_cast<llvm::SCEVAddRecExpr>(address)) {
            const bool stays = steps->isAffine() && evolution_.getMinTrailingZeros(steps->getOperand(1)) >= zeros;
            return stays ? residue(steps->getStart(), zeros) : address;
        }
        if (!llvm::isa<llvm::SCEVAddExpr>(address)) {
            return address;
        }
        llvm::SmallVector<const llvm::SCEV*, 8> kept;
        for (const llvm::SCEV* term : address->operands()) {
            if (term->getType()->isPointerTy() || evolution_.getMinTrailingZeros(term) < zeros) {
                kept.push_back(residue(term, zeros));
            }
        }
        return evolution_.getAddExpr(kept);
    }

    // The outermost preheader where it is known already, or null.
    llvm::Instruction* place_before_loops(const llvm::SCEV* residue, const Plan& plan) {
        llvm::Instruction* place = nullptr;
        for (const llvm::Loop* loop = loops_.getLoopFor(plan.block()); loop; loop = loop->getParentLoop()) {
            llvm::BasicBlock* before = loop->getLoopPreheader();
            if (!before || !evolution_.isLoopInvariant(residue, loop) ||
                !expander_.isSafeToExpandAt(residue, before->getTerminator())) {
                break;
            }
            place = before->getTerminator();
        }
        return place;
    }

    llvm::Value* test(const Plan& plan, llvm::Value* base, llvm::Instruction* place) {
        llvm::IRBuilder<> builder(place);
        llvm::Type* word =
            builder.getIntPtrTy(function_.getParent()->getDataLayout(), base->getType()->getPointerAddressSpace());
        llvm::Value* number =
            builder.CreateAdd(builder.CreatePtrToInt(base, word), llvm::ConstantInt::getSigned(word, plan.anchor));
        return builder.CreateIsNull(
            builder.CreateAnd(number, llvm::ConstantInt::get(word, static_cast<std::uint64_t>(plan.width - 1))));
    }

    bool has_versions(const llvm::Loop& loop) const {
        return loop.isInnermost() && instructions_of(loop) <= largest_versioned && loop.isLoopSimplifyForm() &&
               loop.isLCSSAForm(dominators_) && agreement_on(loop, dominators_) != Agreement::impossible;
    }

    void version(llvm::Loop& loop, const std::vector<Plan*>& plans) {
        WarpBuilder builder(loop.getLoopPreheader()->getTerminator());
        llvm::Value* condition = builder.getTrue();
        for (Plan* plan : plans) {
            condition = builder.CreateAnd(condition, std::exchange(plan->is_aligned, nullptr));
        }
        if (agreement_on(loop, dominators_) == Agreement::possible) {
            condition = builder.call(llvm::Intrinsic::nvvm_vote_all_sync, {builder.getInt32(~0u), condition});
        }
        version_loop(loop, condition, loops_, dominators_);
        for (const Plan* plan : plans) {
            merge(*plan);
        }
    }

    void merge_if_aligned(const Plan& plan) {
        llvm::Instruction* first = plan.first();
        llvm::Instruction *then = nullptr, *otherwise = nullptr;
        llvm::SplitBlockAndInsertIfThenElse(plan.is_aligned, first, &then, &otherwise);
        llvm::IRBuilder<> wide(then), narrow(otherwise), joined(&first->getParent()->front());
        for_each_merged(plan, wide, [&](const Part& part, llvm::Value* element) {
            llvm::PHINode* result = joined.CreatePHI(part.load->getType(), 2);
            result->addIncoming(element, then->getParent());
            result->addIncoming(load(narrow, plan, part, part.load->getType(), part.load->getAlign()), otherwise->getParent());
            return result;
        });
    }
    static void merge(const Plan& plan) {
        llvm::IRBuilder<> builder(plan.first());
        for_each_merged(plan, builder, [](const Part&, llvm::Value* element) { return element; });
    }

    // `replacement` gives the value for a part, of which `element` is what the wide load has brought.
    template <class Replacement>
    static void for_each_merged(const Plan& plan, llvm::IRBuilder<>& builder, Replacement replacement) {
        std::vector<std::pair<llvm::LoadInst*, llvm::Value*>> values;
        for (const Piece& piece : plan.pieces) {
            if (piece.count == 1) {
                continue;
            }
            const Part& head = plan.group.parts[piece.first];
            llvm::Type* element = head.load->getType();
            const bool in_words = element->isIntegerTy() && head.size < word_size; // numbers in words need no unpacking
            const std::int64_t unit = in_words ? word_size : head.size;
            llvm::Type* type =
                llvm::FixedVectorType::get(in_words ? builder.getInt32Ty() : element, static_cast<unsigned>(piece.size / unit));
            llvm::Value* vector = load(builder, plan, head, type, llvm::Align(static_cast<std::uint64_t>(piece.size)));
            std::map<std::uint64_t, llvm::Value*> elements;
            for (std::size_t i = 0; i < piece.count; ++i) {
                const Part& part = plan.group.parts[piece.first + i];
                const auto bytes = static_cast<std::uint64_t>(part.offset - head.offset);
                const std::uint64_t index = bytes / static_cast<std::uint64_t>(unit);
                llvm::Value*& known = elements[index];
                llvm::Value* value = known = known ? known : builder.CreateExtractElement(vector, index);
                if (in_words) {
                    const std::uint64_t shift = bytes % word_size * 8;
                    value = builder.CreateTrunc(shift ? builder.CreateLShr(value, shift) : value, element);
                }
                values.emplace_back(part.load, replacement(part, value));
            }
        }
        for (const auto& [load, value] : values) {
            load->replaceAllUsesWith(value);
            load->eraseFromParent();
        }
    }

    static llvm::Value* load(llvm::IRBuilder<>& builder, const Plan& plan, const Part& part, llvm::Type* type,
                             llvm::Align alignment) {
        llvm::Value* address =
            builder.CreateConstGEP1_64(builder.getInt8Ty(), plan.group.base, static_cast<std::uint64_t>(part.offset));
        llvm::LoadInst* made = builder.CreateAlignedLoad(type, address, alignment);
        made->copyMetadata(*part.load, {llvm::LLVMContext::MD_invariant_load});
        return made;
    }

    llvm::Function& function_;
    llvm::LoopInfo& loops_;
    llvm::ScalarEvolution& evolution_;
    llvm::DominatorTree& dominators_;
    const llvm::UniformityInfo& uniformity_;
    llvm::SCEVExpander expander_;
};

} // namespace

void merge_loads(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    llvm::FunctionPassManager forms;
    forms.addPass(llvm::LoopSimplifyPass());
    forms.addPass(llvm::LCSSAPass());
    llvm::createModuleToFunctionPassAdaptor(std::move(forms)).run(module, analyses.modules);
    for (llvm::Function& function : module) {
        if (!function.isDeclaration()) {
            Merger(function, analyses.functions.getResult<llvm::LoopAnalysis>(function),
                   analyses.functions.getResult<llvm::ScalarEvolutionAnalysis>(function),
                   analyses.functions.getResult<llvm::DominatorTreeAnalysis>(function),
                   analyses.functions.getResult<llvm::UniformityInfoAnalysis>(function))
                .run();
        }
    }
}

} // namespace metalki::compiler::ptx
