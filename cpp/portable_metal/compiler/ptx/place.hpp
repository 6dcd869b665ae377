// A thread's place on the GPU: position inputs as values, and who leaves because it lies outside of the grid.
#pragma once

#include <array>

#include "llvm/IR/Function.h"

#include "compiler/gpu_code.hpp"
#include "compiler/kernel_abi.hpp"
#include "ptx/builder.hpp"

namespace metalki::compiler::ptx {

using Triple = std::array<llvm::Value*, 3>;

struct Geometry {
    Triple threads_per_grid, threads_per_threadgroup, threadgroups_per_grid, threadgroup_base;
};

class ThreadPlace {
public:
    // Writes the entry's head: `builder` stands in its empty first block. `counts_lanes`: the threads of a group at the edge
    // must be numbered without gaps, because the kernel asks who is beside whom.
    ThreadPlace(WarpBuilder& builder, const Geometry& geometry, const GpuRequest& request, bool counts_lanes);

    // Position inputs, made at the end of the head. Threads outside of the grid do not come here.
    llvm::Value* input(unsigned which);
    llvm::Value* index() { return index_; }
    llvm::Value* lane();
    llvm::Value* threads() { return volume(size_); } // of this threadgroup

private:
    llvm::Value* volume(const Triple& size);
    llvm::Value* linear(const Triple& position, const Triple& size);
    Triple unfolded(llvm::Value* index);
    void place_by_hardware(const Triple& thread);
    void place_without_gaps(const Triple& thread);
    void place_folded(llvm::Value* thread);
    static bool is_one(const llvm::Value* number);
    void find_group(const GpuRequest& request);
    void leave_unless(llvm::Value* inside);
    llvm::BasicBlock* new_block(const char* name);

    WarpBuilder& builder_;
    Geometry geometry_;
    bool is_whole_;
    Triple group_{}, origin_{}, size_{}, position_{};
    llvm::Value* index_ = nullptr;
};

} // namespace metalki::compiler::ptx
