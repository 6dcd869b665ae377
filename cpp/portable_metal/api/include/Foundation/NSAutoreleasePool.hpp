// Pools that own the objects which functions hand out without giving them to the caller.
#pragma once

#include "NSObject.hpp"

namespace NS {

// Pools nest per thread; releasing or draining one releases its objects, and those of pools opened after it.
class METALKI_API AutoreleasePool : public Object {
public:
    static AutoreleasePool* alloc();
    AutoreleasePool* init();
    void drain();
    void addObject(Object* pObject);
    static void showPools();
};

} // namespace NS
