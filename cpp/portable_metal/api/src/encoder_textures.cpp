// MTL::ComputeCommandEncoder: textures and samplers.
#include "Metal/MTLSampler.hpp"
#include "encoding.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

constexpr const char* set_texture = "MTL::ComputeCommandEncoder::setTexture";
constexpr const char* set_textures = "MTL::ComputeCommandEncoder::setTextures";
constexpr const char* set_sampler = "MTL::ComputeCommandEncoder::setSamplerState";
constexpr const char* set_samplers = "MTL::ComputeCommandEncoder::setSamplerStates";

EncoderState& encoder_of(const MTL::CommandEncoder* encoder) {
    return state_of<EncoderState>(encoder);
}

bool ready(const EncoderState& encoder, NS::UInteger index, NS::UInteger slots, const char* call) {
    return require(!encoder.ended, call, "endEncoding has been called already") && require(index < slots, call, [&] {
               return "index " + std::to_string(index) + " is over the limit of " + std::to_string(slots - 1);
           });
}

bool ready(const EncoderState& encoder, const void* objects, NS::Range range, NS::UInteger slots, const char* call) {
    return require(!encoder.ended, call, "endEncoding has been called already") &&
           require(objects || range.length == 0, call, "the array is null") &&
           require(range.location <= slots && range.length <= slots - range.location, call, [&] {
               return "range " + std::to_string(range.location) + " + " + std::to_string(range.length) +
                      " reaches over the limit of index " + std::to_string(slots - 1);
           });
}

TextureBindings& bindings_of(EncoderState& encoder) {
    if (!encoder.textures)
        encoder.textures = std::make_unique<TextureBindings>();
    return *encoder.textures;
}

void bind(EncoderState& encoder, const MTL::Texture* texture, NS::UInteger index) {
    const TextureState* state = texture ? &state_of<TextureState>(texture) : nullptr;
    if (state)
        keep(encoder, *state);
    bindings_of(encoder).textures[index] = state;
}

// The state is copied: it needs no object to stay.
void bind(EncoderState& encoder, const compiler::SamplerState* sampler, NS::UInteger index) {
    TextureBindings::Sampler binding;
    if (sampler)
        binding = {new (encoder.buffer->storage->allocate(sizeof *sampler)) compiler::SamplerState(*sampler), sampler->bits};
    bindings_of(encoder).samplers[index] = binding;
}

const compiler::SamplerState* sampler_of(const MTL::SamplerState* sampler) {
    return sampler ? &state_of<SamplerObjectState>(sampler).sampler : nullptr;
}

bool valid_range(float minimum, float maximum, const char* call) {
    return require(minimum <= maximum, call, "lodMinClamp is above lodMaxClamp");
}

std::string argument_name(const PipelineState& pipeline, const ArgumentPlan& plan) {
    const bool texture = plan.kind == compiler::ArgumentKind::texture;
    return "kernel \"" + pipeline.code->function.name + "\", argument \"" + pipeline.code->function.arguments[plan.slot].name +
           "\" at " + (texture ? "texture" : "sampler") + " index " + std::to_string(plan.index);
}

} // namespace

bool check_texture_or_sampler(const EncoderState& encoder, const ArgumentPlan& plan, const char* call) {
    const auto name = [&] { return argument_name(*encoder.pipeline, plan); };
    const TextureBindings* bindings = encoder.textures.get();
    if (plan.kind == compiler::ArgumentKind::sampler)
        return require(bindings && bindings->samplers[plan.index].state, call,
                       [&] { return name() + ": no sampler is bound"; });
    const TextureState* texture = bindings ? bindings->textures[plan.index] : nullptr;
    if (!require(texture, call, [&] { return name() + ": no texture is bound"; }))
        return false;
    const std::string problem = texture_problem(*texture, plan.texture);
    return require(problem.empty(), call, [&] { return name() + ": " + problem; });
}

BoundArgument bound_texture_or_sampler(const EncoderState& encoder, const ArgumentPlan& plan) {
    if (plan.kind == compiler::ArgumentKind::sampler) {
        const auto& sampler = encoder.textures->samplers[plan.index];
        return {const_cast<void*>(sampler.state), sampler.bits, sizeof(compiler::SamplerState)};
    }
    std::byte* descriptor = encoder.textures->textures[plan.index]->descriptor_memory->address;
    return {descriptor, reinterpret_cast<std::uintptr_t>(descriptor)};
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

void ComputeCommandEncoder::setTexture(const Texture* texture, NS::UInteger index) {
    auto& encoder = encoder_of(this);
    if (ready(encoder, index, texture_slots, set_texture))
        bind(encoder, texture, index);
}

void ComputeCommandEncoder::setTextures(const Texture* const textures[], NS::Range range) {
    auto& encoder = encoder_of(this);
    if (!ready(encoder, textures, range, texture_slots, set_textures))
        return;
    for (NS::UInteger i = 0; i < range.length; ++i)
        bind(encoder, textures[i], range.location + i);
}

void ComputeCommandEncoder::setSamplerState(const SamplerState* sampler, NS::UInteger index) {
    auto& encoder = encoder_of(this);
    if (ready(encoder, index, sampler_slots, set_sampler))
        bind(encoder, sampler_of(sampler), index);
}

void ComputeCommandEncoder::setSamplerState(const SamplerState* sampler, float lodMinClamp, float lodMaxClamp,
                                            NS::UInteger index) {
    auto& encoder = encoder_of(this);
    if (!ready(encoder, index, sampler_slots, set_sampler) || !require(sampler, set_sampler, "sampler is null") ||
        !valid_range(lodMinClamp, lodMaxClamp, set_sampler))
        return;
    const auto changed = with_lod_range(*sampler_of(sampler), lodMinClamp, lodMaxClamp);
    bind(encoder, &changed, index);
}

void ComputeCommandEncoder::setSamplerStates(const SamplerState* const samplers[], NS::Range range) {
    auto& encoder = encoder_of(this);
    if (!ready(encoder, samplers, range, sampler_slots, set_samplers))
        return;
    for (NS::UInteger i = 0; i < range.length; ++i)
        bind(encoder, sampler_of(samplers[i]), range.location + i);
}

void ComputeCommandEncoder::setSamplerStates(const SamplerState* const samplers[], const float lodMinClamps[],
                                             const float lodMaxClamps[], NS::Range range) {
    auto& encoder = encoder_of(this);
    if (!ready(encoder, samplers, range, sampler_slots, set_samplers) ||
        !require((lodMinClamps && lodMaxClamps) || range.length == 0, set_samplers, "lodMinClamps or lodMaxClamps is null"))
        return;
    // All are checked before the first is bound.
    for (NS::UInteger i = 0; i < range.length; ++i)
        if (!require(samplers[i], set_samplers, "a sampler is null") ||
            !valid_range(lodMinClamps[i], lodMaxClamps[i], set_samplers))
            return;
    for (NS::UInteger i = 0; i < range.length; ++i)
        setSamplerState(samplers[i], lodMinClamps[i], lodMaxClamps[i], range.location + i);
}

} // namespace MTL
