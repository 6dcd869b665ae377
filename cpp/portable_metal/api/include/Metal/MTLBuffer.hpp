// A block of device memory.
#pragma once

#include "MTLGPUAddress.hpp"
#include "MTLResource.hpp"

namespace MTL {

class METALKI_API Buffer : public NS::Referencing<Buffer, Resource> {
public:
    void addDebugMarker(const NS::String* marker, NS::Range range);
    void removeAllDebugMarkers();
    // Null for private storage.
    void* contents();
    // For managed storage only.
    void didModifyRange(NS::Range range);
    // What a kernel follows when the value is stored in a buffer as a pointer.
    GPUAddress gpuAddress() const;
    NS::UInteger length() const;
};

} // namespace MTL
