// Loops that lanes leave at different times are written twice: without a mask for as long as all lanes are in them, then with
// one for those that stay longer than others. Values wait in the same slots, so that one goes on where the other stopped.
#include <algorithm>

#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/PatternMatch.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

bool may_run_twice(const llvm::BasicBlock& block) {
    return std::ranges::none_of(block, [](const llvm::Instruction& i) { return i.mayHaveSideEffects(); });
}

} // namespace

// The loop without masks, entered from where the builder stands when all lanes come along; else control goes to `header` of the
// masked one, whose slots are set.
void Widener::emit_full_loop(LevelState& masked, llvm::BasicBlock* header) {
    LevelState state;
    state.level = masked.level->together.get();
    state.outer = masked.outer;
    state.node = masked.node;
    state.collects = true;
    state.behind = masked.behind;
    state.exit_masks = masked.exit_masks;
    auto* start = llvm::BasicBlock::Create(context_, header->getName() + ".full", body_);
    if (Mask entering = load_mask(masked.mask); entering && entering != full_mask()) {
        builder_.CreateCondBr(all(entering), start, header);
    } else {
        builder_.CreateBr(start);
    }
    auto labels = std::exchange(labels_, {});
    llvm::Value* all_lanes = std::exchange(all_lanes_, nullptr);
    labels_[state.level->loop->getHeader()] = start;
    emit_level(state);
    labels_ = std::move(labels);
    all_lanes_ = all_lanes;
    masked.partings = std::move(state.partings);
}

// All lanes that stay go on without a mask, and so do all that leave: most loops have as many iterations for the last lane as
// for the first.
void Widener::emit_parting(LevelState& state, const Level::Node& node) {
    const auto* branch = llvm::cast<llvm::BranchInst>(node.block->getTerminator());
    const Edge& edge = node.edges.front();
    llvm::Value* agreed = holds_for_all(branch->getCondition(), branch->getSuccessor(0) == edge.to, node.block);
    auto* stay = llvm::BasicBlock::Create(context_, "stay", body_);
    auto* part = llvm::BasicBlock::Create(context_, "part", body_);
    builder_.CreateCondBr(agreed, stay, part, llvm::MDBuilder(context_).createLikelyBranchWeights());
    auto go = [&](llvm::BasicBlock* from, const Edge& way) {
        builder_.SetInsertPoint(from);
        store_phis(way, phi_values(way), nullptr, false);
        builder_.CreateBr(follow(state, way, nullptr));
    };
    auto values = local_values_;
    go(stay, edge);
    local_values_ = std::move(values);
    llvm::BasicBlock* left = branch->getSuccessor(branch->getSuccessor(0) == edge.to ? 1 : 0);
    if (!state.level->loop->contains(left)) {
        auto* leave = llvm::BasicBlock::Create(context_, "leave", body_);
        auto* some = llvm::BasicBlock::Create(context_, "some", body_);
        builder_.SetInsertPoint(part);
        builder_.CreateCondBr(holds_for_all(branch->getCondition(), branch->getSuccessor(0) == left, node.block), leave, some);
        auto known = local_values_;
        go(leave, {node.block, left, state.level->end()});
        local_values_ = std::move(known);
        part = some;
    }
    state.partings.push_back({node.block, part, local_values_});
}

// From the loop without masks into the other, whose slots all exist by now.
void Widener::emit_partings(LevelState& masked) {
    const Level& level = *masked.level;
    for (Parting& parting : masked.partings) {
        builder_.SetInsertPoint(parting.code);
        local_values_ = std::move(parting.values);
        if (parting.at == level.loop->getHeader() && may_run_twice(*parting.at)) {
            builder_.CreateBr(label(parting.at));
            continue;
        }
        auto is_here = [&](const Level::Node& node) { return !node.inner && node.block == parting.at; };
        auto node = static_cast<unsigned>(std::ranges::find_if(level.nodes, is_here) - level.nodes.begin());
        auto contains = [&](const Level::Node& split) { return std::ranges::count(split.region, node) > 0; };
        auto owner = std::ranges::find_if(level.nodes, contains);
        open_region(masked, owner == level.nodes.end() ? level.nodes[node] : *owner, node + 1);
        if (level.nodes[node].predicated) {
            store_mask(masked.node_masks[node], full_mask());
        }
        emit_masked_branch(masked, level.nodes[node]);
        builder_.CreateBr(masked.behind_partings.at(parting.at));
    }
}

// Whether the condition is `expected` for all 32 lanes at the end of `block`; may say no where it is.
llvm::Value* Widener::holds_for_all(const llvm::Value* condition, bool expected, const llvm::BasicBlock* block) {
    using namespace llvm::PatternMatch;
    const llvm::Value *a = nullptr, *b = nullptr;
    if (divergence_.shape_of(condition).is_uniform()) {
        return expected ? scalar(condition) : builder_.CreateNot(scalar(condition));
    }
    const auto* made_by = llvm::dyn_cast<llvm::Instruction>(condition);
    if (!made_by || made_by->getParent() != block) {
        return all(expected ? vector(condition) : builder_.CreateNot(vector(condition))); // what it was made of is not kept
    }
    bool both_hold = expected ? match(condition, m_LogicalAnd(m_Value(a), m_Value(b)))
                              : match(condition, m_LogicalOr(m_Value(a), m_Value(b)));
    if (both_hold) {
        return builder_.CreateAnd(holds_for_all(a, expected, block), holds_for_all(b, expected, block));
    }
    if (const auto* comparison = llvm::dyn_cast<llvm::ICmpInst>(condition)) {
        if (llvm::Value* bound = comparison_holds_for_all(*comparison, expected)) {
            return bound;
        }
    }
    llvm::Value* lanes_that_do = vector(condition);
    return all(expected ? lanes_that_do : builder_.CreateNot(lanes_that_do));
}

// The outermost lane decides when the lanes' numbers are evenly apart and the other side is the same for all.
llvm::Value* Widener::comparison_holds_for_all(const llvm::ICmpInst& comparison, bool expected) {
    const llvm::Value *moving = comparison.getOperand(0), *bound = comparison.getOperand(1);
    llvm::CmpInst::Predicate predicate = expected ? comparison.getPredicate() : comparison.getInversePredicate();
    if (divergence_.shape_of(moving).is_uniform()) {
        std::swap(moving, bound);
        predicate = llvm::CmpInst::getSwappedPredicate(predicate);
    }
    Shape shape = divergence_.shape_of(moving);
    if (!moving->getType()->isIntegerTy() || shape.kind != Shape::Kind::affine || !divergence_.shape_of(bound).is_uniform() ||
        !llvm::CmpInst::isRelational(predicate)) {
        return nullptr;
    }
    auto [lowest, highest] = std::ranges::minmax(shape.offsets);
    llvm::Type* type = moving->getType();
    unsigned bits = type->getIntegerBitWidth();
    std::int64_t distance = 0;
    if (__builtin_sub_overflow(highest, lowest, &distance) || !llvm::isUIntN(bits - 1, static_cast<std::uint64_t>(distance))) {
        return nullptr;
    }
    auto number = [&](std::int64_t value) { return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true); };
    bool is_signed = llvm::CmpInst::isSigned(predicate);
    // Where the last lane would wrap round it stands at the end of the range, and the others are not in order.
    llvm::Value* first = builder_.CreateAdd(scalar(moving), number(lowest));
    llvm::Value* last = builder_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::sadd_sat : llvm::Intrinsic::uadd_sat, first,
                                                       number(distance));
    llvm::Value* limit = scalar(bound);
    if (llvm::ICmpInst::isLT(predicate) || llvm::ICmpInst::isLE(predicate)) {
        return builder_.CreateICmp(predicate, last, limit);
    }
    llvm::APInt end = is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
    llvm::Value* in_order = builder_.CreateICmpNE(last, llvm::ConstantInt::get(context_, end));
    return builder_.CreateAnd(in_order, builder_.CreateICmp(predicate, first, limit));
}

} // namespace metalki::compiler::vectorize
