// See the header.
#include "ptx/paired_numbers.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/Local.h"

namespace metalki::compiler::ptx {
namespace {

using namespace llvm::PatternMatch;

constexpr unsigned word_bits = 32, half_bits = 16, byte_bits = 8;
constexpr unsigned exact_bits = 11;   // patterns of halves below 2^11 are multiples of the smallest one,
constexpr int smallest_half = -24;    // which is 2 to this
constexpr int largest_exponent = 100; // of a power of two that waits

// Bits of a word that become a float: as a half, those of `mask` in one half of the word shifted right by `shift`. The float is
// 2^exponent times that half.
struct Field {
    llvm::CastInst* conversion;
    bool is_upper;
    unsigned shift;
    std::uint32_t mask;
    int exponent;
};
using Words = llvm::MapVector<llvm::Value*, std::vector<Field>>;

std::optional<std::pair<llvm::Value*, Field>> field_of(llvm::Instruction& instruction) {
    auto* conversion = llvm::dyn_cast<llvm::CastInst>(&instruction);
    llvm::Value* word = nullptr;
    const llvm::APInt *mask = nullptr, *distance = nullptr;
    if (!conversion || !conversion->getType()->isFloatTy() ||
        !(llvm::isa<llvm::UIToFPInst>(conversion) || llvm::isa<llvm::SIToFPInst>(conversion)) ||
        !match(conversion->getOperand(0), m_And(m_Value(word), m_APInt(mask))) || mask->getBitWidth() > word_bits ||
        (llvm::isa<llvm::SIToFPInst>(conversion) && mask->isNegative())) {
        return std::nullopt;
    }
    llvm::Value* whole = nullptr;
    if (match(word, m_Trunc(m_Value(whole)))) {
        word = whole;
    }
    unsigned moved = 0;
    if (match(word, m_LShr(m_Value(whole), m_APInt(distance))) && distance->ult(word_bits)) {
        word = whole;
        moved = static_cast<unsigned>(distance->getZExtValue());
    }
    const std::uint64_t bits = mask->getZExtValue() << moved;
    if (!word->getType()->isIntegerTy(word_bits) || bits == 0 || bits >> word_bits != 0) {
        return std::nullopt;
    }
    const auto lowest = static_cast<unsigned>(std::countr_zero(bits)), end = static_cast<unsigned>(std::bit_width(bits));
    const bool is_upper = lowest >= half_bits;
    const unsigned half = is_upper ? half_bits : 0;
    const unsigned shift = end - half > exact_bits ? byte_bits : 0;
    if (lowest - half < shift || end - half > std::min(half_bits, exact_bits + shift)) {
        return std::nullopt;
    }
    const int exponent = static_cast<int>(half + shift) - static_cast<int>(moved) - smallest_half;
    return std::pair(word, Field{conversion, is_upper, shift, static_cast<std::uint32_t>(bits >> (half + shift)), exponent});
}

// In instructions: a mask and an addition for each number, against one mask for two.
int saving(const std::vector<Field>& fields) {
    std::set<std::pair<unsigned, std::uint32_t>> masks;
    for (const Field& field : fields) {
        masks.emplace(field.shift, field.mask);
    }
    const bool shifts = llvm::any_of(fields, [](const Field& field) { return field.shift > 0; });
    return static_cast<int>(fields.size()) - static_cast<int>(masks.size()) - int{shifts};
}

// A value is `value` times 2^exponent.
struct Scaled {
    llvm::Value* value;
    int exponent;
};

std::optional<int> power_of_two(const llvm::Value* value) {
    const auto* constant = llvm::dyn_cast<llvm::ConstantFP>(value);
    const int exponent = constant && constant->getType()->isFloatTy() ? constant->getValueAPF().getExactLog2() : INT_MIN;
    return exponent == INT_MIN ? std::nullopt : std::optional(exponent);
}

// The fields of a block, and the products and sums that their powers of two wait in.
class Block {
public:
    explicit Block(llvm::BasicBlock& block) : block_(block) {
        for (llvm::Instruction& instruction : block) {
            if (auto found = field_of(instruction)) {
                words_[found->first].push_back(found->second);
            }
        }
        words_.remove_if([](const auto& word) { return saving(word.second) <= 0; });
    }

    bool is_worth_it() {
        int saved = 0;
        for (const auto& [word, fields] : words_) {
            saved += saving(fields);
            for (const Field& field : fields) {
                exponents_[field.conversion] = field.exponent;
            }
        }
        return saved > 0 && saved > cost();
    }

    void rewrite() {
        for (const auto& [word, fields] : words_) {
            convert(word, fields);
        }
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(block_)) {
            if (exponents_.contains(&instruction) && !llvm::isa<llvm::CastInst>(instruction)) {
                known_[&instruction] = scaled(instruction);
            }
        }
        for (const auto& [instruction, value] : known_) {
            settle(*instruction, value);
        }
        llvm::SmallVector<llvm::WeakTrackingVH> dead(llvm::make_first_range(known_));
        llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(dead);
    }

private:
    static bool may_reorder(const llvm::Instruction& instruction) {
        return instruction.getType()->isFloatTy() && instruction.hasAllowReassoc() && instruction.hasAllowContract();
    }
    std::optional<int> exponent_of(const llvm::Value* value) const {
        const auto found = exponents_.find(value);
        return found == exponents_.end() ? std::nullopt : std::optional(found->second);
    }

    // Of what an instruction gives; none: it needs its operands as they are.
    std::optional<int> resulting_exponent(const llvm::Instruction& instruction) const {
        if (instruction.getNumOperands() != 2 || !llvm::isa<llvm::BinaryOperator>(instruction) || !may_reorder(instruction)) {
            return std::nullopt;
        }
        const auto first = exponent_of(instruction.getOperand(0)), second = exponent_of(instruction.getOperand(1));
        if (instruction.getOpcode() == llvm::Instruction::FMul && (first || second)) {
            const int sum = first.value_or(power_of_two(instruction.getOperand(0)).value_or(0)) +
                            second.value_or(power_of_two(instruction.getOperand(1)).value_or(0));
            return std::abs(sum) <= largest_exponent ? std::optional(sum) : std::nullopt;
        }
        const bool is_sum =
            instruction.getOpcode() == llvm::Instruction::FAdd || instruction.getOpcode() == llvm::Instruction::FSub;
        return is_sum && first && second ? first : std::nullopt;
    }

    // Multiplications by powers of two that nothing else takes in.
    int cost() {
        int out = 0;
        for (llvm::Instruction& instruction : block_) {
            if (const auto exponent = resulting_exponent(instruction)) {
                exponents_[&instruction] = *exponent;
                const bool differs = instruction.getOpcode() != llvm::Instruction::FMul &&
                                     exponent_of(instruction.getOperand(0)) != exponent_of(instruction.getOperand(1));
                out += differs && is_product(*instruction.getOperand(1));
            }
        }
        for (const auto& [value, exponent] : exponents_) {
            out += llvm::any_of(value->users(), [&](const llvm::User* user) { return !takes_in(*user, *value); });
        }
        return out;
    }
    // Of two numbers that have to be multiplied.
    static bool is_product(const llvm::Value& value) {
        const auto* instruction = llvm::dyn_cast<llvm::Instruction>(&value);
        return instruction && instruction->getOpcode() == llvm::Instruction::FMul &&
               llvm::none_of(instruction->operands(), [](const llvm::Use& use) { return power_of_two(use.get()).has_value(); });
    }
    // A sum takes the factor of a sum; a product is a factor of it already.
    bool takes_in(const llvm::User& user, const llvm::Value& value) const {
        if (exponents_.contains(&user)) {
            return true;
        }
        const auto* instruction = llvm::dyn_cast<llvm::Instruction>(&user);
        const bool is_sum = instruction && (instruction->getOpcode() == llvm::Instruction::FAdd ||
                                            instruction->getOpcode() == llvm::Instruction::FSub);
        return is_sum && may_reorder(*instruction) && !is_product(value) && value.hasOneUse();
    }

    void convert(llvm::Value* word, const std::vector<Field>& fields) {
        llvm::IRBuilder<> builder(fields.front().conversion);
        auto* halves_type = llvm::FixedVectorType::get(builder.getHalfTy(), 2);
        llvm::Value* shifted = nullptr;
        llvm::MapVector<std::pair<unsigned, std::uint32_t>, llvm::Value*> halves;
        for (const Field& field : fields) {
            llvm::Value*& pair = halves[{field.shift, field.mask}];
            if (!pair) {
                llvm::Value* from = word;
                if (field.shift > 0) {
                    from = shifted = shifted ? shifted : builder.CreateLShr(word, field.shift);
                }
                const std::uint32_t both = field.mask | field.mask << half_bits;
                pair = builder.CreateBitCast(builder.CreateAnd(from, builder.getInt32(both)), halves_type);
            }
            llvm::Value* half = builder.CreateExtractElement(pair, builder.getInt64(field.is_upper ? 1 : 0));
            known_[field.conversion] = {builder.CreateFPExt(half, builder.getFloatTy()), field.exponent};
        }
    }

    Scaled scaled(llvm::Instruction& instruction) {
        llvm::IRBuilder<> builder(&instruction);
        builder.setFastMathFlags(instruction.getFastMathFlags());
        const int exponent = exponents_.lookup(&instruction);
        const Scaled first = operand(instruction.getOperand(0)), second = operand(instruction.getOperand(1));
        if (instruction.getOpcode() != llvm::Instruction::FMul) {
            llvm::Value* other = times(builder, second.value, second.exponent - exponent);
            return {builder.CreateBinOp(llvm::cast<llvm::BinaryOperator>(instruction).getOpcode(), first.value, other),
                    exponent};
        }
        if (!first.value || !second.value) {
            return {first.value ? first.value : second.value, exponent};
        }
        return {builder.CreateFMul(first.value, second.value), exponent};
    }

    // As it has been rewritten; a power of two is only an exponent.
    Scaled operand(llvm::Value* value) const {
        const auto* found = known_.find(llvm::dyn_cast<llvm::Instruction>(value));
        if (found != known_.end()) {
            return found->second;
        }
        const auto power = power_of_two(value);
        return {power ? nullptr : value, power.value_or(0)};
    }

    static llvm::Value* times(llvm::IRBuilder<>& builder, llvm::Value* value, int exponent) {
        return exponent == 0
                   ? value
                   : builder.CreateFMul(value, llvm::ConstantFP::get(builder.getFloatTy(), std::ldexp(1.0, exponent)));
    }

    // Who needs the value as it was gets it.
    void settle(llvm::Instruction& old, const Scaled& scaled) {
        llvm::IRBuilder<> builder(old.getNextNode());
        builder.setFastMathFlags(contract_);
        llvm::Value* value = nullptr;
        for (llvm::Use& use : llvm::make_early_inc_range(old.uses())) {
            if (!known_.contains(llvm::cast<llvm::Instruction>(use.getUser()))) {
                use.set(value = value ? value : times(builder, scaled.value, scaled.exponent));
            }
        }
    }

    llvm::BasicBlock& block_;
    Words words_;
    llvm::DenseMap<const llvm::Value*, int> exponents_;
    llvm::MapVector<llvm::Instruction*, Scaled> known_; // by what they were
    const llvm::FastMathFlags contract_ = [] {
        llvm::FastMathFlags flags;
        flags.setAllowContract(true);
        return flags;
    }();
};

} // namespace

void convert_in_pairs(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::BasicBlock& block : function) {
            Block numbers(block);
            if (numbers.is_worth_it()) {
                numbers.rewrite();
            }
        }
    }
}

} // namespace metalki::compiler::ptx
