// Anything that takes device memory.
#pragma once

#include "MTLDefines.hpp"

namespace MTL {

class METALKI_API Allocation : public NS::Referencing<Allocation> {
public:
    NS::UInteger allocatedSize() const;
};

} // namespace MTL
