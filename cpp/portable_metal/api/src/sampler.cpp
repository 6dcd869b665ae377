// MTL::SamplerDescriptor and MTL::SamplerState.
#include "Metal/MTLSampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "texture.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

class SamplerDescriptorState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::SamplerDescriptor"; }
    ObjectState* copy() const override {
        auto* other = new SamplerDescriptorState;
        other->values = values;
        return other;
    }
    struct Values {
        MTL::SamplerMinMagFilter min_filter = MTL::SamplerMinMagFilterNearest, mag_filter = MTL::SamplerMinMagFilterNearest;
        MTL::SamplerMipFilter mip_filter = MTL::SamplerMipFilterNotMipmapped;
        MTL::SamplerAddressMode s = MTL::SamplerAddressModeClampToEdge, t = MTL::SamplerAddressModeClampToEdge,
                                r = MTL::SamplerAddressModeClampToEdge;
        MTL::SamplerBorderColor border = MTL::SamplerBorderColorTransparentBlack;
        MTL::CompareFunction compare = MTL::CompareFunctionNever;
        NS::UInteger anisotropy = 1;
        float lod_min = 0, lod_max = std::numeric_limits<float>::max();
        bool normalized = true, lod_average = false, argument_buffers = false;
        Reference<StringState> label;
    } values;
};
using Values = SamplerDescriptorState::Values;

Values& values_of(const MTL::SamplerDescriptor* descriptor) {
    return state_of<SamplerDescriptorState>(descriptor).values;
}

bool stays_at_the_edge(MTL::SamplerAddressMode mode) {
    return mode == MTL::SamplerAddressModeClampToEdge || mode == MTL::SamplerAddressModeClampToZero ||
           mode == MTL::SamplerAddressModeClampToBorderColor;
}

bool valid_enumerators(const Values& v, const char* call) {
    return require(v.min_filter <= MTL::SamplerMinMagFilterLinear && v.mag_filter <= MTL::SamplerMinMagFilterLinear &&
                       v.mip_filter <= MTL::SamplerMipFilterLinear,
                   call, "unknown filter") &&
           require(std::max({v.s, v.t, v.r}) <= MTL::SamplerAddressModeClampToBorderColor, call, "unknown address mode") &&
           require(v.border <= MTL::SamplerBorderColorOpaqueWhite, call, "unknown border color") &&
           require(v.compare <= MTL::CompareFunctionAlways, call, "unknown compare function");
}

bool valid_sampler(const Values& v, const char* call) {
    if (!valid_enumerators(v, call) ||
        !require(v.anisotropy >= 1 && v.anisotropy <= 16, call,
                 [&] { return "maxAnisotropy is " + std::to_string(v.anisotropy) + "; it is 1 to 16"; }) ||
        !require(v.lod_min <= v.lod_max, call, "lodMinClamp is above lodMaxClamp"))
        return false;
    if (v.normalized)
        return true;
    return require(v.min_filter == v.mag_filter, call, "with pixel coordinates, minFilter and magFilter must be equal") &&
           require(v.mip_filter == MTL::SamplerMipFilterNotMipmapped, call,
                   "with pixel coordinates, mipFilter must be NotMipmapped") &&
           require(stays_at_the_edge(v.s) && stays_at_the_edge(v.t) && stays_at_the_edge(v.r), call,
                   "with pixel coordinates, the address modes must be ClampToEdge, ClampToZero or ClampToBorderColor") &&
           require(v.anisotropy == 1, call, "with pixel coordinates, maxAnisotropy must be 1") &&
           require(v.compare == MTL::CompareFunctionNever, call, "with pixel coordinates, compareFunction must be Never");
}

// In 1/256 of a level.
std::uint64_t lod_bits(float level) {
    return static_cast<std::uint64_t>(std::lround(std::clamp(level, 0.0f, 255.99f) * 256.0f));
}

} // namespace

compiler::SamplerState with_lod_range(compiler::SamplerState sampler, float minimum, float maximum) {
    namespace bits = compiler::sampler_bits;
    const std::uint64_t highest = maximum > 255 ? 0xffff : lod_bits(maximum);
    return {(sampler.bits & 0xffffffffu) | lod_bits(minimum) << bits::lod_min | highest << bits::lod_max};
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

SamplerState* Device::newSamplerState(const SamplerDescriptor* descriptor) {
    constexpr const char* call = "MTL::Device::newSamplerState";
    if (!require(descriptor, call, "descriptor is null"))
        return nullptr;
    const auto& v = values_of(descriptor);
    if (!valid_sampler(v, call))
        return nullptr;
    namespace bits = metalki::compiler::sampler_bits;
    const auto field = [](std::uint64_t value, unsigned lowest) { return value << lowest; };
    auto* state = new SamplerObjectState(device_of(this));
    state->sampler.bits = field(v.min_filter, bits::min_filter) | field(v.mag_filter, bits::mag_filter) |
                          field(v.mip_filter, bits::mip_filter) | field(v.s, bits::s_address) | field(v.t, bits::t_address) |
                          field(v.r, bits::r_address) | field(v.normalized ? 0 : 1, bits::pixel_coordinates) |
                          field(v.compare, bits::compare) | field(v.border, bits::border_color) |
                          field(v.anisotropy - 1, bits::max_anisotropy);
    state->sampler = with_lod_range(state->sampler, v.lod_min, v.lod_max);
    state->label = v.label;
    return public_of<SamplerState>(state);
}

Device* SamplerState::device() const {
    return public_of<Device>(&state_of<SamplerObjectState>(this).device);
}
ResourceID SamplerState::gpuResourceID() const {
    return {state_of<SamplerObjectState>(this).sampler.bits};
}
NS::String* SamplerState::label() const {
    return autoreleased<NS::String>(state_of<SamplerObjectState>(this).label);
}

SamplerDescriptor* SamplerDescriptor::alloc() {
    return public_of<SamplerDescriptor>(new SamplerDescriptorState);
}
SamplerDescriptor* SamplerDescriptor::init() {
    return this;
}
NS::String* SamplerDescriptor::label() const {
    return autoreleased<NS::String>(values_of(this).label);
}
void SamplerDescriptor::setLabel(const NS::String* label) {
    values_of(this).label = label_of(label);
}
SamplerBorderColor SamplerDescriptor::borderColor() const {
    return values_of(this).border;
}
void SamplerDescriptor::setBorderColor(SamplerBorderColor borderColor) {
    values_of(this).border = borderColor;
}
CompareFunction SamplerDescriptor::compareFunction() const {
    return values_of(this).compare;
}
void SamplerDescriptor::setCompareFunction(CompareFunction compareFunction) {
    values_of(this).compare = compareFunction;
}
bool SamplerDescriptor::lodAverage() const {
    return values_of(this).lod_average;
}
void SamplerDescriptor::setLodAverage(bool lodAverage) {
    values_of(this).lod_average = lodAverage;
}
float SamplerDescriptor::lodMaxClamp() const {
    return values_of(this).lod_max;
}
void SamplerDescriptor::setLodMaxClamp(float lodMaxClamp) {
    values_of(this).lod_max = lodMaxClamp;
}
float SamplerDescriptor::lodMinClamp() const {
    return values_of(this).lod_min;
}
void SamplerDescriptor::setLodMinClamp(float lodMinClamp) {
    values_of(this).lod_min = lodMinClamp;
}
SamplerMinMagFilter SamplerDescriptor::magFilter() const {
    return values_of(this).mag_filter;
}
void SamplerDescriptor::setMagFilter(SamplerMinMagFilter magFilter) {
    values_of(this).mag_filter = magFilter;
}
NS::UInteger SamplerDescriptor::maxAnisotropy() const {
    return values_of(this).anisotropy;
}
void SamplerDescriptor::setMaxAnisotropy(NS::UInteger maxAnisotropy) {
    values_of(this).anisotropy = maxAnisotropy;
}
SamplerMinMagFilter SamplerDescriptor::minFilter() const {
    return values_of(this).min_filter;
}
void SamplerDescriptor::setMinFilter(SamplerMinMagFilter minFilter) {
    values_of(this).min_filter = minFilter;
}
SamplerMipFilter SamplerDescriptor::mipFilter() const {
    return values_of(this).mip_filter;
}
void SamplerDescriptor::setMipFilter(SamplerMipFilter mipFilter) {
    values_of(this).mip_filter = mipFilter;
}
bool SamplerDescriptor::normalizedCoordinates() const {
    return values_of(this).normalized;
}
void SamplerDescriptor::setNormalizedCoordinates(bool normalizedCoordinates) {
    values_of(this).normalized = normalizedCoordinates;
}
SamplerAddressMode SamplerDescriptor::rAddressMode() const {
    return values_of(this).r;
}
void SamplerDescriptor::setRAddressMode(SamplerAddressMode rAddressMode) {
    values_of(this).r = rAddressMode;
}
SamplerAddressMode SamplerDescriptor::sAddressMode() const {
    return values_of(this).s;
}
void SamplerDescriptor::setSAddressMode(SamplerAddressMode sAddressMode) {
    values_of(this).s = sAddressMode;
}
bool SamplerDescriptor::supportArgumentBuffers() const {
    return values_of(this).argument_buffers;
}
void SamplerDescriptor::setSupportArgumentBuffers(bool supportArgumentBuffers) {
    values_of(this).argument_buffers = supportArgumentBuffers;
}
SamplerAddressMode SamplerDescriptor::tAddressMode() const {
    return values_of(this).t;
}
void SamplerDescriptor::setTAddressMode(SamplerAddressMode tAddressMode) {
    values_of(this).t = tAddressMode;
}

} // namespace MTL
