// Sums of many numbers, one after the other.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "llvm/IR/InstIterator.h"

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// Adds up so many numbers of in[], from this thread's own on; `flags` are those of the additions.
std::string sum_of(int numbers, const std::string& flags) {
    std::string text(own_words);
    for (int i = 0; i < numbers; ++i) {
        const std::string n = std::to_string(i);
        text += "  %p" + n + " = getelementptr i32, ptr %own, i64 " + n + "\n";
        text += "  %w" + n + " = load i32, ptr %p" + n + "\n";
        text += "  %c" + n + " = icmp slt i32 %w" + n + ", 1" + n + "\n"; // small numbers: exact in any order
        text += "  %f" + n + " = select i1 %c" + n + ", float 3.0, float 5.0\n";
        const std::string before = i == 0 ? "0.0" : "%s" + std::to_string(i - 1);
        text += "  %s" + n + " = fadd " + (i == 0 ? "nsz" : flags) + " float %f" + n + ", " + before + "\n";
    }
    return text + "  %sum = fptosi float %s" + std::to_string(numbers - 1) +
           " to i32\n  store i32 %sum, ptr %mine\n  ret void\n";
}

// How many additions wait for one another at most.
unsigned longest_chain(std::string_view text) {
    Kernel kernel(text);
    kernel.prepare();
    std::map<const llvm::Value*, unsigned> depth;
    unsigned longest = 0;
    for (llvm::Instruction& instruction : llvm::instructions(kernel.function())) {
        if (instruction.getOpcode() == llvm::Instruction::FAdd) {
            depth[&instruction] = 1 + std::max(depth[instruction.getOperand(0)], depth[instruction.getOperand(1)]);
            longest = std::max(longest, depth[&instruction]);
        }
    }
    return longest;
}

} // namespace

TEST_CASE("a long sum is taken in two, where its order does not matter") {
    CHECK(longest_chain(sum_of(17, "reassoc nsz")) == 9);
    CHECK(longest_chain(sum_of(15, "fast")) == 8);
    CHECK(longest_chain(sum_of(17, "")) == 16);
    CHECK(longest_chain(sum_of(17, "reassoc")) == 16);
    CHECK(longest_chain(sum_of(5, "fast")) == 4);
}

TEST_CASE("a sum that is looked at on its way stays in order up to there") {
    std::string text = sum_of(17, "fast");
    text.insert(text.find("  %sum ="), "  %early = fptosi float %s12 to i32\n  %at = getelementptr i32, ptr %mine, i64 0\n"
                                       "  store volatile i32 %early, ptr %at\n");
    CHECK(longest_chain(text) == 11);
}

TEST_CASE("the sums are right") {
    compare(sum_of(17, "fast"));
    compare(sum_of(10, "reassoc nsz"));
}
