// The root of all objects: reference counting, comparison, description.
#pragma once

#include "NSTypes.hpp"

namespace NS {

class Array;
class Dictionary;
class Object;
class String;

// What the templates below stand on. Objects are opaque: their state lives inside the library.
namespace Private {

struct Root {};

// All of these accept a null pointer and then do nothing, as messages to nil do.
METALKI_API void* retain(const void* object);
METALKI_API void release(const void* object);
METALKI_API void* autorelease(const void* object);
METALKI_API UInteger retainCount(const void* object);
METALKI_API void* copy(const void* object);
METALKI_API Object* nextObject(void* enumerator);
METALKI_API Array* allObjects(void* enumerator);

} // namespace Private

// Ownership: functions whose names begin with alloc, new, copy or Create hand out an object that the caller must
// release; every other object belongs to the innermost autorelease pool of the calling thread.
template <class _Class, class _Base = Object> class METALKI_API Referencing : public _Base {
public:
    _Class* retain() { return static_cast<_Class*>(Private::retain(this)); }
    void release() { Private::release(this); }
    _Class* autorelease() { return static_cast<_Class*>(Private::autorelease(this)); }
    UInteger retainCount() const { return Private::retainCount(this); }
};

template <class _Class, class _Base = Object> class METALKI_API Copying : public Referencing<_Class, _Base> {
public:
    // A new object of equal value, owned by the caller; immutable objects may return themselves, retained.
    _Class* copy() const { return static_cast<_Class*>(Private::copy(this)); }
};

template <class _Class, class _Base = Object> class METALKI_API SecureCoding : public Referencing<_Class, _Base> {};

class METALKI_API Object : public Referencing<Object, Private::Root> {
public:
    UInteger hash() const;
    bool isEqual(const Object* pObject) const;
    String* description() const;
    String* debugDescription() const;

    Object() = delete;
    Object(const Object&) = delete;
    ~Object() = delete;
    Object& operator=(const Object&) = delete;
};

} // namespace NS
