// See the header.
#include "ptx/matrix_fragments.hpp"

#include "llvm/Transforms/Utils/Local.h"

#include "codegen/runtime_names.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr unsigned all_lanes = 0xffffffff;

// The vector whose elements 0 and 1 these are.
llvm::Value* common_vector(const Pair& elements) {
    llvm::Value* vector = nullptr;
    for (unsigned i = 0; i < 2; ++i) {
        auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(elements[i]);
        auto* index = extract ? llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand()) : nullptr;
        if (!index || index->getZExtValue() != i || (vector && extract->getVectorOperand() != vector)) {
            return nullptr;
        }
        vector = extract->getVectorOperand();
    }
    return vector;
}

// Element of a vector that was put together from its parts, or null.
llvm::Value* inserted_element(llvm::Value* vector, unsigned element) {
    if (auto* constant = llvm::dyn_cast<llvm::Constant>(vector)) {
        return constant->getAggregateElement(element);
    }
    for (auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(vector); insert;
         insert = llvm::dyn_cast<llvm::InsertElementInst>(insert->getOperand(0))) {
        auto* index = llvm::dyn_cast<llvm::ConstantInt>(insert->getOperand(2));
        if (!index) {
            return nullptr;
        }
        if (index->getZExtValue() == element) {
            return insert->getOperand(1);
        }
        if (auto* constant = llvm::dyn_cast<llvm::Constant>(insert->getOperand(0))) {
            return constant->getAggregateElement(element);
        }
    }
    return nullptr;
}

// Rounding and extending work on each element alone, in whatever lane it is.
bool are_same_cast(const Pair& elements) {
    auto* first = llvm::dyn_cast<llvm::CastInst>(elements[0]);
    auto* second = llvm::dyn_cast<llvm::CastInst>(elements[1]);
    return first && second && first->getOpcode() == second->getOpcode() && first->getSrcTy() == second->getSrcTy() &&
           first->getDestTy() == second->getDestTy() &&
           (llvm::isa<llvm::FPTruncInst>(first) || llvm::isa<llvm::FPExtInst>(first));
}

} // namespace

MatrixFragments::MatrixFragments(llvm::Function& function, llvm::ArrayRef<llvm::CallInst*> products)
    : places_(function, products) {
    llvm::BasicBlock& entry = function.getEntryBlock();
    WarpBuilder builder(&*entry.getFirstNonPHIOrDbgOrAlloca());
    lane_ = builder.CreateCall(function.getParent()->getOrInsertFunction(runtime::simd_lane, builder.getInt32Ty()));
    holder_ = lane_of_bits(builder, {4, 1, 3, 2, 0});
    fragment_lane_ = lane_of_bits(builder, {4, 2, 1, 3, 0});
}

llvm::Value* MatrixFragments::bit(WarpBuilder& builder, unsigned from, unsigned to) {
    llvm::Value* kept = builder.CreateAnd(lane_, 1u << from);
    return from >= to ? builder.CreateLShr(kept, from - to) : builder.CreateShl(kept, to - from);
}

// The lane whose bits, from 4 down to 0, are those bits of this lane.
llvm::Value* MatrixFragments::lane_of_bits(WarpBuilder& builder, std::array<unsigned, 5> sources) {
    llvm::Value* out = builder.getInt32(0);
    for (unsigned i = 0; i < 5; ++i) {
        out = builder.CreateOr(out, bit(builder, sources[i], 4 - i));
    }
    return out;
}

llvm::Instruction* MatrixFragments::place_for(const Pair& elements, const llvm::Instruction& user) const {
    return places_.first_before(user, {fragment_lane_, elements[0], elements[1]});
}

// What was made for one user may lie where another does not come by.
bool MatrixFragments::reach(llvm::ArrayRef<llvm::Value*> known, const llvm::Instruction& user) const {
    return llvm::all_of(known, [&](llvm::Value* value) { return value && places_.dominators().dominates(value, &user); });
}

llvm::Value* MatrixFragments::packed(WarpBuilder& builder, const Pair& elements) {
    llvm::Value* out = builder.getInt32(0);
    for (unsigned i = 0; i < 2; ++i) {
        llvm::Value* bits = builder.CreateBitCast(elements[i], builder.getInt16Ty());
        out = builder.CreateOr(out, builder.CreateShl(builder.CreateZExt(bits, builder.getInt32Ty()), 16 * i));
    }
    return out;
}

llvm::Value* MatrixFragments::row_fragment(const Pair& elements, const llvm::Instruction& user) {
    llvm::Value*& known = rows_[elements];
    if (!reach(known, user)) {
        WarpBuilder builder(place_for(elements, user));
        known = builder.shuffle_word(builder.getInt32(all_lanes), packed(builder, elements), holder_);
    }
    return known;
}

// Elements (2c, g) and (2c + 1, g) of B, where g = lane / 4 and c = lane % 4.
llvm::Value* MatrixFragments::column_fragment(const Pair& elements, const llvm::Instruction& user) {
    llvm::Value*& known = columns_[elements];
    if (reach(known, user)) {
        return known;
    }
    WarpBuilder builder(place_for(elements, user));
    llvm::Value* pair = packed(builder, elements);
    // Row 2c + i is (b1 b0 i); the pair of columns is g / 2 = (b4 b3).
    llvm::Value* place = builder.CreateOr(builder.CreateOr(bit(builder, 1, 4), bit(builder, 0, 2)),
                                          builder.CreateOr(bit(builder, 4, 3), bit(builder, 3, 0)));
    std::array<llvm::Value*, 2> rows{};
    for (unsigned i = 0; i < 2; ++i) {
        llvm::Value* source = builder.CreateOr(place, builder.getInt32(i << 1));
        rows[i] = builder.shuffle_word(builder.getInt32(all_lanes), pair, source);
    }
    llvm::Value* is_odd = builder.CreateICmpNE(builder.CreateAnd(lane_, 4), builder.getInt32(0));
    llvm::Value* selection = builder.CreateSelect(is_odd, builder.getInt32(0x7632), builder.getInt32(0x5410));
    return known = builder.call(llvm::Intrinsic::nvvm_prmt, {rows[0], rows[1], selection});
}

Pair MatrixFragments::shuffled(const Pair& elements, const llvm::Instruction& user) {
    WarpBuilder builder(place_for(elements, user));
    llvm::Value* mask = builder.getInt32(all_lanes);
    return {builder.shuffle(mask, elements[0], holder_), builder.shuffle(mask, elements[1], holder_)};
}

Pair MatrixFragments::accumulator(const Pair& elements, const llvm::Instruction& user) {
    if (llvm::isa<llvm::Constant>(elements[0]) && llvm::isa<llvm::Constant>(elements[1])) {
        return elements; // the same in all lanes
    }
    if (auto known = accumulators_.find(elements); known != accumulators_.end() && reach(known->second, user)) {
        return known->second;
    }
    Pair out{};
    auto* first = llvm::dyn_cast<llvm::PHINode>(elements[0]);
    auto* second = llvm::dyn_cast<llvm::PHINode>(elements[1]);
    if (llvm::Value* vector = common_vector(elements)) {
        out = of_vector(vector, user);
    } else if (first && second && first != second && first->getParent() == second->getParent() &&
               places_.is_reached_alike(*first)) {
        return of_phis(*first, *second);
    } else if (are_same_cast(elements)) {
        const Pair operands{llvm::cast<llvm::CastInst>(elements[0])->getOperand(0),
                            llvm::cast<llvm::CastInst>(elements[1])->getOperand(0)};
        const Pair inner = accumulator(operands, user);
        WarpBuilder builder(places_.first_before(user, {inner[0], inner[1]}));
        for (unsigned i = 0; i < 2; ++i) {
            auto* cast = llvm::cast<llvm::CastInst>(elements[i]);
            out[i] = builder.CreateCast(cast->getOpcode(), inner[i], cast->getDestTy());
        }
    } else {
        out = shuffled(elements, user);
    }
    return accumulators_[elements] = out;
}

Pair MatrixFragments::of_vector(llvm::Value* vector, const llvm::Instruction& user) {
    if (auto known = vectors_.find(vector); known != vectors_.end() && reach(known->second, user)) {
        return known->second;
    }
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(vector); phi && places_.is_reached_alike(*phi)) {
        return of_vector_phi(*phi);
    }
    const Pair parts{inserted_element(vector, 0), inserted_element(vector, 1)};
    if (parts[0] && parts[1]) {
        return vectors_[vector] = accumulator(parts, user);
    }
    llvm::IRBuilder<> builder(place_for({vector, vector}, user));
    llvm::Value* first = builder.CreateExtractElement(vector, builder.getInt64(0));
    llvm::Value* second = builder.CreateExtractElement(vector, builder.getInt64(1));
    return vectors_[vector] = shuffled({first, second}, user);
}

Pair MatrixFragments::of_phis(llvm::PHINode& first, llvm::PHINode& second) {
    llvm::IRBuilder<> builder(&first);
    std::array<llvm::PHINode*, 2> made{builder.CreatePHI(first.getType(), first.getNumIncomingValues()),
                                       builder.CreatePHI(second.getType(), second.getNumIncomingValues())};
    phis_.push_back({false, {&first, &second}, made});
    return accumulators_[{&first, &second}] = {made[0], made[1]};
}

Pair MatrixFragments::of_vector_phi(llvm::PHINode& phi) {
    llvm::IRBuilder<> builder(&phi);
    llvm::Type* element = phi.getType()->getScalarType();
    std::array<llvm::PHINode*, 2> made{builder.CreatePHI(element, phi.getNumIncomingValues()),
                                       builder.CreatePHI(element, phi.getNumIncomingValues())};
    phis_.push_back({true, {&phi, nullptr}, made});
    return vectors_[&phi] = {made[0], made[1]};
}

void MatrixFragments::set_result(llvm::CallInst& call, const Pair& fragment) {
    vectors_[&call] = fragment;
    results_.emplace_back(&call, fragment);
}

// Phis of results and constants, as they stand after loops, are fragments as well: nothing is laid out anew before them.
void MatrixFragments::convert_phis_of_results() {
    std::vector<llvm::Value*> known;
    for (const auto& [handle, fragment] : results_) {
        known.push_back(handle);
    }
    const auto is_known = [&](llvm::Value* value) { return llvm::isa<llvm::Constant>(value) || vectors_.contains(value); };
    for (std::size_t i = 0; i < known.size(); ++i) {
        for (llvm::User* user : known[i]->users()) {
            auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
            if (phi && !vectors_.contains(phi) && places_.is_reached_alike(*phi) &&
                llvm::all_of(phi->incoming_values(), is_known)) {
                of_vector_phi(*phi);
                known.push_back(phi);
            }
        }
    }
}

// What comes in may be a phi itself, and add to the list.
void MatrixFragments::fill_phis() {
    for (; filled_ < phis_.size(); ++filled_) {
        const Converted phi = phis_[filled_];
        auto* first = llvm::cast<llvm::PHINode>(phi.old[0]);
        for (unsigned i = 0; i < first->getNumIncomingValues(); ++i) {
            llvm::BasicBlock* from = first->getIncomingBlock(i);
            llvm::Value* value = first->getIncomingValue(i);
            const llvm::Instruction& end = *from->getTerminator();
            const Pair in =
                phi.is_vector
                    ? of_vector(value, end)
                    : accumulator({value, llvm::cast<llvm::PHINode>(phi.old[1])->getIncomingValueForBlock(from)}, end);
            phi.made[0]->addIncoming(in[0], from);
            phi.made[1]->addIncoming(in[1], from);
        }
    }
}

// Puts MSL's layout near where it is used: outside of the loop that made the matrix, if that is where.
void MatrixFragments::replace_other_uses(llvm::Value& old, const Pair& fragment, int element) {
    std::map<llvm::BasicBlock*, llvm::Value*> made;
    auto& definition = llvm::cast<llvm::Instruction>(old);
    for (llvm::Use& use : llvm::make_early_inc_range(old.uses())) {
        auto* user = llvm::cast<llvm::Instruction>(use.getUser());
        auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
        llvm::BasicBlock* block =
            places_.last_before(phi ? *phi->getIncomingBlock(use) : *user->getParent(), *definition.getParent());
        llvm::Value*& value = made[block];
        if (!value) {
            const bool is_home = block == definition.getParent() && !llvm::isa<llvm::PHINode>(definition);
            WarpBuilder builder(is_home ? definition.getNextNode() : &*block->getFirstInsertionPt());
            value = in_lanes(builder, fragment, element, *old.getType());
        }
        use.set(value);
    }
}

// In MSL's layout: one element, or both as a vector where `element` is below 0.
llvm::Value* MatrixFragments::in_lanes(WarpBuilder& builder, const Pair& fragment, int element, llvm::Type& type) {
    llvm::Value* mask = builder.getInt32(all_lanes);
    if (element >= 0) {
        return builder.shuffle(mask, fragment[static_cast<unsigned>(element)], fragment_lane_);
    }
    llvm::Value* value = llvm::PoisonValue::get(&type);
    for (unsigned i = 0; i < 2; ++i) {
        value = builder.CreateInsertElement(value, builder.shuffle(mask, fragment[i], fragment_lane_), builder.getInt64(i));
    }
    return value;
}

void MatrixFragments::finish() {
    fill_phis();
    convert_phis_of_results();
    fill_phis();
    const auto call_of = [](const llvm::WeakVH& handle) {
        return llvm::cast_or_null<llvm::CallInst>(static_cast<llvm::Value*>(handle));
    };
    for (const auto& [handle, fragment] : results_) {
        llvm::CallInst* call = call_of(handle);
        for (unsigned i = 0; call && i < call->arg_size(); ++i) {
            llvm::Value* value = call->getArgOperand(i);
            call->setArgOperand(i, llvm::PoisonValue::get(value->getType()));
            llvm::RecursivelyDeleteTriviallyDeadInstructions(value);
        }
    }
    // The old phis must not keep each other, or the old results, alive.
    for (const Converted& phi : phis_) {
        for (const llvm::WeakVH& handle : phi.old) {
            for (unsigned i = 0; handle && i < llvm::cast<llvm::PHINode>(handle)->getNumIncomingValues(); ++i) {
                auto* old = llvm::cast<llvm::PHINode>(handle);
                llvm::Value* value = old->getIncomingValue(i);
                old->setIncomingValue(i, llvm::PoisonValue::get(old->getType()));
                if (value != old) {
                    llvm::RecursivelyDeleteTriviallyDeadInstructions(value);
                }
            }
        }
    }
    for (const Converted& phi : phis_) {
        for (int i = 0; i < 2; ++i) {
            if (auto* old = llvm::cast_or_null<llvm::PHINode>(static_cast<llvm::Value*>(phi.old[static_cast<unsigned>(i)]))) {
                replace_other_uses(*old, {phi.made[0], phi.made[1]}, phi.is_vector ? -1 : i);
                old->eraseFromParent();
            }
        }
    }
    for (const auto& [handle, fragment] : results_) {
        if (llvm::CallInst* call = call_of(handle)) {
            replace_other_uses(*call, fragment, -1);
            call->eraseFromParent();
        }
    }
}

} // namespace metalki::compiler::ptx
