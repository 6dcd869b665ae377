// Numbers of 16 bits that lie a little apart: a register's bytes around some of them are read at once, and the numbers moved to
// their lanes. Processors gather words only.
#include <algorithm>
#include <bit>
#include <numeric>

#include "llvm/Analysis/VectorUtils.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr unsigned most_windows = 8; // more of them cost more than gathers
constexpr std::int64_t number_bytes = 2;

struct Window {
    unsigned part = 0;
    std::int64_t start = 0, bytes = 0;
    std::vector<unsigned> of_lanes;
};

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
    llvm::Value* out = nullptr;
    for (const Window& window : windows_of(shape, vector_registers_.bytes)) {
        auto count = static_cast<unsigned>(window.bytes / number_bytes);
        std::int64_t from_start = window.start - shape.offsets[shape.partition.first_lane(window.part)] + start;
        llvm::Value* found = load_window(offset_address(starts[window.part], from_start), element, count, align);
        std::vector<int> order(lanes, llvm::PoisonMaskElem), both(lanes);
        std::iota(both.begin(), both.end(), 0);
        for (unsigned lane : window.of_lanes) {
            order[lane] = static_cast<int>((shape.offsets[lane] - window.start) / number_bytes);
            both[lane] = static_cast<int>(lanes + lane);
        }
        found = builder_.CreateShuffleVector(found, order);
        out = out ? builder_.CreateShuffleVector(out, found, both) : found;
    }
    return out;
}

} // namespace metalki::compiler::vectorize
