// Arithmetic on shapes.
#include "vectorize/shape.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

namespace metalki::compiler::vectorize {
namespace {

using llvm::Instruction;

unsigned trailing_zeros(std::uint64_t value) {
    return static_cast<unsigned>(std::min(std::countr_zero(value), 63));
}

bool all_zero(const LaneOffsets& offsets) {
    return std::ranges::all_of(offsets, [](std::int64_t c) { return c == 0; });
}

Shape simplified(Shape shape) {
    if (shape.kind == Shape::Kind::affine && all_zero(shape.offsets)) {
        return Shape::uniform(shape.zeros);
    }
    return shape;
}

template <class Function> Shape map_offsets(const Shape& shape, unsigned zeros, Function function) {
    Shape out = shape.is_parts() ? Shape::parts(shape.partition, zeros) : Shape::affine({}, zeros);
    for (unsigned lane = 0; lane < lanes; ++lane) {
        out.offsets[lane] = function(shape.offsets[lane]);
    }
    return simplified(out);
}

const llvm::APInt* constant_operand(const Instruction& instruction, unsigned index) {
    const llvm::APInt* number = nullptr;
    bool found = llvm::PatternMatch::match(instruction.getOperand(index), llvm::PatternMatch::m_APInt(number));
    return found && number->getBitWidth() <= 64 ? number : nullptr;
}

// Lanes for which the keys are the same make a set; count 0: there are too many.
template <class Key> Partition partition_by(Key key_of) {
    Partition out{0, {}};
    std::array<decltype(key_of(0)), Partition::most> known{};
    for (unsigned lane = 0; lane < lanes; ++lane) {
        auto key = key_of(lane);
        auto found = std::find(known.begin(), known.begin() + out.count, key);
        if (found == known.end()) {
            return Partition{0, {}};
        }
        out.part[lane] = static_cast<std::uint8_t>(found - known.begin());
        if (out.part[lane] == out.count) {
            known[out.count++] = key;
        }
    }
    return out;
}

Partition common_partition(const Partition& a, const Partition& b) {
    return partition_by([&](unsigned lane) { return std::pair(a.part[lane], b.part[lane]); });
}

// Lanes that have the same value whatever the scalar parts are.
Partition equal_lanes(const Shape& shape) {
    return partition_by([&](unsigned lane) { return std::pair(shape.partition.part[lane], shape.offsets[lane]); });
}

Shape sum(const Shape& left, const Shape& right, int sign) {
    Partition partition = common_partition(left.partition, right.partition);
    if (partition.count == 0) {
        return Shape::varying();
    }
    bool in_parts = left.is_parts() || right.is_parts();
    Shape a = in_parts ? left.in_parts(partition) : left, b = in_parts ? right.in_parts(partition) : right;
    unsigned zeros = std::min(a.zeros, b.zeros);
    Shape out = in_parts ? Shape::parts(partition, zeros) : Shape::affine({}, zeros);
    for (unsigned lane = 0; lane < lanes; ++lane) {
        out.offsets[lane] = a.offsets[lane] + sign * b.offsets[lane];
    }
    return simplified(out);
}

Shape shape_of_sum(const Instruction& instruction, const Shape& a, const Shape& b) {
    Shape out = sum(a, b, instruction.getOpcode() == Instruction::Sub ? -1 : 1);
    const auto* wraps = llvm::dyn_cast<llvm::OverflowingBinaryOperator>(&instruction);
    bool both_fit = (a.no_wrap || a.is_uniform()) && (b.no_wrap || b.is_uniform());
    bool fits = wraps ? instruction.getOpcode() == Instruction::Add && wraps->hasNoUnsignedWrap() : true;
    out.no_wrap = fits && both_fit;
    return out;
}

Shape shape_of_product(const Shape& a, std::int64_t factor, bool fits) {
    Shape out = map_offsets(a, a.zeros + trailing_zeros(static_cast<std::uint64_t>(factor)),
                            [&](std::int64_t c) { return c * factor; });
    out.zeros = std::min<std::uint8_t>(out.zeros, 63);
    out.no_wrap = a.no_wrap && fits && factor > 0;
    return out;
}

Shape shape_of_shift_right(const Shape& a, unsigned amount) {
    if (!a.is_disjoint()) {
        return Shape::varying();
    }
    Shape out = map_offsets(a, a.zeros > amount ? a.zeros - amount : 0, [&](std::int64_t c) { return c >> amount; });
    out.no_wrap = true;
    return out;
}

Shape shape_of_bitwise(const Instruction& instruction, const Shape& a, const llvm::APInt& constant) {
    if (!a.is_disjoint()) {
        return Shape::varying();
    }
    std::int64_t low = a.zeros >= 63 ? -1 : (std::int64_t{1} << a.zeros) - 1;
    std::int64_t m = static_cast<std::int64_t>(constant.getZExtValue()) & low;
    auto apply = [&](std::int64_t c) {
        switch (instruction.getOpcode()) {
        case Instruction::And:
            return c & m;
        case Instruction::Or:
            return c | m;
        default:
            return c ^ m;
        }
    };
    unsigned zeros = instruction.getOpcode() == Instruction::And ? a.zeros : std::min<unsigned>(a.zeros, trailing_zeros(m));
    Shape out = map_offsets(a, zeros, [&](std::int64_t c) { return apply(c) - apply(0); });
    out.no_wrap = true;
    return out;
}

bool leads_to_addresses(const llvm::Value& value, std::set<const llvm::Value*>& seen) {
    for (const llvm::Use& use : value.uses()) {
        const llvm::User* user = use.getUser();
        const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(user);
        bool loads = llvm::isa<llvm::LoadInst>(user) || (call && call->getIntrinsicID() == llvm::Intrinsic::prefetch);
        bool stores = llvm::isa<llvm::StoreInst>(user) && use.getOperandNo() == llvm::StoreInst::getPointerOperandIndex();
        if (loads || stores) {
            continue;
        }
        const auto* operation = llvm::dyn_cast<Instruction>(user);
        bool linear = operation && (operation->getOpcode() == Instruction::Add || operation->getOpcode() == Instruction::Sub ||
                                    operation->getOpcode() == Instruction::Mul || operation->getOpcode() == Instruction::Shl ||
                                    llvm::isa<llvm::GetElementPtrInst, llvm::PHINode>(operation));
        if (!linear || (seen.insert(user).second && !leads_to_addresses(*user, seen))) {
            return false;
        }
    }
    return true;
}

Shape shape_of_binary(const llvm::BinaryOperator& operation, const Shape& a, const Shape& b) {
    if (is_truncating_mask(operation, a)) {
        return a;
    }
    const auto* wraps = llvm::dyn_cast<llvm::OverflowingBinaryOperator>(&operation);
    bool fits = wraps && wraps->hasNoUnsignedWrap();
    const llvm::APInt* left = constant_operand(operation, 0);
    const llvm::APInt* right = constant_operand(operation, 1);
    switch (operation.getOpcode()) {
    case Instruction::Add:
    case Instruction::Sub:
        return shape_of_sum(operation, a, b);
    case Instruction::Mul:
        if (right) {
            return shape_of_product(a, right->getSExtValue(), fits);
        }
        return left ? shape_of_product(b, left->getSExtValue(), fits) : Shape::varying();
    case Instruction::Shl:
        return right && right->ult(63) ? shape_of_product(a, std::int64_t{1} << right->getZExtValue(), fits) : Shape::varying();
    case Instruction::LShr:
    case Instruction::AShr:
        return right && right->ult(63) ? shape_of_shift_right(a, static_cast<unsigned>(right->getZExtValue()))
                                       : Shape::varying();
    case Instruction::Or:
        if (llvm::cast<llvm::PossiblyDisjointInst>(operation).isDisjoint() && !right) {
            return shape_of_sum(operation, a, b);
        }
        [[fallthrough]];
    case Instruction::And:
    case Instruction::Xor:
        return right ? shape_of_bitwise(operation, a, *right) : Shape::varying();
    default:
        return Shape::varying();
    }
}

Shape shape_of_address(const llvm::GetElementPtrInst& address, const ShapeLookup& shape_of, const llvm::DataLayout& layout) {
    Shape out = shape_of(address.getPointerOperand());
    if (!out.is_compact()) {
        return Shape::varying();
    }
    out.zeros = 0;
    for (auto step = llvm::gep_type_begin(address), end = llvm::gep_type_end(address); step != end; ++step) {
        Shape index = shape_of(step.getOperand());
        if (!index.is_compact()) {
            return Shape::varying();
        }
        if (index.is_uniform()) {
            continue;
        }
        auto stride = static_cast<std::int64_t>(step.getSequentialElementStride(layout).getFixedValue());
        out = sum(out, shape_of_product(index, stride, false), 1);
    }
    out.zeros = 0;
    out.no_wrap = false;
    return out;
}

Shape shape_of_choice(const llvm::SelectInst& choice, const ShapeLookup& shape_of) {
    if (choice.getTrueValue() == choice.getFalseValue()) {
        return shape_of(choice.getTrueValue());
    }
    if (!shape_of(choice.getCondition()).is_uniform()) {
        return Shape::varying();
    }
    return join(shape_of(choice.getTrueValue()), shape_of(choice.getFalseValue()));
}

LaneOffsets lane_offsets(auto function) {
    LaneOffsets out{};
    for (unsigned lane = 0; lane < lanes; ++lane) {
        out[lane] = function(static_cast<std::int64_t>(lane));
    }
    return out;
}

Shape shape_of_local_position(unsigned axis, const Geometry& geometry) {
    switch (geometry.layout) {
    case LaneLayout::flat:
    case LaneLayout::rows:
        return axis == 0 ? Shape::linear(1, 5, true) : Shape::uniform();
    case LaneLayout::columns: {
        auto width = static_cast<std::int64_t>(geometry.width);
        unsigned rows = lanes / geometry.width;
        if (axis == 0) {
            return Shape::affine(lane_offsets([&](std::int64_t lane) { return lane % width; }), 63, true);
        }
        return axis == 1
                   ? Shape::affine(lane_offsets([&](std::int64_t lane) { return lane / width; }), trailing_zeros(rows), true)
                   : Shape::uniform();
    }
    case LaneLayout::table:
        return Shape::varying();
    }
    return Shape::varying();
}

} // namespace

bool is_truncating_mask(const Instruction& operation, const Shape& shape) {
    const llvm::APInt* mask = operation.getOpcode() == Instruction::And ? constant_operand(operation, 1) : nullptr;
    if (!mask || mask->getBitWidth() != 64 || !shape.is_compact()) {
        return false;
    }
    std::uint64_t low = 0xffffffff & ~mask->getZExtValue();
    bool contiguous = (mask->getZExtValue() | low) == 0xffffffff && (low & (low + 1)) == 0;
    bool clear = (shape.zeros >= 32 || (low >> shape.zeros) == 0) &&
                 std::ranges::all_of(shape.offsets, [&](std::int64_t c) { return (static_cast<std::uint64_t>(c) & low) == 0; });
    auto [lowest, highest] = std::ranges::minmax(shape.offsets);
    return contiguous && clear && highest - lowest < std::int64_t{1} << 31 && only_addresses(operation);
}

bool only_addresses(const llvm::Value& value) {
    std::set<const llvm::Value*> seen;
    return leads_to_addresses(value, seen);
}

Shape Shape::uniform(unsigned zeros) {
    Shape out;
    out.kind = Kind::uniform;
    out.zeros = static_cast<std::uint8_t>(zeros);
    return out;
}

Shape Shape::affine(const LaneOffsets& offsets, unsigned zeros, bool no_wrap) {
    Shape out;
    out.kind = Kind::affine;
    out.offsets = offsets;
    out.zeros = static_cast<std::uint8_t>(zeros);
    out.no_wrap = no_wrap;
    return out;
}

Shape Shape::parts(const Partition& partition, unsigned zeros) {
    Shape out;
    out.kind = Kind::parts;
    out.partition = partition;
    out.zeros = static_cast<std::uint8_t>(zeros);
    return out;
}

unsigned Partition::first_lane(unsigned index) const {
    return static_cast<unsigned>(std::ranges::find(part, index) - part.begin());
}

Shape Shape::in_parts(const Partition& finer) const {
    Shape out = *this;
    out.kind = Kind::parts;
    out.partition = finer;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        std::int64_t start = offsets[finer.first_lane(finer.part[lane])];
        out.offsets[lane] = offsets[lane] - start;
        out.zeros = std::min<std::uint8_t>(out.zeros, static_cast<std::uint8_t>(trailing_zeros(std::uint64_t(start))));
    }
    return out;
}

bool Shape::is_disjoint() const {
    return std::ranges::all_of(offsets, [&](std::int64_t c) { return c >= 0 && (zeros >= 63 || c >> zeros == 0); });
}

Shape join(const Shape& a, const Shape& b) {
    if (!a.is_compact() || !b.is_compact()) {
        return Shape::varying();
    }
    bool in_parts = a.is_parts() || b.is_parts();
    if (!in_parts && a.offsets == b.offsets) {
        Shape out = Shape::affine(a.offsets, std::min(a.zeros, b.zeros), a.no_wrap && b.no_wrap);
        return simplified(out);
    }
    Partition own = in_parts ? a.partition : equal_lanes(a), others = in_parts ? b.partition : equal_lanes(b);
    bool few = own.count > 0 && others.count > 0;
    Partition partition = few ? common_partition(own, others) : Partition{0, {}};
    if (partition.count == 0) {
        return Shape::varying();
    }
    Shape out = a.in_parts(partition), other = b.in_parts(partition);
    if (out.offsets != other.offsets) {
        return Shape::varying();
    }
    out.zeros = std::min(out.zeros, other.zeros);
    out.no_wrap = a.no_wrap && b.no_wrap;
    return out;
}

Shape constant_in_parts(const std::vector<Shape>& operands, unsigned zeros) {
    Partition partition;
    for (const Shape& shape : operands) {
        Partition own = shape.is_compact() ? equal_lanes(shape) : Partition{0, {}};
        partition = own.count == 0 ? own : common_partition(partition, own);
        if (partition.count == 0) {
            return Shape::varying();
        }
    }
    return partition.count == 1 ? Shape::uniform(zeros) : Shape::parts(partition, zeros);
}

Shape Shape::varying() {
    Shape out;
    out.kind = Kind::varying;
    return out;
}

Shape Shape::linear(std::int64_t step, unsigned zeros, bool no_wrap) {
    return affine(lane_offsets([&](std::int64_t lane) { return lane * step; }), zeros, no_wrap);
}

Shape shape_of_input(ThreadInput group, unsigned axis, const Geometry& geometry) {
    switch (group) {
    case ThreadInput::position_in_grid: {
        Shape local = shape_of_local_position(axis, geometry);
        // That of rows above begins where the threadgroup does. All lanes have one y and one z, and these may be any.
        local.zeros = geometry.layout == LaneLayout::flat && geometry.aligned && axis == 0 ? 5 : 0;
        return local;
    }
    case ThreadInput::position_in_threadgroup:
        return shape_of_local_position(axis, geometry);
    case ThreadInput::index_in_threadgroup:
        return Shape::linear(1, 5, true);
    case ThreadInput::index_in_simdgroup:
        return Shape::linear(1, 63, true);
    default:
        return Shape::uniform();
    }
}

namespace {

// Lanes are not further apart than half the range of the type, so that their order survives an extension.
bool fits_half(const Shape& shape, unsigned bits) {
    if (bits >= 64) {
        return true;
    }
    auto [lowest, highest] = std::ranges::minmax(shape.offsets);
    return highest - lowest < std::int64_t{1} << (bits - 1);
}

// The wide value of a lane is the wide scalar part and the lane's offset.
bool survives_extension(const llvm::CastInst& extension, const Shape& operand) {
    if (all_zero(operand.offsets) || (llvm::isa<llvm::ZExtInst>(extension) && operand.no_wrap)) {
        return true;
    }
    unsigned bits = extension.getSrcTy()->getIntegerBitWidth();
    // Offsets that fill low bits carry into no sign.
    if (operand.is_disjoint() && std::ranges::max(operand.offsets) >> (bits - 1) == 0) {
        return true;
    }
    return bits >= 32 && fits_half(operand, bits) && only_addresses(extension);
}

unsigned known_zeros(const Instruction& instruction, const llvm::DataLayout& layout) {
    return instruction.getType()->isIntegerTy()
               ? std::min(llvm::computeKnownBits(&instruction, layout).countMinTrailingZeros(), 63u)
               : 0;
}

// Can be computed once for all lanes that have the same operands, whether one of them is on or not.
bool works_in_parts(const Instruction& instruction) {
    switch (instruction.getOpcode()) {
    case Instruction::Mul:
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr:
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
        return true;
    case Instruction::UDiv:
    case Instruction::URem:
        return llvm::isa<llvm::ConstantInt>(instruction.getOperand(1));
    default:
        return false;
    }
}

Shape linear_shape(const Instruction& instruction, const ShapeLookup& shape_of, const llvm::DataLayout& layout);

// Lanes that differ only in low bits which the other side does not have are all below it, or none is.
bool compares_high_bits(const llvm::ICmpInst& comparison, const ShapeLookup& shape_of) {
    Shape left = shape_of(comparison.getOperand(0)), right = shape_of(comparison.getOperand(1));
    llvm::CmpInst::Predicate predicate = comparison.getPredicate();
    if (left.is_uniform()) {
        std::swap(left, right);
        predicate = comparison.getSwappedPredicate();
    }
    bool below = llvm::ICmpInst::isLT(predicate) || llvm::ICmpInst::isGE(predicate);
    std::int64_t highest = std::ranges::max(left.offsets);
    return below && left.kind == Shape::Kind::affine && right.is_uniform() && left.is_disjoint() &&
           (right.zeros >= 63 || highest >> right.zeros == 0);
}

Shape unreduced_shape(const Instruction& instruction, const ShapeLookup& shape_of, const llvm::DataLayout& layout) {
    Shape out = linear_shape(instruction, shape_of, layout);
    if (!out.is_varying() || !works_in_parts(instruction) || !instruction.getType()->isIntegerTy()) {
        return out;
    }
    std::vector<Shape> operands;
    for (const llvm::Use& operand : instruction.operands()) {
        operands.push_back(shape_of(operand.get()));
    }
    return constant_in_parts(operands, known_zeros(instruction, layout));
}

Shape linear_shape(const Instruction& instruction, const ShapeLookup& shape_of, const llvm::DataLayout& layout) {
    bool unknown = false, uniform = true, compact = true;
    for (const llvm::Use& operand : instruction.operands()) {
        Shape shape = shape_of(operand.get());
        unknown |= shape.kind == Shape::Kind::unknown;
        uniform &= shape.is_uniform();
        compact &= shape.is_compact();
    }
    if (unknown) {
        return Shape();
    }
    if (uniform) {
        return Shape::uniform(known_zeros(instruction, layout));
    }
    if (instruction.getType()->isVectorTy() ||
        !(instruction.getType()->isIntegerTy() || instruction.getType()->isPointerTy())) {
        return Shape::varying();
    }
    if (const auto* choice = llvm::dyn_cast<llvm::SelectInst>(&instruction)) {
        return shape_of_choice(*choice, shape_of);
    }
    if (!compact) {
        return Shape::varying();
    }
    if (const auto* comparison = llvm::dyn_cast<llvm::ICmpInst>(&instruction)) {
        return compares_high_bits(*comparison, shape_of) ? Shape::uniform() : Shape::varying();
    }
    if (const auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(&instruction)) {
        return shape_of_binary(*operation, shape_of(operation->getOperand(0)), shape_of(operation->getOperand(1)));
    }
    if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction)) {
        return shape_of_address(*address, shape_of, layout);
    }
    Shape operand = shape_of(instruction.getOperand(0));
    if (llvm::isa<llvm::ZExtInst, llvm::SExtInst>(instruction) &&
        !survives_extension(llvm::cast<llvm::CastInst>(instruction), operand)) {
        return Shape::varying();
    }
    switch (instruction.getOpcode()) {
    case Instruction::ZExt:
    case Instruction::SExt:
    case Instruction::IntToPtr:
    case Instruction::PtrToInt:
    case Instruction::Freeze:
        return operand;
    case Instruction::Trunc:
        operand.no_wrap = operand.is_disjoint();
        return operand;
    default:
        return Shape::varying();
    }
}

} // namespace

Shape shape_of_operation(const Instruction& instruction, const ShapeLookup& shape_of, const llvm::DataLayout& layout) {
    Shape out = unreduced_shape(instruction, shape_of, layout);
    if ((out.kind == Shape::Kind::affine || out.is_parts()) && instruction.getType()->isIntegerTy() &&
        instruction.getType()->getIntegerBitWidth() < 64) {
        for (std::int64_t& offset : out.offsets) {
            std::int64_t whole = offset;
            offset = llvm::SignExtend64(static_cast<std::uint64_t>(offset), instruction.getType()->getIntegerBitWidth());
            out.no_wrap &= offset == whole;
        }
        out = simplified(out);
    }
    return out;
}

} // namespace metalki::compiler::vectorize
