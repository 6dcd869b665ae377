// Scalar parts, vectors and masks, and where values wait from one block to the next.
#include <algorithm>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Support/raw_ostream.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

bool leaves_its_block(const llvm::Instruction& instruction) {
    for (const llvm::Use& use : instruction.uses()) {
        const auto* user = llvm::cast<llvm::Instruction>(use.getUser());
        const auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
        if ((phi ? phi->getIncomingBlock(use) : user->getParent()) != instruction.getParent()) {
            return true;
        }
    }
    return false;
}

} // namespace

Widener::Widener(llvm::Function& kernel, const Divergence& divergence, const LoadGroups& load_groups,
                 const VectorMath& mathematics, VectorRegisters vector_registers)
    : kernel_(kernel), divergence_(divergence), load_groups_(load_groups), mathematics_(mathematics),
      vector_registers_(vector_registers), context_(kernel.getContext()), module_(*kernel.getParent()),
      layout_(module_.getDataLayout()), builder_(kernel.getContext()) {}

llvm::FixedVectorType* Widener::vector_of(llvm::Type* scalar) const {
    return llvm::FixedVectorType::get(scalar, lanes);
}

// Vectors of MSL become arrays: one vector of lanes a component.
llvm::Type* Widener::widened(llvm::Type* type) const {
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
        return llvm::ArrayType::get(vector_of(vector->getElementType()), vector->getNumElements());
    }
    if (auto* array = llvm::dyn_cast<llvm::ArrayType>(type)) {
        return llvm::ArrayType::get(widened(array->getElementType()), array->getNumElements());
    }
    if (auto* structure = llvm::dyn_cast<llvm::StructType>(type)) {
        std::vector<llvm::Type*> elements;
        for (llvm::Type* element : structure->elements()) {
            elements.push_back(widened(element));
        }
        return llvm::StructType::get(context_, elements);
    }
    if (!llvm::FixedVectorType::isValidElementType(type)) {
        throw Unsupported("a value of a type that has no vectors");
    }
    return vector_of(type);
}

llvm::AllocaInst* Widener::make_slot(llvm::Type* type, const llvm::Twine& name) {
    return llvm::IRBuilder<>(slots_->getTerminator()).CreateAlloca(type, nullptr, name);
}

llvm::AllocaInst* Widener::make_scratch(llvm::Type* type) {
    llvm::AllocaInst* memory = make_slot(type, "scratch");
    memory->setAlignment(llvm::Align(64));
    memory->setMetadata(scratch_mark, llvm::MDNode::get(context_, {}));
    return memory;
}

llvm::AllocaInst* Widener::slot_for(const llvm::Value* value) {
    llvm::AllocaInst*& slot = value_slots_[value];
    if (!slot) {
        Shape shape = divergence_.shape_of(value);
        llvm::Type* type = shape.has_scalar() ? value->getType() : widened(value->getType());
        slot = make_slot(shape.is_parts() ? llvm::ArrayType::get(value->getType(), shape.partition.count) : type,
                         value->getName());
    }
    return slot;
}

void Widener::define(const llvm::Instruction& instruction, Representation value) {
    local_values_[&instruction] = value;
    if (leaves_its_block(instruction)) {
        builder_.CreateStore(value, slot_for(&instruction));
    }
}

Widener::Representation Widener::representation(const llvm::Value* value) {
    if (const auto* argument = llvm::dyn_cast<llvm::Argument>(value)) {
        if (argument->getArgNo() != 0) {
            throw Unsupported("the thread's place is asked for in an unknown way");
        }
        return body_->getArg(unsigned(BodyParameter::context));
    }
    if (!llvm::isa<llvm::Instruction>(value)) {
        return const_cast<llvm::Value*>(value);
    }
    if (auto found = prologue_values_.find(value); found != prologue_values_.end()) {
        return found->second;
    }
    if (auto found = local_values_.find(value); found != local_values_.end()) {
        return found->second;
    }
    llvm::AllocaInst* slot = slot_for(value);
    return local_values_[value] = builder_.CreateLoad(slot->getAllocatedType(), slot, value->getName());
}

llvm::Value* Widener::scalar(const llvm::Value* value) {
    // Code that is never reached may have values of no shape.
    if (divergence_.shape_of(value).kind == Shape::Kind::unknown) {
        return llvm::PoisonValue::get(value->getType());
    }
    if (!divergence_.shape_of(value).has_scalar()) {
        std::string text;
        llvm::raw_string_ostream stream(text);
        value->print(stream);
        throw std::logic_error("a scalar was expected of a value that differs from lane to lane:" + text);
    }
    return representation(value);
}

llvm::Value* Widener::splat(llvm::Value* scalar) {
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(scalar->getType())) {
        llvm::Value* out = llvm::PoisonValue::get(widened(vector));
        for (unsigned i = 0; i < vector->getNumElements(); ++i) {
            out = builder_.CreateInsertValue(out, splat(builder_.CreateExtractElement(scalar, i)), i);
        }
        return out;
    }
    if (scalar->getType()->isAggregateType()) {
        unsigned count = scalar->getType()->isStructTy() ? scalar->getType()->getStructNumElements()
                                                         : static_cast<unsigned>(scalar->getType()->getArrayNumElements());
        llvm::Value* out = llvm::PoisonValue::get(widened(scalar->getType()));
        for (unsigned i = 0; i < count; ++i) {
            out = builder_.CreateInsertValue(out, splat(builder_.CreateExtractValue(scalar, i)), i);
        }
        return out;
    }
    return builder_.CreateVectorSplat(lanes, scalar);
}

llvm::Constant* Widener::lane_constants(llvm::Type* type, const LaneOffsets& offsets) const {
    std::vector<llvm::Constant*> numbers;
    for (std::int64_t offset : offsets) {
        numbers.push_back(llvm::ConstantInt::get(type, static_cast<std::uint64_t>(offset), true));
    }
    return llvm::ConstantVector::get(numbers);
}

// Numbers or pointers plus a constant a lane.
llvm::Value* Widener::add_offsets(llvm::Value* start, const LaneOffsets& offsets) {
    if (std::ranges::all_of(offsets, [](std::int64_t offset) { return offset == 0; })) {
        return start;
    }
    llvm::Type* type = start->getType()->getScalarType();
    if (type->isPointerTy()) {
        return builder_.CreateGEP(builder_.getInt8Ty(), start, lane_constants(builder_.getInt64Ty(), offsets));
    }
    return builder_.CreateAdd(start, lane_constants(type, offsets));
}

llvm::Value* Widener::add_offset(llvm::Value* start, std::int64_t offset) {
    if (offset == 0 || start->getType()->isPointerTy()) {
        return offset_address(start, offset);
    }
    return builder_.CreateAdd(start, llvm::ConstantInt::get(start->getType(), static_cast<std::uint64_t>(offset), true));
}

llvm::Value* Widener::pack(const std::vector<llvm::Value*>& parts) {
    llvm::Value* out = llvm::PoisonValue::get(llvm::ArrayType::get(parts.front()->getType(), parts.size()));
    for (unsigned i = 0; i < parts.size(); ++i) {
        out = builder_.CreateInsertValue(out, parts[i], i);
    }
    return out;
}

// The scalar parts for the sets of `partition`, which is at least as fine as the value's own.
std::vector<llvm::Value*> Widener::parts(const llvm::Value* value, const Partition& partition) {
    Shape shape = divergence_.shape_of(value);
    llvm::Value* known = representation(value);
    std::vector<llvm::Value*> out;
    for (unsigned i = 0; i < partition.count; ++i) {
        unsigned lane = partition.first_lane(i);
        llvm::Value* start = known;
        if (shape.is_parts()) {
            unsigned own = shape.partition.part[lane];
            llvm::Value* direct = llvm::FindInsertedValue(known, own);
            start = direct ? direct : builder_.CreateExtractValue(known, own);
        }
        out.push_back(add_offset(start, shape.offsets[lane]));
    }
    return out;
}

// From one value a part to one a lane.
llvm::Value* Widener::spread(const std::vector<llvm::Value*>& parts, const Partition& partition) {
    llvm::Value* few = llvm::PoisonValue::get(llvm::FixedVectorType::get(parts.front()->getType(), partition.count));
    for (unsigned i = 0; i < partition.count; ++i) {
        few = builder_.CreateInsertElement(few, parts[i], i);
    }
    return builder_.CreateShuffleVector(few, std::vector<int>(partition.part.begin(), partition.part.end()));
}

// In the form that values of a shape have, which is at least as general as the value's own.
llvm::Value* Widener::as(const llvm::Value* value, const Shape& shape) {
    if (shape.is_parts()) {
        return divergence_.shape_of(value).partition == shape.partition ? representation(value)
                                                                        : pack(parts(value, shape.partition));
    }
    return shape.has_scalar() ? scalar(value) : vector(value);
}

llvm::Value* Widener::vector(const llvm::Value* value) {
    Shape shape = divergence_.shape_of(value);
    if (shape.kind == Shape::Kind::unknown) {
        return llvm::PoisonValue::get(widened(value->getType()));
    }
    llvm::Value* known = representation(value);
    if (shape.is_varying()) {
        return known;
    }
    return add_offsets(shape.is_parts() ? spread(parts(value, shape.partition), shape.partition) : splat(known), shape.offsets);
}

Mask Widener::full_mask() {
    return llvm::Constant::getAllOnesValue(vector_of(llvm::Type::getInt1Ty(context_)));
}

// Logical and: what an inactive lane computed must not matter.
Mask Widener::both(Mask a, Mask b) {
    if (!a || !b) {
        return a ? a : b;
    }
    return builder_.CreateSelect(a, b, llvm::Constant::getNullValue(b->getType()));
}

llvm::Value* Widener::blend(Mask mask, llvm::Value* on, llvm::Value* off) {
    if (!mask || on == off) {
        return on;
    }
    if (!on->getType()->isAggregateType()) {
        return builder_.CreateSelect(mask, on, off);
    }
    unsigned count = on->getType()->isStructTy() ? on->getType()->getStructNumElements()
                                                 : static_cast<unsigned>(on->getType()->getArrayNumElements());
    llvm::Value* out = llvm::PoisonValue::get(on->getType());
    for (unsigned i = 0; i < count; ++i) {
        out = builder_.CreateInsertValue(
            out, blend(mask, builder_.CreateExtractValue(on, i), builder_.CreateExtractValue(off, i)), i);
    }
    return out;
}

llvm::Value* Widener::mask_bits(Mask mask) {
    return mask ? builder_.CreateBitCast(mask, builder_.getInt32Ty()) : builder_.getInt32(~0u);
}

llvm::Value* Widener::any(Mask mask) {
    return builder_.CreateICmpNE(mask_bits(mask), builder_.getInt32(0));
}

llvm::Value* Widener::all(Mask mask) {
    return builder_.CreateICmpEQ(mask_bits(mask), builder_.getInt32(~0u));
}

llvm::Value* Widener::first_active(Mask mask) {
    if (!mask) {
        return builder_.getInt32(0);
    }
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask_bits(mask), builder_.getFalse());
}

llvm::Value* Widener::last_active(Mask mask) {
    if (!mask) {
        return builder_.getInt32(lanes - 1);
    }
    llvm::Value* above = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, mask_bits(mask), builder_.getFalse());
    return builder_.CreateSub(builder_.getInt32(lanes - 1), above);
}

} // namespace metalki::compiler::vectorize
