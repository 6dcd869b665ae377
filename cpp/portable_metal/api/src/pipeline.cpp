// MTL::ComputePipelineState, its descriptor, and newComputePipelineState.
#include "Metal/MetalkiValidation.hpp"
#include "collections.hpp"
#include "device.hpp"
#include "texture.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

class ReflectionState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::ComputePipelineReflection"; }
    std::shared_ptr<const DeviceCode> code;
};

class DescriptorState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::ComputePipelineDescriptor"; }
    ObjectState* copy() const override {
        auto* other = new DescriptorState;
        other->values = values;
        return other;
    }
    struct Values {
        Reference<FunctionState> function;
        Reference<StringState> label;
        NS::UInteger call_depth = 1, max_threads = 0;
        bool indirect = false, whole_simd_groups = false;
    } values;
};
DescriptorState::Values& values(const MTL::ComputePipelineDescriptor* descriptor) {
    return state_of<DescriptorState>(descriptor).values;
}
PipelineState& pipeline(const MTL::ComputePipelineState* state) {
    return state_of<PipelineState>(state);
}

ReflectionState* new_reflection(const PipelineState& pipeline) {
    auto* state = new ReflectionState;
    state->code = pipeline.code;
    return state;
}

std::vector<ArgumentPlan> plan_arguments(const compiler::FunctionInfo& function) {
    std::vector<ArgumentPlan> plan;
    std::uint32_t slot = 0;
    for (const auto& argument : function.arguments)
        plan.push_back({argument.kind, argument.active, argument.constant_space, slot++, argument.index,
                        std::max<std::size_t>(argument.type.alignment, 1), argument.type.size,
                        argument.kind == compiler::ArgumentKind::texture ? texture_needs(argument) : TextureNeeds{}});
    return plan;
}

// The highest index of each kind of argument.
NS::UInteger highest_index(compiler::ArgumentKind kind) {
    return kind == compiler::ArgumentKind::texture   ? texture_slots - 1
           : kind == compiler::ArgumentKind::sampler ? sampler_slots - 1
                                                     : buffer_slots - 1;
}

void check_indices(const compiler::FunctionInfo& function) {
    static const char* const kinds[] = {"buffer", "threadgroup", "texture", "sampler"};
    for (const auto& argument : function.arguments)
        if (argument.active && argument.kind != compiler::ArgumentKind::threadgroup &&
            argument.index > highest_index(argument.kind))
            throw std::runtime_error(
                "function \"" + function.name + "\" uses " + kinds[static_cast<std::size_t>(argument.kind)] + " index " +
                std::to_string(argument.index) + "; the highest is " + std::to_string(highest_index(argument.kind)));
}

PipelineState* new_pipeline(DeviceState& device, const FunctionState& function) {
    auto code = function.code ? function.code : device.make_code(function.library->code, function.name, function.constants);
    check_indices(code->function);
    const std::uint32_t limit = device.facts().max_threadgroup_memory;
    if (code->static_threadgroup_memory > limit)
        throw std::runtime_error("function \"" + function.name + "\" declares " +
                                 std::to_string(code->static_threadgroup_memory) +
                                 " bytes of threadgroup memory; the limit is " + std::to_string(limit));
    auto* state = new PipelineState(device);
    state->plan = plan_arguments(code->function);
    state->max_threads = code->max_threads;
    if (code->function.max_total_threads)
        state->max_threads = std::min<NS::UInteger>(state->max_threads, code->function.max_total_threads);
    state->code = std::move(code);
    return state;
}

} // namespace
} // namespace metalki::api

namespace MTL {

using namespace metalki::api;
namespace compiler = metalki::compiler;

ComputePipelineState* Device::newComputePipelineState(const Function* computeFunction, NS::Error** error) {
    return newComputePipelineState(computeFunction, PipelineOptionNone, nullptr, error);
}

ComputePipelineState* Device::newComputePipelineState(const Function* computeFunction, PipelineOption options,
                                                      const AutoreleasedComputePipelineReflection* reflection,
                                                      NS::Error** error) {
    if (error)
        *error = nullptr;
    constexpr const char* call = "MTL::Device::newComputePipelineState";
    if (!require(computeFunction, call, "computeFunction is null"))
        return nullptr;
    const auto& function = state_of<FunctionState>(computeFunction);
    if (!require(&function.library->device == &device_of(this), call, "computeFunction belongs to another device"))
        return nullptr;
    try {
        PipelineState* state = new_pipeline(device_of(this), function);
        // metal-cpp passes this result through a pointer to const.
        if (reflection)
            *const_cast<AutoreleasedComputePipelineReflection*>(reflection) =
                options == PipelineOptionNone ? nullptr : autoreleased<ComputePipelineReflection>(new_reflection(*state));
        return public_of<ComputePipelineState>(state);
    } catch (const compiler::CompileError& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorCompileFailure, problem.what(), problem.diagnostics());
    } catch (const DeviceFailure& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorInternal, problem.what());
    } catch (const std::exception& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorCompileFailure, problem.what());
    }
    return nullptr;
}

ComputePipelineState* Device::newComputePipelineState(const ComputePipelineDescriptor* descriptor, PipelineOption options,
                                                      const AutoreleasedComputePipelineReflection* reflection,
                                                      NS::Error** error) {
    constexpr const char* call = "MTL::Device::newComputePipelineState";
    if (!require(descriptor, call, "descriptor is null") ||
        !require(values(descriptor).max_threads <= device_of(this).facts().max_threads_per_threadgroup, call, [&] {
            return "maxTotalThreadsPerThreadgroup is over " +
                   std::to_string(device_of(this).facts().max_threads_per_threadgroup);
        }))
        return nullptr;
    const auto& own = values(descriptor);
    auto* result = newComputePipelineState(public_of<Function>(own.function.get()), options, reflection, error);
    if (result) {
        pipeline(result).label = own.label;
        if (own.max_threads)
            pipeline(result).max_threads = std::min(pipeline(result).max_threads, own.max_threads);
    }
    return result;
}

void Device::newComputePipelineState(const Function* pFunction,
                                     const NewComputePipelineStateCompletionHandlerFunction& completionHandler) {
    ScopedPool pool;
    NS::Error* error = nullptr;
    auto state = NS::TransferPtr(newComputePipelineState(pFunction, &error));
    completionHandler(state.get(), error);
}
void Device::newComputePipelineState(const Function* pFunction, PipelineOption options,
                                     const NewComputePipelineStateWithReflectionCompletionHandlerFunction& completionHandler) {
    ScopedPool pool;
    NS::Error* error = nullptr;
    ComputePipelineReflection* reflection = nullptr;
    auto state = NS::TransferPtr(newComputePipelineState(pFunction, options, &reflection, &error));
    completionHandler(state.get(), reflection, error);
}
void Device::newComputePipelineState(const ComputePipelineDescriptor* pDescriptor, PipelineOption options,
                                     const NewComputePipelineStateWithReflectionCompletionHandlerFunction& completionHandler) {
    ScopedPool pool;
    NS::Error* error = nullptr;
    ComputePipelineReflection* reflection = nullptr;
    auto state = NS::TransferPtr(newComputePipelineState(pDescriptor, options, &reflection, &error));
    completionHandler(state.get(), reflection, error);
}

NS::Array* ComputePipelineReflection::arguments() const {
    return make_bindings(state_of<ReflectionState>(this).code->function)->autorelease();
}
NS::Array* ComputePipelineReflection::bindings() const {
    return make_bindings(state_of<ReflectionState>(this).code->function)->autorelease();
}

Device* ComputePipelineState::device() const {
    return public_of<Device>(&pipeline(this).device);
}
NS::String* ComputePipelineState::label() const {
    return autoreleased<NS::String>(pipeline(this).label);
}
NS::UInteger ComputePipelineState::maxTotalThreadsPerThreadgroup() const {
    return pipeline(this).max_threads;
}
ComputePipelineReflection* ComputePipelineState::reflection() const {
    return autoreleased<ComputePipelineReflection>(new_reflection(pipeline(this)));
}
NS::UInteger ComputePipelineState::staticThreadgroupMemoryLength() const {
    return pipeline(this).code->static_threadgroup_memory;
}
bool ComputePipelineState::supportIndirectCommandBuffers() const {
    return false;
}
NS::UInteger ComputePipelineState::threadExecutionWidth() const {
    return compiler::simd_width;
}

ComputePipelineDescriptor* ComputePipelineDescriptor::alloc() {
    return public_of<ComputePipelineDescriptor>(new DescriptorState);
}
ComputePipelineDescriptor* ComputePipelineDescriptor::init() {
    return this;
}
void ComputePipelineDescriptor::reset() {
    values(this) = {};
}
Function* ComputePipelineDescriptor::computeFunction() const {
    return public_of<Function>(values(this).function.get());
}
NS::String* ComputePipelineDescriptor::label() const {
    return autoreleased<NS::String>(values(this).label);
}
NS::UInteger ComputePipelineDescriptor::maxCallStackDepth() const {
    return values(this).call_depth;
}
NS::UInteger ComputePipelineDescriptor::maxTotalThreadsPerThreadgroup() const {
    return values(this).max_threads;
}
void ComputePipelineDescriptor::setComputeFunction(const Function* computeFunction) {
    values(this).function =
        Reference<FunctionState>::share(computeFunction ? &state_of<FunctionState>(computeFunction) : nullptr);
}
void ComputePipelineDescriptor::setLabel(const NS::String* label) {
    values(this).label = label_of(label);
}
void ComputePipelineDescriptor::setMaxCallStackDepth(NS::UInteger depth) {
    values(this).call_depth = depth;
}
void ComputePipelineDescriptor::setMaxTotalThreadsPerThreadgroup(NS::UInteger threads) {
    values(this).max_threads = threads;
}
void ComputePipelineDescriptor::setSupportIndirectCommandBuffers(bool support) {
    values(this).indirect = support;
}
void ComputePipelineDescriptor::setThreadGroupSizeIsMultipleOfThreadExecutionWidth(bool whole) {
    values(this).whole_simd_groups = whole;
}
bool ComputePipelineDescriptor::supportIndirectCommandBuffers() const {
    return values(this).indirect;
}
bool ComputePipelineDescriptor::threadGroupSizeIsMultipleOfThreadExecutionWidth() const {
    return values(this).whole_simd_groups;
}

} // namespace MTL
