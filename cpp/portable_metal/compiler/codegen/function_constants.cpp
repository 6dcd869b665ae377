// Function constants are external globals until here; with an initialiser they fold away in optimisation.
#include "codegen/function_constants.hpp"

#include <cstring>

#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"

#include "codegen/runtime_names.hpp"

namespace metalki::compiler {
namespace {

// A constant of any first-class type from its bytes in memory.
llvm::Constant* constant_from_bytes(llvm::Type* type, const std::byte* bytes, const llvm::DataLayout& layout) {
    if (auto* record = llvm::dyn_cast<llvm::StructType>(type)) {
        const llvm::StructLayout* offsets = layout.getStructLayout(record);
        std::vector<llvm::Constant*> fields;
        for (unsigned i = 0; i < record->getNumElements(); ++i) {
            fields.push_back(constant_from_bytes(record->getElementType(i), bytes + offsets->getElementOffset(i), layout));
        }
        return llvm::ConstantStruct::get(record, fields);
    }
    if (auto* array = llvm::dyn_cast<llvm::ArrayType>(type)) {
        std::size_t stride = layout.getTypeAllocSize(array->getElementType());
        std::vector<llvm::Constant*> elements;
        for (std::uint64_t i = 0; i < array->getNumElements(); ++i) {
            elements.push_back(constant_from_bytes(array->getElementType(), bytes + i * stride, layout));
        }
        return llvm::ConstantArray::get(array, elements);
    }
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
        std::size_t stride = layout.getTypeStoreSize(vector->getElementType());
        std::vector<llvm::Constant*> elements;
        for (unsigned i = 0; i < vector->getNumElements(); ++i) {
            elements.push_back(constant_from_bytes(vector->getElementType(), bytes + i * stride, layout));
        }
        return llvm::ConstantVector::get(elements);
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes, std::min<std::size_t>(layout.getTypeStoreSize(type), sizeof bits));
    if (type->isFloatingPointTy()) {
        llvm::APInt raw(type->getPrimitiveSizeInBits(), bits);
        return llvm::ConstantFP::get(type, llvm::APFloat(type->getFltSemantics(), raw));
    }
    return llvm::ConstantInt::get(type, bits);
}

void answer_is_defined(llvm::Module& module) {
    llvm::Function* question = module.getFunction(runtime::is_defined);
    if (!question) {
        return;
    }
    for (llvm::User* user : llvm::make_early_inc_range(question->users())) {
        auto* call = llvm::dyn_cast<llvm::CallInst>(user);
        if (!call) {
            continue;
        }
        auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(call->getArgOperand(0)->stripPointerCasts());
        bool defined = variable && variable->hasInitializer();
        call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), defined));
        call->eraseFromParent();
    }
}

std::size_t find_constant(std::span<const FunctionConstant> declared, const ConstantValue& value) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
        if (value.index ? declared[i].index == *value.index : declared[i].name == value.name) {
            return i;
        }
    }
    std::string known;
    for (const FunctionConstant& constant : declared) {
        known += (known.empty() ? "" : ", ") + constant.name + " (" + std::to_string(constant.index) + ")";
    }
    std::string asked = value.index ? "index " + std::to_string(*value.index) : "name '" + value.name + "'";
    throw SpecializationError("no function constant has the " + asked + "; " +
                              (known.empty() ? std::string("the source declares none") : "there are " + known));
}

} // namespace

void apply_function_constants(llvm::Module& module, std::span<const FunctionConstant> declared,
                              std::span<const std::string> symbols, std::span<const ConstantValue> values) {
    for (const ConstantValue& value : values) {
        std::size_t i = find_constant(declared, value);
        const Type& type = declared[i].type;
        if (type.scalar != value.type || type.rows != value.width) {
            throw SpecializationError("function constant '" + declared[i].name + "' is of type " + type.name +
                                      "; the value given has another type");
        }
        llvm::GlobalVariable* variable = module.getGlobalVariable(symbols[i], /*AllowInternal=*/true);
        if (!variable) {
            continue; // the kernel does not use it
        }
        variable->setInitializer(constant_from_bytes(variable->getValueType(), value.bytes.data(), module.getDataLayout()));
        variable->setConstant(true);
        variable->setLinkage(llvm::GlobalValue::InternalLinkage);
    }
    answer_is_defined(module);
}

std::vector<std::string> unset_constants(const llvm::Module& module, std::span<const FunctionConstant> declared,
                                         std::span<const std::string> symbols) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < declared.size(); ++i) {
        const llvm::GlobalVariable* variable = module.getGlobalVariable(symbols[i], /*AllowInternal=*/true);
        if (variable && !variable->hasInitializer() && !variable->use_empty()) {
            names.push_back(declared[i].name);
        }
    }
    return names;
}

} // namespace metalki::compiler
