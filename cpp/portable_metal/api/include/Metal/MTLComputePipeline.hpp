// Kernels ready to run, and what they take.
#pragma once

#include "MTLAllocation.hpp"
#include "MTLTypes.hpp"

namespace MTL {

class Device;
class Function;

class METALKI_API ComputePipelineReflection : public NS::Referencing<ComputePipelineReflection> {
public:
    // In declaration order, position inputs left out: Argument objects, and Binding objects.
    NS::Array* arguments() const;
    NS::Array* bindings() const;
};

class METALKI_API ComputePipelineDescriptor : public NS::Copying<ComputePipelineDescriptor> {
public:
    static ComputePipelineDescriptor* alloc();
    ComputePipelineDescriptor* init();
    Function* computeFunction() const;
    NS::String* label() const;
    NS::UInteger maxCallStackDepth() const;
    // 0: the device's own limit.
    NS::UInteger maxTotalThreadsPerThreadgroup() const;
    void reset();
    void setComputeFunction(const Function* computeFunction);
    void setLabel(const NS::String* label);
    void setMaxCallStackDepth(NS::UInteger maxCallStackDepth);
    void setMaxTotalThreadsPerThreadgroup(NS::UInteger maxTotalThreadsPerThreadgroup);
    void setSupportIndirectCommandBuffers(bool supportIndirectCommandBuffers);
    void setThreadGroupSizeIsMultipleOfThreadExecutionWidth(bool threadGroupSizeIsMultipleOfThreadExecutionWidth);
    bool supportIndirectCommandBuffers() const;
    bool threadGroupSizeIsMultipleOfThreadExecutionWidth() const;
};

class METALKI_API ComputePipelineState : public NS::Referencing<ComputePipelineState, Allocation> {
public:
    Device* device() const;
    NS::String* label() const;
    NS::UInteger maxTotalThreadsPerThreadgroup() const;
    ComputePipelineReflection* reflection() const;
    NS::UInteger staticThreadgroupMemoryLength() const;
    bool supportIndirectCommandBuffers() const;
    NS::UInteger threadExecutionWidth() const;
};

} // namespace MTL
