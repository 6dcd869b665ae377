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

MatrixFragments::MatrixFragments(llvm::Function& function) : function_(function), dominators_(function) {
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

llvm::Instruction* MatrixFragments::point_after(const Pair& elements) const {
    auto* latest = llvm::cast<llvm::Instruction>(fragment_lane_->stripPointerCasts());
    for (llvm::Value* element : elements) {
        auto* instruction = llvm::dyn_cast<llvm::Instruction>(element);
        if (instruction && dominators_.dominates(latest, instruction)) {
            latest = instruction;
        }
    }
    return llvm::isa<llvm::PHINode>(latest) ? &*latest->getParent()->getFirstInsertionPt() : latest->getNextNode();
}

llvm::Value* MatrixFragments::packed(WarpBuilder& builder, const Pair& elements) {
    llvm::Value* out = builder.getInt32(0);
    for (unsigned i = 0; i < 2; ++i) {
        llvm::Value* bits = builder.CreateBitCast(elements[i], builder.getInt16Ty());
        out = builder.CreateOr(out, builder.CreateShl(builder.CreateZExt(bits, builder.getInt32Ty()), 16 * i));
    }
    return out;
}

llvm::Value* MatrixFragments::row_fragment(const Pair& elements) {
    llvm::Value*& known = rows_[elements];
    if (!known) {
        WarpBuilder builder(point_after(elements));
        known = builder.shuffle_word(builder.getInt32(all_lanes), packed(builder, elements), holder_);
    }
    return known;
}

// Elements (2c, g) and (2c + 1, g) of B, where g = lane / 4 and c = lane % 4.
llvm::Value* MatrixFragments::column_fragment(const Pair& elements) {
    llvm::Value*& known = columns_[elements];
    if (known) {
        return known;
    }
    WarpBuilder builder(point_after(elements));
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

Pair MatrixFragments::shuffled(const Pair& elements) {
    WarpBuilder builder(point_after(elements));
    llvm::Value* mask = builder.getInt32(all_lanes);
    return {builder.shuffle(mask, elements[0], holder_), builder.shuffle(mask, elements[1], holder_)};
}

Pair MatrixFragments::accumulator(const Pair& elements) {
    if (llvm::isa<llvm::Constant>(elements[0]) && llvm::isa<llvm::Constant>(elements[1])) {
        return elements; // the same in all lanes
    }
    if (auto known = accumulators_.find(elements); known != accumulators_.end()) {
        return known->second;
    }
    Pair out{};
    auto* first = llvm::dyn_cast<llvm::PHINode>(elements[0]);
    auto* second = llvm::dyn_cast<llvm::PHINode>(elements[1]);
    if (llvm::Value* vector = common_vector(elements)) {
        out = of_vector(vector);
    } else if (first && second && first != second && first->getParent() == second->getParent()) {
        return of_phis(*first, *second);
    } else if (are_same_cast(elements)) {
        const Pair operands{llvm::cast<llvm::CastInst>(elements[0])->getOperand(0),
                            llvm::cast<llvm::CastInst>(elements[1])->getOperand(0)};
        const Pair inner = accumulator(operands);
        WarpBuilder builder(point_after(elements));
        for (unsigned i = 0; i < 2; ++i) {
            auto* cast = llvm::cast<llvm::CastInst>(elements[i]);
            out[i] = builder.CreateCast(cast->getOpcode(), inner[i], cast->getDestTy());
        }
    } else {
        out = shuffled(elements);
    }
    return accumulators_[elements] = out;
}

Pair MatrixFragments::of_vector(llvm::Value* vector) {
    if (auto known = vectors_.find(vector); known != vectors_.end()) {
        return known->second;
    }
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(vector)) {
        return of_vector_phi(*phi);
    }
    const Pair parts{inserted_element(vector, 0), inserted_element(vector, 1)};
    if (parts[0] && parts[1]) {
        return vectors_[vector] = accumulator(parts);
    }
    llvm::IRBuilder<> builder(point_after({vector, vector}));
    llvm::Value* first = builder.CreateExtractElement(vector, builder.getInt64(0));
    llvm::Value* second = builder.CreateExtractElement(vector, builder.getInt64(1));
    return vectors_[vector] = shuffled({first, second});
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
            if (phi && !vectors_.contains(phi) && llvm::all_of(phi->incoming_values(), is_known)) {
                of_vector(phi);
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
            const Pair in = phi.is_vector
                                ? of_vector(value)
                                : accumulator({value, llvm::cast<llvm::PHINode>(phi.old[1])->getIncomingValueForBlock(from)});
            phi.made[0]->addIncoming(in[0], from);
            phi.made[1]->addIncoming(in[1], from);
        }
    }
}

// Puts MSL's layout where it is used: outside of the loop that made the matrix, if that is where.
void MatrixFragments::replace_other_uses(llvm::Value& old, const Pair& fragment, int element) {
    std::map<std::pair<llvm::BasicBlock*, bool>, llvm::Value*> made; // in a block, or for what follows it
    const llvm::BasicBlock* home = llvm::cast<llvm::Instruction>(old).getParent();
    for (llvm::Use& use : llvm::make_early_inc_range(old.uses())) {
        auto* user = llvm::cast<llvm::Instruction>(use.getUser());
        auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
        llvm::BasicBlock* block = phi ? phi->getIncomingBlock(use) : user->getParent();
        const bool is_behind = phi && block != home;
        llvm::Value*& value = made[{block, is_behind}];
        if (!value) {
            WarpBuilder builder(block == home ? point_after({&old, &old})
                                : is_behind   ? block->getTerminator()
                                              : &*block->getFirstInsertionPt());
            llvm::Value* mask = builder.getInt32(all_lanes);
            if (element >= 0) {
                value = builder.shuffle(mask, fragment[static_cast<unsigned>(element)], fragment_lane_);
            } else {
                value = llvm::PoisonValue::get(old.getType());
                for (unsigned i = 0; i < 2; ++i) {
                    value = builder.CreateInsertElement(value, builder.shuffle(mask, fragment[i], fragment_lane_),
                                                        builder.getInt64(i));
                }
            }
        }
        use.set(value);
    }
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
