// Lanes whose places lie close together, in any order: what is between the first and the last of a part is read as a whole.
#include <algorithm>
#include <bit>
#include <limits>

#include "llvm/Analysis/VectorUtils.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// More than that is not worth it: in elements, twice as many as wanted; in bytes, four of the widest registers.
constexpr std::int64_t most_elements = 2 * lanes;
constexpr std::int64_t most_bytes = 256;
constexpr unsigned block = 16;

} // namespace

// `count` elements of every lane, from `start` bytes on; none: the lanes are too far apart.
std::optional<Widener::Rows> Widener::read_rows(const llvm::Value* pointer, llvm::Type* element, std::int64_t start,
                                                unsigned count, llvm::Align align) {
    Shape shape = divergence_.shape_of(pointer);
    auto size = static_cast<std::int64_t>(layout_.getTypeStoreSize(element).getFixedValue());
    bool aligned = std::ranges::all_of(shape.offsets, [&](std::int64_t offset) { return offset % size == 0; });
    if (!aligned || !(shape.is_parts() || shape.kind == Shape::Kind::affine)) {
        return std::nullopt;
    }
    Rows rows;
    std::vector<std::int64_t> lowest(shape.partition.count, std::numeric_limits<std::int64_t>::max());
    for (unsigned lane = 0; lane < lanes; ++lane) {
        std::int64_t& first = lowest[shape.partition.part[lane]];
        first = std::min(first, shape.offsets[lane]);
    }
    std::int64_t last = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        std::int64_t on = (shape.offsets[lane] - lowest[shape.partition.part[lane]]) / size;
        rows.places[lane] = static_cast<unsigned>(std::min<std::int64_t>(on, most_bytes));
        last = std::max(last, on);
    }
    std::int64_t length = last + count;
    if (length > most_bytes) {
        return std::nullopt;
    }
    auto stored = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
    std::int64_t total = stored * shape.partition.count;
    if (total > most_elements * count && total * size > most_bytes) {
        return std::nullopt;
    }
    // Two loads, one up to the end, where the number of elements is no power of two.
    rows.length = static_cast<unsigned>(length);
    rows.width = std::bit_floor(rows.length);
    rows.stored = static_cast<unsigned>(stored);
    rows.partition = shape.partition;
    std::vector<llvm::Value*> starts = parts(pointer, shape.partition), loads;
    auto* type = llvm::FixedVectorType::get(element, rows.width);
    for (unsigned i = 0; i < shape.partition.count; ++i) {
        std::int64_t from_start = lowest[i] - shape.offsets[shape.partition.first_lane(i)] + start;
        loads.push_back(builder_.CreateAlignedLoad(type, offset_address(starts[i], from_start), align));
        if (rows.width != rows.length) {
            std::int64_t on = (length - rows.width) * size; // from the first lane's place, which is as aligned as any lane's
            llvm::Align common = llvm::commonAlignment(align, static_cast<std::uint64_t>(on));
            loads.push_back(builder_.CreateAlignedLoad(type, offset_address(starts[i], from_start + on), common));
        }
    }
    cut_into_blocks(rows, loads);
    return rows;
}

// Blocks of 16 elements.
void Widener::cut_into_blocks(Rows& rows, const std::vector<llvm::Value*>& loads) {
    std::size_t together = std::max(1u, block / rows.width);
    for (std::size_t i = 0; i < loads.size(); i += together) {
        std::vector<llvm::Value*> pieces;
        for (std::size_t k = i; k < i + together; ++k) {
            pieces.push_back(k < loads.size() ? loads[k] : llvm::PoisonValue::get(loads[i]->getType()));
        }
        llvm::Value* whole = llvm::concatenateVectors(builder_, pieces);
        for (unsigned first = 0; first < rows.width; first += block) {
            rows.blocks.push_back(rows.width <= block ? whole : part_of(whole, {nullptr, first, block, false}));
        }
    }
}

// Element `index` of every lane.
llvm::Value* Widener::pick_from_rows(const Rows& rows, unsigned index) {
    std::vector<llvm::Value*> halves;
    for (unsigned first = 0; first < lanes; first += block) {
        std::vector<unsigned> places;
        for (unsigned lane = first; lane < first + block; ++lane) {
            unsigned at = rows.places[lane] + index;
            at = at < rows.width ? at : at + 2 * rows.width - rows.length;
            places.push_back(rows.partition.part[lane] * rows.stored + at);
        }
        halves.push_back(pick(rows.blocks, places));
    }
    return llvm::concatenateVectors(builder_, halves);
}

// What lies at `places` of a row of blocks.
llvm::Value* Widener::pick(const std::vector<llvm::Value*>& blocks, const std::vector<unsigned>& places) {
    llvm::Value* out = nullptr;
    for (unsigned pair = 0; 2 * pair < blocks.size(); ++pair) {
        std::vector<int> order, blend;
        for (unsigned i = 0; i < places.size(); ++i) {
            bool here = places[i] / (2 * block) == pair;
            order.push_back(here ? static_cast<int>(places[i] % (2 * block)) : -1);
            blend.push_back(static_cast<int>(here ? places.size() + i : i));
        }
        if (std::ranges::all_of(order, [](int from) { return from < 0; })) {
            continue;
        }
        llvm::Value* first = blocks[2 * pair];
        llvm::Value* second = 2 * pair + 1 < blocks.size() ? blocks[2 * pair + 1] : llvm::PoisonValue::get(first->getType());
        llvm::Value* found = builder_.CreateShuffleVector(first, second, order);
        out = out ? builder_.CreateShuffleVector(out, found, blend) : found;
    }
    return out;
}

} // namespace metalki::compiler::vectorize
