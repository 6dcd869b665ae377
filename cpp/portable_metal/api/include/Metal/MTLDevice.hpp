// The machine that runs kernels; makes everything else.
#pragma once

#include <cstdint>
#include <functional>

#include "MTLComputePipeline.hpp"
#include "MTLLibrary.hpp"
#include "MTLResource.hpp"
#include "MTLTypes.hpp"

namespace MTL {

class Buffer;
class CommandQueue;
class CommandQueueDescriptor;
class Event;
class Fence;
class LogState;
class LogStateDescriptor;
class SamplerDescriptor;
class SamplerState;
class SharedEvent;
class Texture;
class TextureDescriptor;

enum GPUFamily : NS::Integer {
    GPUFamilyApple1 = 1001,
    GPUFamilyApple2 = 1002,
    GPUFamilyApple3 = 1003,
    GPUFamilyApple4 = 1004,
    GPUFamilyApple5 = 1005,
    GPUFamilyApple6 = 1006,
    GPUFamilyApple7 = 1007,
    GPUFamilyApple8 = 1008,
    GPUFamilyApple9 = 1009,
    GPUFamilyApple10 = 1010,
    GPUFamilyMac1 = 2001,
    GPUFamilyMac2 = 2002,
    GPUFamilyCommon1 = 3001,
    GPUFamilyCommon2 = 3002,
    GPUFamilyCommon3 = 3003,
    GPUFamilyMacCatalyst1 = 4001,
    GPUFamilyMacCatalyst2 = 4002,
    GPUFamilyMetal3 = 5001,
    GPUFamilyMetal4 = 5002,
};

enum DeviceLocation : NS::UInteger {
    DeviceLocationBuiltIn = 0,
    DeviceLocationSlot = 1,
    DeviceLocationExternal = 2,
    DeviceLocationUnspecified = NS::UIntegerMax,
};

enum ReadWriteTextureTier : NS::UInteger {
    ReadWriteTextureTierNone = 0,
    ReadWriteTextureTier1 = 1,
    ReadWriteTextureTier2 = 2,
};

enum ArgumentBuffersTier : NS::UInteger {
    ArgumentBuffersTier1 = 0,
    ArgumentBuffersTier2 = 1,
};

using PipelineOption = NS::UInteger;
enum : PipelineOption {
    PipelineOptionNone = 0,
    PipelineOptionArgumentInfo = 1,
    PipelineOptionBindingInfo = 1,
    PipelineOptionBufferTypeInfo = 1 << 1,
    PipelineOptionFailOnBinaryArchiveMiss = 1 << 2,
};

using AutoreleasedComputePipelineReflection = ComputePipelineReflection*;
using NewLibraryCompletionHandlerFunction = std::function<void(Library*, NS::Error*)>;
using NewComputePipelineStateCompletionHandlerFunction = std::function<void(ComputePipelineState*, NS::Error*)>;
using NewComputePipelineStateWithReflectionCompletionHandlerFunction =
    std::function<void(ComputePipelineState*, ComputePipelineReflection*, NS::Error*)>;
using Timestamp = std::uint64_t;

METALKI_API Device* CreateSystemDefaultDevice();
METALKI_API NS::Array* CopyAllDevices();

class METALKI_API Device : public NS::Referencing<Device> {
public:
    ArgumentBuffersTier argumentBuffersSupport() const;
    NS::UInteger currentAllocatedSize() const;
    bool hasUnifiedMemory() const;
    bool isHeadless() const;
    bool isLowPower() const;
    bool isRemovable() const;
    DeviceLocation location() const;
    NS::UInteger maxBufferLength() const;
    NS::UInteger maxThreadgroupMemoryLength() const;
    Size maxThreadsPerThreadgroup() const;
    NS::String* name() const;
    ReadWriteTextureTier readWriteTextureSupport() const;
    std::uint64_t recommendedMaxWorkingSetSize() const;
    std::uint64_t registryID() const;
    void sampleTimestamps(Timestamp* cpuTimestamp, Timestamp* gpuTimestamp);
    bool supportsDynamicLibraries() const;
    bool supportsFamily(GPUFamily gpuFamily);
    bool supportsFunctionPointers() const;
    bool supportsRaytracing() const;

    // Null when memory is short. New memory is zero.
    Buffer* newBuffer(NS::UInteger length, ResourceOptions options);
    Buffer* newBuffer(const void* pointer, NS::UInteger length, ResourceOptions options);
    // No copy: pointer and length are multiples of the page size; the deallocator (may be null) runs when the buffer dies.
    Buffer* newBuffer(const void* pointer, NS::UInteger length, ResourceOptions options,
                      const std::function<void(void*, NS::UInteger)>& deallocator);

    CommandQueue* newCommandQueue();
    CommandQueue* newCommandQueue(NS::UInteger maxCommandBufferCount);
    CommandQueue* newCommandQueue(const CommandQueueDescriptor* descriptor);

    ComputePipelineState* newComputePipelineState(const Function* computeFunction, NS::Error** error);
    ComputePipelineState* newComputePipelineState(const Function* computeFunction, PipelineOption options,
                                                  const AutoreleasedComputePipelineReflection* reflection, NS::Error** error);
    ComputePipelineState* newComputePipelineState(const ComputePipelineDescriptor* descriptor, PipelineOption options,
                                                  const AutoreleasedComputePipelineReflection* reflection, NS::Error** error);
    // Handlers own nothing that they are given: retain what is to outlive the call.
    void newComputePipelineState(const Function* pFunction,
                                 const NewComputePipelineStateCompletionHandlerFunction& completionHandler);
    void newComputePipelineState(const Function* pFunction, PipelineOption options,
                                 const NewComputePipelineStateWithReflectionCompletionHandlerFunction& completionHandler);
    void newComputePipelineState(const ComputePipelineDescriptor* pDescriptor, PipelineOption options,
                                 const NewComputePipelineStateWithReflectionCompletionHandlerFunction& completionHandler);

    Event* newEvent();
    Fence* newFence();
    SharedEvent* newSharedEvent();

    // A library may come with an error that holds its warnings (LibraryErrorCompileWarning).
    Library* newLibrary(const NS::String* source, const CompileOptions* options, NS::Error** error);
    void newLibrary(const NS::String* pSource, const CompileOptions* pOptions,
                    const NewLibraryCompletionHandlerFunction& completionHandler);

    // Null, with an error, for sizes out of range.
    LogState* newLogState(const LogStateDescriptor* descriptor, NS::Error** error);

    SamplerState* newSamplerState(const SamplerDescriptor* descriptor);
    // Null when memory is short. New memory is zero.
    Texture* newTexture(const TextureDescriptor* descriptor);
};

} // namespace MTL
