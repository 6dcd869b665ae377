// Threadgroup variables must leave static storage before optimisation: LLVM would treat them as the variables of one thread.
#include "codegen/threadgroup_memory.hpp"

#include <cstddef>
#include <map>
#include <stdexcept>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/ReplaceConstant.h"

#include "codegen/runtime_names.hpp"
#include "compiler/kernel_abi.hpp"
#include "frontend/attributes.hpp"

namespace metalki::compiler {
namespace {

constexpr std::size_t block_alignment = 64;

llvm::FunctionCallee declare_block_address(llvm::Module& module) {
    llvm::LLVMContext& context = module.getContext();
    llvm::AttrBuilder attributes(context);
    attributes.addMemoryAttr(llvm::MemoryEffects::none());
    for (auto kind : {llvm::Attribute::NoUnwind, llvm::Attribute::WillReturn, llvm::Attribute::Speculatable}) {
        attributes.addAttribute(kind);
    }
    auto* type = llvm::FunctionType::get(llvm::PointerType::get(context, 0), false);
    llvm::FunctionCallee callee = module.getOrInsertFunction(runtime::threadgroup_memory, type);
    llvm::cast<llvm::Function>(callee.getCallee())->addFnAttrs(attributes);
    return callee;
}

std::vector<llvm::GlobalVariable*> threadgroup_variables(llvm::Module& module) {
    std::vector<llvm::GlobalVariable*> out;
    for (llvm::GlobalVariable& variable : module.globals()) {
        if (variable.getSection() == threadgroup_section) {
            out.push_back(&variable);
        }
    }
    return out;
}

void replace_variable(llvm::GlobalVariable& variable, std::size_t offset, llvm::FunctionCallee block_address) {
    llvm::convertUsersOfConstantsToInstructions({&variable});
    std::map<llvm::Function*, llvm::Value*> addresses;
    for (llvm::Use& use : llvm::make_early_inc_range(variable.uses())) {
        auto* instruction = llvm::dyn_cast<llvm::Instruction>(use.getUser());
        if (!instruction) {
            continue; // a dead constant
        }
        llvm::Value*& address = addresses[instruction->getFunction()];
        if (!address) {
            llvm::IRBuilder<> builder(&*instruction->getFunction()->getEntryBlock().getFirstInsertionPt());
            llvm::Value* block = builder.CreateCall(block_address);
            address = builder.CreateInBoundsGEP(builder.getInt8Ty(), block, builder.getInt64(offset), variable.getName());
        }
        use.set(address);
    }
    variable.removeDeadConstantUsers();
    if (variable.use_empty()) {
        variable.eraseFromParent();
    }
}

llvm::Value* load_size(llvm::IRBuilder<>& builder, llvm::Value* context, std::size_t offset) {
    llvm::Value* field = builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), context, offset);
    return builder.CreateLoad(builder.getInt32Ty(), field);
}

llvm::Value* lane_of(llvm::IRBuilder<>& builder, llvm::Function& entry) {
    if (entry.arg_size() != 4) {
        throw std::runtime_error("the lane index is only known to kernels that run thread by thread");
    }
    std::size_t sizes = offsetof(ThreadgroupContext, threads_in_this_threadgroup);
    llvm::Value* width = load_size(builder, entry.getArg(0), sizes);
    llvm::Value* height = load_size(builder, entry.getArg(0), sizes + 4);
    llvm::Value* row = builder.CreateAdd(entry.getArg(2), builder.CreateMul(height, entry.getArg(3)));
    llvm::Value* index = builder.CreateAdd(entry.getArg(1), builder.CreateMul(width, row));
    return builder.CreateAnd(index, builder.getInt32(simd_width - 1));
}

template <class MakeValue> void resolve_calls(llvm::Module& module, const char* name, llvm::Function& entry, MakeValue make) {
    llvm::Function* question = module.getFunction(name);
    if (!question || question->use_empty()) {
        return;
    }
    llvm::IRBuilder<> builder(&*entry.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    llvm::Value* answer = make(builder);
    for (llvm::User* user : llvm::make_early_inc_range(question->users())) {
        auto* call = llvm::cast<llvm::CallInst>(user);
        if (call->getFunction() != &entry) {
            throw std::runtime_error(
                "threadgroup memory or SIMD-group functions in a function that cannot be inlined into the kernel "
                "(called through a pointer) are not supported");
        }
        call->replaceAllUsesWith(answer);
        call->eraseFromParent();
    }
}

} // namespace

std::size_t place_threadgroup_variables(llvm::Module& module) {
    std::vector<llvm::GlobalVariable*> variables = threadgroup_variables(module);
    if (variables.empty()) {
        return 0;
    }
    llvm::FunctionCallee block_address = declare_block_address(module);
    std::size_t size = 0;
    for (llvm::GlobalVariable* variable : variables) {
        const llvm::DataLayout& layout = module.getDataLayout();
        std::size_t bytes = layout.getTypeAllocSize(variable->getValueType());
        std::size_t natural =
            variable->getAlign() ? variable->getAlign()->value() : layout.getPrefTypeAlign(variable->getValueType()).value();
        size = llvm::alignTo(size, std::min<std::size_t>(natural, block_alignment));
        replace_variable(*variable, size, block_address);
        size += bytes;
    }
    return llvm::alignTo(size, 16);
}

void resolve_context(llvm::Module& module, llvm::Function& entry) {
    resolve_calls(module, runtime::threadgroup_memory, entry, [&](llvm::IRBuilder<>& builder) -> llvm::Value* {
        llvm::Value* field = builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), entry.getArg(0),
                                                                offsetof(ThreadgroupContext, static_threadgroup_memory));
        return builder.CreateLoad(builder.getPtrTy(), field);
    });
    resolve_calls(module, runtime::simd_lane, entry, [&](llvm::IRBuilder<>& builder) { return lane_of(builder, entry); });
}

} // namespace metalki::compiler
