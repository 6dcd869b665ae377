// Waiting for the device without holding the GIL, so that Ctrl-C and other threads go on.
#include <chrono>
#include <mutex>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#endif
#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

#include "module.hpp"

namespace metalki::python {

namespace {

// Set in a child that was forked from a process which had used the device.
bool device_used = false, forked_after_use = false;

// Often enough for Ctrl-C to feel immediate, seldom enough to cost nothing.
constexpr std::chrono::milliseconds signal_interval{50};

template <class Waitable> void wait_for(const Waitable& waitable) {
    use_device();
    for (;;) {
        bool done;
        {
            GilRelease release;
            done = waitable.synchronize_for(signal_interval);
        }
        if (done)
            break;
        if (PyErr_CheckSignals() != 0)
            throw nb::python_error();
    }
    release_done_objects();
}

// Device threads put finished objects here; a thread that has the GIL lets them go.
std::mutex done_mutex;
std::vector<PyObject*> done_objects;

} // namespace

GilRelease::~GilRelease() {
#if defined(__GLIBCXX__) && PY_VERSION_HEX < 0x030E0000
    try {
        PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
        for (;;)
            std::this_thread::sleep_for(std::chrono::hours(1));
    }
#else
    PyEval_RestoreThread(state_);
#endif
}

void use_device() {
    if (forked_after_use)
        throw DeviceError("the process was forked after the device had been used; the child cannot use it: its threads and "
                          "perhaps its locks stayed with the parent. Fork before the first launch, or start the child anew");
    device_used = true;
}

void watch_forks() {
#ifndef _WIN32
    pthread_atfork(nullptr, nullptr, [] { forked_after_use = device_used; });
#endif
}

void wait(const Queue& queue) {
    wait_for(queue);
}
void wait(const Device& device) {
    wait_for(device);
}

std::shared_ptr<void> keep_until_done(nb::object object) {
    return std::shared_ptr<void>(object.release().ptr(), [](void* pointer) {
        std::lock_guard lock(done_mutex);
        done_objects.push_back(static_cast<PyObject*>(pointer));
    });
}

void release_done_objects() {
    std::vector<PyObject*> objects;
    {
        std::lock_guard lock(done_mutex);
        objects.swap(done_objects);
    }
    for (PyObject* object : objects)
        Py_DECREF(object);
}

} // namespace metalki::python
