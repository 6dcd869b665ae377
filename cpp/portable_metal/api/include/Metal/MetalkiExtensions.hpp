// Our own addition to the Metal API: what Apple's does not offer and the portable compiler and scheduler can.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "MTLArgument.hpp"
#include "MTLCommandBuffer.hpp"
#include "MTLCommandQueue.hpp"
#include "MTLComputeCommandEncoder.hpp"
#include "MTLDevice.hpp"
#include "MTLLibrary.hpp"

namespace MTL::Portable {

// Cores that kernels run on: affinity mask, cgroup quota and METALKI_NUM_THREADS respected.
METALKI_API unsigned usableCores(const Device* device);

// "Clang 19.1.7, x86-64, ...": the compiler and what it compiles for.
METALKI_API std::string compilerVersion();

// Device::newBuffer of what is not going to be read before it is written: the contents are undefined.
METALKI_API Buffer* newUndefinedBuffer(Device* device, NS::UInteger length, ResourceOptions options);

// A private buffer of a GPU's memory that other code has allocated, such as another CUDA library of the process; it is not
// copied. The deallocator runs when the buffer dies. Null where the device is no GPU or the driver does not know the address.
METALKI_API Buffer* newBufferAtAddress(Device* device, std::uint64_t address, NS::UInteger length,
                                       const std::function<void()>& deallocator);

// Commands encoded later wait, on the device, for what a CUDA stream (a CUstream as a number) has been given by now. False:
// the device has no such streams.
METALKI_API bool encodeWaitForStream(CommandBuffer* commandBuffer, std::uint64_t stream);

// What the CUDA stream is given from now on waits, on the device, until the event has the value, which a committed command
// buffer of the device signals. Returns when the device has been told. False: the device has no such streams.
METALKI_API bool letStreamWait(const Event* event, std::uint64_t value, std::uint64_t stream);

// Threads of a threadgroup with which the device runs the pipeline best where there is much to do; 0: it has no opinion.
METALKI_API NS::UInteger preferredThreads(const ComputePipelineState* pipeline);

// What a threadgroup of the pipeline costs, for those who choose its size: in the same unit, of use only as a ratio.
struct GroupWork {
    float ofGroup;        // however many threads it has; 0: not known
    float ofSimdgroup;    // more for each SIMD-group
    float growth;         // of that, as a part of it, with each doubling of 256 threads
    float rowAccesses;    // of a SIMD-group to device memory, where threads along x have neighbours in memory
    float columnAccesses; // the same where threads along y have
    bool halves;          // its threads wait for each other again and again, the more often the more they are
    bool loops;           // as often as its arguments say: the time of a dispatch does not follow
    bool oneWayAhead;     // the processor looks far ahead along one way in memory rather than along several
};
METALKI_API GroupWork groupWork(const ComputePipelineState* pipeline);

// What `#include` finds besides the standard headers.
struct IncludeSources {
    std::vector<std::pair<std::string, std::string>> headers; // name as in `#include`, text; searched first
    std::vector<std::string> directories;                     // searched on disk
    std::string identity; // changes with the content of the directories; without it a cached result may be out of date
};

// Device::newLibrary with includes of the user's own.
METALKI_API Library* newLibrary(Device* device, const NS::String* source, const CompileOptions* options,
                                const IncludeSources& includes, NS::Error** error);

// Every function constant that the source declares, used or not: an autoreleased NS::Array of FunctionConstant.
METALKI_API NS::Array* functionConstants(const Library* library);

// "llvm" or "asm" text of the code of a function. Throws std::runtime_error for other forms.
METALKI_API std::string disassemble(const Function* function, const std::string& form);

// What kernels print, as opposed to log, has this subsystem and this category when it comes to a log handler.
inline constexpr const char* printSubsystem = "metalki";
inline constexpr const char* printCategory = "print";

// Whether the kernel may print or log anything.
METALKI_API bool printsMessages(const ComputePipelineState* pipeline);

// What a Binding does not tell of an argument.
struct ArgumentFacts {
    std::string typeName;   // MSL spelling of the pointee: "float4", "packed_float3", "MyStruct", "atomic_uint"
    bool atomic = false;    // the pointee is atomic<T>
    bool reference = false; // `constant T&` rather than a pointer: exactly one element is read
};
METALKI_API ArgumentFacts argumentFacts(const Binding* binding);

// Command buffers of queues with a higher priority start first where several wait; running ones are not interrupted.
enum class Priority { low = -1, normal = 0, high = 1 };
METALKI_API void setPriority(CommandQueue* queue, Priority priority);

// A dispatch of the queue that runs for longer is stopped, and its command buffer ends with an error; 0: no limit.
METALKI_API void setTimeLimit(CommandQueue* queue, std::chrono::nanoseconds limit);

// Stops what the queue runs and drops what has been committed so far: these command buffers end with an error, and events that
// they signal are signalled. Does not wait for that.
METALKI_API void cancel(CommandQueue* queue);

// An argument of dispatch().
struct DispatchArgument {
    enum class Kind : std::uint32_t {
        none,
        address,     // `data`: what the kernel gets, a gpuAddress and an offset
        bytes,       // `length` bytes at `data`, which are copied
        threadgroup, // `length` bytes of threadgroup memory
    };
    Kind kind;
    std::uint32_t length;
    const void* data;
};

// Whether dispatch() takes the pipeline: its arguments are buffers, bytes and threadgroup memory, no textures or samplers.
METALKI_API bool canDispatch(const ComputePipelineState* pipeline);

// setComputePipelineState, all arguments and dispatchThreads in one call. The arguments are those of the pipeline's bindings,
// in their order; what is not used may be none. They are not bound: later dispatches of the encoder do not see them. The caller
// answers for addresses: useResource() has named their buffers to the encoder's command buffer, and the kernel finds there what
// it declares.
METALKI_API void dispatch(ComputeCommandEncoder* encoder, const ComputePipelineState* pipeline,
                          std::span<const DispatchArgument> arguments, Size threadsPerGrid, Size threadsPerThreadgroup);

// CommandBuffer::commit. When nothing else runs on the queue and the buffer's commands took less than `limit` altogether
// when they last ran with the same arguments, they run on the calling thread, before the call returns. Result: whether the
// buffer has completed.
METALKI_API bool commitAndRun(CommandBuffer* commandBuffer, std::chrono::nanoseconds limit);

} // namespace MTL::Portable
