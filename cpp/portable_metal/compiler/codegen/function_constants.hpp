// Gives function constants their values in a kernel's module.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "llvm/IR/Module.h"

#include "compiler/compiler.hpp"

namespace metalki::compiler {

// Before optimisation: sets values and answers is_function_constant_defined. Throws SpecializationError for a value whose
// type is not the declared one or whose name or index does not exist.
void apply_function_constants(llvm::Module& module, std::span<const FunctionConstant> declared,
                              std::span<const std::string> symbols, std::span<const ConstantValue> values);

// Names of the constants that `module` still refers to although they have no value.
std::vector<std::string> unset_constants(const llvm::Module& module, std::span<const FunctionConstant> declared,
                                         std::span<const std::string> symbols);

} // namespace metalki::compiler
