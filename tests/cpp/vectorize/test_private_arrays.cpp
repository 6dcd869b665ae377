// Where the lanes' copies of a thread's own array go: element beside element where all accesses have elements of one size.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"
#include "vectorize/private_arrays.hpp"

using namespace vectorize_test;

namespace {

unsigned interleaving(std::string_view type, std::string_view lines) {
    Kernel kernel("  %array = alloca " + std::string(type) + "\n" + std::string(lines) + "\n  ret void\n",
                  "declare void @takes(ptr)");
    auto& array = llvm::cast<llvm::AllocaInst>(kernel.value("array"));
    return compiler::vectorize::interleaving_of(array, kernel.module().getDataLayout());
}

} // namespace

TEST_CASE("elements of one size are interleaved") {
    CHECK(interleaving("[8 x i32]", "  %p = getelementptr [8 x i32], ptr %array, i32 0, i32 %x\n  store i32 1, ptr %p") == 4);
    CHECK(interleaving("[8 x half]", "  %p = getelementptr half, ptr %array, i32 %x\n  %v = load half, ptr %p") == 2);
    CHECK(interleaving("[4 x <2 x float>]",
                       "  %p = getelementptr <2 x float>, ptr %array, i32 %x\n  %v = load <2 x float>, ptr %p") == 4);
}

TEST_CASE("other arrays lie lane after lane") {
    // Two sizes of elements.
    CHECK(interleaving("[8 x i32]", "  store i32 1, ptr %array\n  %v = load i16, ptr %array") == 0);
    // A step that is no multiple of the element.
    CHECK(interleaving("[8 x i32]", "  %p = getelementptr i8, ptr %array, i32 %x\n  store i32 1, ptr %p") == 0);
    // The address gets away.
    CHECK(interleaving("[8 x i32]", "  store i32 1, ptr %array\n  call void @takes(ptr %array)") == 0);
    CHECK(interleaving("[8 x i32]", "  store i32 1, ptr %array\n  store ptr %array, ptr %out") == 0);
    CHECK(interleaving("[8 x i1]", "  store i1 true, ptr %array") == 0);
}
