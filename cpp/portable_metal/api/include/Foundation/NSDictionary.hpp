// Immutable map from keys, compared by isEqual, to objects; retains both.
#pragma once

#include "NSEnumerator.hpp"
#include "NSObject.hpp"

namespace NS {

class METALKI_API Dictionary : public Copying<Dictionary> {
public:
    static Dictionary* dictionary();
    static Dictionary* dictionary(const Object* pObject, const Object* pKey);
    static Dictionary* dictionary(const Object* const* pObjects, const Object* const* pKeys, UInteger count);

    static Dictionary* alloc();
    Dictionary* init();
    Dictionary* init(const Object* const* pObjects, const Object* const* pKeys, UInteger count);

    template <class _KeyType = Object> Enumerator<_KeyType>* keyEnumerator() const {
        return reinterpret_cast<Enumerator<_KeyType>*>(keys());
    }
    // Null when the key is absent.
    template <class _Object = Object> _Object* object(const Object* pKey) const {
        return reinterpret_cast<_Object*>(objectForKey(pKey));
    }
    UInteger count() const;

private:
    Enumerator<Object>* keys() const;
    Object* objectForKey(const Object* pKey) const;
};

} // namespace NS
