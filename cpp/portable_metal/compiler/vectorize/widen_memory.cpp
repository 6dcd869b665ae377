// Loads and stores: scalar, broadcast, wide, in runs, gathered.
#include <algorithm>

#include "llvm/Analysis/VectorUtils.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

std::int64_t bytes_of(llvm::Type* type, const llvm::DataLayout& layout) {
    return static_cast<std::int64_t>(layout.getTypeStoreSize(type).getFixedValue());
}

bool is_linear(const Shape& shape, std::int64_t step) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
        if (shape.offsets[lane] != shape.offsets[0] + step * static_cast<std::int64_t>(lane)) {
            return false;
        }
    }
    return shape.has_scalar();
}

} // namespace

void Widener::emit_array(const llvm::AllocaInst& array) {
    std::optional<llvm::TypeSize> size = array.getAllocationSize(layout_);
    if (!array.isStaticAlloca() || !size) {
        throw Unsupported("an array whose size is only known at run time");
    }
    bool interleaved = divergence_.interleaving(&array) != 0;
    std::uint64_t bytes = lanes * (interleaved ? size->getFixedValue() : lane_stride(array, layout_));
    llvm::IRBuilder<> builder(slots_->getTerminator());
    auto* copies = builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), bytes), nullptr, array.getName());
    copies->setAlignment(llvm::Align(64));
    prologue_values_[&array] = copies;
}

llvm::Value* Widener::offset_address(llvm::Value* address, std::int64_t bytes) {
    return bytes == 0 ? address
                      : builder_.CreateGEP(builder_.getInt8Ty(), address, builder_.getInt64(static_cast<std::uint64_t>(bytes)));
}

llvm::Value* Widener::addresses(const llvm::Value* pointer, std::int64_t bytes_on) {
    return offset_address(vector(pointer), bytes_on);
}

// Several stretches of consecutive or equal addresses, as in a tile of 16 by 2 lanes.
llvm::Value* Widener::load_runs(llvm::Value* base, const Shape& shape, llvm::Type* element, llvm::Align align) {
    std::int64_t size = bytes_of(element, layout_);
    for (unsigned length : {16u, 8u}) {
        bool regular = true;
        for (unsigned lane = 0; lane < lanes && regular; ++lane) {
            unsigned first = lane / length * length;
            std::int64_t in_run = shape.offsets[lane] - shape.offsets[first];
            bool equal = shape.offsets[first + 1] == shape.offsets[first];
            regular = in_run == (equal ? 0 : size * static_cast<std::int64_t>(lane - first));
        }
        if (!regular) {
            continue;
        }
        std::vector<llvm::Value*> parts;
        for (unsigned first = 0; first < lanes; first += length) {
            llvm::Value* address = offset_address(base, shape.offsets[first]);
            if (shape.offsets[first + 1] == shape.offsets[first]) {
                parts.push_back(builder_.CreateVectorSplat(length, builder_.CreateAlignedLoad(element, address, align)));
            } else {
                parts.push_back(builder_.CreateAlignedLoad(llvm::FixedVectorType::get(element, length), address, align));
            }
        }
        return llvm::concatenateVectors(builder_, parts);
    }
    return nullptr;
}

llvm::Value* Widener::load_lanes(const llvm::Value* pointer, llvm::Type* element, std::int64_t bytes_on, llvm::Align align,
                                 Mask mask) {
    Shape shape = divergence_.shape_of(pointer);
    llvm::Type* wide = vector_of(element);
    if (shape.kind == Shape::Kind::affine && is_linear(shape, bytes_of(element, layout_))) {
        llvm::Value* address = offset_address(scalar(pointer), bytes_on + shape.offsets[0]);
        if (!mask) {
            return builder_.CreateAlignedLoad(wide, address, align);
        }
        return builder_.CreateMaskedLoad(wide, address, align, mask);
    }
    if (shape.kind == Shape::Kind::affine && !mask) {
        if (llvm::Value* runs = load_runs(offset_address(scalar(pointer), bytes_on), shape, element, align)) {
            return runs;
        }
    }
    return builder_.CreateMaskedGather(wide, addresses(pointer, bytes_on), align, mask ? mask : full_mask());
}

void Widener::store_lanes(const llvm::Value* pointer, llvm::Value* value, std::int64_t bytes_on, llvm::Align align, Mask mask) {
    Shape shape = divergence_.shape_of(pointer);
    auto* wide = llvm::cast<llvm::FixedVectorType>(value->getType());
    if (shape.is_uniform()) {
        // All active lanes write to one place: the last one wins.
        llvm::Value* last = builder_.CreateExtractElement(value, last_active(mask));
        builder_.CreateAlignedStore(last, offset_address(scalar(pointer), bytes_on), align);
        return;
    }
    if (shape.kind == Shape::Kind::affine && is_linear(shape, bytes_of(wide->getElementType(), layout_))) {
        llvm::Value* address = offset_address(scalar(pointer), bytes_on + shape.offsets[0]);
        if (mask) {
            builder_.CreateMaskedStore(value, address, align, mask);
        } else {
            builder_.CreateAlignedStore(value, address, align);
        }
        return;
    }
    builder_.CreateMaskedScatter(value, addresses(pointer, bytes_on), align, mask ? mask : full_mask());
}

void Widener::emit_load(const llvm::LoadInst& load, Mask mask) {
    Shape shape = divergence_.shape_of(load.getPointerOperand());
    if (shape.kind == Shape::Kind::unknown) {
        return;
    }
    if (shape.is_uniform()) {
        return define(load, clone_scalar(load, true));
    }
    bool plain = load.isSimple() || (load.getOrdering() == llvm::AtomicOrdering::NotAtomic);
    if (!plain || load.getType()->isAggregateType()) {
        return define(load, emit_per_lane(load, mask));
    }
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(load.getType());
    if (!type) {
        return define(load, load_lanes(load.getPointerOperand(), load.getType(), 0, load.getAlign(), mask));
    }
    llvm::Type* element = type->getElementType();
    unsigned count = type->getNumElements();
    std::int64_t size = bytes_of(element, layout_);
    bool packed = layout_.getTypeStoreSizeInBits(element) == layout_.getTypeSizeInBits(element);
    if (!packed) {
        return define(load, emit_per_lane(load, mask));
    }
    bool interleaved = divergence_.interleaved_base(load.getPointerOperand()) != nullptr;
    llvm::Align align = llvm::commonAlignment(load.getAlign(), static_cast<std::uint64_t>(size));
    if (!interleaved && !mask && shape.kind == Shape::Kind::affine && is_linear(shape, size * count)) {
        llvm::Value* address = offset_address(scalar(load.getPointerOperand()), shape.offsets[0]);
        llvm::Value* wide = builder_.CreateAlignedLoad(llvm::FixedVectorType::get(element, count * lanes), address, align);
        return define(load, deinterleave(wide, count));
    }
    llvm::Value* out = llvm::PoisonValue::get(widened(type));
    for (unsigned i = 0; i < count; ++i) {
        std::int64_t on = static_cast<std::int64_t>(i) * size * (interleaved ? lanes : 1);
        out = builder_.CreateInsertValue(out, load_lanes(load.getPointerOperand(), element, on, align, mask), i);
    }
    define(load, out);
}

void Widener::emit_store(const llvm::StoreInst& store, Mask mask) {
    const llvm::Value* pointer = store.getPointerOperand();
    Shape shape = divergence_.shape_of(pointer);
    if (shape.kind == Shape::Kind::unknown) {
        return;
    }
    if (shape.is_uniform() && divergence_.shape_of(store.getValueOperand()).is_uniform()) {
        clone_scalar(store, true);
        return;
    }
    if (!store.isSimple() || store.getValueOperand()->getType()->isAggregateType()) {
        emit_per_lane(store, mask);
        return;
    }
    llvm::Value* value = vector(store.getValueOperand());
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(store.getValueOperand()->getType());
    if (!type) {
        return store_lanes(pointer, value, 0, store.getAlign(), mask);
    }
    llvm::Type* element = type->getElementType();
    unsigned count = type->getNumElements();
    std::int64_t size = bytes_of(element, layout_);
    if (layout_.getTypeStoreSizeInBits(element) != layout_.getTypeSizeInBits(element)) {
        emit_per_lane(store, mask);
        return;
    }
    bool interleaved = divergence_.interleaved_base(pointer) != nullptr;
    llvm::Align align = llvm::commonAlignment(store.getAlign(), static_cast<std::uint64_t>(size));
    if (!interleaved && !mask && shape.kind == Shape::Kind::affine && is_linear(shape, size * count)) {
        llvm::Value* address = offset_address(scalar(pointer), shape.offsets[0]);
        builder_.CreateAlignedStore(interleave(value), address, align);
        return;
    }
    for (unsigned i = 0; i < count; ++i) {
        std::int64_t on = static_cast<std::int64_t>(i) * size * (interleaved ? lanes : 1);
        store_lanes(pointer, builder_.CreateExtractValue(value, i), on, align, mask);
    }
}

} // namespace metalki::compiler::vectorize
