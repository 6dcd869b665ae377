// Waiting for the device without holding the GIL, so that Ctrl-C and other threads go on.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

#include "kernel_interface/backend.hpp"
#include "module.hpp"

namespace metalki::python {

namespace {

// Often enough for Ctrl-C to feel immediate, seldom enough to cost nothing.
constexpr std::chrono::milliseconds signal_interval{50};

// Ctrl-C ends what is waited for as well: a kernel that never ends would block the queue for ever. The exception of Python
// tells of it, no other does.
template <class Waitable> void stop(const Waitable& waitable) {
    GilRelease release;
    try {
        waitable.cancel();
        waitable.synchronize_for(std::chrono::seconds(1));
    } catch (const Error&) {
    }
}

template <class Waitable> void stop_when_interrupted(const Waitable& waitable) {
    if (!is_interrupted())
        return;
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        stop(waitable);
    throw nb::python_error();
}

// The error of the device is raised, whatever becomes of the messages.
template <class Waitable> void deliver_beside_error(const Waitable& waitable) {
    try {
        deliver_messages(waitable);
    } catch (nb::python_error& error) {
        error.discard_as_unraisable("metalki: messages of kernels");
    }
}

bool is_idle(const Queue& queue) {
    return queue.is_idle();
}
bool is_idle(const Device&) {
    return false; // its queues are asked one by one
}

template <class Waitable> void wait_for(const Waitable& waitable) {
    use_device();
    if (is_idle(waitable)) {
        deliver_messages(waitable);
        return release_done_objects();
    }
    for (bool done = false; !done;) {
        stop_when_interrupted(waitable);
        try {
            const InterruptibleWait interruptible;
            GilRelease release;
            done = waitable.synchronize_for(signal_interval);
        } catch (const DeviceError&) {
            deliver_beside_error(waitable);
            // What Ctrl-C has stopped is not to blame.
            if (PyErr_CheckSignals() != 0)
                throw nb::python_error();
            throw;
        }
        deliver_messages(waitable);
    }
    release_done_objects();
}

// Device threads put finished objects here; a thread that has the GIL lets them go.
std::mutex done_mutex;
std::vector<PyObject*> done_objects;
std::atomic<bool> any_done_objects{false};

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

void wait(const Queue& queue) {
    wait_for(queue);
}
void wait(const Device& device) {
    wait_for(device);
}

void wait_for_room(const Queue& queue) {
    while (!queue.impl()->has_room()) {
        stop_when_interrupted(queue);
        const InterruptibleWait interruptible;
        GilRelease release;
        queue.impl()->wait_for_room(signal_interval);
    }
}

std::shared_ptr<void> keep_until_done(nb::object object) {
    return std::shared_ptr<void>(object.release().ptr(), [](void* pointer) {
        std::lock_guard lock(done_mutex);
        done_objects.push_back(static_cast<PyObject*>(pointer));
        any_done_objects.store(true, std::memory_order_release);
    });
}

void release_done_objects() {
    if (!any_done_objects.load(std::memory_order_acquire)) [[likely]]
        return;
    std::vector<PyObject*> objects;
    {
        std::lock_guard lock(done_mutex);
        any_done_objects.store(false, std::memory_order_relaxed);
        objects.swap(done_objects);
    }
    for (PyObject* object : objects)
        Py_DECREF(object);
}

} // namespace metalki::python
