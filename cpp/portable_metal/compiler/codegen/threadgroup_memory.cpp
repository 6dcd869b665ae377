// Threadgroup variables must leave static storage before optimisation: LLVM would treat them as the variables of one thread.
#include "codegen/threadgroup_memory.hpp"

#include <cstddef>
#include <map>
#include <set>
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

// Stores `value`, part by part, at `address`.
void store_parts(llvm::IRBuilder<>& builder, llvm::Constant& value, llvm::Value& address) {
    llvm::Type* type = value.getType();
    if (!type->isArrayTy() && !type->isStructTy()) {
        builder.CreateStore(&value, &address);
        return;
    }
    unsigned parts = type->isArrayTy() ? static_cast<unsigned>(type->getArrayNumElements()) : type->getStructNumElements();
    for (unsigned i = 0; i < parts; ++i) {
        store_parts(builder, *value.getAggregateElement(i), *builder.CreateConstInBoundsGEP2_32(type, &address, 0, i));
    }
}

// Clang keeps the initialiser of `threadgroup float* p[2] = {a, b}` in a constant of static storage; addresses that each
// threadgroup has for itself cannot stay there.
void unpack_constants_with(llvm::GlobalVariable& variable) {
    std::set<llvm::GlobalVariable*> holders;
    std::vector<llvm::Constant*> open{&variable};
    while (!open.empty()) {
        llvm::Constant* constant = open.back();
        open.pop_back();
        for (llvm::User* user : constant->users()) {
            if (auto* holder = llvm::dyn_cast<llvm::GlobalVariable>(user)) {
                holders.insert(holder);
            } else if (auto* expression = llvm::dyn_cast<llvm::Constant>(user)) {
                open.push_back(expression);
            }
        }
    }
    for (llvm::GlobalVariable* holder : holders) {
        llvm::convertUsersOfConstantsToInstructions({holder});
        std::map<llvm::Function*, llvm::Value*> copies;
        for (llvm::Use& use : llvm::make_early_inc_range(holder->uses())) {
            auto* instruction = llvm::dyn_cast<llvm::Instruction>(use.getUser());
            if (!instruction) {
                continue;
            }
            llvm::Value*& copy = copies[instruction->getFunction()];
            if (!copy) {
                llvm::IRBuilder<> builder(&*instruction->getFunction()->getEntryBlock().getFirstInsertionPt());
                copy = builder.CreateAlloca(holder->getValueType());
                store_parts(builder, *holder->getInitializer(), *copy);
            }
            use.set(copy);
        }
        holder->setInitializer(llvm::UndefValue::get(holder->getValueType()));
    }
}

void replace_variable(llvm::GlobalVariable& variable, std::size_t offset, llvm::FunctionCallee block_address) {
    unpack_constants_with(variable);
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
    auto* declared = llvm::cast<llvm::Function>(block_address.getCallee());
    declared->addRetAttr(llvm::Attribute::getWithDereferenceableBytes(module.getContext(), size));
    declared->addRetAttr(llvm::Attribute::getWithAlignment(module.getContext(), llvm::Align(block_alignment)));
    return llvm::alignTo(size, 16);
}

} // namespace metalki::compiler
