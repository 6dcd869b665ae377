// Textures and samplers of the Metal API.
#include "metal_backend/texture.hpp"

#include <algorithm>

namespace metalki::metal {

namespace {

MTL::TextureUsage usage_of(Access access) {
    return access == Access::read    ? MTL::TextureUsageShaderRead
           : access == Access::write ? MTL::TextureUsageShaderWrite
                                     : MTL::TextureUsageShaderRead | MTL::TextureUsageShaderWrite;
}

NS::SharedPtr<MTL::TextureDescriptor> describe(const TextureOptions& options, const PixelFormat& format) {
    auto descriptor = NS::TransferPtr(MTL::TextureDescriptor::alloc()->init());
    descriptor->setTextureType(static_cast<MTL::TextureType>(options.type));
    descriptor->setPixelFormat(static_cast<MTL::PixelFormat>(format.number));
    descriptor->setWidth(options.width);
    descriptor->setHeight(options.height);
    descriptor->setDepth(options.depth);
    descriptor->setArrayLength(options.array_length);
    descriptor->setMipmapLevelCount(options.mip_levels);
    descriptor->setStorageMode(MTL::StorageModeShared);
    descriptor->setUsage(usage_of(options.access));
    return descriptor;
}

// A tightly packed level, a slice at a time.
template <class Function>
void for_each_slice(const TextureOptions& options, const PixelFormat& format, std::size_t level, Function function) {
    auto side = [level](std::size_t size) { return std::max<std::size_t>(1, size >> level); };
    const bool cube = options.type == TextureType::cube || options.type == TextureType::cube_array;
    const std::size_t width = side(options.width), height = side(options.height), depth = side(options.depth);
    const std::size_t row = width * format.nbytes, image = row * height;
    const MTL::Region region(0, 0, 0, width, height, depth);
    // Metal wants 0 where the type has no second row or image.
    const bool line = options.type == TextureType::d1 || options.type == TextureType::d1_array;
    const std::size_t given_row = line ? 0 : row, given_image = options.type == TextureType::d3 ? image : 0;
    for (std::size_t slice = 0; slice < options.array_length * (cube ? 6 : 1); ++slice)
        function(slice, slice * image * depth, region, given_row, given_image);
}

} // namespace

void MetalTexture::write(const std::byte* pixels, std::size_t level) {
    for_each_slice(options, *format, level,
                   [&](std::size_t slice, std::size_t offset, MTL::Region region, std::size_t row, std::size_t image) {
                       texture->replaceRegion(region, level, slice, pixels + offset, row, image);
                   });
}

void MetalTexture::read(std::byte* pixels, std::size_t level) const {
    for_each_slice(options, *format, level,
                   [&](std::size_t slice, std::size_t offset, MTL::Region region, std::size_t row, std::size_t image) {
                       texture->getBytes(pixels + offset, row, image, region, level, slice);
                   });
}

std::shared_ptr<detail::TextureImpl> MetalDevice::make_texture(const TextureOptions& options, const PixelFormat& format) {
    AutoreleaseScope scope;
    auto made = std::make_shared<MetalTexture>();
    try {
        made->texture = NS::TransferPtr(device->newTexture(describe(options, format).get()));
    } catch (const std::exception& error) {
        throw ArgumentError(std::string("Texture: ") + error.what());
    }
    if (!made->texture)
        return nullptr;
    if (!options.label.empty())
        made->texture->setLabel(make_string(options.label).get());
    made->device = shared_from_this();
    made->options = options;
    made->format = &format;
    return made;
}

std::shared_ptr<detail::SamplerImpl> MetalDevice::make_sampler(const SamplerOptions& options) {
    AutoreleaseScope scope;
    auto descriptor = NS::TransferPtr(MTL::SamplerDescriptor::alloc()->init());
    descriptor->setMinFilter(static_cast<MTL::SamplerMinMagFilter>(options.filter));
    descriptor->setMagFilter(static_cast<MTL::SamplerMinMagFilter>(options.filter));
    descriptor->setMipFilter(static_cast<MTL::SamplerMipFilter>(options.mip_filter));
    const auto address = static_cast<MTL::SamplerAddressMode>(options.address);
    descriptor->setSAddressMode(address);
    descriptor->setTAddressMode(address);
    descriptor->setRAddressMode(address);
    descriptor->setBorderColor(static_cast<MTL::SamplerBorderColor>(options.border_color));
    descriptor->setNormalizedCoordinates(options.normalized);
    auto made = std::make_shared<MetalSampler>();
    try {
        made->sampler = NS::TransferPtr(device->newSamplerState(descriptor.get()));
    } catch (const std::exception& error) {
        throw ArgumentError(std::string("Sampler: ") + error.what());
    }
    if (!made->sampler)
        throw DeviceError("Sampler: device " + info.name + " gives no sampler state");
    made->device = shared_from_this();
    made->options = options;
    return made;
}

void set_texture(MTL::ComputeCommandEncoder& encoder, const void* texture, unsigned index) {
    encoder.setTexture(static_cast<const MetalTexture*>(static_cast<const detail::TextureImpl*>(texture))->texture.get(),
                       index);
}

void set_sampler(MTL::ComputeCommandEncoder& encoder, const void* sampler, unsigned index) {
    encoder.setSamplerState(static_cast<const MetalSampler*>(static_cast<const detail::SamplerImpl*>(sampler))->sampler.get(),
                            index);
}

void read_texture(ArgumentInfo& info, const MTL::TextureBinding* binding) {
    info.scalar = shape_of(binding->textureDataType()).scalar;
    info.texture_type = static_cast<TextureType>(binding->textureType());
    info.is_depth_texture = binding->isDepthTexture();
    static const char* const names[] = {"1d",   "1d_array",   "2d", "2d_array",    "2d_ms",
                                        "cube", "cube_array", "3d", "2d_ms_array", "_buffer"};
    const std::size_t type = static_cast<std::size_t>(binding->textureType());
    info.type_name = std::string(info.is_depth_texture ? "depth" : "texture") + (type < std::size(names) ? names[type] : "") +
                     "<" + std::string(name_of(info.scalar)) + ">";
}

} // namespace metalki::metal
