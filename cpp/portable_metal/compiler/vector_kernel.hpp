// Vector code of one kernel: chosen by the shape of the threadgroup, made when first wanted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/records.hpp"
#include "codegen/kernel_module.hpp"
#include "compiler/compiler.hpp"

namespace metalki::compiler {

// Code that runs SIMD-groups as vectors: for rows of the grid when the kernel does not ask for its threadgroup, else for
// threadgroups of the usual shapes. `scalar` is a simplified ThreadEntry and is used up. Returns nothing, and says why, when
// the kernel has to run thread by thread.
std::optional<CompiledKernel> compile_vectors(KernelModule& scalar, const std::string& entry, const FunctionInfo& function,
                                              llvm::TargetMachine& machine, std::string& why_not);

// Text ("llvm" or "asm") of what compile_vectors makes, under a line of comment that says how it runs.
std::optional<std::string> disassemble_vectors(KernelModule& scalar, const std::string& entry, const FunctionInfo& function,
                                               llvm::TargetMachine& machine, std::string_view form, std::string& why_not);

// A line of comment in a listing of that form.
std::string comment_line(std::string_view form, const std::string& text);

// Whether its code calls the function that logs.
bool prints_messages(const CompiledKernel& kernel);

using MakeScalar = std::function<std::shared_ptr<const KernelCode>()>;

// `key` is the kernel's in the disk cache.
std::shared_ptr<const VectorVariants> make_variants(CompiledKernel kernel, std::string key,
                                                    std::span<const RuntimeSymbol> runtime, MakeScalar make_scalar);

// Loads the code of a record.
std::shared_ptr<KernelCode> load_kernel(const CompiledKernel& kernel, std::span<const RuntimeSymbol> runtime);

} // namespace metalki::compiler
