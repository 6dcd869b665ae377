// Numbers of 16 bits that lie a little apart: a register's bytes around some of them are read at once, and the numbers moved to
// their lanes. Processors gather words only.
#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <span>

#include "llvm/Analysis/VectorUtils.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr unsigned most_windows = 8; // more of them cost more than gathers
constexpr unsigned few = 2;          // cost less than chunks
constexpr std::int64_t number_bytes = 2, chunk_bytes = 16;
constexpr unsigned chunk_lanes = chunk_bytes / number_bytes;

struct Window {
    unsigned part = 0;
    std::int64_t start = 0, bytes = 0;
    std::vector<unsigned> of_lanes;
};

// The bytes between the first and the last number of a part, both included.
struct Extent {
    std::int64_t first = 0, behind = 0;
};

std::array<Extent, Partition::most> extents_of(const Shape& shape) {
    std::array<Extent, Partition::most> out;
    std::array<bool, Partition::most> known{};
    for (unsigned lane = 0; lane < lanes; ++lane) {
        Extent& own = out[shape.partition.part[lane]];
        bool& seen = known[shape.partition.part[lane]];
        std::int64_t first = shape.offsets[lane], behind = first + number_bytes;
        own = seen ? Extent{std::min(own.first, first), std::max(own.behind, behind)} : Extent{first, behind};
        seen = true;
    }
    return out;
}

// A window for each 8 lanes in a row that fill a chunk of the result, within which shuffles are cheap. None: some lie too far
// apart.
std::vector<Window> chunks_of(const Shape& shape) {
    const auto extents = extents_of(shape);
    std::vector<Window> out;
    for (unsigned first = 0; first < lanes; first += chunk_lanes) {
        unsigned part = shape.partition.part[first];
        auto own = std::span(shape.offsets).subspan(first, chunk_lanes);
        auto [lowest, highest] = std::ranges::minmax(own);
        bool same_part = std::all_of(&shape.partition.part[first], &shape.partition.part[first] + chunk_lanes,
                                     [&](unsigned other) { return other == part; });
        const Extent& whole = extents[part];
        if (!same_part || highest + number_bytes - lowest > chunk_bytes || whole.behind - whole.first < chunk_bytes) {
            return {};
        }
        Window next{part, std::min(lowest, whole.behind - chunk_bytes), chunk_bytes, {}};
        next.of_lanes.resize(chunk_lanes);
        std::iota(next.of_lanes.begin(), next.of_lanes.end(), first);
        out.push_back(std::move(next));
    }
    return out;
}

// Nothing is read in front of the first or behind the last number of a part. None: there would be too many windows.
std::vector<Window> windows_of(const Shape& shape, std::int64_t widest) {
    std::array<unsigned, lanes> order{};
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {},
                             [&](unsigned lane) { return std::pair(shape.partition.part[lane], shape.offsets[lane]); });
    std::vector<Window> out;
    for (unsigned i = 0; i < lanes;) {
        unsigned part = shape.partition.part[order[i]], end = i;
        while (end < lanes && shape.partition.part[order[end]] == part) {
            ++end;
        }
        std::int64_t first = shape.offsets[order[i]], behind = shape.offsets[order[end - 1]] + number_bytes;
        auto bytes = std::min<std::int64_t>(widest, std::bit_floor(static_cast<std::uint64_t>(behind - first)));
        for (; i < end;) {
            Window next{part, std::min(shape.offsets[order[i]], behind - bytes), bytes, {}};
            for (; i < end && shape.offsets[order[i]] + number_bytes <= next.start + bytes; ++i) {
                next.of_lanes.push_back(order[i]);
            }
            out.push_back(std::move(next));
        }
    }
    return out.size() <= most_windows ? out : std::vector<Window>();
}

int place_in(const Window& window, const Shape& shape, unsigned lane) {
    return static_cast<int>((shape.offsets[lane] - window.start) / number_bytes);
}

// Windows whose numbers lie at different places of a register, so that one move to the lanes does for all of them.
struct Overlay {
    std::vector<Window> windows;
    std::uint32_t taken = 0;

    // Reads the window from a little further in front where its numbers would lie on others.
    bool add(Window window, const Shape& shape, const Extent& whole) {
        std::uint32_t places = 0;
        for (unsigned lane : window.of_lanes) {
            places |= 1U << place_in(window, shape, lane);
        }
        for (; (places & taken) != 0; places <<= 1, window.start -= number_bytes) {
            if (places >> (window.bytes / number_bytes - 1) != 0 || window.start - number_bytes < whole.first) {
                return false;
            }
        }
        taken |= places;
        windows.push_back(std::move(window));
        return true;
    }
};

std::vector<Overlay> overlays_of(const std::vector<Window>& windows, const Shape& shape) {
    const auto extents = extents_of(shape);
    std::vector<Overlay> out;
    for (const Window& window : windows) {
        bool added = std::ranges::any_of(out, [&](Overlay& other) { return other.add(window, shape, extents[window.part]); });
        if (!added) {
            out.emplace_back().add(window, shape, extents[window.part]);
        }
    }
    return out;
}

// The numbers of one window laid into a register with those of others.
llvm::Value* lay_over(llvm::IRBuilder<>& builder, llvm::Value* below, llvm::Value* load, const Window& window,
                      const Shape& shape) {
    std::vector<int> whole(lanes, llvm::PoisonMaskElem), order(lanes);
    std::iota(whole.begin(), whole.begin() + window.bytes / number_bytes, 0);
    load = builder.CreateShuffleVector(load, whole);
    if (!below) {
        return load;
    }
    std::iota(order.begin(), order.end(), 0);
    for (unsigned lane : window.of_lanes) {
        int place = place_in(window, shape, lane);
        order[static_cast<unsigned>(place)] = static_cast<int>(lanes) + place;
    }
    return builder.CreateShuffleVector(below, load, order);
}

llvm::Value* pick_from_chunks(llvm::IRBuilder<>& builder, const Shape& shape, const std::vector<Window>& chunks,
                              const std::vector<llvm::Value*>& loads) {
    std::vector<int> order;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        unsigned start = lane / chunk_lanes * chunk_lanes;
        order.push_back(static_cast<int>(start) + place_in(chunks[lane / chunk_lanes], shape, lane));
    }
    return builder.CreateShuffleVector(llvm::concatenateVectors(builder, loads), order);
}

} // namespace

// Not a plain load: LLVM would take what other loads read from this one's register, by shifting it.
llvm::Value* Widener::load_window(llvm::Value* address, llvm::Type* element, unsigned count, llvm::Align align) {
    auto* type = llvm::FixedVectorType::get(element, count);
    llvm::Value* all = builder_.CreateVectorSplat(count, builder_.getTrue());
    llvm::CallInst* load = builder_.CreateIntrinsic(llvm::Intrinsic::vp_load, {type, address->getType()},
                                                    {address, all, builder_.getInt32(count)});
    load->addParamAttr(0, llvm::Attribute::getWithAlignment(context_, align));
    return load;
}

// Null: not numbers of 16 bits, or no processor that moves them freely in wide registers, or lanes all over the place.
llvm::Value* Widener::load_windows(const llvm::Value* pointer, llvm::Type* element, std::int64_t start, llvm::Align align) {
    Shape shape = divergence_.shape_of(pointer);
    bool even = std::ranges::all_of(shape.offsets, [](std::int64_t offset) { return offset % number_bytes == 0; });
    bool known = shape.kind == Shape::Kind::affine || shape.is_parts();
    if (!known || !even || !vector_registers_.masks || layout_.getTypeSizeInBits(element) != 8 * number_bytes) {
        return nullptr;
    }
    std::vector<llvm::Value*> starts = parts(pointer, shape.partition);
    align = std::min(align, llvm::Align(number_bytes));
    auto load = [&](const Window& window) {
        std::int64_t from_start = window.start - shape.offsets[shape.partition.first_lane(window.part)] + start;
        return load_window(offset_address(starts[window.part], from_start), element,
                           static_cast<unsigned>(window.bytes / number_bytes), align);
    };
    std::vector<Window> windows = windows_of(shape, vector_registers_.bytes);
    std::vector<Window> chunks = windows.empty() || windows.size() > few ? chunks_of(shape) : std::vector<Window>();
    if (!chunks.empty()) {
        std::vector<llvm::Value*> loads;
        std::ranges::transform(chunks, std::back_inserter(loads), load);
        return pick_from_chunks(builder_, shape, chunks, loads);
    }
    llvm::Value* out = nullptr;
    for (const Overlay& overlay : overlays_of(windows, shape)) {
        llvm::Value* numbers = nullptr;
        std::vector<int> order(lanes, llvm::PoisonMaskElem), both(lanes);
        std::iota(both.begin(), both.end(), 0);
        for (const Window& window : overlay.windows) {
            numbers = lay_over(builder_, numbers, load(window), window, shape);
            for (unsigned lane : window.of_lanes) {
                order[lane] = place_in(window, shape, lane);
                both[lane] = static_cast<int>(lanes + lane);
            }
        }
        llvm::Value* found = builder_.CreateShuffleVector(numbers, order);
        out = out ? builder_.CreateShuffleVector(out, found, both) : found;
    }
    return out;
}

} // namespace metalki::compiler::vectorize
