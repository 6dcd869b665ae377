// Tells children that were forked from a process which had used a device: threads and locks of it stayed with the parent.
#include "kernel_interface/process.hpp"

#include <atomic>

#ifndef _WIN32
#include <pthread.h>
#endif

#include "metalki/error.hpp"

namespace metalki::detail {

namespace {

std::atomic<bool> device_used{false}, forked_after_use{false}, forked_while_compiling{false};
std::atomic<unsigned> compiling{0};
thread_local unsigned compiling_here = 0;

#ifndef _WIN32
void in_forked_child() {
    forked_after_use.store(device_used.load());
    // The thread that forks goes on in the child.
    if (compiling.load() != compiling_here)
        forked_while_compiling.store(true);
    compiling.store(compiling_here);
}

[[maybe_unused]] const int watches_forks = pthread_atfork(nullptr, nullptr, &in_forked_child);
#endif

} // namespace

void check_device() {
    if (forked_after_use.load(std::memory_order_relaxed))
        throw DeviceError("the process was forked after the device had been used; the child cannot use it: its threads and "
                          "perhaps its locks stayed with the parent. Fork before the first launch, or start the child anew");
}

void use_device() {
    check_device();
    if (!device_used.load(std::memory_order_relaxed))
        device_used.store(true, std::memory_order_relaxed);
}

CompileScope::CompileScope() {
    if (forked_while_compiling.load(std::memory_order_relaxed))
        throw DeviceError("the process was forked while another of its threads compiled; the child cannot compile: the locks "
                          "of that thread stayed with the parent. Fork earlier, or start the child anew");
    compiling.fetch_add(1);
    ++compiling_here;
}

CompileScope::~CompileScope() {
    --compiling_here;
    compiling.fetch_sub(1);
}

} // namespace metalki::detail
