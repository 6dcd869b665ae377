// The functions of the CUDA driver, found in its library at run time. Our own declarations: no CUDA is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace metalki::cuda {

using DeviceNumber = int;
using Address = std::uint64_t; // in the one address space of host and devices
inline Address address_of(const void* pointer) {
    return reinterpret_cast<Address>(pointer);
}
using Context = struct ContextObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using LinkHandle = struct LinkObject*;

// CUresult. The names are the driver's.
enum class Result : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    deinitialized = 4,
    no_device = 100,
    ecc_uncorrectable = 214,
    nvlink_uncorrectable = 220,
    contained = 226,
    not_ready = 600,
    illegal_address = 700,
    launch_out_of_resources = 701,
    launch_timeout = 702,
    context_is_destroyed = 709,
    assert_failed = 710,
    host_memory_already_registered = 712,
    tensor_memory_leak = 721,
    unknown = 999,
};

enum class DeviceAttribute : int {
    max_threads_per_block = 1,
    warp_size = 10,
    multiprocessor_count = 16,
    unified_addressing = 41,
    pci_bus = 33,
    pci_device = 34,
    capability_major = 75,
    capability_minor = 76,
    can_use_host_pointer_for_registered_memory = 91,
    max_shared_memory_per_block_optin = 97,
    can_write_64_bits_in_streams = 122,
};

enum class FunctionAttribute : int {
    max_threads_per_block = 0,
    shared_size_bytes = 1,
    local_size_bytes = 3,
    registers = 4,
    max_dynamic_shared_size_bytes = 8,
};

enum class LoadOption : int {
    info_log_buffer = 3,
    info_log_buffer_size = 4,
    error_log_buffer = 5,
    error_log_buffer_size = 6,
    target_from_context = 8,
    log_verbose = 12,
};

enum class LinkInput : int { ptx = 1 };

enum class PointerAttribute : int { memory_type = 2, device_ordinal = 9 };

constexpr unsigned stream_non_blocking = 1;
constexpr unsigned host_register_portable = 1, host_register_mapped = 2;

// Entries of the `extra` list of a launch.
inline void* const launch_buffer_pointer = reinterpret_cast<void*>(1);
inline void* const launch_buffer_size = reinterpret_cast<void*>(2);

// name here, symbol, parameters
#define METALKI_CUDA_FUNCTIONS(X)                                                                                              \
    X(init, cuInit, unsigned)                                                                                                  \
    X(driver_get_version, cuDriverGetVersion, int*)                                                                            \
    X(get_error_name, cuGetErrorName, Result, const char**)                                                                    \
    X(get_error_string, cuGetErrorString, Result, const char**)                                                                \
    X(device_get_count, cuDeviceGetCount, int*)                                                                                \
    X(device_get, cuDeviceGet, DeviceNumber*, int)                                                                             \
    X(device_get_name, cuDeviceGetName, char*, int, DeviceNumber)                                                              \
    X(device_get_attribute, cuDeviceGetAttribute, int*, DeviceAttribute, DeviceNumber)                                         \
    X(device_total_memory, cuDeviceTotalMem_v2, std::size_t*, DeviceNumber)                                                    \
    X(primary_context_retain, cuDevicePrimaryCtxRetain, Context*, DeviceNumber)                                                \
    X(primary_context_reset, cuDevicePrimaryCtxReset_v2, DeviceNumber)                                                         \
    X(context_push, cuCtxPushCurrent_v2, Context)                                                                              \
    X(context_pop, cuCtxPopCurrent_v2, Context*)                                                                               \
    X(context_synchronize, cuCtxSynchronize)                                                                                   \
    X(stream_priority_range, cuCtxGetStreamPriorityRange, int*, int*)                                                          \
    X(memory_allocate, cuMemAlloc_v2, Address*, std::size_t)                                                                   \
    X(memory_free, cuMemFree_v2, Address)                                                                                      \
    X(host_register, cuMemHostRegister_v2, void*, std::size_t, unsigned)                                                       \
    X(host_unregister, cuMemHostUnregister, void*)                                                                             \
    X(copy_async, cuMemcpyAsync, Address, Address, std::size_t, StreamHandle)                                                  \
    X(fill_bytes_async, cuMemsetD8Async, Address, unsigned char, std::size_t, StreamHandle)                                    \
    X(pointer_get_attribute, cuPointerGetAttribute, void*, PointerAttribute, Address)                                          \
    X(stream_create, cuStreamCreateWithPriority, StreamHandle*, unsigned, int)                                                 \
    X(stream_destroy, cuStreamDestroy_v2, StreamHandle)                                                                        \
    X(stream_synchronize, cuStreamSynchronize, StreamHandle)                                                                   \
    X(stream_wait_event, cuStreamWaitEvent, StreamHandle, EventHandle, unsigned)                                               \
    X(stream_write_64, cuStreamWriteValue64_v2, StreamHandle, Address, std::uint64_t, unsigned)                                \
    X(event_create, cuEventCreate, EventHandle*, unsigned)                                                                     \
    X(event_record, cuEventRecord, EventHandle, StreamHandle)                                                                  \
    X(event_query, cuEventQuery, EventHandle)                                                                                  \
    X(event_elapsed, cuEventElapsedTime, float*, EventHandle, EventHandle)                                                     \
    X(module_load, cuModuleLoadDataEx, Module*, const void*, unsigned, const LoadOption*, void**)                              \
    X(module_unload, cuModuleUnload, Module)                                                                                   \
    X(module_get_function, cuModuleGetFunction, Function*, Module, const char*)                                                \
    X(function_get_attribute, cuFuncGetAttribute, int*, FunctionAttribute, Function)                                           \
    X(function_set_attribute, cuFuncSetAttribute, Function, FunctionAttribute, int)                                            \
    X(blocks_per_multiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, int*, Function, int, std::size_t)                \
    X(link_create, cuLinkCreate_v2, unsigned, const LoadOption*, void**, LinkHandle*)                                          \
    X(link_add, cuLinkAddData_v2, LinkHandle, LinkInput, const void*, std::size_t, const char*, unsigned, const LoadOption*,   \
      void**)                                                                                                                  \
    X(link_complete, cuLinkComplete, LinkHandle, void**, std::size_t*)                                                         \
    X(link_destroy, cuLinkDestroy, LinkHandle)                                                                                 \
    X(launch_kernel, cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,           \
      StreamHandle, void**, void**)

struct Driver {
#define METALKI_CUDA_MEMBER(name, symbol, ...) Result (*name)(__VA_ARGS__) = nullptr;
    METALKI_CUDA_FUNCTIONS(METALKI_CUDA_MEMBER)
#undef METALKI_CUDA_MEMBER
    int version = 0; // of CUDA: major * 1000 + minor * 10
};

// What a call of the driver gave. what(): "cuMemAlloc of 1024 bytes: out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
class Error : public std::runtime_error {
public:
    Error(Result code, std::string_view call);
    Result code() const { return code_; }
    // Whether the context is of no use any more: every later call in it fails with the same code.
    bool is_sticky() const { return is_sticky(code_); }
    static bool is_sticky(Result code);

private:
    Result code_;
};

// The driver of this machine, initialised; null where there is none or it has no device. Looked for once: libcuda.so.1, or the
// file that METALKI_CUDA_DRIVER names (empty: no driver is looked for).
const Driver* find_driver();
// Why find_driver() gives null.
std::string missing_driver_reason();
// Where find_driver() gave one.
const Driver& driver();

// "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)".
std::string describe(Result code);

inline void check(Result code, std::string_view call) {
    if (code != Result::success) [[unlikely]]
        throw Error(code, call);
}

} // namespace metalki::cuda
