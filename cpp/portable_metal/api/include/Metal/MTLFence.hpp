// Order between encoders; encoders of one queue run in order here, so a fence only has to exist.
#pragma once

#include "MTLDefines.hpp"

namespace MTL {

class Device;

class METALKI_API Fence : public NS::Referencing<Fence> {
public:
    Device* device() const;
    NS::String* label() const;
    void setLabel(const NS::String* label);
};

} // namespace MTL
