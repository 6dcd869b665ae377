// The binary contract between compiled kernels and whatever runs them. Plain data: shared by compiler and cpu,
// and mirrored for MSL in stdlib/metalki_entry.h (a static_assert there and here keeps the two alike).
#pragma once

#include <cstdint>

namespace metalki::compiler {

struct Uint3 {
    std::uint32_t x, y, z;
};

// What every thread of one threadgroup shares.
struct ThreadgroupContext {
    void* const* arguments;          // one address per argument slot: buffers and threadgroup memory alike
    void* static_threadgroup_memory; // the kernel's own threadgroup variables, 64-byte aligned
    Uint3 threadgroup_position;      // in units of threadgroups
    Uint3 threadgroups_per_grid;
    Uint3 threads_per_threadgroup;     // as dispatched; edge groups are smaller
    Uint3 threads_in_this_threadgroup; // actual size: smaller than the above in edge groups
    Uint3 threads_per_grid;
    const std::uint32_t* positions; // x of every thread of the group, max_positions later y, then z; only for odd group shapes
};
static_assert(sizeof(ThreadgroupContext) == 3 * sizeof(void*) + 15 * sizeof(std::uint32_t) + 4);

constexpr std::uint32_t max_positions = 1024;

// Runs every thread of the group, one after the other: kernels that never synchronise.
using ThreadgroupEntry = void (*)(const ThreadgroupContext*);
// Runs one thread of the group: kernels whose threads wait for each other. Each thread has a stack of its own.
using ThreadEntry = void (*)(const ThreadgroupContext*, std::uint32_t x, std::uint32_t y, std::uint32_t z);

// Runs `count` threads of a row of the grid, x onwards, a multiple of 32: kernels that do not ask for their threadgroup.
using RowEntry = void (*)(const ThreadgroupContext*, std::uint32_t x, std::uint32_t count, std::uint32_t y, std::uint32_t z);

// Position inputs; vectors take three numbers in a row (x, y, z).
enum class ThreadInput : std::uint32_t {
    position_in_grid = 0,
    position_in_threadgroup = 3,
    threadgroup_position = 6,
    threadgroups_per_grid = 9,
    threads_per_grid = 12,
    threads_in_this_threadgroup = 15,
    threads_per_threadgroup = 18,
    index_in_threadgroup = 21,
    index_in_simdgroup = 22,
    simdgroup_index = 23,
    count = 24,
};

constexpr std::uint32_t simd_width = 32;
constexpr std::uint32_t quad_width = 4;

enum class SimdType : std::uint32_t { i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32 };

// `operand` of the shuffles is a lane or a distance; fills combine it with a second value and a modulo.
enum class SimdOp : std::uint32_t {
    shuffle,             // value of lane `operand`
    shuffle_up,          // value of lane - operand
    shuffle_down,        // value of lane + operand
    shuffle_xor,         // value of lane ^ operand
    shuffle_rotate_up,   // cyclic
    shuffle_rotate_down, // cyclic
    broadcast_first,     // value of the lowest active lane
    fill_up,             // shuffle_and_fill_up(value, fill, operand, modulo)
    fill_down,           // shuffle_and_fill_down(value, fill, operand, modulo)
    sum,
    product,
    min,
    max,
    bit_and,
    bit_or,
    bit_xor,
    prefix_inclusive_sum,
    prefix_exclusive_sum,
    prefix_inclusive_product,
    prefix_exclusive_product,
    ballot,  // bit mask of the active lanes whose value is not zero (all lanes of the quad for quad ops: lanes 0 to 3)
    barrier, // simdgroup_barrier
};

// Functions that compiled code calls and the executor provides. `site` numbers the call sites of a kernel in an order
// in which a lane that waits at a lower one may still reach a higher one (later code has higher numbers): the executor lets
// the lowest waiting site go first, so that the lanes of a SIMD-group meet again after divergent code.
//
//   void     __metalki_rt_barrier(uint32_t site);
//   uint64_t __metalki_rt_simd(uint32_t site, uint32_t op, uint32_t type, uint32_t width, uint64_t value, uint64_t fill,
//                              uint32_t operand, uint32_t modulo);
//        width is 32 (SIMD-group) or 4 (quad-group); values travel zero-extended in 64 bits as raw bits
//   void     __metalki_rt_simd_mma(uint32_t site, const float* abc, float* d);
//        8x8 multiply-accumulate: each lane brings two elements of A, B and C (abc[0..5]) and takes two of D = A*B + C;
//        lane l holds row (l/4 & 4) + (l/2 % 4), columns (l/4 & 2)*2 + (l%2)*2 and the next
//   void     __metalki_rt_converge(uint32_t site);
//        the active lanes of the SIMD-group meet (end of a divergent loop iteration); no other effect
//   void     __metalki_rt_log(uint32_t target, const char* subsystem, const char* category, const char* format,
//                             const LogArgument* arguments, uint32_t count);
//        one message of one thread; subsystem, category and format may be null and end with a zero byte
using BarrierFunction = void (*)(std::uint32_t);
using SimdFunction = std::uint64_t (*)(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t,
                                       std::uint32_t, std::uint32_t);
using SimdMmaFunction = void (*)(std::uint32_t, const float*, float*);

// Where a message goes: the levels are MTL::LogLevel's.
enum class LogTarget : std::uint32_t {
    debug = 1,
    info = 2,
    notice = 3,
    error = 4,
    fault = 5,
    print = 16,     // printf: arguments that the format leaves over are marked as such
    print_all = 17, // KI.print: they are printed
};

// The first eleven are SimdType's.
enum class LogType : std::uint32_t { i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, boolean, pointer, text };

// Mirrored by __log_argument of stdlib/metal_logging.
struct LogArgument {
    const void* data; // scalars, vectors and matrices: their elements, columns of three padded to four; else the pointer itself
    LogType type;
    std::uint16_t rows;    // components of a vector or of a matrix column
    std::uint16_t columns; // 1 but for matrices
};
static_assert(sizeof(LogArgument) == sizeof(void*) + 8);

using LogFunction = void (*)(std::uint32_t, const char*, const char*, const char*, const LogArgument*, std::uint32_t);

} // namespace metalki::compiler
