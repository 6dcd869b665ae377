// The work-group that a launch chooses when none is given.
#pragma once

#include <cstdint>

#include "metalki/launch.hpp"

namespace metalki::detail {

class KernelImpl;

// Product of the sizes; saturates, so that absurd sizes stay absurd.
std::uint64_t volume(const Extents& extents);

// `work` is not empty; `cap` limits the threads of the group (0: only the kernel's own limit does).
Extents choose_work_group(const KernelImpl& kernel, const Extents& work, std::uint64_t cap);

} // namespace metalki::detail
