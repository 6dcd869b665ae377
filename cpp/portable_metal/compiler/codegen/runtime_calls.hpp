// Finds the calls that stand for something: barriers, position inputs, SIMD-group functions.
#pragma once

#include <optional>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

#include "codegen/runtime_names.hpp"

namespace metalki::compiler {

// Name of the function that is called directly; empty for anything else.
inline llvm::StringRef callee_name(const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
    return callee ? callee->getName() : llvm::StringRef();
}

// Which position input an instruction reads: a ThreadInput and its axis; none for anything else.
inline std::optional<unsigned> input_number(const llvm::Instruction& instruction) {
    const auto* number =
        callee_name(instruction) == runtime::input ? llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(0)) : nullptr;
    return number ? std::optional(static_cast<unsigned>(number->getZExtValue())) : std::nullopt;
}

inline bool is_used(const llvm::Module& module, llvm::StringRef name) {
    const llvm::Function* function = module.getFunction(name);
    return function && !function->use_empty();
}

inline std::vector<llvm::CallInst*> calls_of(llvm::Function& caller, llvm::StringRef name) {
    std::vector<llvm::CallInst*> out;
    for (llvm::Instruction& instruction : llvm::instructions(caller)) {
        if (callee_name(instruction) == name) {
            out.push_back(llvm::cast<llvm::CallInst>(&instruction));
        }
    }
    return out;
}

} // namespace metalki::compiler
