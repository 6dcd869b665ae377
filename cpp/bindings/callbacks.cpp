// Python functions called when a queue's work is complete.
#include <condition_variable>
#include <mutex>

#include "module.hpp"

namespace metalki::python {

namespace {

// Device threads never take the GIL: a launch that holds it may be waiting for them. They put functions that are due here,
// and a Python thread of its own takes them out and calls them.
struct Due {
    std::mutex mutex;
    std::condition_variable arrived;
    std::vector<PyObject*> functions;
    bool closed = false;
};

// Never destroyed: device threads may outlive the module.
Due& due() {
    static Due& instance = *new Due;
    return instance;
}

// The function goes to the list once, when it is called or when its queue is gone without calling it.
struct Callback {
    explicit Callback(nb::object f) : function(f.release().ptr()) {}
    Callback(const Callback&) = delete;
    Callback& operator=(const Callback&) = delete;
    ~Callback() {
        if (function)
            keep_until_done(nb::steal(function)).reset();
    }
    void call() {
        std::lock_guard lock(due().mutex);
        due().functions.push_back(std::exchange(function, nullptr));
        due().arrived.notify_one();
    }

    PyObject* function;
};

void on_complete(const Queue& queue, nb::object function) {
    if (!PyCallable_Check(function.ptr()))
        throw ArgumentError(std::string("on_complete: a function is expected, ") + Py_TYPE(function.ptr())->tp_name +
                            " was given");
    use_device();
    auto callback = std::make_shared<Callback>(std::move(function));
    GilRelease release;
    queue.on_complete([callback] { callback->call(); });
}

// Waits for functions that are due; an empty list once closed.
nb::list next_callbacks() {
    std::vector<PyObject*> functions;
    {
        GilRelease release;
        std::unique_lock lock(due().mutex);
        due().arrived.wait(lock, [] { return due().closed || !due().functions.empty(); });
        functions.swap(due().functions);
    }
    nb::list result;
    for (PyObject* function : functions)
        result.append(nb::steal(function));
    return result;
}

void close_callbacks() {
    std::lock_guard lock(due().mutex);
    due().closed = true;
    due().arrived.notify_all();
}

} // namespace

void bind_callbacks(nb::module_& m) {
    m.def("on_complete", &on_complete, nb::arg("queue"), nb::arg("function").none());
    m.def("next_callbacks", &next_callbacks);
    m.def("close_callbacks", &close_callbacks);
}

} // namespace metalki::python
