// See the header.
#include "ptx/place.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr std::array<llvm::Intrinsic::ID, 3> thread_registers{llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x,
                                                              llvm::Intrinsic::nvvm_read_ptx_sreg_tid_y,
                                                              llvm::Intrinsic::nvvm_read_ptx_sreg_tid_z};
constexpr std::array<llvm::Intrinsic::ID, 3> group_registers{llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                                             llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                                             llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};

} // namespace

ThreadPlace::ThreadPlace(WarpBuilder& builder, const Geometry& geometry, const GpuRequest& request, bool counts_lanes)
    : builder_(builder), geometry_(geometry), is_whole_(request.whole) {
    if (request.threadgroup) {
        const Uint3& size = *request.threadgroup;
        geometry_.threads_per_threadgroup = {builder.getInt32(size.x), builder.getInt32(size.y), builder.getInt32(size.z)};
    }
    find_group(request);
    Triple thread{};
    for (unsigned axis = 0; axis < 3; ++axis) {
        const bool is_single = is_one(size_[axis]) && !request.folded;
        thread[axis] = is_single ? builder.getInt32(0) : builder.call(thread_registers[axis]);
        const auto* size = llvm::dyn_cast<llvm::ConstantInt>(geometry_.threads_per_threadgroup[axis]);
        if (auto* call = llvm::dyn_cast<llvm::CallInst>(thread[axis]); call && size && !request.folded) {
            call->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), size->getValue()));
        }
    }
    if (request.folded) {
        place_folded(thread[0]);
    } else if (counts_lanes) {
        place_without_gaps(thread);
    } else {
        place_by_hardware(thread);
    }
}

bool ThreadPlace::is_one(const llvm::Value* number) {
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(number);
    return constant && constant->isOne();
}

// Where the threadgroup is, and how large.
void ThreadPlace::find_group(const GpuRequest& request) {
    for (unsigned axis = 0; axis < 3; ++axis) {
        if (axis >= request.axes) {
            geometry_.threads_per_grid[axis] = geometry_.threads_per_threadgroup[axis] = builder_.getInt32(1);
            geometry_.threadgroups_per_grid[axis] = size_[axis] = builder_.getInt32(1);
            group_[axis] = origin_[axis] = builder_.getInt32(0);
            continue;
        }
        llvm::Value* full = geometry_.threads_per_threadgroup[axis];
        group_[axis] = builder_.call(group_registers[axis]);
        if (!is_whole_) {
            group_[axis] = builder_.CreateAdd(group_[axis], geometry_.threadgroup_base[axis]);
        }
        origin_[axis] = builder_.CreateMul(group_[axis], full);
        llvm::Value* left = builder_.CreateSub(geometry_.threads_per_grid[axis], origin_[axis]);
        size_[axis] = is_whole_ || is_one(full) ? full : builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, full, left);
    }
}

llvm::BasicBlock* ThreadPlace::new_block(const char* name) {
    return llvm::BasicBlock::Create(builder_.getContext(), name, builder_.GetInsertBlock()->getParent());
}

void ThreadPlace::leave_unless(llvm::Value* inside) {
    if (is_whole_) {
        return;
    }
    llvm::BasicBlock* outside = new_block("outside");
    llvm::BasicBlock* next = new_block("inside");
    builder_.CreateCondBr(inside, next, outside);
    builder_.SetInsertPoint(outside);
    builder_.CreateRetVoid();
    builder_.SetInsertPoint(next);
}

llvm::Value* ThreadPlace::volume(const Triple& size) {
    return builder_.CreateMul(builder_.CreateMul(size[0], size[1]), size[2]);
}

llvm::Value* ThreadPlace::linear(const Triple& position, const Triple& size) {
    llvm::Value* row = builder_.CreateAdd(position[1], builder_.CreateMul(size[1], position[2]));
    return builder_.CreateAdd(position[0], builder_.CreateMul(size[0], row));
}

Triple ThreadPlace::unfolded(llvm::Value* index) {
    llvm::Value* row = builder_.CreateUDiv(index, size_[0]);
    return {builder_.CreateURem(index, size_[0]), builder_.CreateURem(row, size_[1]), builder_.CreateUDiv(row, size_[1])};
}

void ThreadPlace::place_by_hardware(const Triple& thread) {
    llvm::Value* inside = builder_.getTrue();
    for (unsigned axis = 0; axis < 3; ++axis) {
        if (!is_one(size_[axis])) {
            inside = builder_.CreateAnd(inside, builder_.CreateICmpULT(thread[axis], size_[axis]));
        }
    }
    leave_unless(inside);
    position_ = thread;
    index_ = linear(thread, size_);
}

// The hardware numbers the threads of a whole block. In a group that is narrower the first threads are taken instead, so that
// SIMD-groups stay what they are: 32 threads in a row.
void ThreadPlace::place_without_gaps(const Triple& thread) {
    const Triple& full = geometry_.threads_per_threadgroup;
    index_ = linear(thread, full);
    leave_unless(builder_.CreateICmpULT(index_, volume(size_)));
    const bool is_row = llvm::isa<llvm::ConstantInt>(thread[1]) && llvm::isa<llvm::ConstantInt>(thread[2]);
    if (is_row || is_whole_) {
        position_ = thread;
        return;
    }
    llvm::Value* is_whole =
        builder_.CreateAnd(builder_.CreateICmpEQ(size_[0], full[0]), builder_.CreateICmpEQ(size_[1], full[1]));
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    llvm::BasicBlock* narrow = new_block("narrow");
    llvm::BasicBlock* placed = new_block("placed");
    builder_.CreateCondBr(is_whole, placed, narrow);
    builder_.SetInsertPoint(narrow);
    const Triple packed = unfolded(index_);
    builder_.CreateBr(placed);
    builder_.SetInsertPoint(placed);
    for (unsigned axis = 0; axis < 3; ++axis) {
        llvm::PHINode* position = builder_.CreatePHI(builder_.getInt32Ty(), 2);
        position->addIncoming(thread[axis], before);
        position->addIncoming(packed[axis], narrow);
        position_[axis] = position;
    }
}

void ThreadPlace::place_folded(llvm::Value* thread) {
    index_ = thread;
    leave_unless(builder_.CreateICmpULT(index_, volume(size_)));
    position_ = unfolded(index_);
}

llvm::Value* ThreadPlace::lane() {
    return builder_.CreateAnd(index_, builder_.getInt32(simd_width - 1));
}

llvm::Value* ThreadPlace::input(unsigned which) {
    const auto in = [&](ThreadInput first) { return which >= unsigned(first) && which < unsigned(first) + 3; };
    if (in(ThreadInput::position_in_grid)) {
        return builder_.CreateNUWAdd(origin_[which], position_[which]);
    }
    const std::array<std::pair<ThreadInput, const Triple*>, 6> triples{{
        {ThreadInput::position_in_threadgroup, &position_},
        {ThreadInput::threadgroup_position, &group_},
        {ThreadInput::threadgroups_per_grid, &geometry_.threadgroups_per_grid},
        {ThreadInput::threads_per_grid, &geometry_.threads_per_grid},
        {ThreadInput::threads_in_this_threadgroup, &size_},
        {ThreadInput::threads_per_threadgroup, &geometry_.threads_per_threadgroup},
    }};
    for (const auto& [first, values] : triples) {
        if (in(first)) {
            return (*values)[which - unsigned(first)];
        }
    }
    if (which == unsigned(ThreadInput::index_in_threadgroup)) {
        return index_;
    }
    if (which == unsigned(ThreadInput::index_in_simdgroup)) {
        return lane();
    }
    return builder_.CreateLShr(index_, builder_.getInt32(5));
}

} // namespace metalki::compiler::ptx
