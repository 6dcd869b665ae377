// Loads and stores: scalar, broadcast, wide, in runs, gathered.
#include <algorithm>
#include <limits>

#include "llvm/Analysis/VectorUtils.h"

#include "vectorize/prefetch.hpp"
#include "vectorize/streaming.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

std::int64_t bytes_of(llvm::Type* type, const llvm::DataLayout& layout) {
    return static_cast<std::int64_t>(layout.getTypeStoreSize(type).getFixedValue());
}

constexpr std::int64_t most_prefetched = 512; // bytes of a part
constexpr std::size_t most_streams = 8;
// In bytes; smaller ones of one or two lanes cost more than a gather.
constexpr std::int64_t smallest_piece = 16, smallest_masked_piece = 32;

// Lanes in a row, from `first` on, are `step` apart.
bool is_linear(const Shape& shape, unsigned first, unsigned length, std::int64_t step) {
    for (unsigned lane = first; lane < first + length; ++lane) {
        if (shape.offsets[lane] != shape.offsets[first] + step * static_cast<std::int64_t>(lane - first)) {
            return false;
        }
    }
    return true;
}

// What is the same for addresses that are a few elements apart: a pointer and an index, if it has one.
std::pair<const llvm::Value*, const llvm::Value*> neighbourhood_of(const llvm::Value* pointer) {
    const auto* address = llvm::dyn_cast<llvm::GEPOperator>(pointer);
    if (!address || address->getNumIndices() != 1) {
        return {pointer, nullptr};
    }
    const llvm::Value* index = *address->idx_begin();
    if (const auto* wider = llvm::dyn_cast<llvm::CastInst>(index)) {
        index = wider->getOperand(0);
    }
    const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(index);
    if (sum && sum->getOpcode() == llvm::Instruction::Add && llvm::isa<llvm::ConstantInt>(sum->getOperand(1))) {
        index = sum->getOperand(0);
    }
    return {address->getPointerOperand(), index};
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

// The few pieces in which the lanes lie, `step` bytes from one to the next; none: they are all over the place.
std::vector<Widener::Piece> Widener::pieces(const llvm::Value* pointer, std::int64_t step, Mask mask) {
    Shape shape = divergence_.shape_of(pointer);
    if (shape.kind != Shape::Kind::affine && !shape.is_parts()) {
        return {};
    }
    const auto& part = shape.partition.part;
    auto is_same = [&](unsigned first, unsigned length) {
        return length > 1 && length < lanes && is_linear(shape, first, length, 0);
    };
    for (unsigned length : {32u, 16u, 8u, 4u, 2u, 1u}) {
        if (length < 4 && length * step < (mask ? smallest_masked_piece : smallest_piece)) {
            break;
        }
        bool regular = true;
        for (unsigned first = 0; first < lanes && regular; first += length) {
            regular = std::all_of(&part[first], &part[first] + length, [&](unsigned p) { return p == part[first]; }) &&
                      (is_linear(shape, first, length, step) || is_same(first, length));
        }
        if (!regular) {
            continue;
        }
        std::vector<Piece> out;
        std::vector<llvm::Value*> starts = parts(pointer, shape.partition);
        for (unsigned first = 0; first < lanes; first += length) {
            std::int64_t from_start = shape.offsets[first] - shape.offsets[shape.partition.first_lane(part[first])];
            out.push_back({offset_address(starts[part[first]], from_start), first, length, is_same(first, length)});
        }
        return out;
    }
    return {};
}

// `count` elements of each lane, those of a lane side by side; a piece whose lanes share a place has one element a lane.
llvm::Value* Widener::load_pieces(const std::vector<Piece>& places, llvm::Type* element, unsigned count, std::int64_t bytes_on,
                                  llvm::Align align, Mask mask) {
    std::vector<llvm::Value*> parts;
    for (const Piece& piece : places) {
        llvm::Value* address = offset_address(piece.address, bytes_on);
        if (piece.same) {
            parts.push_back(builder_.CreateVectorSplat(piece.length, builder_.CreateAlignedLoad(element, address, align)));
            continue;
        }
        auto* type = llvm::FixedVectorType::get(element, piece.length * count);
        if (mask) {
            parts.push_back(builder_.CreateMaskedLoad(type, address, align, part_of(mask, piece)));
        } else {
            parts.push_back(builder_.CreateAlignedLoad(type, address, align));
        }
    }
    return llvm::concatenateVectors(builder_, parts);
}

bool Widener::store_pieces(const std::vector<Piece>& places, llvm::Value* value, unsigned count, std::int64_t bytes_on,
                           llvm::Align align, Mask mask, bool stream) {
    if (places.empty() || std::ranges::any_of(places, &Piece::same)) {
        return false;
    }
    for (Piece piece : places) {
        llvm::Value* address = offset_address(piece.address, bytes_on);
        llvm::Value* on = mask ? part_of(mask, piece) : nullptr;
        piece.first *= count;
        piece.length *= count;
        llvm::Value* part = part_of(value, piece);
        if (stream && places.size() == 1) {
            stream_store(part, address, align, on);
        } else if (mask) {
            builder_.CreateMaskedStore(part, address, align, on);
        } else {
            builder_.CreateAlignedStore(part, address, align);
        }
    }
    return true;
}

// Whole lines of the cache are written past it, if they are whole.
void Widener::stream_store(llvm::Value* value, llvm::Value* address, llvm::Align align, Mask mask) {
    const auto store = [&]() -> llvm::Instruction* {
        return mask ? builder_.CreateMaskedStore(value, address, align, mask)
                    : static_cast<llvm::Instruction*>(builder_.CreateAlignedStore(value, address, align));
    };
    std::uint64_t bytes = layout_.getTypeStoreSize(value->getType()).getFixedValue();
    if (bytes % cache_line != 0) {
        store();
        return;
    }
    auto* number =
        llvm::cast<llvm::Instruction>(builder_.Insert(new llvm::PtrToIntInst(address, builder_.getInt64Ty()), "streamed"));
    auto* lane_bytes = llvm::ConstantAsMetadata::get(builder_.getInt64(bytes / lanes));
    number->setMetadata(streamed_address, llvm::MDNode::get(context_, {lane_bytes}));
    llvm::Value* whole = builder_.CreateICmpEQ(builder_.CreateAnd(number, cache_line - 1), builder_.getInt64(0));
    whole = mask ? builder_.CreateAnd(whole, all(mask)) : whole;
    auto* stream = llvm::BasicBlock::Create(context_, "stream", body_);
    auto* ordinary = llvm::BasicBlock::Create(context_, "ordinary", body_);
    auto* behind = llvm::BasicBlock::Create(context_, "behind", body_);
    builder_.CreateCondBr(whole, stream, ordinary);
    builder_.SetInsertPoint(stream);
    llvm::StoreInst* past = builder_.CreateAlignedStore(value, address, llvm::Align(cache_line));
    past->setMetadata(llvm::LLVMContext::MD_nontemporal,
                      llvm::MDNode::get(context_, {llvm::ConstantAsMetadata::get(builder_.getInt32(1))}));
    builder_.CreateBr(behind);
    builder_.SetInsertPoint(ordinary);
    store();
    builder_.CreateBr(behind);
    builder_.SetInsertPoint(behind);
}

llvm::Value* Widener::part_of(llvm::Value* whole, const Piece& piece) {
    std::vector<int> order;
    for (unsigned lane = piece.first; lane < piece.first + piece.length; ++lane) {
        order.push_back(static_cast<int>(lane));
    }
    return builder_.CreateShuffleVector(whole, order);
}

llvm::Value* Widener::load_lanes(const llvm::Value* pointer, llvm::Type* element, std::int64_t bytes_on, llvm::Align align,
                                 Mask mask) {
    std::vector<Piece> places = pieces(pointer, bytes_of(element, layout_), mask);
    bool broadcasts = std::ranges::any_of(places, &Piece::same);
    if (!places.empty() && !broadcasts) {
        return load_pieces(places, element, 1, bytes_on, align, mask);
    }
    if (llvm::Value* found = mask ? nullptr : load_windows(pointer, element, bytes_on, align)) {
        return found;
    }
    if (broadcasts && !mask) {
        return load_pieces(places, element, 1, bytes_on, align, mask);
    }
    if (std::optional<Rows> rows = mask ? std::nullopt : read_rows(pointer, element, bytes_on, 1, align)) {
        return pick_from_rows(*rows, 0);
    }
    llvm::Value* lane_places = addresses(pointer, bytes_on);
    std::int64_t size = bytes_of(element, layout_);
    if (size < 4 && align.value() >= static_cast<std::uint64_t>(size)) {
        return gather_small(lane_places, element, mask);
    }
    return builder_.CreateMaskedGather(vector_of(element), lane_places, align, mask ? mask : full_mask());
}

// One element for all lanes of a part.
llvm::Value* Widener::load_parts(const llvm::LoadInst& load, Mask mask) {
    const Partition partition = divergence_.shape_of(&load).partition;
    std::vector<llvm::Value*> places = parts(load.getPointerOperand(), partition), out;
    llvm::Value* on = mask_bits(mask);
    for (unsigned i = 0; i < partition.count; ++i) {
        llvm::Value* place = places[i];
        if (mask) {
            // Of a part without a lane that is on, something is read that exists.
            std::uint32_t own = 0;
            for (unsigned lane = 0; lane < lanes; ++lane) {
                own |= partition.part[lane] == i ? 1u << lane : 0;
            }
            llvm::Value* any = builder_.CreateICmpNE(builder_.CreateAnd(on, builder_.getInt32(own)), builder_.getInt32(0));
            place = builder_.CreateSelect(any, place, nowhere(load.getType()));
        }
        out.push_back(builder_.CreateAlignedLoad(load.getType(), place, load.getAlign()));
    }
    return pack(out);
}

void Widener::emit_prefetch(const llvm::CallInst& call) {
    prefetch_lines(call.getArgOperand(0), 0, static_cast<llvm::ConstantInt*>(call.getArgOperand(2))->getZExtValue());
}

// What a launch that streams reads comes in streams as well.
void Widener::prefetch_stream(const llvm::Value* pointer) {
    const Shape shape = divergence_.shape_of(pointer);
    if (!shape.is_uniform() && shape.is_compact() && streams_.size() < most_streams &&
        streams_.insert(neighbourhood_of(pointer)).second) {
        prefetch_lines(pointer, pages_on, into_second_level);
    }
}

// The lines between the first and the last lane of each part, unless the lanes are too far apart. Masks do not matter.
void Widener::prefetch_lines(const llvm::Value* pointer, std::int64_t bytes_on, std::uint64_t level) {
    Shape shape = divergence_.shape_of(pointer);
    if (!shape.is_compact()) {
        return;
    }
    std::vector<llvm::Value*> starts = parts(pointer, shape.partition);
    for (unsigned i = 0; i < shape.partition.count; ++i) {
        std::int64_t lowest = std::numeric_limits<std::int64_t>::max(), highest = std::numeric_limits<std::int64_t>::min();
        for (unsigned lane = 0; lane < lanes; ++lane) {
            if (shape.partition.part[lane] == i) {
                lowest = std::min(lowest, shape.offsets[lane]);
                highest = std::max(highest, shape.offsets[lane]);
            }
        }
        if (highest - lowest > most_prefetched) {
            return;
        }
        std::int64_t from_start = lowest - shape.offsets[shape.partition.first_lane(i)] + bytes_on;
        for (; lowest <= highest; lowest += cache_line, from_start += cache_line) {
            llvm::Value* line = offset_address(starts[i], from_start);
            builder_.CreateIntrinsic(
                llvm::Intrinsic::prefetch, {line->getType()},
                {line, builder_.getInt32(0), builder_.getInt32(static_cast<std::uint32_t>(level)), builder_.getInt32(1)});
        }
    }
}

// Memory for a load that does not count.
llvm::Value* Widener::nowhere(llvm::Type* type) {
    llvm::AllocaInst* memory = make_scratch(type);
    builder_.CreateStore(llvm::Constant::getNullValue(type), memory);
    return memory;
}

void Widener::store_lanes(const llvm::Value* pointer, llvm::Value* value, std::int64_t bytes_on, llvm::Align align, Mask mask,
                          bool stream) {
    if (divergence_.shape_of(pointer).is_uniform()) {
        // All active lanes write to one place: the last one wins.
        llvm::Value* last = builder_.CreateExtractElement(value, last_active(mask));
        builder_.CreateAlignedStore(last, offset_address(scalar(pointer), bytes_on), align);
        return;
    }
    llvm::Type* element = llvm::cast<llvm::FixedVectorType>(value->getType())->getElementType();
    if (!store_pieces(pieces(pointer, bytes_of(element, layout_), mask), value, 1, bytes_on, align, mask, stream)) {
        builder_.CreateMaskedScatter(value, addresses(pointer, bytes_on), align, mask ? mask : full_mask());
    }
}

void Widener::emit_load(const llvm::LoadInst& load, Mask mask) {
    Shape shape = divergence_.shape_of(load.getPointerOperand());
    if (shape.kind == Shape::Kind::unknown) {
        return;
    }
    if (shape.is_uniform()) {
        return define(load, clone_scalar(load, true));
    }
    if (divergence_.geometry().stream) {
        prefetch_stream(load.getPointerOperand());
    }
    if (divergence_.shape_of(&load).is_parts()) {
        return define(load, load_parts(load, mask));
    }
    if (emit_in_group(load, mask)) {
        return;
    }
    bool plain = load.isSimple() || (load.getOrdering() == llvm::AtomicOrdering::NotAtomic);
    if (!plain || load.getType()->isAggregateType()) {
        return define(load, emit_per_lane(load, mask));
    }
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(load.getType());
    if (emit_exchanged_load(load, mask)) {
        return;
    }
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
    if (!interleaved && !mask) {
        std::vector<Piece> places = pieces(load.getPointerOperand(), size * count, nullptr);
        if (!places.empty() && std::ranges::none_of(places, &Piece::same)) {
            return define(load, deinterleave(load_pieces(places, element, count, 0, align, nullptr), count));
        }
    }
    define(load, load_components(load.getPointerOperand(), *type, align, mask));
}

// One component of all lanes after the other.
llvm::Value* Widener::load_components(const llvm::Value* pointer, llvm::FixedVectorType& type, llvm::Align align, Mask mask) {
    std::int64_t size = bytes_of(type.getElementType(), layout_) * (divergence_.interleaved_base(pointer) ? lanes : 1);
    llvm::Value* out = llvm::PoisonValue::get(widened(&type));
    for (unsigned i = 0; i < type.getNumElements(); ++i) {
        llvm::Value* part =
            load_lanes(pointer, type.getElementType(), i * size, llvm::commonAlignment(align, std::uint64_t(size)), mask);
        out = builder_.CreateInsertValue(out, part, i);
    }
    return out;
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
    bool stream = divergence_.geometry().stream && can_stream(store);
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(store.getValueOperand()->getType());
    if (emit_exchanged_store(store, value, mask)) {
        return;
    }
    if (!type) {
        return store_lanes(pointer, value, 0, store.getAlign(), mask, stream);
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
    if (!interleaved && !mask) {
        std::vector<Piece> places = pieces(pointer, size * count, nullptr);
        if (!places.empty() && store_pieces(places, interleave(value), count, 0, align, nullptr, stream)) {
            return;
        }
    }
    store_components(pointer, value, *type, align, mask);
}

void Widener::store_components(const llvm::Value* pointer, llvm::Value* value, llvm::FixedVectorType& type, llvm::Align align,
                               Mask mask) {
    std::int64_t size = bytes_of(type.getElementType(), layout_) * (divergence_.interleaved_base(pointer) ? lanes : 1);
    for (unsigned i = 0; i < type.getNumElements(); ++i) {
        store_lanes(pointer, builder_.CreateExtractValue(value, i), i * size, llvm::commonAlignment(align, std::uint64_t(size)),
                    mask);
    }
}

} // namespace metalki::compiler::vectorize
