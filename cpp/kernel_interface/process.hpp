// What becomes of devices in a forked child.
#pragma once

#include "metalki/export.hpp"

namespace metalki::detail {

// Called by whatever gives work to a device or waits for it. Throws DeviceError in a child that was forked afterwards.
METALKI_API void use_device();
// The same check by what only makes objects of the device, after which a child may still use it.
METALKI_API void check_device();

// While it lives, the calling thread compiles. Throws DeviceError in a child that was forked while another thread did: that
// thread's locks are held for ever there, and what it was making never comes.
class CompileScope {
public:
    CompileScope();
    ~CompileScope();
    CompileScope(const CompileScope&) = delete;
    CompileScope& operator=(const CompileScope&) = delete;
};

} // namespace metalki::detail
