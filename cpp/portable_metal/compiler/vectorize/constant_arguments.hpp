// Numbers that a launch gives to all of its threads, `constant uint& n`.
#pragma once

#include <span>

#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

#include "compiler/compiler.hpp"

namespace metalki::compiler::vectorize {

// Marks loads of these numbers: they are the same for the whole launch.
inline constexpr const char* constant_argument = "metalki.constant_argument";

// Loads from the context that every threadgroup receives: its fields, addresses of arguments, numbers among them.
bool loads_context(const llvm::LoadInst& load);

// Reads them first of all: what a kernel writes may otherwise seem to change them. Every launch binds as much as their type
// needs, so they are there even if no thread asks for them.
void read_constant_arguments_first(llvm::Function& kernel, std::span<const Argument> arguments);

} // namespace metalki::compiler::vectorize
