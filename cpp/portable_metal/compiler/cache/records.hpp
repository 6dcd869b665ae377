// What is cached: the reflection of a parsed source, its bitcode, and the machine code of its kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loader.hpp"
#include "compiler/gpu_code.hpp"
#include "frontend/parse.hpp"

namespace metalki::compiler {

// A kernel as it goes to the loader.
struct CompiledKernel {
    FunctionInfo function;
    std::string entry; // symbol
    enum class Form : std::uint8_t { scalar, rows, threadgroups } form = Form::scalar;
    bool synchronizes = false;     // scalar: has to run thread by thread
    std::uint32_t axes_in_row = 1; // rows: see KernelCode
    std::size_t threadgroup_memory = 0;
    std::size_t stack_size = 0;
    GroupWork group_work;
    std::string object;
    std::string scalar_entry;  // of vector_source
    std::string vector_source; // threadgroups: bitcode of the scalar kernel, to make code for further shapes from
    std::string why_scalar;    // scalar: what kept the vectoriser from it
};

// Keys hold everything that changes the result: texts, options, our headers, compiler version, processor.
std::string source_key(std::string_view source, const Options& options);
std::string content_key(const std::string& source_key, const std::vector<Dependency>& dependencies);
std::string bitcode_key(const std::string& content_key);
std::string constants_key(const std::string& content_key, std::string_view function);
std::string kernel_key(const std::string& content_key, std::string_view function, std::span<const ConstantValue> constants);

// Without the bitcode. Reading returns nothing when the record is damaged or a file that the source included has changed.
std::string write_source(const ParsedSource& source);
std::optional<ParsedSource> read_source(std::string_view record);

// A function constant that a kernel reads: its position in the source's list, and whether it needs a value.
struct ConstantUse {
    std::uint32_t constant = 0;
    bool required = true;
};
std::string write_constant_uses(const std::vector<ConstantUse>& uses);
std::optional<std::vector<ConstantUse>> read_constant_uses(std::string_view record, std::size_t constants);

std::string gpu_key(const std::string& kernel_key, const GpuRequest& request);
std::string write_gpu_code(const GpuCode& code);
std::optional<GpuCode> read_gpu_code(std::string_view record);

std::string write_kernel(const CompiledKernel& kernel);
std::optional<CompiledKernel> read_kernel(std::string_view record);

} // namespace metalki::compiler
