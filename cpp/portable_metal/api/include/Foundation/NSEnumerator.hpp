// Iteration over collections.
#pragma once

#include "NSObject.hpp"

namespace NS {

class METALKI_API FastEnumeration : public Referencing<FastEnumeration> {};

template <class _ObjectType> class Enumerator : public Referencing<Enumerator<_ObjectType>, FastEnumeration> {
public:
    // Null after the last one.
    _ObjectType* nextObject() { return reinterpret_cast<_ObjectType*>(Private::nextObject(this)); }
    class Array* allObjects() { return Private::allObjects(this); }
};

} // namespace NS
