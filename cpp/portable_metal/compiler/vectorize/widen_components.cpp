// Components of the lanes: side by side in memory, in a vector of all lanes each in registers.
#include <algorithm>
#include <bit>

#include "llvm/Analysis/VectorUtils.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// Processors have cheap shuffles within that many bits.
constexpr unsigned chunk_bits = 128;

// A register of components, and which ones.
struct Register {
    struct Element {
        unsigned lane, component;
    };
    llvm::Value* value = nullptr;
    std::vector<Element> holds;
};

// Takes pairs of registers apart into one with the lower half of each lane's components and one with the upper half, until
// each component is alone: as many shuffles as registers in each round, where picking a component from all of the registers it
// lies in would take as many as there are of those.
class Separation {
public:
    Separation(llvm::IRBuilder<>& builder, llvm::Type* element, unsigned register_elements)
        : builder_(builder), size_(register_elements), chunk_(chunk_bits / element->getScalarSizeInBits()) {}

    // Fills in `out[component]`, a vector of all lanes.
    void run(std::vector<Register> registers, unsigned components, unsigned step, std::vector<llvm::Value*>& out) {
        if (components == 1) {
            out[registers.front().holds.front().component] = join(registers);
            return;
        }
        std::vector<Register> low, high;
        for (std::size_t i = 0; i < registers.size(); i += 2) {
            for (bool upper : {false, true}) {
                (upper ? high : low).push_back(half(registers[i], registers[i + 1], components, step, upper));
            }
        }
        run(std::move(low), components / 2, step * 2, out);
        run(std::move(high), components / 2, step * 2, out);
    }

private:
    Register half(const Register& a, const Register& b, unsigned components, unsigned step, bool upper) {
        std::vector<int> order = components == 2      ? in_order_of_lanes(a, b, upper)
                                 : 2 * step <= chunk_ ? unpack(step, upper)
                                                      : halves(upper);
        Register out;
        for (int from : order) {
            unsigned place = static_cast<unsigned>(from);
            out.holds.push_back(place < size_ ? a.holds[place] : b.holds[place - size_]);
        }
        out.value = builder_.CreateShuffleVector(a.value, b.value, order);
        return out;
    }

    // Half of each chunk of either register, in turns of `step` elements.
    std::vector<int> unpack(unsigned step, bool upper) const {
        std::vector<int> order;
        for (unsigned place = 0; place < size_; ++place) {
            unsigned inside = place % chunk_, from = inside / (2 * step) * step + inside % step + (upper ? chunk_ / 2 : 0);
            order.push_back(static_cast<int>(place - inside + from + (inside / step % 2 ? size_ : 0)));
        }
        return order;
    }

    std::vector<int> halves(bool upper) const {
        std::vector<int> order;
        for (unsigned place = 0; place < size_; ++place) {
            unsigned from = place % (size_ / 2) + (upper ? size_ / 2 : 0);
            order.push_back(static_cast<int>(from + (place < size_ / 2 ? 0 : size_)));
        }
        return order;
    }

    // Of the two components that are left.
    std::vector<int> in_order_of_lanes(const Register& a, const Register& b, bool upper) const {
        auto [lower, higher] = std::ranges::minmax(a.holds, {}, &Register::Element::component);
        unsigned component = upper ? higher.component : lower.component;
        unsigned first = std::ranges::min(a.holds, {}, &Register::Element::lane).lane;
        std::vector<int> order(size_);
        for (unsigned place = 0; place < 2 * size_; ++place) {
            const Register::Element& element = place < size_ ? a.holds[place] : b.holds[place - size_];
            if (element.component == component) {
                order[element.lane - first] = static_cast<int>(place);
            }
        }
        return order;
    }

    llvm::Value* join(const std::vector<Register>& registers) {
        std::vector<llvm::Value*> parts;
        for (const Register& part : registers) {
            parts.push_back(part.value);
        }
        return llvm::concatenateVectors(builder_, parts);
    }

    llvm::IRBuilder<>& builder_;
    unsigned size_, chunk_;
};

} // namespace

// Components side by side: x of lane 0, y of lane 0, x of lane 1, ...
llvm::Value* Widener::interleave(llvm::Value* components) {
    auto count = static_cast<unsigned>(components->getType()->getArrayNumElements());
    std::vector<llvm::Value*> parts;
    for (unsigned i = 0; i < count; ++i) {
        parts.push_back(builder_.CreateExtractValue(components, i));
    }
    llvm::Value* wide = llvm::concatenateVectors(builder_, parts);
    std::vector<int> order;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        for (unsigned i = 0; i < count; ++i) {
            order.push_back(static_cast<int>(i * lanes + lane));
        }
    }
    return builder_.CreateShuffleVector(wide, order);
}

llvm::Value* Widener::deinterleave(llvm::Value* wide, unsigned components) {
    auto* type = llvm::cast<llvm::FixedVectorType>(wide->getType());
    std::vector<llvm::Value*> parts = std::has_single_bit(components) && type->getScalarSizeInBits() >= 32
                                          ? separate(wide, components)
                                          : pick_components(wide, components);
    llvm::Value* out = llvm::PoisonValue::get(llvm::ArrayType::get(vector_of(type->getElementType()), components));
    for (unsigned i = 0; i < components; ++i) {
        out = builder_.CreateInsertValue(out, parts[i], i);
    }
    return out;
}

// A power of two of them, of whole words.
std::vector<llvm::Value*> Widener::separate(llvm::Value* wide, unsigned components) {
    llvm::Type* element = wide->getType()->getScalarType();
    unsigned size = vector_registers_.bytes * 8 / element->getScalarSizeInBits();
    // Of a lane with more components than a register holds, the first registers are taken apart together, then the second.
    unsigned together = std::min(components, size), rounds = components / together;
    // LLVM takes every second integer for a truncation, which costs more than the shuffle.
    llvm::Type* shuffled = element->isIntegerTy(32)   ? builder_.getFloatTy()
                           : element->isIntegerTy(64) ? builder_.getDoubleTy()
                                                      : element;
    wide = builder_.CreateBitCast(wide, llvm::FixedVectorType::get(shuffled, components * lanes));
    std::vector<llvm::Value*> out(components);
    for (unsigned round = 0; round < rounds; ++round) {
        std::vector<Register> registers;
        for (unsigned first = round * size; first < components * lanes; first += rounds * size) {
            Register next;
            std::vector<int> order;
            for (unsigned place = first; place < first + size; ++place) {
                order.push_back(static_cast<int>(place));
                next.holds.push_back({place / components, place % components});
            }
            next.value = builder_.CreateShuffleVector(wide, order);
            registers.push_back(std::move(next));
        }
        Separation(builder_, shuffled, size).run(std::move(registers), together, 1, out);
    }
    for (llvm::Value*& part : out) {
        part = builder_.CreateBitCast(part, vector_of(element));
    }
    return out;
}

std::vector<llvm::Value*> Widener::pick_components(llvm::Value* wide, unsigned components) {
    std::vector<llvm::Value*> parts;
    std::vector<llvm::Value*> pieces{wide};
    // Every other element, again and again: a shuffle of two registers each. What is left has an odd number of components.
    unsigned rest = components;
    for (; rest % 2 == 0; rest /= 2) {
        std::vector<llvm::Value*> halves;
        for (unsigned odd = 0; odd < 2; ++odd) {
            for (llvm::Value* piece : pieces) {
                halves.push_back(every(piece, 2, odd));
            }
        }
        pieces = std::move(halves);
    }
    for (unsigned i = 0; i < rest; ++i) {
        for (llvm::Value* piece : pieces) {
            parts.push_back(rest == 1 ? piece : every(piece, rest, i));
        }
    }
    return parts;
}

// Elements first, first + step, ... of a vector.
llvm::Value* Widener::every(llvm::Value* vector, unsigned step, unsigned first) {
    std::vector<int> order;
    for (unsigned i = first; i < llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements(); i += step) {
        order.push_back(static_cast<int>(i));
    }
    return builder_.CreateShuffleVector(vector, order);
}

} // namespace metalki::compiler::vectorize
