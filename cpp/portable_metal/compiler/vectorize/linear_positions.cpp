// See the header.
#include "vectorize/linear_positions.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/Local.h"

#include "codegen/runtime_calls.hpp"
#include "compiler/kernel_abi.hpp"

namespace metalki::compiler::vectorize {
namespace {

enum Symbol : unsigned { x, y, z, width, height, symbols };

// How often each symbol is a factor.
using Product = std::array<std::uint8_t, symbols>;
// A sum of products with their factors, modulo 2^32; without those whose factor is 0.
using Sum = std::map<Product, std::uint32_t>;

constexpr std::size_t longest_sum = 8;
constexpr std::uint8_t most_factors = 4;

// x + width * y, and that of all slices.
Sum number_in_slice() {
    return {{{1, 0, 0, 0, 0}, 1}, {{0, 1, 0, 1, 0}, 1}};
}
Sum number_in_grid() {
    return {{{1, 0, 0, 0, 0}, 1}, {{0, 1, 0, 1, 0}, 1}, {{0, 0, 1, 1, 1}, 1}};
}

std::optional<Symbol> symbol_of(const llvm::Instruction& instruction) {
    constexpr auto position = unsigned(ThreadInput::position_in_grid), size = unsigned(ThreadInput::threads_per_grid);
    const std::optional<unsigned> number = input_number(instruction);
    if (number && *number >= position && *number < position + 3) {
        return static_cast<Symbol>(*number - position);
    }
    if (number && (*number == size || *number == size + 1)) {
        return static_cast<Symbol>(width + *number - size);
    }
    return std::nullopt;
}

void add_to(Sum& sum, const Product& product, std::uint32_t factor) {
    std::uint32_t& known = sum[product];
    known += factor;
    if (known == 0) {
        sum.erase(product);
    }
}

std::optional<Sum> plus(const Sum& a, const Sum& b) {
    Sum out = a;
    for (const auto& [product, factor] : b) {
        add_to(out, product, factor);
    }
    return out.size() <= longest_sum ? std::optional(out) : std::nullopt;
}

std::optional<Sum> times(const Sum& a, const Sum& b) {
    Sum out;
    for (const auto& [left, left_factor] : a) {
        for (const auto& [right, right_factor] : b) {
            Product product{};
            for (unsigned i = 0; i < symbols; ++i) {
                product[i] = left[i] + right[i];
                if (product[i] > most_factors) {
                    return std::nullopt;
                }
            }
            add_to(out, product, left_factor * right_factor);
        }
    }
    return out.size() <= longest_sum ? std::optional(out) : std::nullopt;
}

class Numbering {
public:
    explicit Numbering(llvm::Function& kernel) : kernel_(kernel) {
        for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
            if (const std::optional<Symbol> symbol = symbol_of(instruction); symbol && *symbol <= z) {
                positions_.push_back(&instruction);
            }
        }
    }

    // Whether every use of the positions along these axes goes into `wanted`, which is x then.
    bool take_x_for(const Sum& wanted, unsigned axes) {
        std::vector<llvm::Instruction*> numbers;
        for (llvm::Instruction& instruction : llvm::instructions(kernel_)) {
            if (is(instruction, wanted)) {
                numbers.push_back(&instruction);
            }
        }
        Seen seen;
        const bool all = std::ranges::all_of(positions_, [&](const llvm::Instruction* position) {
            return *symbol_of(*position) >= axes || only_leads_to(*position, wanted, seen);
        });
        if (numbers.empty() || !all) {
            return false;
        }
        auto along_x = [](const llvm::Instruction* position) { return symbol_of(*position) == x; };
        llvm::Instruction* own = (*std::ranges::find_if(positions_, along_x))->clone();
        own->insertInto(&kernel_.getEntryBlock(), kernel_.getEntryBlock().getFirstInsertionPt());
        for (llvm::Instruction* number : numbers) {
            number->replaceAllUsesWith(own);
        }
        for (llvm::Instruction* number : numbers) {
            llvm::RecursivelyDeleteTriviallyDeadInstructions(number);
        }
        return true;
    }

private:
    using Seen = std::set<const llvm::Instruction*>;

    bool is(const llvm::Value& value, const Sum& wanted) {
        const std::optional<Sum>& sum = sum_of(value);
        return sum && *sum == wanted;
    }

    // Each part is followed once, however many ways lead to it; what is seen was found to do so, or ends the search.
    bool only_leads_to(const llvm::Instruction& part, const Sum& wanted, Seen& seen) {
        return !seen.insert(&part).second || std::ranges::all_of(part.users(), [&](const llvm::User* user) {
            const auto* next = llvm::dyn_cast<llvm::Instruction>(user);
            return next && (is(*next, wanted) || (sum_of(*next) && only_leads_to(*next, wanted, seen)));
        });
    }

    const std::optional<Sum>& sum_of(const llvm::Value& value) {
        if (auto found = sums_.find(&value); found != sums_.end()) {
            return found->second;
        }
        std::optional<Sum> sum = compute(value);
        return sums_[&value] = std::move(sum);
    }

    std::optional<Sum> compute(const llvm::Value& value) {
        if (!value.getType()->isIntegerTy(32)) {
            return std::nullopt;
        }
        if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(&value)) {
            Sum out;
            add_to(out, Product{}, static_cast<std::uint32_t>(constant->getZExtValue()));
            return out;
        }
        const auto* instruction = llvm::dyn_cast<llvm::Instruction>(&value);
        if (!instruction) {
            return std::nullopt;
        }
        if (const std::optional<Symbol> symbol = symbol_of(*instruction)) {
            Product product{};
            product[*symbol] = 1;
            return Sum{{product, 1}};
        }
        const bool adds = instruction->getOpcode() == llvm::Instruction::Add,
                   multiplies = instruction->getOpcode() == llvm::Instruction::Mul;
        if (!adds && !multiplies) {
            return std::nullopt;
        }
        const std::optional<Sum> left = sum_of(*instruction->getOperand(0)), right = sum_of(*instruction->getOperand(1));
        return !left || !right ? std::nullopt : adds ? plus(*left, *right) : times(*left, *right);
    }

    llvm::Function& kernel_;
    std::vector<llvm::Instruction*> positions_;
    std::map<const llvm::Value*, std::optional<Sum>> sums_;
};

} // namespace

unsigned number_threads_along_x(llvm::Function& kernel) {
    Numbering numbering(kernel);
    return numbering.take_x_for(number_in_grid(), 3) ? 3 : numbering.take_x_for(number_in_slice(), 2) ? 2 : 1;
}

} // namespace metalki::compiler::vectorize
