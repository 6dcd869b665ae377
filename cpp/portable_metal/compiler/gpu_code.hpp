// PTX of one kernel, and how a driver launches it. Plain data: knows no CUDA and no LLVM.
//
// The launch
//   gridDim  = threads per grid / threads per threadgroup, rounded up on each axis, or a part of it: a grid that CUDA refuses
//   goes in several launches, each of which says in GpuGeometry::threadgroup_base where it begins.
//   blockDim = threads per threadgroup as dispatched, also in groups at the edge: threads outside of the grid leave at once.
//   Of code with threadgroups_per_block = 2, gridDim.x is half of that: a block does the work of two threadgroups.
//   With GpuRequest::folded, blockDim.x is their product and the kernel finds its place by division: for more than 64 threads
//   in z.
//   Dynamic shared memory: the kernel's threadgroup arguments one after the other, as the launcher places them.
//
// The parameters are one block of GpuCode::parameter_bytes bytes (CU_LAUNCH_PARAM_BUFFER_POINTER):
//   at parameter_offsets[slot], for every argument of FunctionInfo::arguments (inactive ones may be 0)
//     buffer       the 8-byte device address; a multiple of the alignment of the argument's type
//     threadgroup  the 8-byte offset of its memory within the dynamic shared memory; a multiple of 16
//     texture      the 8-byte device address of its TextureDescriptor (texture_abi.hpp), whose levels point at device memory
//     sampler      the 8-byte device address of its SamplerState
//     by value     GpuRequest::value_bytes[slot] bytes of content, in place of the address
//   at 0, a GpuGeometry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compiler.hpp"

namespace metalki::compiler {

struct GpuTarget {
    // Compute capability: major * 10 + minor, at least 70. Of one that is newer than we know, the newest known is taken.
    unsigned architecture = 90;
    // Highest version that the driver reads: major * 10 + minor. CUDA 11.8: 78, 12.0: 80, 12.5: 85.
    unsigned ptx_version = 78;
    // Path of libdevice.10.bc; empty: our own mathematics.
    std::string libdevice;
};

struct GpuRequest {
    GpuTarget target;
    std::optional<Uint3> threadgroup; // code for threadgroups of this size only (.reqntid)
    bool driver_knows_size = true;    // false: .reqntid is left out
    unsigned most_threads = 0;        // in a threadgroup; 0: as many as the device has. Few may have more registers each
    bool folded = false;              // see the top of this file
    bool whole = false; // only for grids that are a multiple of the threadgroup on each axis, launched in one piece
    bool may_pair =
        false;         // with `whole`: only for an even number of threadgroups along x, and enough of them for all processors
    unsigned axes = 3; // only for grids and threadgroups of a single thread on all but the first so many axes
    // By slot: size of a constant argument or sampler that is passed by value; 0 or missing: by address.
    std::vector<std::uint32_t> value_bytes;
};

// As the kernel reads it from its parameters. Grids and groups are never empty.
struct GpuGeometry {
    Uint3 threads_per_grid;        // of the whole grid, whatever part of it is launched
    Uint3 threads_per_threadgroup; // as dispatched
    Uint3 threadgroups_per_grid;   // of the whole grid
    Uint3 threadgroup_base;        // added to blockIdx
    std::uint64_t log = 0;         // device address of a GpuLogHeader; read only by kernels that print
};
static_assert(sizeof(GpuGeometry) == 56);

struct GpuCode {
    FunctionInfo function;
    std::string ptx;
    std::string entry;                            // name of the .entry
    std::vector<std::uint32_t> parameter_offsets; // by slot
    std::uint32_t parameter_bytes = 0;
    std::size_t static_threadgroup_memory = 0; // bytes; part of the module's static shared memory
    unsigned threadgroups_per_block = 1;       // along x
    bool prints = false;                       // writes into GpuGeometry::log
};

// What kernels print: a header, and behind it `capacity` bytes of records, each 8-byte aligned.
struct GpuLogHeader {
    std::uint32_t capacity; // set by the launcher
    std::uint32_t lowest;   // set by the launcher: messages of a lower LogTarget are not kept
    std::uint32_t used;     // bytes asked for so far; more than the capacity once messages were dropped
    std::uint32_t end;      // set to UINT32_MAX by the launcher; else where the last record ends, when messages were dropped
    std::uint32_t dropped_prints;
    std::uint32_t dropped_logs;
    std::uint64_t reserved;
};
static_assert(sizeof(GpuLogHeader) == 32);

// One message: this, `count` GpuLogArguments, then bytes. Texts end with a zero byte that their length does not count.
struct GpuLogRecord {
    std::uint32_t bytes;  // of the whole record; the next one begins there
    std::uint32_t target; // LogTarget
    std::uint32_t count;
    std::uint32_t complete;                    // 1 when the record was written to its end
    std::uint32_t subsystem, category, format; // offsets from the begin of the record; 0: null
    std::uint32_t reserved;
};
static_assert(sizeof(GpuLogRecord) == 32);

struct GpuLogArgument {
    std::uint32_t type; // LogType
    std::uint16_t rows, columns;
    std::uint32_t offset; // of the elements (as LogArgument::data points at them), of the 8-byte pointer, or of the text
    std::uint32_t bytes;  // a text: without its end
};
static_assert(sizeof(GpuLogArgument) == 16);

// Needs no GPU. `library` comes from Library::from_source. Throws what Library::make_kernel throws.
std::shared_ptr<const GpuCode> make_gpu_code(const Library& library, std::string_view function,
                                             std::span<const ConstantValue> constants, const GpuRequest& request);

} // namespace metalki::compiler
