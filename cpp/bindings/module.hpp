// What the parts of the extension module share.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel_interface/process.hpp"
#include "metalki/metalki.hpp"

namespace metalki::python {

namespace nb = nanobind;

// A function of the package, imported when it is first called: what most launches go without costs no start-up time.
class PackageFunction {
public:
    constexpr PackageFunction(const char* module, const char* name) : module_(module), name_(name) {}
    nb::handle get() {
        if (!function_)
            function_ = nb::module_::import_(module_).attr(name_).inc_ref().ptr();
        return function_;
    }

private:
    const char *module_, *name_;
    PyObject* function_ = nullptr; // borrowed for the life of the interpreter
};

struct Hooks {
    // metalki.Array: the exact type that the launch accepts without asking Python. Set by the package when it is imported.
    PyTypeObject* array_type = nullptr;
    // Any other argument becomes Array, bytes, int (threadgroup bytes) or None.
    PackageFunction convert{"metalki._arguments", "convert"};
    // Waits and writes numpy outputs back.
    PackageFunction finish{"metalki._arguments", "finish"};
    // metalki.Kernel(...)
    PackageFunction make_kernel{"metalki._kernel", "make_kernel"};
    // Facts become a metalki.Argument.
    PackageFunction describe_argument{"metalki._reflection", "describe_argument"};
    // The queue of the running asyncio task for a device, or None.
    PackageFunction task_queue{"metalki._queue", "task_queue"};
};
extern Hooks hooks;

// One allocation and the number of host views that look into it.
struct Memory {
    explicit Memory(Buffer b) : whole(std::move(b)) {}
    Buffer whole;
    std::atomic<int> exports{0};
};

// A device array: a range of an allocation, its element type and its shape.
struct ArrayData {
    Buffer buffer;
    ScalarType scalar = ScalarType::none; // none: structured
    std::shared_ptr<Memory> memory;
    std::size_t itemsize = 1;
    nb::object dtype;
    nb::tuple shape;
    std::string format; // of the buffer protocol; empty: none
    std::vector<Py_ssize_t> extents, strides;
};

// The C++ object behind `object`; null when that is of another type, or its __init__ has not run.
template <class T> T* instance_of(nb::handle object) {
    static auto* const type = reinterpret_cast<PyTypeObject*>(nb::type<T>().ptr());
    return PyObject_TypeCheck(object.ptr(), type) && nb::inst_ready(object) ? nb::inst_ptr<T>(object) : nullptr;
}

// Sets the Python error for the exception being handled. Call inside catch (...).
void set_python_error() noexcept;

// repr(object) for a message: cut where it is long, the type's name where there is none to be had.
std::string text_of(PyObject* object);

// Releases the GIL for a scope. A thread that wants it back after the interpreter has ended sleeps until the process does:
// Python would end the thread in the middle of C++ frames, which ends the process.
class GilRelease {
public:
    GilRelease() : state_(PyEval_SaveThread()) {}
    ~GilRelease();
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;

private:
    PyThreadState* state_;
};

using detail::use_device;

// "note", "warning" or "error".
const char* severity_name(Severity severity);

// Wait without the GIL, waking now and then for signals. Throw what the device reported and nb::python_error.
void wait(const Queue& queue);
void wait(const Device& device);

// Hands what kernels have printed to Python; cheap when there is nothing. Throw nb::python_error.
void deliver_messages(const Queue& queue);
void deliver_messages(const Device& device);

// Whether a handler of a signal has raised, which then is Python's current exception. A signal that comes later is seen by the
// next InterruptibleWait.
bool is_interrupted();

// Marks that the calling thread waits; made with the GIL. Should a kernel run on it meanwhile, Ctrl-C stops that.
class InterruptibleWait {
public:
    InterruptibleWait();
    ~InterruptibleWait();
    InterruptibleWait(const InterruptibleWait&) = delete;
    InterruptibleWait& operator=(const InterruptibleWait&) = delete;

private:
    bool marks_ = false;
};

// The queue that Python named; for None that of the running asyncio task or of the calling thread.
Queue queue_of(nb::handle queue, const Device& device);
// The running asyncio task's queue; nothing outside of tasks.
std::optional<Queue> task_queue(const Device& device);

// bool, int or float as the contract's scalar; false when `value` is none of them.
bool scalar_from_python(PyObject* value, ScalarValue& result);
// numpy's integer, float32 and float64 scalars, once their types are registered.
bool scalar_from_numpy(PyObject* value, ScalarValue& result);
void register_numpy_scalars(nb::list samples);

// Keeps a Python object alive for the device without needing the GIL to let go of it.
std::shared_ptr<void> keep_until_done(nb::object object);
void release_done_objects();

// Before a launch: waits without the GIL while the queue has more than enough to do.
void wait_for_room(const Queue& queue);

void bind_errors(nb::module_& m);
void bind_device(nb::module_& m);
void bind_array(nb::module_& m);
void bind_library(nb::module_& m);
void bind_kernel(nb::module_& m);
void bind_callbacks(nb::module_& m);
void bind_messages(nb::module_& m);
void bind_profile(nb::module_& m);
void bind_texture(nb::module_& m);

} // namespace metalki::python
