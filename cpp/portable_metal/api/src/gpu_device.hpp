// NVIDIA GPUs as devices of the Metal API.
#pragma once

#include "device.hpp"

namespace metalki::api {

// Those that the CUDA driver shows, in its order; none without a driver.
std::vector<DeviceState*> find_gpus();

} // namespace metalki::api
