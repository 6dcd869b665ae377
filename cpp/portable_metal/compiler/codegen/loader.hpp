// Machine code: from a module to an object file, and from there into memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include "compiler/compiler.hpp"

namespace metalki::compiler {

using ObjectCode = llvm::SmallVector<char, 0>;

ObjectCode emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type);

// Text of the module: "llvm" (its IR) or "asm".
std::string listing(llvm::Module& module, llvm::TargetMachine& machine, std::string_view form);

// Bytes that one frame of each function of the object takes together.
std::size_t total_frame_size(const ObjectCode& object);

struct LoadedObject {
    const void* entry = nullptr;
    const void* code_begin = nullptr; // all instructions of the object
    const void* code_end = nullptr;
    std::shared_ptr<const void> keep_alive;
};

// Links against `symbols` and the mathematics library. Throws std::runtime_error when a symbol is missing.
LoadedObject load(std::string_view object, const std::string& entry, std::span<const RuntimeSymbol> symbols);

} // namespace metalki::compiler
