// Images that kernels read, write and sample.
#pragma once

#include "MTLPixelFormat.hpp"
#include "MTLResource.hpp"
#include "MTLTypes.hpp"

namespace MTL {

class Buffer;

enum TextureType : NS::UInteger {
    TextureType1D = 0,
    TextureType1DArray = 1,
    TextureType2D = 2,
    TextureType2DArray = 3,
    TextureType2DMultisample = 4,
    TextureTypeCube = 5,
    TextureTypeCubeArray = 6,
    TextureType3D = 7,
    TextureType2DMultisampleArray = 8,
    TextureTypeTextureBuffer = 9,
};

using TextureUsage = NS::UInteger;
enum : TextureUsage {
    TextureUsageUnknown = 0, // everything
    TextureUsageShaderRead = 1,
    TextureUsageShaderWrite = 1 << 1,
    TextureUsageRenderTarget = 1 << 2,
    TextureUsagePixelFormatView = 1 << 4,
    TextureUsageShaderAtomic = 1 << 5,
};

// A new one: 2D, RGBA8Unorm, 1 x 1 x 1, one level, for reading.
class METALKI_API TextureDescriptor : public NS::Copying<TextureDescriptor> {
public:
    static TextureDescriptor* alloc();
    TextureDescriptor* init();
    static TextureDescriptor* texture2DDescriptor(PixelFormat pixelFormat, NS::UInteger width, NS::UInteger height,
                                                  bool mipmapped);
    static TextureDescriptor* textureBufferDescriptor(PixelFormat pixelFormat, NS::UInteger width,
                                                      ResourceOptions resourceOptions, TextureUsage usage);
    static TextureDescriptor* textureCubeDescriptor(PixelFormat pixelFormat, NS::UInteger size, bool mipmapped);

    bool allowGPUOptimizedContents() const;
    NS::UInteger arrayLength() const;
    CPUCacheMode cpuCacheMode() const;
    NS::UInteger depth() const;
    HazardTrackingMode hazardTrackingMode() const;
    NS::UInteger height() const;
    NS::UInteger mipmapLevelCount() const;
    PixelFormat pixelFormat() const;
    ResourceOptions resourceOptions() const;
    NS::UInteger sampleCount() const;
    StorageMode storageMode() const;
    TextureType textureType() const;
    TextureUsage usage() const;
    NS::UInteger width() const;

    void setAllowGPUOptimizedContents(bool allowGPUOptimizedContents);
    void setArrayLength(NS::UInteger arrayLength);
    void setCpuCacheMode(CPUCacheMode cpuCacheMode);
    void setDepth(NS::UInteger depth);
    void setHazardTrackingMode(HazardTrackingMode hazardTrackingMode);
    void setHeight(NS::UInteger height);
    void setMipmapLevelCount(NS::UInteger mipmapLevelCount);
    void setPixelFormat(PixelFormat pixelFormat);
    void setResourceOptions(ResourceOptions resourceOptions);
    void setSampleCount(NS::UInteger sampleCount);
    void setStorageMode(StorageMode storageMode);
    void setTextureType(TextureType textureType);
    void setUsage(TextureUsage usage);
    void setWidth(NS::UInteger width);
};

class METALKI_API Texture : public NS::Referencing<Texture, Resource> {
public:
    bool allowGPUOptimizedContents() const;
    NS::UInteger arrayLength() const;
    // Textures here have memory of their own: always null and 0.
    Buffer* buffer() const;
    NS::UInteger bufferBytesPerRow() const;
    NS::UInteger bufferOffset() const;
    NS::UInteger depth() const;
    // What a texture in an argument buffer holds.
    ResourceID gpuResourceID() const;
    NS::UInteger height() const;
    bool isFramebufferOnly() const;
    bool isShareable() const;
    NS::UInteger mipmapLevelCount() const;
    Texture* parentTexture() const;
    PixelFormat pixelFormat() const;
    NS::UInteger sampleCount() const;
    TextureType textureType() const;
    TextureUsage usage() const;
    NS::UInteger width() const;

    // Copies pixels of a region at once, whatever the device is doing; not for private storage. bytesPerImage counts with
    // depth only. A slice is a layer of an array or a face of a cube (of a cube array: layer * 6 + face).
    void getBytes(void* pixelBytes, NS::UInteger bytesPerRow, NS::UInteger bytesPerImage, Region region, NS::UInteger level,
                  NS::UInteger slice);
    void getBytes(void* pixelBytes, NS::UInteger bytesPerRow, Region region, NS::UInteger level);
    void replaceRegion(Region region, NS::UInteger level, NS::UInteger slice, const void* pixelBytes, NS::UInteger bytesPerRow,
                       NS::UInteger bytesPerImage);
    void replaceRegion(Region region, NS::UInteger level, const void* pixelBytes, NS::UInteger bytesPerRow);
};

} // namespace MTL
