// A block of bytes.
#pragma once

#include "NSObject.hpp"

namespace NS {

class METALKI_API Data : public Copying<Data> {
public:
    void* mutableBytes() const;
    UInteger length() const;
};

} // namespace NS
