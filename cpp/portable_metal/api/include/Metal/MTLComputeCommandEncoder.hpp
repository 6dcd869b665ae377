// Encodes kernel launches.
#pragma once

#include <cstdint>

#include "MTLCommandBuffer.hpp"
#include "MTLCommandEncoder.hpp"
#include "MTLTypes.hpp"

namespace MTL {

class Buffer;
class ComputePipelineState;
class Fence;
class Resource;
class SamplerState;
class Texture;

struct DispatchThreadgroupsIndirectArguments {
    std::uint32_t threadgroupsPerGrid[3];
};

class METALKI_API ComputeCommandEncoder : public NS::Referencing<ComputeCommandEncoder, CommandEncoder> {
public:
    void dispatchThreadgroups(Size threadgroupsPerGrid, Size threadsPerThreadgroup);
    // The number of threadgroups is read from the buffer when the command runs.
    void dispatchThreadgroups(const Buffer* indirectBuffer, NS::UInteger indirectBufferOffset, Size threadsPerThreadgroup);
    // Exactly this many threads: threadgroups at the edges are smaller.
    void dispatchThreads(Size threadsPerGrid, Size threadsPerThreadgroup);
    DispatchType dispatchType() const;

    void memoryBarrier(BarrierScope scope);
    void memoryBarrier(const Resource* const resources[], NS::UInteger count);

    void setBuffer(const Buffer* buffer, NS::UInteger offset, NS::UInteger index);
    void setBufferOffset(NS::UInteger offset, NS::UInteger index);
    void setBuffers(const Buffer* const buffers[], const NS::UInteger offsets[], NS::Range range);
    // At most 4096 bytes, copied at once.
    void setBytes(const void* bytes, NS::UInteger length, NS::UInteger index);
    void setComputePipelineState(const ComputePipelineState* state);
    void setSamplerState(const SamplerState* sampler, NS::UInteger index);
    void setSamplerState(const SamplerState* sampler, float lodMinClamp, float lodMaxClamp, NS::UInteger index);
    void setSamplerStates(const SamplerState* const samplers[], NS::Range range);
    void setSamplerStates(const SamplerState* const samplers[], const float lodMinClamps[], const float lodMaxClamps[],
                          NS::Range range);
    void setTexture(const Texture* texture, NS::UInteger index);
    void setTextures(const Texture* const textures[], NS::Range range);
    void setThreadgroupMemoryLength(NS::UInteger length, NS::UInteger index);

    void updateFence(const Fence* fence);
    void waitForFence(const Fence* fence);
    // Keeps resources alive that the kernel reaches through pointers in memory.
    void useResource(const Resource* resource, ResourceUsage usage);
    void useResources(const Resource* const resources[], NS::UInteger count, ResourceUsage usage);
};

} // namespace MTL
