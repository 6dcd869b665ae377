// Threadgroup variables must leave static storage before optimisation: LLVM would treat them as the variables of one thread.
#include "codegen/threadgroup_memory.hpp"

#include <cstddef>
#include <map>
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

} // namespace metalki::compiler
