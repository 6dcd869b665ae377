// Version of the library and of what it is made of.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "metalki/export.hpp"

namespace metalki {

/// Version of metalki, for example "0.1.0".
METALKI_API std::string version();

/// Facts for bug reports as (name, value) pairs: metalki, provider, MSL version, devices. Never throws for want of a device.
METALKI_API std::vector<std::pair<std::string, std::string>> version_info();

} // namespace metalki
