// What becomes of devices in a forked child.
#pragma once

#include "metalki/export.hpp"

namespace metalki::detail {

// Called by whatever gives work to a device or waits for it. Throws DeviceError in a child that was forked afterwards.
METALKI_API void use_device();

} // namespace metalki::detail
