// See the header.
#include "codegen/thread_context.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"

#include "codegen/runtime_names.hpp"
#include "compiler/compiler.hpp"

namespace metalki::compiler {
namespace {

// The place of the running thread, from the arguments of a ThreadEntry: context, x, y, z.
class ThreadPlace {
public:
    ThreadPlace(llvm::IRBuilderBase& builder, llvm::Function& entry) : builder_(builder), entry_(entry) {}

    llvm::Value* input(unsigned which) {
        auto in = [&](ThreadInput first) { return which >= unsigned(first) && which < unsigned(first) + 3; };
        if (in(ThreadInput::position_in_grid)) {
            return position_in_grid(which);
        }
        if (in(ThreadInput::position_in_threadgroup)) {
            return axis(which - unsigned(ThreadInput::position_in_threadgroup));
        }
        for (ThreadInput shared :
             {ThreadInput::threadgroup_position, ThreadInput::threadgroups_per_grid, ThreadInput::threads_per_grid,
              ThreadInput::threads_in_this_threadgroup, ThreadInput::threads_per_threadgroup}) {
            if (in(shared)) {
                return field(shared, which - unsigned(shared));
            }
        }
        if (which == unsigned(ThreadInput::index_in_threadgroup)) {
            return index();
        }
        if (which == unsigned(ThreadInput::index_in_simdgroup)) {
            return lane();
        }
        return builder_.CreateLShr(index(), builder_.getInt32(5));
    }

    llvm::Value* lane() { return builder_.CreateAnd(index(), builder_.getInt32(simd_width - 1)); }

    llvm::Value* threadgroup_memory() {
        llvm::Value* field = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), entry_.getArg(0),
                                                                 offsetof(ThreadgroupContext, static_threadgroup_memory));
        return builder_.CreateLoad(builder_.getPtrTy(), field);
    }

private:
    llvm::Value* axis(unsigned axis) { return entry_.getArg(1 + axis); }
    llvm::Value* field(ThreadInput input, unsigned axis) {
        return load_context_word(builder_, entry_.getArg(0), context_offset(input), axis);
    }
    llvm::Value* position_in_grid(unsigned at) {
        llvm::Value* origin = builder_.CreateNUWMul(field(ThreadInput::threadgroup_position, at),
                                                    field(ThreadInput::threads_per_threadgroup, at));
        return builder_.CreateNUWAdd(origin, axis(at));
    }
    llvm::Value* index() {
        llvm::Value* row =
            builder_.CreateAdd(axis(1), builder_.CreateMul(field(ThreadInput::threads_in_this_threadgroup, 1), axis(2)));
        return builder_.CreateAdd(axis(0), builder_.CreateMul(field(ThreadInput::threads_in_this_threadgroup, 0), row));
    }

    llvm::IRBuilderBase& builder_;
    llvm::Function& entry_;
};

llvm::CallInst& call_in(llvm::User* user, const llvm::Function& entry) {
    auto* call = llvm::cast<llvm::CallInst>(user);
    if (call->getFunction() != &entry) {
        throw SpecializationError(
            "threadgroup memory and SIMD-group functions are not supported in functions that call themselves "
            "or are called through a pointer");
    }
    return *call;
}

template <class MakeValue> void replace_calls(llvm::Module& module, const char* name, llvm::Function& entry, MakeValue make) {
    llvm::Function* question = module.getFunction(name);
    if (!question || question->use_empty()) {
        return;
    }
    for (llvm::User* user : llvm::make_early_inc_range(question->users())) {
        llvm::CallInst& call = call_in(user, entry);
        call.replaceAllUsesWith(make(call));
        call.eraseFromParent();
    }
}

} // namespace

std::size_t context_offset(ThreadInput input) {
    switch (input) {
    case ThreadInput::threadgroup_position:
        return offsetof(ThreadgroupContext, threadgroup_position);
    case ThreadInput::threadgroups_per_grid:
        return offsetof(ThreadgroupContext, threadgroups_per_grid);
    case ThreadInput::threads_per_grid:
        return offsetof(ThreadgroupContext, threads_per_grid);
    case ThreadInput::threads_in_this_threadgroup:
        return offsetof(ThreadgroupContext, threads_in_this_threadgroup);
    case ThreadInput::threads_per_threadgroup:
        return offsetof(ThreadgroupContext, threads_per_threadgroup);
    default:
        throw std::logic_error("this input differs from thread to thread");
    }
}

llvm::Value* load_context_word(llvm::IRBuilderBase& builder, llvm::Value* context, std::size_t offset, unsigned axis) {
    llvm::Value* field =
        builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), context, offset + axis * sizeof(std::uint32_t));
    llvm::LoadInst* word = builder.CreateLoad(builder.getInt32Ty(), field);
    word->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(builder.getContext(), {}));
    return word;
}

void resolve_context(llvm::Module& module, llvm::Function& entry) {
    llvm::IRBuilder<> builder(&*entry.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    // What stands there may be one of the calls that go.
    auto* here = new llvm::FreezeInst(llvm::PoisonValue::get(builder.getInt1Ty()), "", builder.GetInsertPoint());
    builder.SetInsertPoint(here);
    ThreadPlace place(builder, entry);
    llvm::Value* memory = nullptr;
    llvm::Value* lane = nullptr;
    std::array<llvm::Value*, unsigned(ThreadInput::count)> inputs{};
    auto once = [](llvm::Value*& known, auto make) { return known ? known : known = make(); };
    replace_calls(module, runtime::threadgroup_memory, entry,
                  [&](llvm::CallInst&) { return once(memory, [&] { return place.threadgroup_memory(); }); });
    replace_calls(module, runtime::simd_lane, entry, [&](llvm::CallInst&) { return once(lane, [&] { return place.lane(); }); });
    replace_calls(module, runtime::input, entry, [&](llvm::CallInst& call) {
        auto which = llvm::cast<llvm::ConstantInt>(call.getArgOperand(0))->getZExtValue();
        return once(inputs.at(which), [&] { return place.input(static_cast<unsigned>(which)); });
    });
    here->eraseFromParent();
}

} // namespace metalki::compiler
