// Tells children that were forked from a process which had used a device: threads and locks of it stayed with the parent.
#include "kernel_interface/process.hpp"

#include <atomic>

#ifndef _WIN32
#include <pthread.h>
#endif

#include "metalki/error.hpp"

namespace metalki::detail {

namespace {

std::atomic<bool> device_used{false}, forked_after_use{false};

#ifndef _WIN32
[[maybe_unused]] const int watches_forks = pthread_atfork(nullptr, nullptr, [] { forked_after_use.store(device_used.load()); });
#endif

} // namespace

void use_device() {
    if (forked_after_use.load(std::memory_order_relaxed))
        throw DeviceError("the process was forked after the device had been used; the child cannot use it: its threads and "
                          "perhaps its locks stayed with the parent. Fork before the first launch, or start the child anew");
    if (!device_used.load(std::memory_order_relaxed))
        device_used.store(true, std::memory_order_relaxed);
}

} // namespace metalki::detail
