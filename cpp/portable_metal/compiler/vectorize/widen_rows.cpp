// Lanes whose places lie close together, in any order: what is between the first and the last of a part is read as a whole.
#include <algorithm>
#include <bit>
#include <numeric>

#include "llvm/Analysis/VectorUtils.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// More than that is not worth it: in elements, twice as many as wanted; in bytes, four of the widest registers.
constexpr std::int64_t most_elements = 2 * lanes;
constexpr std::int64_t most_bytes = 256;
constexpr unsigned block = 16;
constexpr std::array<std::int64_t, 2> gaps{64, 16}; // bytes between lanes of a row, whichever makes few enough elements

// Lanes with the same scalar part lie in one row as long as the next is no farther away than that. None: there are too many
// rows.
std::optional<Partition> near_lanes(const Shape& shape, std::int64_t farthest) {
    std::array<unsigned, lanes> order{};
    std::iota(order.begin(), order.end(), 0u);
    auto place = [&](unsigned lane) { return std::pair(shape.partition.part[lane], shape.offsets[lane]); };
    std::ranges::stable_sort(order, {}, place);
    std::array<unsigned, lanes> row{};
    unsigned count = 0;
    for (unsigned i = 0; i < lanes; ++i) {
        bool apart = i > 0 && (place(order[i]).first != place(order[i - 1]).first ||
                               place(order[i]).second - place(order[i - 1]).second > farthest);
        row[order[i]] = count += apart ? 1 : 0;
    }
    if (++count > Partition::most) {
        return std::nullopt;
    }
    std::array<int, lanes> number{};
    number.fill(-1);
    Partition out{.count = 0};
    for (unsigned lane = 0; lane < lanes; ++lane) {
        int& own = number[row[lane]];
        own = own < 0 ? static_cast<int>(out.count++) : own;
        out.part[lane] = static_cast<std::uint8_t>(own);
    }
    return out;
}

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
    std::optional<Rows> rows;
    for (std::int64_t gap : gaps) {
        std::optional<Partition> partition = rows ? std::nullopt : near_lanes(shape, count * size + gap);
        rows = partition ? lay_out(shape, *partition, size, count) : std::move(rows);
    }
    if (!rows) {
        return std::nullopt;
    }
    std::vector<llvm::Value*> starts = parts(pointer, shape.partition), loads;
    auto* type = llvm::FixedVectorType::get(element, rows->width);
    for (unsigned i = 0; i < rows->partition.count; ++i) {
        unsigned first = rows->first_lanes[i], own = shape.partition.part[first];
        std::int64_t from_start = shape.offsets[first] - shape.offsets[shape.partition.first_lane(own)] + start;
        loads.push_back(builder_.CreateAlignedLoad(type, offset_address(starts[own], from_start), align));
        if (rows->width != rows->length) {
            // From the first lane's place, which is as aligned as any lane's.
            std::int64_t on = static_cast<std::int64_t>(rows->length - rows->width) * size;
            llvm::Align common = llvm::commonAlignment(align, static_cast<std::uint64_t>(on));
            loads.push_back(builder_.CreateAlignedLoad(type, offset_address(starts[own], from_start + on), common));
        }
    }
    cut_into_blocks(*rows, loads);
    return rows;
}

// Rows of the same length; none: there is too much between the lanes, or some rows are shorter, and behind them may be nothing.
std::optional<Widener::Rows> Widener::lay_out(const Shape& shape, const Partition& partition, std::int64_t size,
                                              unsigned count) {
    Rows rows;
    rows.partition = partition;
    std::array<std::int64_t, Partition::most> last{};
    for (unsigned i = 0; i < partition.count; ++i) {
        rows.first_lanes[i] = partition.first_lane(i);
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
        unsigned& first = rows.first_lanes[partition.part[lane]];
        first = shape.offsets[lane] < shape.offsets[first] ? lane : first;
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
        std::int64_t on = (shape.offsets[lane] - shape.offsets[rows.first_lanes[partition.part[lane]]]) / size;
        rows.places[lane] = static_cast<unsigned>(std::min<std::int64_t>(on, most_bytes));
        last[partition.part[lane]] = std::max(last[partition.part[lane]], on);
    }
    std::int64_t length = last[0] + count;
    bool even = std::all_of(last.begin(), last.begin() + partition.count, [&](std::int64_t on) { return on == last[0]; });
    if (!even || length > most_bytes) {
        return std::nullopt;
    }
    auto stored = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
    std::int64_t total = stored * partition.count;
    if (total > most_elements * count && total * size > most_bytes) {
        return std::nullopt;
    }
    // Two loads, one up to the end, where the number of elements is no power of two.
    rows.length = static_cast<unsigned>(length);
    rows.width = std::bit_floor(rows.length);
    rows.stored = static_cast<unsigned>(stored);
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
