// How kernels look up texels between and beyond those that a texture has.
#pragma once

#include "MTLDepthStencil.hpp"
#include "MTLTypes.hpp"

namespace MTL {

class Device;

enum SamplerMinMagFilter : NS::UInteger {
    SamplerMinMagFilterNearest = 0,
    SamplerMinMagFilterLinear = 1,
};

enum SamplerMipFilter : NS::UInteger {
    SamplerMipFilterNotMipmapped = 0,
    SamplerMipFilterNearest = 1,
    SamplerMipFilterLinear = 2,
};

enum SamplerAddressMode : NS::UInteger {
    SamplerAddressModeClampToEdge = 0,
    SamplerAddressModeMirrorClampToEdge = 1,
    SamplerAddressModeRepeat = 2,
    SamplerAddressModeMirrorRepeat = 3,
    SamplerAddressModeClampToZero = 4,
    SamplerAddressModeClampToBorderColor = 5,
};

enum SamplerBorderColor : NS::UInteger {
    SamplerBorderColorTransparentBlack = 0,
    SamplerBorderColorOpaqueBlack = 1,
    SamplerBorderColorOpaqueWhite = 2,
};

// A new one: nearest, clamped to the edge, normalized coordinates, the whole range of levels.
class METALKI_API SamplerDescriptor : public NS::Copying<SamplerDescriptor> {
public:
    static SamplerDescriptor* alloc();
    SamplerDescriptor* init();

    SamplerBorderColor borderColor() const;
    CompareFunction compareFunction() const;
    NS::String* label() const;
    bool lodAverage() const;
    float lodMaxClamp() const;
    float lodMinClamp() const;
    SamplerMinMagFilter magFilter() const;
    NS::UInteger maxAnisotropy() const;
    SamplerMinMagFilter minFilter() const;
    SamplerMipFilter mipFilter() const;
    bool normalizedCoordinates() const;
    SamplerAddressMode rAddressMode() const;
    SamplerAddressMode sAddressMode() const;
    bool supportArgumentBuffers() const;
    SamplerAddressMode tAddressMode() const;

    void setBorderColor(SamplerBorderColor borderColor);
    void setCompareFunction(CompareFunction compareFunction);
    void setLabel(const NS::String* label);
    // A hint, which the CPU does not need.
    void setLodAverage(bool lodAverage);
    void setLodMaxClamp(float lodMaxClamp);
    void setLodMinClamp(float lodMinClamp);
    void setMagFilter(SamplerMinMagFilter magFilter);
    void setMaxAnisotropy(NS::UInteger maxAnisotropy);
    void setMinFilter(SamplerMinMagFilter minFilter);
    void setMipFilter(SamplerMipFilter mipFilter);
    void setNormalizedCoordinates(bool normalizedCoordinates);
    void setRAddressMode(SamplerAddressMode rAddressMode);
    void setSAddressMode(SamplerAddressMode sAddressMode);
    void setSupportArgumentBuffers(bool supportArgumentBuffers);
    void setTAddressMode(SamplerAddressMode tAddressMode);
};

class METALKI_API SamplerState : public NS::Referencing<SamplerState> {
public:
    Device* device() const;
    // What a sampler in an argument buffer holds.
    ResourceID gpuResourceID() const;
    NS::String* label() const;
};

} // namespace MTL
