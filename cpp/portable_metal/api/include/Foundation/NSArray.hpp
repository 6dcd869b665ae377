// Immutable ordered collection; retains its objects.
#pragma once

#include "NSEnumerator.hpp"
#include "NSObject.hpp"

namespace NS {

class METALKI_API Array : public Copying<Array> {
public:
    static Array* array();
    static Array* array(const Object* pObject);
    static Array* array(const Object* const* pObjects, UInteger count);

    static Array* alloc();
    Array* init();
    Array* init(const Object* const* pObjects, UInteger count);

    // Out of range is a violation (see MetalkiValidation.hpp).
    template <class _Object = Object> _Object* object(UInteger index) const {
        return reinterpret_cast<_Object*>(objectAtIndex(index));
    }
    UInteger count() const;
    Enumerator<Object>* objectEnumerator() const;

private:
    Object* objectAtIndex(UInteger index) const;
};

} // namespace NS
