// What is done to vector code last: long sums, small numbers, the order of long blocks.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"

#include "codegen/analyses.hpp"
#include "codegen/long_sums.hpp"
#include "codegen/repeated_prefetches.hpp"
#include "codegen/small_numbers.hpp"
#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// Stores the sum of `count` vectors of four floats.
std::string sum_of(unsigned count, std::string_view flags) {
    std::string out = "  %v0 = load <4 x float>, ptr %in\n";
    std::string sum = "%v0";
    for (unsigned i = 1; i < count; ++i) {
        std::string number = std::to_string(i);
        out += "  %p" + number + " = getelementptr <4 x float>, ptr %in, i64 " + number + "\n  %v" + number +
               " = load <4 x float>, ptr %p" + number + "\n  %s" + number + " = fadd " + std::string(flags) + " <4 x float> " +
               (i % 3 == 0 ? "%v" + number + ", " + sum : sum + ", %v" + number) + "\n";
        sum = "%s" + number;
    }
    return out + "  store <4 x float> " + sum + ", ptr %out\n  ret void\n";
}

// Additions that wait for each other.
unsigned depth_of(llvm::Function& function) {
    std::map<const llvm::Value*, unsigned> depths;
    unsigned deepest = 0;
    for (const llvm::Instruction& instruction : llvm::instructions(function)) {
        if (instruction.getOpcode() == llvm::Instruction::FAdd) {
            unsigned before = std::max(depths[instruction.getOperand(0)], depths[instruction.getOperand(1)]);
            deepest = std::max(deepest, depths[&instruction] = before + 1);
        }
    }
    return deepest;
}

void split_sums(Kernel& kernel) {
    llvm::FunctionAnalysisManager none;
    compiler::SplitLongSums().run(kernel.function(), none);
    CHECK_FALSE(llvm::verifyFunction(kernel.function()));
}

bool has(const llvm::TargetMachine& machine, const char* feature) {
    return machine.getTargetTriple().isX86() && machine.getMCSubtargetInfo()->checkFeatures(feature);
}

// Stores a number that is computed from the lane's word.
std::string of_word(std::string_view lines) {
    return std::string(own_words) + std::string(lines) + "\n  store i32 %r, ptr %mine\n  ret void\n";
}

} // namespace

TEST_CASE("half of a long sum waits for the other half no more") {
    for (unsigned count : {9u, 10u, 17u, 40u}) {
        Kernel kernel(sum_of(count, "fast"));
        CHECK(depth_of(kernel.function()) == count - 1);
        split_sums(kernel);
        CAPTURE(count);
        CHECK(depth_of(kernel.function()) <= count / 2 + 1);
    }
}

TEST_CASE("a sum stays as it is where it is short, where its order matters, and where its parts are wanted") {
    for (const auto& [text, depth] : {std::pair{sum_of(8, "fast"), 7u}, std::pair{sum_of(20, "nnan ninf contract"), 19u}}) {
        Kernel kernel(text);
        split_sums(kernel);
        CHECK(depth_of(kernel.function()) == depth);
    }
    std::string wanted = sum_of(12, "fast");
    wanted.insert(wanted.rfind("  store"),
                  "  %beside = getelementptr i8, ptr %out, i64 16\n  store <4 x float> %s6, ptr %beside\n");
    Kernel kernel(wanted);
    split_sums(kernel);
    CHECK(depth_of(kernel.function()) == 11);
}

TEST_CASE("a split sum has all its terms, each once") {
    for (unsigned count : {9u, 10u, 11u, 30u}) {
        Words in(4 * count);
        for (unsigned i = 0; i < in.size(); ++i) {
            in[i] = std::bit_cast<std::uint32_t>(static_cast<float>(1u << (i / 4 % 20)) * static_cast<float>(i % 4 + 1));
        }
        Kernel kernel(sum_of(count, "fast")), whole(sum_of(count, "fast"));
        split_sums(kernel);
        CHECK(run_once(kernel, Words(4), in) == run_once(whole, Words(4), in));
    }
}

TEST_CASE("few bits of a word become a float by way of a table where the processor has one") {
    for (unsigned mask : {1u, 5u, 15u, 16u, 240u}) {
        for (unsigned shift : {0u, 4u, 16u}) {
            std::string text =
                of_word("  %s = lshr i32 %v, " + std::to_string(shift) + "\n  %b = and i32 %s, " + std::to_string(mask) +
                        "\n  %f = uitofp i32 %b to float\n  %r = bitcast float %f to i32");
            CAPTURE(mask);
            CAPTURE(shift);
            Kernel kernel(text);
            bool looked_up = vector_code(text, rows()).find("permvar.sf.512") != std::string::npos;
            CHECK(looked_up == (mask < 16 && has(kernel.machine(), "+avx512f")));
            compare(text);
        }
    }
}

TEST_CASE("a byte of a word is made wider with its sign by a product where the processor has one for bytes") {
    for (unsigned shift : {0u, 8u, 16u, 24u, 4u}) {
        for (const char* wider : {"%r = sext i8 %t to i32", "%f = sitofp i8 %t to float\n  %r = bitcast float %f to i32"}) {
            std::string text =
                of_word("  %s = lshr i32 %v, " + std::to_string(shift) + "\n  %t = trunc i32 %s to i8\n  " + wider);
            CAPTURE(shift);
            CAPTURE(wider);
            Kernel kernel(text);
            compare(text);
            if (shift < 24 && shift % 8 == 0 && std::string_view(wider).starts_with("%f")) {
                bool product = vector_code(text, rows()).find("vpdpbusd") != std::string::npos;
                CHECK(product == has(kernel.machine(), "+avx512vnni"));
            }
        }
    }
}

TEST_CASE("a line is asked for once in a block") {
    auto asked = [](std::initializer_list<int> offsets) {
        std::string text;
        for (int offset : offsets) {
            std::string name = "%p" + std::to_string(offset);
            text += "  " + name + " = getelementptr i8, ptr %in, i64 " + std::to_string(offset) +
                    "\n  call void @llvm.prefetch.p0(ptr " + name + ", i32 0, i32 3, i32 1)\n";
        }
        Kernel kernel(text + "  ret void\n", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n");
        llvm::FunctionAnalysisManager none;
        compiler::DropRepeatedPrefetches().run(kernel.function(), none);
        std::string code;
        llvm::raw_string_ostream stream(code);
        kernel.function().print(stream);
        return count(code, "call void @llvm.prefetch");
    };
    CHECK(asked({0, 64, 128, 2, 66, 130}) == 3);
    CHECK(asked({0, 32, 64, 96}) == 3); // what is between two lines is in one of them
    CHECK(asked({0, 65, 130}) == 3);
    CHECK(asked({0, 40}) == 2);
    CHECK(asked({1000, 1004}) == 1);
}
