// What is done to vector code last: small numbers, lines asked for twice.
#include <doctest/doctest.h>

#include "llvm/MC/MCSubtargetInfo.h"

#include "codegen/masked_stores.hpp"
#include "codegen/repeated_prefetches.hpp"
#include "codegen/small_numbers.hpp"
#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// Stores a number that is computed from the lane's word.
std::string of_word(std::string_view lines) {
    return std::string(own_words) + std::string(lines) + "\n  store i32 %r, ptr %mine\n  ret void\n";
}

} // namespace

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

TEST_CASE("masked stores to one place become one, unless something reads or writes between them") {
    auto stores = [](std::string_view between) {
        Kernel kernel(R"(
  %m = insertelement <4 x i1> zeroinitializer, i1 true, i32 0
  %m2 = insertelement <4 x i1> %m, i1 true, i32 1
  call void @llvm.masked.store.v4i32.p0(<4 x i32> <i32 1, i32 2, i32 3, i32 4>, ptr %out, i32 4, <4 x i1> %m2)
)" + std::string(between) +
                          "  call void @llvm.masked.store.v4i32.p0(<4 x i32> <i32 5, i32 6, i32 7, i32 8>, ptr %out, i32 4, "
                          "<4 x i1> %m)\n  ret void\n",
                      "declare void @llvm.masked.store.v4i32.p0(<4 x i32>, ptr, i32, <4 x i1>)\n");
        llvm::FunctionAnalysisManager none;
        compiler::MergeMaskedStores().run(kernel.function(), none);
        std::string code;
        llvm::raw_string_ostream stream(code);
        kernel.function().print(stream);
        Words found = run_once(kernel, Words(4), Words(4));
        CHECK(found == Words{5, 2, 0, 0});
        return count(code, "call void @llvm.masked.store");
    };
    CHECK(stores("") == 1);
    CHECK(stores("  %r = load i32, ptr %in\n") == 2);
    CHECK(stores("  store i32 9, ptr %in\n") == 2);
}
