// Encodes copies and fills.
#pragma once

#include <cstdint>

#include "MTLCommandEncoder.hpp"
#include "MTLTypes.hpp"

namespace MTL {

class Buffer;
class Fence;
class Resource;

class METALKI_API BlitCommandEncoder : public NS::Referencing<BlitCommandEncoder, CommandEncoder> {
public:
    // Offsets and size are multiples of 4; ranges within one buffer do not overlap.
    void copyFromBuffer(const Buffer* sourceBuffer, NS::UInteger sourceOffset, const Buffer* destinationBuffer,
                        NS::UInteger destinationOffset, NS::UInteger size);
    // Location and length are multiples of 4.
    void fillBuffer(const Buffer* buffer, NS::Range range, std::uint8_t value);
    // For managed storage only.
    void synchronizeResource(const Resource* resource);
    void updateFence(const Fence* fence);
    void waitForFence(const Fence* fence);
};

} // namespace MTL
