// What all encoders have in common.
#pragma once

#include "MTLDefines.hpp"

namespace MTL {

class Device;

using ResourceUsage = NS::UInteger;
enum : ResourceUsage {
    ResourceUsageRead = 1,
    ResourceUsageWrite = 1 << 1,
    ResourceUsageSample = 1 << 2,
};

using BarrierScope = NS::UInteger;
enum : BarrierScope {
    BarrierScopeBuffers = 1,
    BarrierScopeTextures = 1 << 1,
    BarrierScopeRenderTargets = 1 << 2,
};

class METALKI_API CommandEncoder : public NS::Referencing<CommandEncoder> {
public:
    Device* device() const;
    void endEncoding();
    void insertDebugSignpost(const NS::String* string);
    NS::String* label() const;
    void popDebugGroup();
    void pushDebugGroup(const NS::String* string);
    void setLabel(const NS::String* label);
};

} // namespace MTL
