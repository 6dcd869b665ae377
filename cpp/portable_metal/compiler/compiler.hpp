// MSL source in, loaded machine code and reflection out. Knows no devices and shows no LLVM type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/kernel_abi.hpp"

namespace metalki::compiler {

enum class Severity : std::uint8_t { note, warning, error };

struct Diagnostic {
    std::string file; // "program" for the source given as text
    unsigned line = 0;
    unsigned column = 0;
    Severity severity = Severity::error;
    std::string message;
    std::string source_line; // text of that line, without the line end
};

// what() is the whole text as a compiler prints it: file:line:col: error: ..., the line, a caret, notes.
class CompileError : public std::runtime_error {
public:
    CompileError(const std::string& text, std::vector<Diagnostic> diagnostics)
        : std::runtime_error(text), diagnostics_(std::move(diagnostics)) {}
    std::span<const Diagnostic> diagnostics() const { return diagnostics_; }

private:
    std::vector<Diagnostic> diagnostics_;
};

// A request that the library cannot serve (unknown function, unset function constant); the source itself is fine.
class SpecializationError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

enum class MathMode : std::uint8_t { safe, relaxed, fast };

struct Options {
    std::vector<std::pair<std::string, std::string>> macros; // name, replacement text
    MathMode math_mode = MathMode::relaxed;
    unsigned language_version = 0x30002;                      // as MTL::LanguageVersion: major << 16 | minor
    std::vector<std::string> include_directories;             // searched on disk
    std::vector<std::pair<std::string, std::string>> headers; // name as in #include, text
    std::string include_identity; // changes with what the directories hold, so that nothing stale comes out of a cache
};

enum class ScalarType : std::uint8_t {
    none,
    bool_,
    char_,
    uchar,
    short_,
    ushort,
    int_,
    uint,
    long_,
    ulong,
    half,
    bfloat,
    float_,
};

enum class TypeKind : std::uint8_t {
    scalar,
    vector,
    packed_vector,
    matrix,
    structure,
    array,
    pointer,
    texture,
    sampler,
    other
};

struct Member;

// Shape of a value in memory. For atomics: the shape of the value inside.
struct Type {
    TypeKind kind = TypeKind::other;
    ScalarType scalar = ScalarType::none;
    std::uint8_t columns = 1; // matrices; 1 otherwise
    std::uint8_t rows = 1;    // components of a vector or of a matrix column
    bool atomic = false;
    std::size_t size = 0; // bytes, as MSL lays it out (float3: 16, packed_float3: 12, bool: 1)
    std::size_t alignment = 1;
    std::size_t array_length = 0; // arrays only
    std::string name;             // MSL spelling: "float4", "packed_float3", "MyStruct", "atomic_uint"
    std::vector<Member> members;  // structures: fields; arrays and pointers: one nameless element
};

struct Member {
    std::string name;
    std::size_t offset = 0;
    int argument_id = -1; // [[id(n)]] of argument buffers
    Type type;
};

enum class ArgumentKind : std::uint8_t { buffer, threadgroup, texture, sampler };
enum class Access : std::uint8_t { read, write, read_write };

struct Argument {
    std::string name;
    ArgumentKind kind = ArgumentKind::buffer;
    unsigned index = 0; // [[buffer(n)]], [[threadgroup(n)]], ...
    Access access = Access::read_write;
    bool reference = false; // constant T& rather than a pointer
    bool constant_space = false;
    bool active = true; // false when a function constant switched it off
    Type type;          // of the pointee
};

struct FunctionConstant {
    std::string name;
    unsigned index = 0;
    Type type;
    bool required = true; // false when the kernel asks is_function_constant_defined before it reads the constant
};

struct FunctionInfo {
    std::string name;                // what one asks for: host_name where given
    std::vector<Argument> arguments; // in declaration order, position inputs left out: the argument slots of the ABI
    unsigned max_total_threads = 0;  // [[max_total_threads_per_threadgroup(n)]]; 0: not given
};

struct ConstantValue {
    std::optional<unsigned> index; // either the index or the name is given
    std::string name;
    ScalarType type = ScalarType::none;
    unsigned width = 1;                // components
    std::array<std::byte, 32> bytes{}; // components, tightly packed
};

struct RuntimeSymbol {
    std::string_view name; // "__metalki_rt_barrier"
    const void* address;
};

// What a threadgroup costs, in nanoseconds of a typical processor: of use only as a ratio.
struct GroupWork {
    float of_group = 0;         // however many threads it has; 0: not known
    float of_simdgroup = 0;     // more for each SIMD-group
    float growth = 0;           // of what a SIMD-group costs, as a part of it, with each doubling of 256 threads
    float row_accesses = 0;     // of a SIMD-group to device memory, where threads along x have neighbours in memory
    float column_accesses = 0;  // the same where threads along y have
    bool halves = false;        // its threads wait for each other again and again, the more often the more they are
    bool loops = false;         // as often as its arguments say: the time of a dispatch does not follow
    bool one_way_ahead = false; // the processor looks far ahead along one way in memory rather than along several
};

struct KernelCode;

// Code of one kernel that runs SIMD-groups as vectors; which code that is depends on the threadgroup's shape, and is made when
// it is first wanted. Safe to use from several threads. May throw what make_kernel throws.
class VectorVariants {
public:
    virtual ~VectorVariants() = default;
    // Has run_rows set; null when the kernel asks for its threadgroup. What is returned lives as long as this object.
    virtual const KernelCode* rows() const = 0;
    // Has run_threadgroup set, for threadgroups of `size` threads; null when scalar() has to be used.
    virtual const KernelCode* threadgroups(Uint3 size) const = 0;
    virtual const KernelCode& scalar() const = 0;
};

// Machine code of one specialised kernel, loaded and callable as long as this object lives.
struct KernelCode {
    FunctionInfo function;
    std::shared_ptr<const VectorVariants> variants; // set: the code is there, and none of the entries below is set
    RowEntry run_rows = nullptr;
    unsigned axes_in_row = 1;                   // of run_rows: this many are one row, in which x numbers the threads
    ThreadgroupEntry run_threadgroup = nullptr; // set when !synchronizes
    ThreadEntry run_thread = nullptr;           // set when synchronizes
    bool synchronizes = false;                  // uses barriers or SIMD-group functions
    std::size_t static_threadgroup_memory = 0;  // bytes
    bool prints = false;                        // calls __metalki_rt_log
    bool wants_positions = false;               // reads ThreadgroupContext::positions
    GroupWork group_work;
    std::size_t stack_size = 0;       // bytes one thread may need, call frames of libm not counted
    const void* code_begin = nullptr; // all of its machine code; null: not known
    const void* code_end = nullptr;
    std::shared_ptr<const void> keep_alive; // owns the pages of the code
};

// A compiled translation unit. Immutable and safe to use from several threads.
class Library {
public:
    // Throws CompileError.
    static std::shared_ptr<const Library> from_source(std::string_view source, const Options& options);
    virtual ~Library() = default;

    virtual std::span<const FunctionInfo> functions() const = 0;
    virtual std::span<const FunctionConstant> constants() const = 0;
    virtual std::span<const Diagnostic> warnings() const = 0;

    // Constants that `function` reads, directly or through others derived from them.
    virtual std::vector<FunctionConstant> used_constants(std::string_view function) const = 0;

    // Optimises, generates code for this machine and loads it. Throws SpecializationError or CompileError.
    virtual std::shared_ptr<const KernelCode> make_kernel(std::string_view function, std::span<const ConstantValue> constants,
                                                          std::span<const RuntimeSymbol> runtime) const = 0;

    // "llvm" or "asm" text of what make_kernel would load.
    virtual std::string disassemble(std::string_view function, std::span<const ConstantValue> constants,
                                    std::string_view form) const = 0;
};

// "Clang 19.1.7, x86-64 ..., CPU NAME": for versioninfo and cache keys.
std::string version_string();

} // namespace metalki::compiler
