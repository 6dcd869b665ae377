// The functions that the executor calls, around the body that runs one SIMD-group.
#pragma once

#include "llvm/IR/Function.h"
#include "llvm/IR/IRBuilder.h"

#include "vectorize/shape.hpp"

namespace metalki::compiler::vectorize {

// Another body, for rows of which `test` says so.
struct OtherBody {
    llvm::Function* body = nullptr; // null: none
    llvm::Function* test = nullptr;
};

// void name(context, x, count, y, z): threads x to x + count - 1 of a row of the grid. `rest` takes less than 32 lanes.
llvm::Function& make_row_entry(llvm::Function& body, OtherBody other, llvm::Function& rest, const std::string& name);

// void name(context): all SIMD-groups of a threadgroup, one after the other; the body has no barriers.
llvm::Function& make_group_entry(llvm::Function& body, const Geometry& geometry, const std::string& name);

// The same for a body with barriers: between two of them runs a loop over the SIMD-groups.
llvm::Function& make_barrier_entry(llvm::Function& body, const Geometry& geometry, const std::string& name);

// Place of a SIMD-group's first lane and how many lanes it has, counted on from group to group.
struct SimdGroupPlace {
    llvm::Value* x = nullptr;
    llvm::Value* y = nullptr;
    llvm::Value* z = nullptr;
};

// Sizes of the running threadgroup, read once.
struct GroupSize {
    GroupSize(llvm::IRBuilderBase& builder, llvm::Value* context);

    llvm::Value* width;
    llvm::Value* height;
    llvm::Value* threads;
    llvm::Value* simdgroups;
};

SimdGroupPlace next_place(llvm::IRBuilderBase& builder, const SimdGroupPlace& place, const GroupSize& size,
                          const Geometry& geometry);
llvm::Value* lanes_of(llvm::IRBuilderBase& builder, llvm::Value* simdgroup, const GroupSize& size);

} // namespace metalki::compiler::vectorize
