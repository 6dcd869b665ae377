// Loops over SIMD-groups.
#include "vectorize/entries.hpp"

#include "llvm/IR/Module.h"

#include "codegen/thread_context.hpp"

namespace metalki::compiler::vectorize {
namespace {

llvm::Function* make_function(llvm::Function& body, const std::string& name, std::vector<llvm::Type*> parameters) {
    llvm::LLVMContext& context = body.getContext();
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), parameters, false);
    auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *body.getParent());
    for (const llvm::Attribute& attribute : body.getAttributes().getFnAttrs()) {
        function->addFnAttr(attribute);
    }
    body.addFnAttr(llvm::Attribute::AlwaysInline);
    return function;
}

} // namespace

GroupSize::GroupSize(llvm::IRBuilderBase& builder, llvm::Value* context) {
    std::size_t offset = context_offset(ThreadInput::threads_in_this_threadgroup);
    width = load_context_word(builder, context, offset, 0);
    height = load_context_word(builder, context, offset, 1);
    llvm::Value* depth = load_context_word(builder, context, offset, 2);
    threads = builder.CreateNUWMul(builder.CreateNUWMul(width, height), depth);
    simdgroups = builder.CreateLShr(builder.CreateNUWAdd(threads, builder.getInt32(lanes - 1)), builder.getInt32(5));
}

SimdGroupPlace next_place(llvm::IRBuilderBase& builder, const SimdGroupPlace& place, const GroupSize& size,
                          const Geometry& geometry) {
    SimdGroupPlace next = place;
    llvm::Value* zero = builder.getInt32(0);
    if (geometry.layout == LaneLayout::rows) {
        llvm::Value* x = builder.CreateNUWAdd(place.x, builder.getInt32(lanes));
        llvm::Value* row_ends = builder.CreateICmpUGE(x, size.width);
        next.x = builder.CreateSelect(row_ends, zero, x);
        next.y = builder.CreateNUWAdd(place.y, builder.CreateZExt(row_ends, builder.getInt32Ty()));
    } else if (geometry.layout == LaneLayout::columns) {
        next.y = builder.CreateNUWAdd(place.y, builder.getInt32(lanes / geometry.width));
    }
    llvm::Value* plane_ends = builder.CreateICmpUGE(next.y, size.height);
    next.z = builder.CreateNUWAdd(place.z, builder.CreateZExt(plane_ends, builder.getInt32Ty()));
    next.y = builder.CreateSelect(plane_ends, zero, next.y);
    return next;
}

llvm::Value* lanes_of(llvm::IRBuilderBase& builder, llvm::Value* simdgroup, const GroupSize& size) {
    llvm::Value* left = builder.CreateSub(size.threads, builder.CreateMul(simdgroup, builder.getInt32(lanes)));
    return builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, builder.getInt32(lanes));
}

llvm::Function& make_row_entry(llvm::Function& body, OtherBody other, llvm::Function& rest, const std::string& name) {
    llvm::LLVMContext& context = body.getContext();
    auto* word = llvm::Type::getInt32Ty(context);
    llvm::Function* entry = make_function(body, name, {llvm::PointerType::get(context, 0), word, word, word, word});
    rest.addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::Value *place = entry->getArg(0), *first = entry->getArg(1), *count = entry->getArg(2), *y = entry->getArg(3),
                *z = entry->getArg(4);
    auto block = [&](const char* label) { return llvm::BasicBlock::Create(context, label, entry); };
    llvm::BasicBlock *start = block("start"), *whole = block("whole"), *tail = block("tail"), *partial = block("partial"),
                     *done = block("done");
    llvm::IRBuilder<> builder(tail);
    auto* zero = builder.getInt32(0);
    auto* all = builder.getInt32(lanes);
    llvm::PHINode *tail_x = builder.CreatePHI(word, 2), *tail_left = builder.CreatePHI(word, 2);
    builder.CreateCondBr(builder.CreateICmpNE(tail_left, zero), partial, done);
    builder.SetInsertPoint(partial);
    builder.CreateCall(&rest, {place, zero, tail_x, y, z, tail_left});
    builder.CreateBr(done);
    builder.SetInsertPoint(done);
    builder.CreateRetVoid();
    builder.SetInsertPoint(start);
    tail_x->addIncoming(first, start);
    tail_left->addIncoming(count, start);
    builder.CreateCondBr(builder.CreateICmpUGE(count, all), whole, tail);
    auto run_all = [&](llvm::Function& simdgroup) {
        llvm::BasicBlock* loop = block("loop");
        builder.SetInsertPoint(loop);
        llvm::PHINode *x = builder.CreatePHI(word, 2), *left = builder.CreatePHI(word, 2);
        builder.CreateCall(&simdgroup, {place, zero, x, y, z, all});
        llvm::Value *next_x = builder.CreateNUWAdd(x, all), *next_left = builder.CreateNUWSub(left, all);
        x->addIncoming(first, whole);
        x->addIncoming(next_x, loop);
        left->addIncoming(count, whole);
        left->addIncoming(next_left, loop);
        tail_x->addIncoming(next_x, loop);
        tail_left->addIncoming(next_left, loop);
        builder.CreateCondBr(builder.CreateICmpUGE(next_left, all), loop, tail);
        return loop;
    };
    llvm::BasicBlock* loop = run_all(body);
    if (!other.body) {
        llvm::BranchInst::Create(loop, whole);
        return *entry;
    }
    other.body->addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::BasicBlock* other_loop = run_all(*other.body);
    builder.SetInsertPoint(whole);
    llvm::Value* applies = builder.CreateCall(other.test, {place, zero, first, y, z, all});
    builder.CreateCondBr(applies, other_loop, loop);
    return *entry;
}

llvm::Function& make_group_entry(llvm::Function& body, const Geometry& geometry, const std::string& name) {
    llvm::LLVMContext& context = body.getContext();
    auto* word = llvm::Type::getInt32Ty(context);
    llvm::Function* entry = make_function(body, name, {llvm::PointerType::get(context, 0)});
    auto* start = llvm::BasicBlock::Create(context, "start", entry);
    auto* loop = llvm::BasicBlock::Create(context, "loop", entry);
    auto* done = llvm::BasicBlock::Create(context, "done", entry);
    llvm::IRBuilder<> builder(start);
    GroupSize size(builder, entry->getArg(0));
    builder.CreateBr(loop);
    builder.SetInsertPoint(loop);
    llvm::PHINode* phis[4];
    for (llvm::PHINode*& phi : phis) {
        phi = builder.CreatePHI(word, 2);
        phi->addIncoming(builder.getInt32(0), start);
    }
    SimdGroupPlace place{phis[1], phis[2], phis[3]};
    llvm::Value* count = lanes_of(builder, phis[0], size);
    builder.CreateCall(&body, {entry->getArg(0), phis[0], place.x, place.y, place.z, count});
    llvm::Value* next = builder.CreateNUWAdd(phis[0], builder.getInt32(1));
    SimdGroupPlace next_at = next_place(builder, place, size, geometry);
    phis[0]->addIncoming(next, loop);
    phis[1]->addIncoming(next_at.x, loop);
    phis[2]->addIncoming(next_at.y, loop);
    phis[3]->addIncoming(next_at.z, loop);
    builder.CreateCondBr(builder.CreateICmpULT(next, size.simdgroups), loop, done);
    builder.SetInsertPoint(done);
    builder.CreateRetVoid();
    return *entry;
}

} // namespace metalki::compiler::vectorize
