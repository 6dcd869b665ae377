// Puts the parts together.
#include "vectorize/vectorize.hpp"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/raw_ostream.h"

#include "codegen/analyses.hpp"
#include "codegen/runtime_names.hpp"
#include "vectorize/divergence.hpp"
#include "vectorize/entries.hpp"
#include "vectorize/load_groups.hpp"
#include "vectorize/streaming.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

VectorRegisters registers_of(const llvm::TargetMachine& machine) {
    const llvm::MCSubtargetInfo& processor = *machine.getMCSubtargetInfo();
    bool x86 = machine.getTargetTriple().isX86();
    bool avx512 = x86 && processor.checkFeatures("+avx512f");
    bool words = avx512 && processor.checkFeatures("+avx512bw"); // masks of 32 lanes in one register
    bool fused = !x86 || avx512 || processor.checkFeatures("+fma");
    return {avx512 ? 64U : x86 && processor.checkFeatures("+avx") ? 32U : 16U, words, fused};
}

// `other`, if asked for: code for rows whose lanes exchange numbers with those of their own SIMD-group.
llvm::Function& widen(llvm::Function& kernel, const Geometry& geometry, llvm::TargetMachine& machine,
                      OtherBody* other = nullptr) {
    llvm::DominatorTree dominators(kernel);
    llvm::LoopInfo loops(dominators);
    Divergence divergence(kernel, loops, geometry);
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    LoadGroups load_groups(kernel, divergence, analyses.functions.getResult<llvm::AAManager>(kernel));
    VectorMath mathematics(machine);
    Widener widener(kernel, divergence, load_groups, mathematics, registers_of(machine));
    llvm::Function& body = widener.run();
    if (other && !widener.flipped_bits().empty()) {
        Widener near(kernel, divergence, load_groups, mathematics, registers_of(machine));
        near.stay_in_blocks(widener.flipped_bits());
        other->body = &near.run();
        other->test = near.make_near_test();
        if (!other->test) {
            std::exchange(other->body, nullptr)->eraseFromParent();
        }
    }
    return body;
}

// A function that stayed out of line and synchronises would have to wait for lanes that are not in it.
void refuse_hidden_synchronization(llvm::Function& kernel) {
    for (const char* name : {runtime::barrier, runtime::simd, runtime::simd_mma, runtime::simd_lane,
                             runtime::threadgroup_memory, runtime::input}) {
        const llvm::Function* function = kernel.getParent()->getFunction(name);
        for (const llvm::User* user :
             function ? function->users() : llvm::iterator_range<llvm::Value::const_user_iterator>({}, {})) {
            const auto* call = llvm::dyn_cast<llvm::CallInst>(user);
            if (!call || call->getFunction() != &kernel) {
                throw Unsupported("a function that could not be inlined into the kernel synchronises");
            }
        }
    }
}

} // namespace

Demands demands_of(const llvm::Function& kernel) {
    Demands out;
    for (const llvm::Instruction& instruction : llvm::instructions(kernel)) {
        const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
        if (!callee) {
            continue;
        }
        llvm::StringRef name = callee->getName();
        out.barriers |= name == runtime::barrier;
        for (const char* own :
             {runtime::barrier, runtime::simd, runtime::simd_mma, runtime::simd_lane, runtime::threadgroup_memory}) {
            out.threadgroups |= name == own;
        }
        if (name == runtime::input) {
            const auto* which = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(0));
            auto group = which ? static_cast<ThreadInput>(which->getZExtValue() / 3 * 3) : ThreadInput::count;
            out.threadgroups |= group != ThreadInput::position_in_grid && group != ThreadInput::threads_per_grid &&
                                group != ThreadInput::threadgroups_per_grid && group != ThreadInput::threads_per_threadgroup;
        }
    }
    return out;
}

llvm::Function& vectorize(llvm::Function& kernel, const Geometry& geometry, const std::string& name,
                          llvm::TargetMachine& machine) {
    refuse_hidden_synchronization(kernel);
    if (geometry.layout == LaneLayout::flat) {
        Geometry whole = geometry;
        whole.aligned = !can_stream(kernel);
        Geometry partial = whole;
        partial.full = false;
        OtherBody near;
        llvm::Function& body = widen(kernel, whole, machine, &near);
        llvm::Function& rest = widen(kernel, partial, machine);
        llvm::Function& rows = make_row_entry(body, near, rest, name);
        if (!can_stream(kernel)) {
            return rows;
        }
        Geometry streaming = geometry;
        streaming.stream = true;
        return make_streaming_entry(rows, widen(kernel, streaming, machine), rest, name);
    }
    llvm::Function& body = widen(kernel, geometry, machine);
    return demands_of(kernel).barriers ? make_barrier_entry(body, geometry, name) : make_group_entry(body, geometry, name);
}

} // namespace metalki::compiler::vectorize
