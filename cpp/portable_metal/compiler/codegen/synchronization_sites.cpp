// Site numbers follow a topological order of the control flow in which every loop is contiguous.
#include "codegen/synchronization_sites.hpp"

#include <set>
#include <stdexcept>
#include <vector>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "compiler/compiler.hpp"

namespace metalki::compiler {
namespace {

// Topological order of a function's blocks; each loop is one node of its surroundings and is ordered inside in turn.
class LoopContiguousOrder {
public:
    LoopContiguousOrder(llvm::Function& function, const llvm::LoopInfo& loops) : loops_(loops) {
        order_region(&function.getEntryBlock(), nullptr);
    }
    const std::vector<llvm::BasicBlock*>& blocks() const { return order_; }

private:
    // The loop that is a direct child of `region` and contains `block`, or null when the block is directly in the region.
    const llvm::Loop* child_loop(llvm::BasicBlock* block, const llvm::Loop* region) const {
        const llvm::Loop* loop = loops_.getLoopFor(block);
        while (loop && loop->getParentLoop() != region) {
            loop = loop->getParentLoop();
        }
        return loop;
    }

    std::vector<llvm::BasicBlock*> successors_in(llvm::BasicBlock* node, const llvm::Loop* region) const {
        std::vector<llvm::BasicBlock*> out;
        auto add = [&](llvm::BasicBlock* successor) {
            bool inside = !region || region->contains(successor);
            bool is_back_edge = region && successor == region->getHeader();
            if (inside && !is_back_edge) {
                const llvm::Loop* child = child_loop(successor, region);
                out.push_back(child ? child->getHeader() : successor);
            }
        };
        if (const llvm::Loop* child = child_loop(node, region)) {
            llvm::SmallVector<llvm::BasicBlock*, 8> exits;
            child->getExitBlocks(exits);
            for (llvm::BasicBlock* exit : exits) {
                add(exit);
            }
        } else {
            for (llvm::BasicBlock* successor : llvm::successors(node)) {
                add(successor);
            }
        }
        return out;
    }

    void order_region(llvm::BasicBlock* start, const llvm::Loop* region) {
        std::vector<llvm::BasicBlock*> post_order;
        std::set<llvm::BasicBlock*> seen{start};
        struct Frame {
            llvm::BasicBlock* node;
            std::vector<llvm::BasicBlock*> successors;
            std::size_t next = 0;
        };
        std::vector<Frame> stack;
        stack.push_back({start, successors_in(start, region)});
        while (!stack.empty()) {
            Frame& top = stack.back();
            if (top.next == top.successors.size()) {
                post_order.push_back(top.node);
                stack.pop_back();
                continue;
            }
            llvm::BasicBlock* successor = top.successors[top.next++];
            if (seen.insert(successor).second) {
                stack.push_back({successor, successors_in(successor, region)});
            }
        }
        for (auto node = post_order.rbegin(); node != post_order.rend(); ++node) {
            const llvm::Loop* child = child_loop(*node, region);
            if (child) {
                order_region(*node, child);
            } else {
                order_.push_back(*node);
            }
        }
    }

    const llvm::LoopInfo& loops_;
    std::vector<llvm::BasicBlock*> order_;
};

bool is_simd_operation(const llvm::Instruction& instruction) {
    llvm::StringRef name = callee_name(instruction);
    return name == runtime::simd || name == runtime::simd_mma;
}

// Lanes may come to the end of an iteration with different numbers of SIMD operations behind them: if one is skipped by some
// path, or sits in an inner loop whose trip count may differ.
bool needs_meeting_point(const llvm::Loop& loop, const llvm::LoopInfo& loops, const llvm::DominatorTree& dominators) {
    const llvm::BasicBlock* latch = loop.getLoopLatch();
    for (llvm::BasicBlock* block : latch ? loop.blocks() : llvm::ArrayRef<llvm::BasicBlock*>()) {
        for (const llvm::Instruction& instruction : *block) {
            if (is_simd_operation(instruction) && (loops.getLoopFor(block) != &loop || !dominators.dominates(block, latch))) {
                return true;
            }
        }
    }
    return false;
}

llvm::FunctionCallee declare(llvm::Module& module, const char* name, llvm::Type* result, std::vector<llvm::Type*> parameters) {
    auto callee = module.getOrInsertFunction(name, llvm::FunctionType::get(result, parameters, false));
    auto* function = llvm::cast<llvm::Function>(callee.getCallee());
    function->addFnAttr(llvm::Attribute::Convergent);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    return callee;
}

void add_meeting_points(llvm::Function& entry, const llvm::LoopInfo& loops, const llvm::DominatorTree& dominators) {
    llvm::Module& module = *entry.getParent();
    auto* word = llvm::Type::getInt32Ty(module.getContext());
    auto converge = declare(module, runtime::rt_converge, llvm::Type::getVoidTy(module.getContext()), {word});
    for (const llvm::Loop* loop : loops.getLoopsInPreorder()) {
        if (needs_meeting_point(*loop, loops, dominators)) {
            llvm::IRBuilder<>(loop->getLoopLatch()->getTerminator()).CreateCall(converge, {llvm::ConstantInt::get(word, 0)});
        }
    }
}

// Replaces one call by the executor's function; the site number comes first.
void lower_call(llvm::CallInst& call, llvm::FunctionCallee target, std::uint32_t site) {
    llvm::IRBuilder<> builder(&call);
    std::vector<llvm::Value*> arguments{builder.getInt32(site)};
    bool keeps_arguments = callee_name(call) != runtime::barrier;
    if (keeps_arguments) {
        arguments.insert(arguments.end(), call.arg_begin(), call.arg_end());
    }
    llvm::CallInst* replacement = builder.CreateCall(target, arguments);
    replacement->addFnAttr(llvm::Attribute::Convergent);
    call.replaceAllUsesWith(replacement);
    call.eraseFromParent();
}

// The executor's function reads A, B and C from memory and writes D there.
void lower_matrix_call(llvm::CallInst& call, llvm::FunctionCallee target, std::uint32_t site) {
    llvm::IRBuilder<> frame(&*call.getFunction()->getEntryBlock().getFirstInsertionPt());
    auto* operands_type = llvm::ArrayType::get(frame.getFloatTy(), 6);
    llvm::Value* operands = frame.CreateAlloca(operands_type);
    llvm::AllocaInst* result = frame.CreateAlloca(call.getType());
    llvm::IRBuilder<> builder(&call);
    for (unsigned i = 0; i < 6; ++i) {
        builder.CreateStore(call.getArgOperand(i), builder.CreateConstInBoundsGEP2_32(operands_type, operands, 0, i));
    }
    llvm::CallInst* replacement = builder.CreateCall(target, {builder.getInt32(site), operands, result});
    replacement->addFnAttr(llvm::Attribute::Convergent);
    call.replaceAllUsesWith(builder.CreateLoad(call.getType(), result));
    call.eraseFromParent();
}

} // namespace

void refuse_synchronization_elsewhere(llvm::Module& module, llvm::Function& entry) {
    for (const char* name : {runtime::barrier, runtime::simd, runtime::simd_mma}) {
        llvm::Function* function = module.getFunction(name);
        if (!function) {
            continue;
        }
        for (llvm::User* user : function->users()) {
            auto* call = llvm::dyn_cast<llvm::CallInst>(user);
            if (!call || call->getFunction() != &entry) {
                throw SpecializationError(
                    "barriers and SIMD-group functions are not supported in functions that call themselves "
                    "or are called through a pointer");
            }
        }
    }
}

void number_synchronization_sites(llvm::Module& module, llvm::Function& entry) {
    llvm::DominatorTree dominators(entry);
    llvm::LoopInfo loops(dominators);
    // One latch a loop: lanes that `continue` have to meet the others at the end of the iteration, not to run ahead.
    const std::vector<llvm::Loop*> outermost(loops.begin(), loops.end());
    for (llvm::Loop* loop : outermost) {
        llvm::simplifyLoop(loop, &dominators, &loops, nullptr, nullptr, nullptr, /*PreserveLCSSA=*/false);
    }
    add_meeting_points(entry, loops, dominators);
    llvm::LLVMContext& context = module.getContext();
    auto* word = llvm::Type::getInt32Ty(context);
    auto* bits = llvm::Type::getInt64Ty(context);
    auto* nothing = llvm::Type::getVoidTy(context);
    auto* pointer = llvm::PointerType::get(context, 0);
    auto barrier = declare(module, runtime::rt_barrier, nothing, {word});
    auto simd = declare(module, runtime::rt_simd, bits, {word, word, word, word, bits, bits, word, word});
    auto mma = declare(module, runtime::rt_simd_mma, nothing, {word, pointer, pointer});
    std::uint32_t site = 0;
    const LoopContiguousOrder order(entry, loops);
    for (llvm::BasicBlock* block : order.blocks()) {
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(*block)) {
            llvm::StringRef name = callee_name(instruction);
            if (name == runtime::barrier) {
                lower_call(llvm::cast<llvm::CallInst>(instruction), barrier, ++site);
            } else if (name == runtime::simd) {
                lower_call(llvm::cast<llvm::CallInst>(instruction), simd, ++site);
            } else if (name == runtime::simd_mma) {
                lower_matrix_call(llvm::cast<llvm::CallInst>(instruction), mma, ++site);
            } else if (name == runtime::rt_converge) {
                llvm::cast<llvm::CallInst>(instruction).setArgOperand(0, llvm::ConstantInt::get(word, ++site));
            }
        }
    }
}

} // namespace metalki::compiler
