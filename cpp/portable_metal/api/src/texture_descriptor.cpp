// MTL::TextureDescriptor.
#include "texture_descriptor.hpp"

#include "object.hpp"

namespace metalki::api {
namespace {

class TextureDescriptorState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::TextureDescriptor"; }
    ObjectState* copy() const override {
        auto* other = new TextureDescriptorState;
        other->values = values;
        return other;
    }
    TextureValues values;
};

// Sets a field of the resource options.
void set_bits(MTL::ResourceOptions& options, NS::UInteger mask, NS::UInteger bits) {
    options = (options & ~mask) | (bits & mask);
}

} // namespace

TextureValues& values_of(const MTL::TextureDescriptor* descriptor) {
    return state_of<TextureDescriptorState>(descriptor).values;
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

TextureDescriptor* TextureDescriptor::alloc() {
    return public_of<TextureDescriptor>(new TextureDescriptorState);
}
TextureDescriptor* TextureDescriptor::init() {
    return this;
}
TextureDescriptor* TextureDescriptor::texture2DDescriptor(PixelFormat pixelFormat, NS::UInteger width, NS::UInteger height,
                                                          bool mipmapped) {
    TextureDescriptor* descriptor = alloc()->init()->autorelease();
    TextureValues& values = values_of(descriptor);
    values.format = pixelFormat;
    values.width = width;
    values.height = height;
    values.mip_levels = mipmapped ? most_levels(values) : 1;
    return descriptor;
}
TextureDescriptor* TextureDescriptor::textureBufferDescriptor(PixelFormat pixelFormat, NS::UInteger width,
                                                              ResourceOptions resourceOptions, TextureUsage usage) {
    TextureDescriptor* descriptor = texture2DDescriptor(pixelFormat, width, 1, false);
    descriptor->setTextureType(TextureTypeTextureBuffer);
    descriptor->setResourceOptions(resourceOptions);
    descriptor->setUsage(usage);
    return descriptor;
}
TextureDescriptor* TextureDescriptor::textureCubeDescriptor(PixelFormat pixelFormat, NS::UInteger size, bool mipmapped) {
    TextureDescriptor* descriptor = texture2DDescriptor(pixelFormat, size, size, mipmapped);
    descriptor->setTextureType(TextureTypeCube);
    return descriptor;
}

NS::UInteger TextureDescriptor::arrayLength() const {
    return values_of(this).array_length;
}
void TextureDescriptor::setArrayLength(NS::UInteger arrayLength) {
    values_of(this).array_length = arrayLength;
}
NS::UInteger TextureDescriptor::depth() const {
    return values_of(this).depth;
}
void TextureDescriptor::setDepth(NS::UInteger depth) {
    values_of(this).depth = depth;
}
NS::UInteger TextureDescriptor::height() const {
    return values_of(this).height;
}
void TextureDescriptor::setHeight(NS::UInteger height) {
    values_of(this).height = height;
}
NS::UInteger TextureDescriptor::mipmapLevelCount() const {
    return values_of(this).mip_levels;
}
void TextureDescriptor::setMipmapLevelCount(NS::UInteger mipmapLevelCount) {
    values_of(this).mip_levels = mipmapLevelCount;
}
PixelFormat TextureDescriptor::pixelFormat() const {
    return values_of(this).format;
}
void TextureDescriptor::setPixelFormat(PixelFormat pixelFormat) {
    values_of(this).format = pixelFormat;
}
ResourceOptions TextureDescriptor::resourceOptions() const {
    return values_of(this).options;
}
void TextureDescriptor::setResourceOptions(ResourceOptions resourceOptions) {
    values_of(this).options = resourceOptions;
}
NS::UInteger TextureDescriptor::sampleCount() const {
    return values_of(this).samples;
}
void TextureDescriptor::setSampleCount(NS::UInteger sampleCount) {
    values_of(this).samples = sampleCount;
}
TextureType TextureDescriptor::textureType() const {
    return values_of(this).type;
}
void TextureDescriptor::setTextureType(TextureType textureType) {
    values_of(this).type = textureType;
}
TextureUsage TextureDescriptor::usage() const {
    return values_of(this).usage;
}
void TextureDescriptor::setUsage(TextureUsage usage) {
    values_of(this).usage = usage;
}
NS::UInteger TextureDescriptor::width() const {
    return values_of(this).width;
}
void TextureDescriptor::setWidth(NS::UInteger width) {
    values_of(this).width = width;
}
bool TextureDescriptor::allowGPUOptimizedContents() const {
    return values_of(this).optimized;
}
void TextureDescriptor::setAllowGPUOptimizedContents(bool allowGPUOptimizedContents) {
    values_of(this).optimized = allowGPUOptimizedContents;
}
CPUCacheMode TextureDescriptor::cpuCacheMode() const {
    return static_cast<CPUCacheMode>(values_of(this).options & 15);
}
void TextureDescriptor::setCpuCacheMode(CPUCacheMode cpuCacheMode) {
    set_bits(values_of(this).options, NS::UInteger{15}, cpuCacheMode);
}
StorageMode TextureDescriptor::storageMode() const {
    return static_cast<StorageMode>(values_of(this).options >> 4 & 15);
}
void TextureDescriptor::setStorageMode(StorageMode storageMode) {
    set_bits(values_of(this).options, NS::UInteger{15} << 4, storageMode << 4);
}
HazardTrackingMode TextureDescriptor::hazardTrackingMode() const {
    return static_cast<HazardTrackingMode>(values_of(this).options >> 8 & 3);
}
void TextureDescriptor::setHazardTrackingMode(HazardTrackingMode hazardTrackingMode) {
    set_bits(values_of(this).options, NS::UInteger{3} << 8, hazardTrackingMode << 8);
}

} // namespace MTL
