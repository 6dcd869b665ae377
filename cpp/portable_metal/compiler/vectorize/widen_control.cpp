// Control flow of the widened function: real branches where all lanes agree, masks elsewhere.
#include <algorithm>

#include "llvm/IR/CFG.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr unsigned cheap_block = 12; // instructions that are rather executed for nobody than jumped over

bool may_run_for_nobody(const llvm::Instruction& instruction) {
    if (const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction)) {
        return call->doesNotAccessMemory() && !call->isConvergent();
    }
    return !instruction.mayReadOrWriteMemory() && !llvm::isa<llvm::CallInst>(instruction) &&
           !(llvm::isa<llvm::BinaryOperator>(instruction) && llvm::cast<llvm::BinaryOperator>(instruction).isIntDivRem());
}

} // namespace

llvm::Function& Widener::run() {
    auto* word = llvm::Type::getInt32Ty(context_);
    auto* pointer = llvm::PointerType::get(context_, 0);
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context_), {pointer, word, word, word, word, word}, false);
    body_ = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, kernel_.getName() + ".lanes", module_);
    for (const llvm::Attribute& attribute : kernel_.getAttributes().getFnAttrs()) {
        if (attribute.isStringAttribute()) {
            body_->addFnAttr(attribute);
        }
    }
    body_->addFnAttr(llvm::Attribute::NoUnwind);
    note_headers(divergence_.regions().function());
    slots_ = llvm::BasicBlock::Create(context_, "slots", body_);
    prologue_ = llvm::BasicBlock::Create(context_, "prologue", body_);
    return_ = llvm::BasicBlock::Create(context_, "return", body_);
    llvm::IRBuilder<>(slots_).CreateBr(prologue_);
    llvm::IRBuilder<>(return_).CreateRetVoid();

    llvm::BasicBlock* start = label(&kernel_.getEntryBlock());
    builder_.SetInsertPoint(llvm::BranchInst::Create(start, prologue_));
    if (!divergence_.geometry().full) {
        llvm::Constant* numbers = lane_constants(word, Shape::linear(1).offsets);
        all_lanes_ = builder_.CreateICmpULT(numbers, splat(body_->getArg(unsigned(BodyParameter::active_lanes))), "exists");
    }
    LevelState root;
    root.level = &divergence_.regions().function();
    emit_level(root);
    return *body_;
}

void Widener::note_headers(const Level& level) {
    for (const Level::Node& node : level.nodes) {
        if (node.inner) {
            headers_.insert(node.block);
            note_headers(*node.inner);
        }
    }
}

llvm::BasicBlock* Widener::label(const llvm::BasicBlock* block) {
    llvm::BasicBlock*& known = labels_[block];
    if (!known) {
        known = llvm::BasicBlock::Create(context_, block->getName(), body_);
    }
    return known;
}

void Widener::enter(llvm::BasicBlock* block) {
    local_values_.clear();
    builder_.SetInsertPoint(block);
}

Mask Widener::load_mask(llvm::AllocaInst* slot) {
    if (!slot) {
        return all_lanes_;
    }
    llvm::Value* known = builder_.CreateLoad(slot->getAllocatedType(), slot, "mask");
    llvm::Constant* zero = llvm::Constant::getNullValue(known->getType());
    return vector_registers_.masks ? known : builder_.CreateICmpSLT(known, zero);
}

llvm::AllocaInst* Widener::make_mask_slot(const llvm::Twine& name) {
    return make_slot(vector_of(vector_registers_.masks ? builder_.getInt1Ty() : builder_.getInt32Ty()), name);
}

// Null: no lane.
void Widener::store_mask(llvm::AllocaInst* slot, Mask mask) {
    auto* type = slot->getAllocatedType();
    builder_.CreateStore(mask ? builder_.CreateSExt(mask, type) : llvm::Constant::getNullValue(type), slot);
}

void Widener::or_mask(llvm::AllocaInst* slot, Mask mask) {
    auto* type = slot->getAllocatedType();
    llvm::Value* old = builder_.CreateLoad(type, slot);
    builder_.CreateStore(builder_.CreateOr(old, builder_.CreateSExt(mask ? mask : full_mask(), type)), slot);
}

void Widener::emit_level(LevelState& state) {
    const Level& level = *state.level;
    state.node_masks.resize(level.nodes.size());
    if (level.divergent) {
        state.end = llvm::BasicBlock::Create(context_, "again", body_);
    }
    for (unsigned i = 0; i < level.nodes.size(); ++i) {
        if (!level.nodes[i].predicated) {
            emit_node(state, i);
        }
    }
    if (level.divergent) {
        enter(state.end);
        Mask again = load_mask(state.again);
        store_mask(state.mask, again);
        store_mask(state.again, nullptr);
        builder_.CreateCondBr(any(again), label(level.loop->getHeader()), state.behind);
    }
}

// A node whose lanes are those of the level.
void Widener::emit_node(LevelState& state, unsigned index) {
    const Level::Node& node = state.level->nodes[index];
    if (node.inner) {
        LevelState inner;
        emit_inner_loop(state, index, state.mask, inner);
        if (!inner.collects) {
            return;
        }
        enter(inner.behind);
        if (node.split) {
            // Masks of the region start empty before the edges fill them.
            emit_region(state, node);
        } else if (node.edges.empty()) {
            builder_.CreateUnreachable();
        } else {
            builder_.CreateBr(follow(state, node.edges.front(), load_mask(state.mask)));
        }
        return;
    }
    enter(label(node.block));
    emit_block(*node.block, load_mask(state.mask));
    if (node.parts) {
        emit_parting(state, node);
    } else if (node.split) {
        emit_region(state, node);
    } else {
        emit_real_branch(state, node);
    }
}

void Widener::emit_inner_loop(LevelState& outer, unsigned index, llvm::AllocaInst* mask, LevelState& state) {
    const Level::Node& node = outer.level->nodes[index];
    state.level = node.inner.get();
    state.outer = &outer;
    state.node = &node;
    state.mask = mask;
    state.collects = state.level->divergent || node.predicated || node.split;
    llvm::BasicBlock* header = label(node.block);
    if (!node.predicated) {
        // Branches to this loop go to its header by name; what has to happen before sits in front of it.
        llvm::BasicBlock* before = header;
        if (state.collects) {
            labels_[node.block] = llvm::BasicBlock::Create(context_, node.block->getName() + ".loop", body_);
            enter(before);
            header = labels_[node.block];
        }
    }
    if (state.collects) {
        state.behind = llvm::BasicBlock::Create(context_, "behind", body_);
        for (const Edge& edge : node.edges) {
            llvm::AllocaInst*& slot = state.exit_masks[{edge.from, edge.to}];
            slot = make_mask_slot("left");
            store_mask(slot, nullptr);
            // Lanes that left the outer loop in an earlier iteration wait behind it with their values.
            if (!outer.level->loop || outer.level->loop->contains(edge.to)) {
                forget_phis(edge.to);
            }
        }
        if (state.level->divergent) {
            Mask entering = load_mask(mask) ? load_mask(mask) : full_mask();
            state.mask = make_mask_slot("live");
            state.again = make_mask_slot("again");
            store_mask(state.mask, entering);
            store_mask(state.again, nullptr);
        }
        if (state.level->together) {
            emit_full_loop(state, header);
        } else {
            builder_.CreateBr(header);
        }
    }
    emit_level(state);
    emit_partings(state);
    if (state.collects && node.split) {
        node_exit_masks_[&node] = state.exit_masks;
    }
}

// Old values of phis are of no use: without this they would be carried round surrounding loops.
void Widener::forget_phis(const llvm::BasicBlock* block) {
    for (const llvm::PHINode& phi : block->phis()) {
        llvm::AllocaInst* slot = slot_for(&phi);
        builder_.CreateStore(llvm::PoisonValue::get(slot->getAllocatedType()), slot);
    }
}

// Nobody waits yet in the blocks behind a split, `from` and those after it, nor where they end.
void Widener::open_region(LevelState& state, const Level::Node& split, unsigned from) {
    const Level& level = *state.level;
    // What left a loop has brought its values along.
    auto is_loop_exit = [&](const llvm::BasicBlock* block) {
        return split.inner && std::ranges::any_of(split.edges, [&](const Edge& edge) { return edge.to == block; });
    };
    auto forget = [&](unsigned node) {
        if (node != level.end() && !is_loop_exit(level.nodes[node].block)) {
            forget_phis(level.nodes[node].block);
        }
    };
    for (unsigned r : split.region) {
        if (!state.node_masks[r]) {
            state.node_masks[r] = make_mask_slot("on");
        }
        store_mask(state.node_masks[r], nullptr);
        if (r >= from) {
            forget(r);
        }
    }
    forget(split.post_dominator);
}

// The masked blocks behind a split, one after the other, then the block where the lanes meet.
void Widener::emit_region(LevelState& state, const Level::Node& split) {
    const Level& level = *state.level;
    open_region(state, split, 0);
    emit_masked_branch(state, split);
    if (level.together) {
        llvm::BasicBlock* parted = llvm::BasicBlock::Create(context_, "parted", body_);
        state.behind_partings[split.block] = parted;
        builder_.CreateBr(parted);
        enter(parted);
    }
    for (unsigned r : split.region) {
        const Level::Node& node = level.nodes[r];
        llvm::BasicBlock* next = llvm::BasicBlock::Create(context_, "next", body_);
        Mask mask = load_mask(state.node_masks[r]);
        llvm::BasicBlock* inside = llvm::BasicBlock::Create(context_, node.block->getName() + ".on", body_);
        if (needs_guard(node)) {
            builder_.CreateCondBr(any(mask), inside, next);
        } else {
            builder_.CreateBr(inside);
        }
        enter(inside);
        if (node.inner) {
            LevelState inner;
            emit_inner_loop(state, r, state.node_masks[r], inner);
            enter(inner.behind);
            for (const Edge& edge : node.edges) {
                note_mask(state, edge, load_mask(inner.exit_masks[{edge.from, edge.to}]));
            }
        } else {
            emit_block(*node.block, load_mask(state.node_masks[r]));
            emit_masked_branch(state, node);
        }
        builder_.CreateBr(next);
        enter(next);
        state.behind_partings[node.block] = next;
    }
    if (split.post_dominator != level.end()) {
        builder_.CreateBr(label(level.nodes[split.post_dominator].block));
    } else {
        builder_.CreateBr(level.divergent ? state.end : return_);
    }
}

// Lanes part: every way gets its mask.
void Widener::emit_masked_branch(LevelState& state, const Level::Node& node) {
    if (node.inner) {
        for (const Edge& edge : node.edges) {
            note_mask(state, edge, load_mask(node_exit_masks_.at(&node).at({edge.from, edge.to})));
        }
        return;
    }
    llvm::AllocaInst* slot =
        node.predicated ? state.node_masks[static_cast<std::size_t>(&node - state.level->nodes.data())] : state.mask;
    Mask mask = load_mask(slot);
    const llvm::Instruction* terminator = node.block->getTerminator();
    const auto* branch = llvm::dyn_cast<llvm::BranchInst>(terminator);
    if (!branch || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1)) {
        const Edge& edge = node.edges.front();
        store_phis(edge, phi_values(edge), mask, true);
        note_mask(state, edge, mask);
        return;
    }
    llvm::Value* taken = vector(branch->getCondition());
    const Mask ways[2] = {both(mask, taken), both(mask, builder_.CreateNot(taken))};
    // Values of both ways first: the phis of a loop's header may be what the exit takes along.
    const PhiValues values[2] = {phi_values(node.edges[0]), phi_values(node.edges[1])};
    for (unsigned way = 0; way < 2; ++way) {
        store_phis(node.edges[way], values[way], ways[way], true);
    }
    for (unsigned way = 0; way < 2; ++way) {
        note_mask(state, node.edges[way], ways[way]);
    }
}

// Adds the lanes of `mask` to those that wait at the other end of `edge`.
void Widener::note_mask(LevelState& state, const Edge& edge, Mask mask) {
    const Level& level = *state.level;
    if (edge.target != level.end()) {
        if (llvm::AllocaInst* slot = level.nodes[edge.target].predicated ? state.node_masks[edge.target] : nullptr) {
            or_mask(slot, mask);
        }
        return;
    }
    if (!level.loop || !edge.to) {
        return;
    }
    if (edge.to == level.loop->getHeader()) {
        if (state.again) {
            or_mask(state.again, mask);
        }
    } else if (state.collects) {
        or_mask(state.exit_masks.at({edge.from, edge.to}), mask);
    }
}

// What the phis at the other end become; read before any of them changes.
Widener::PhiValues Widener::phi_values(const Edge& edge) {
    PhiValues values;
    if (!edge.to) {
        return values;
    }
    for (const llvm::PHINode& phi : edge.to->phis()) {
        const llvm::Value* incoming = phi.getIncomingValueForBlock(edge.from);
        values.emplace_back(&phi, as(incoming, divergence_.shape_of(&phi)));
    }
    return values;
}

// Under a mask only those lanes change.
void Widener::store_phis(const Edge& edge, const PhiValues& values, Mask mask, bool masked) {
    for (auto [phi, value] : values) {
        llvm::AllocaInst* slot = slot_for(phi);
        // A loop is entered and gone round by all lanes it still has.
        if (masked && mask && !headers_.count(edge.to) && divergence_.shape_of(phi).is_varying()) {
            value = blend(mask, value, builder_.CreateLoad(slot->getAllocatedType(), slot));
        }
        builder_.CreateStore(value, slot);
    }
}

// All lanes go the same way.
void Widener::emit_real_branch(LevelState& state, const Level::Node& node) {
    const llvm::Instruction* terminator = node.block->getTerminator();
    if (llvm::isa<llvm::UnreachableInst>(terminator)) {
        builder_.CreateUnreachable();
        return;
    }
    const auto* branch = llvm::dyn_cast<llvm::BranchInst>(terminator);
    auto take = [&](const Edge& edge) {
        Mask mask = load_mask(state.mask);
        store_phis(edge, phi_values(edge), mask, leaves_divergent_loop(state, edge));
        builder_.CreateBr(follow(state, edge, mask));
    };
    if (!branch || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1)) {
        take(node.edges.front());
        return;
    }
    llvm::BasicBlock* ways[2] = {llvm::BasicBlock::Create(context_, "then", body_),
                                 llvm::BasicBlock::Create(context_, "else", body_)};
    llvm::Value* condition = scalar(branch->getCondition());
    auto values = local_values_;
    builder_.CreateCondBr(condition, ways[0], ways[1]);
    for (unsigned way = 0; way < 2; ++way) {
        builder_.SetInsertPoint(ways[way]);
        local_values_ = values;
        take(node.edges[way]);
    }
}

// Other lanes may have left the same way before.
bool Widener::leaves_divergent_loop(const LevelState& state, const Edge& edge) const {
    for (const LevelState* s = &state; s && s->level->loop && edge.to && !s->level->loop->contains(edge.to); s = s->outer) {
        if (s->level->divergent) {
            return true;
        }
    }
    return false;
}

// Where lanes go that all follow `edge` out of a node of this level; they are noted on the way.
llvm::BasicBlock* Widener::follow(LevelState& state, const Edge& edge, Mask mask) {
    const Level& level = *state.level;
    note_mask(state, edge, mask);
    if (edge.target != level.end()) {
        return label(level.nodes[edge.target].block);
    }
    if (!edge.to) {
        return return_;
    }
    if (edge.to == level.loop->getHeader()) {
        return level.divergent ? state.end : label(edge.to);
    }
    if (state.collects) {
        return level.divergent ? state.end : state.behind;
    }
    auto found = std::ranges::find_if(state.node->edges, [&](const Edge& e) { return e.from == edge.from && e.to == edge.to; });
    return follow(*state.outer, *found, mask);
}

bool Widener::needs_guard(const Level::Node& node) const {
    if (node.inner) {
        return true;
    }
    unsigned count = 0;
    for (const llvm::Instruction& instruction : *node.block) {
        if (!may_run_for_nobody(instruction) || ++count > cheap_block) {
            return true;
        }
    }
    return false;
}

void Widener::emit_block(const llvm::BasicBlock& block, Mask mask) {
    for (const llvm::PHINode& phi : block.phis()) {
        llvm::AllocaInst* slot = slot_for(&phi);
        local_values_[&phi] = builder_.CreateLoad(slot->getAllocatedType(), slot, phi.getName());
    }
    for (const llvm::Instruction& instruction : block) {
        if (!llvm::isa<llvm::PHINode>(instruction) && !instruction.isTerminator()) {
            emit_instruction(instruction, mask);
        }
    }
}

} // namespace metalki::compiler::vectorize
