// See the header. The rows begin with a few lanes up to the next cache line, so that most stores write whole lines.
#include "vectorize/streaming.hpp"

#include <cstddef>

#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include "codegen/thread_context.hpp"
#include "compiler/kernel_abi.hpp"
#include "vectorize/prefetch.hpp"
#include "vectorize/shape.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr std::size_t longest_kernel = 60;

const llvm::Value* buffer_of(const llvm::Value* address) {
    return llvm::getUnderlyingObject(address, /*MaxLookup=*/0);
}

std::uint64_t lane_bytes(const llvm::Instruction& address) {
    const llvm::MDNode* mark = address.getMetadata(streamed_address);
    return mark ? llvm::mdconst::extract<llvm::ConstantInt>(mark->getOperand(0))->getZExtValue() : 0;
}

bool is_prefetch(const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return call && call->getIntrinsicID() == llvm::Intrinsic::prefetch;
}

// The address that the body stores to first; null where something else happens before.
llvm::Function* make_address_function(llvm::Function& body) {
    auto* number = llvm::Type::getInt64Ty(body.getContext());
    auto* type = llvm::FunctionType::get(number, body.getFunctionType()->params(), false);
    auto* out = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, body.getName() + ".address", body.getParent());
    llvm::ValueToValueMapTy values;
    for (unsigned i = 0; i < body.arg_size(); ++i) {
        values[body.getArg(i)] = out->getArg(i);
    }
    llvm::SmallVector<llvm::ReturnInst*, 4> returns;
    llvm::CloneFunctionInto(out, &body, values, llvm::CloneFunctionChangeType::LocalChangesOnly, returns);
    for (llvm::ReturnInst* end : returns) {
        llvm::ReturnInst::Create(body.getContext(), llvm::ConstantInt::get(number, 0), end->getIterator());
        end->eraseFromParent();
    }
    for (llvm::Instruction& instruction : llvm::instructions(*out)) {
        if (lane_bytes(instruction) != 0) {
            llvm::BasicBlock* block = instruction.getParent();
            llvm::SplitBlock(block, instruction.getNextNode());
            llvm::Instruction* jump = block->getTerminator();
            llvm::ReturnInst::Create(body.getContext(), &instruction, jump->getIterator());
            jump->eraseFromParent();
            break;
        }
    }
    llvm::EliminateUnreachableBlocks(*out);
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(*out))) {
        if (is_prefetch(instruction)) {
            instruction.eraseFromParent();
            continue;
        }
        auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
        bool own = store && llvm::isa<llvm::AllocaInst>(store->getPointerOperand());
        if (instruction.mayHaveSideEffects() && !own) {
            out->eraseFromParent();
            return nullptr;
        }
    }
    out->addFnAttr(llvm::Attribute::AlwaysInline);
    return out;
}

// Threads of the whole grid.
llvm::Value* count_threads(llvm::IRBuilderBase& builder, llvm::Value* context) {
    llvm::Value* threads = builder.getInt64(1);
    for (unsigned axis = 0; axis < 3; ++axis) {
        llvm::Value* size = load_context_word(builder, context, context_offset(ThreadInput::threads_per_grid), axis);
        threads = builder.CreateMul(threads, builder.CreateZExt(size, builder.getInt64Ty()));
    }
    return threads;
}

// Lines that are written in part are read first, and all stores behind them wait: they are asked for while rows before them
// are written. `known` is a place to name where a row ends with its line.
void prefetch_ends(llvm::IRBuilderBase& builder, llvm::Value* address, llvm::Value* row_bytes, llvm::Value* known) {
    constexpr unsigned to_write = 1;
    for (std::uint64_t rows : {1, 2}) {
        llvm::Value* end = builder.CreateAdd(address, builder.CreateMul(row_bytes, builder.getInt64(rows)));
        llvm::Value* in_line = builder.CreateICmpEQ(builder.CreateAnd(end, cache_line - 1), builder.getInt64(0));
        llvm::Value* place = builder.CreateSelect(in_line, known, builder.CreateIntToPtr(end, builder.getPtrTy()));
        builder.CreateIntrinsic(llvm::Intrinsic::prefetch, {place->getType()},
                                {place, builder.getInt32(to_write), builder.getInt32(into_first_level), builder.getInt32(1)});
    }
}

// Lanes up to the next cache line.
llvm::Value* lanes_to_line(llvm::IRBuilderBase& builder, llvm::Value* address, std::uint64_t bytes) {
    llvm::Value* missing = builder.CreateAnd(builder.CreateNeg(address), cache_line - 1);
    llvm::Value* whole = builder.CreateICmpEQ(builder.CreateURem(missing, builder.getInt64(bytes)), builder.getInt64(0));
    llvm::Value* count = builder.CreateUDiv(missing, builder.getInt64(bytes));
    return builder.CreateTrunc(builder.CreateSelect(whole, count, builder.getInt64(0)), builder.getInt32Ty());
}

} // namespace

bool can_stream(const llvm::StoreInst& store) {
    const llvm::Function& kernel = *store.getFunction();
    const llvm::Value* target = buffer_of(store.getPointerOperand());
    if (!store.isSimple() || !llvm::isa<llvm::LoadInst>(target)) {
        return false;
    }
    for (const llvm::Instruction& instruction : llvm::instructions(kernel)) {
        const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
        if (load && buffer_of(load->getPointerOperand()) == target) {
            return false;
        }
    }
    return true;
}

bool can_stream(const llvm::Function& kernel) {
    bool found = false;
    for (const llvm::Instruction& instruction : llvm::instructions(kernel)) {
        const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
        found |= store && can_stream(*store);
    }
    llvm::SmallVector<std::pair<const llvm::BasicBlock*, const llvm::BasicBlock*>, 4> backwards;
    llvm::FindFunctionBackedges(kernel, backwards);
    return found && backwards.empty() && kernel.getInstructionCount() <= longest_kernel;
}

llvm::Function& make_streaming_entry(llvm::Function& rows, llvm::Function& body, llvm::Function& rest,
                                     const std::string& name) {
    std::uint64_t bytes = 0, first_bytes = 0;
    for (const llvm::Instruction& instruction : llvm::instructions(body)) {
        std::uint64_t own = lane_bytes(instruction);
        first_bytes = first_bytes == 0 ? own : first_bytes;
        bytes += own;
    }
    llvm::Function* address_of = bytes == 0 ? nullptr : make_address_function(body);
    if (!address_of) {
        body.eraseFromParent();
        return rows;
    }
    llvm::LLVMContext& context = rows.getContext();
    auto* entry = llvm::Function::Create(rows.getFunctionType(), llvm::GlobalValue::ExternalLinkage, "", *rows.getParent());
    entry->copyAttributesFrom(&rows);
    rows.setName(name + ".rows");
    entry->setName(name);
    rows.addFnAttr(llvm::Attribute::AlwaysInline);
    body.addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::Value *place = entry->getArg(0), *first = entry->getArg(1), *count = entry->getArg(2), *y = entry->getArg(3),
                *z = entry->getArg(4);
    auto block = [&](const char* label) { return llvm::BasicBlock::Create(context, label, entry); };
    llvm::BasicBlock *start = block("start"), *large = block("large"), *begin = block("begin"), *aligned = block("aligned"),
                     *loop = block("loop"), *ordinary = block("ordinary");
    llvm::IRBuilder<> builder(start);
    llvm::Value *zero = builder.getInt32(0), *all = builder.getInt32(lanes);
    llvm::Value* enough = builder.CreateICmpUGE(count_threads(builder, place), builder.getInt64(streamed_bytes / bytes));
    enough = builder.CreateAnd(enough, builder.CreateICmpUGE(count, builder.getInt32(2 * lanes)));
    builder.CreateCondBr(enough, large, ordinary);

    builder.SetInsertPoint(large);
    llvm::Value* address = builder.CreateCall(address_of, {place, zero, first, y, z, all});
    prefetch_ends(builder, address,
                  builder.CreateMul(builder.CreateZExt(count, builder.getInt64Ty()), builder.getInt64(first_bytes)), place);
    llvm::Value* peeled = lanes_to_line(builder, address, first_bytes);
    builder.CreateCondBr(builder.CreateICmpNE(peeled, zero), begin, aligned);
    builder.SetInsertPoint(begin);
    builder.CreateCall(&rest, {place, zero, first, y, z, peeled});
    builder.CreateBr(aligned);
    builder.SetInsertPoint(aligned);
    llvm::Value *aligned_x = builder.CreateNUWAdd(first, peeled), *aligned_left = builder.CreateNUWSub(count, peeled);
    builder.CreateBr(loop);

    builder.SetInsertPoint(loop);
    llvm::PHINode *x = builder.CreatePHI(zero->getType(), 2), *left = builder.CreatePHI(zero->getType(), 2);
    builder.CreateCall(&body, {place, zero, x, y, z, all});
    llvm::Value *next_x = builder.CreateNUWAdd(x, all), *next_left = builder.CreateNUWSub(left, all);
    x->addIncoming(aligned_x, aligned);
    x->addIncoming(next_x, loop);
    left->addIncoming(aligned_left, aligned);
    left->addIncoming(next_left, loop);
    builder.CreateCondBr(builder.CreateICmpUGE(next_left, all), loop, ordinary);

    builder.SetInsertPoint(ordinary);
    llvm::PHINode *rest_x = builder.CreatePHI(zero->getType(), 2), *rest_left = builder.CreatePHI(zero->getType(), 2);
    rest_x->addIncoming(first, start);
    rest_x->addIncoming(next_x, loop);
    rest_left->addIncoming(count, start);
    rest_left->addIncoming(next_left, loop);
    builder.CreateCall(&rows, {place, rest_x, rest_left, y, z});
    builder.CreateRetVoid();
    return *entry;
}

} // namespace metalki::compiler::vectorize
