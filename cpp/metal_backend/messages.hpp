// What kernels print, on its way from Metal to kernel_interface.
#pragma once

#include <string_view>

#include "metal_backend/objects.hpp"

namespace metalki::metal {

// A log state whose messages are handed on as those of `queue`. Throws LaunchError when the device refuses.
NS::SharedPtr<MTL::LogState> make_log_state(MTL::Device& device, const detail::QueueImpl* queue);

// Whether a program with all its includes in place may print: for compilers that do not tell, and must be told.
bool may_print(std::string_view program);

} // namespace metalki::metal
