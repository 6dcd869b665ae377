// Devices, queues and events.
#include <algorithm>
#include <chrono>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "module.hpp"

namespace metalki::python {

namespace {

// Whether an asyncio event loop runs in this thread. asyncio need not have been imported.
bool in_event_loop() {
    static PyObject* get_running_loop = nullptr;
    if (!get_running_loop) {
        static PyObject* const name = PyUnicode_InternFromString("asyncio.events");
        PyObject* modules = PySys_GetObject("modules"); // null at the interpreter's end, where PyImport_GetModuleDict() aborts
        PyObject* module = modules && PyDict_Check(modules) ? PyDict_GetItemWithError(modules, name) : nullptr;
        if (!module)
            return false;
        get_running_loop = PyObject_GetAttrString(module, "_get_running_loop");
        if (!get_running_loop) {
            PyErr_Clear(); // the module is half imported
            return false;
        }
    }
    nb::object loop = nb::steal(PyObject_CallNoArgs(get_running_loop));
    if (!loop.is_valid())
        throw nb::python_error();
    return !loop.is_none();
}

const char* priority_of(const Queue& queue) {
    return queue.priority() == Priority::high ? "high" : queue.priority() == Priority::low ? "low" : "normal";
}

void set_priority(const Queue& queue, nb::handle level) {
    for (const auto& [name, priority] :
         {std::pair{"high", Priority::high}, std::pair{"normal", Priority::normal}, std::pair{"low", Priority::low}})
        if (PyUnicode_Check(level.ptr()) && PyUnicode_CompareWithASCIIString(level.ptr(), name) == 0)
            return queue.set_priority(priority);
    throw ArgumentError("priority: \"high\", \"normal\" or \"low\" is expected, " + text_of(level.ptr()) + " was given");
}

nb::object time_limit_of(const Queue& queue) {
    const std::chrono::nanoseconds limit = queue.time_limit();
    return limit.count() == 0 ? nb::none() : nb::object(nb::float_(std::chrono::duration<double>(limit).count()));
}

void set_time_limit(const Queue& queue, nb::handle seconds) {
    if (seconds.is_none())
        return queue.set_time_limit(std::chrono::nanoseconds(0));
    const double number = PyBool_Check(seconds.ptr()) ? -1 : PyFloat_AsDouble(seconds.ptr());
    PyErr_Clear();
    if (!(number > 0)) // what is no number gave -1
        throw ArgumentError("time_limit: a positive number of seconds or None is expected, " + text_of(seconds.ptr()) +
                            " was given");
    constexpr double longest = 9e9, shortest = 1e-9; // of what nanoseconds count
    queue.set_time_limit(std::chrono::nanoseconds(std::int64_t(std::clamp(number, shortest, longest) * 1e9)));
}

} // namespace

namespace {

// What set_device() has chosen in this thread or task; otherwise invalid or None.
nb::object chosen_device() {
    static PyObject* const variable = nb::module_::import_("metalki._device").attr("_current").inc_ref().ptr();
    PyObject* chosen = nullptr;
    if (PyContextVar_Get(variable, nullptr, &chosen) != 0)
        throw nb::python_error();
    return nb::steal(chosen);
}

// A queue, the calling thread's or task's on the current device for None.
void synchronize(nb::handle queue) {
    if (const auto* named = instance_of<Queue>(queue))
        return wait(*named);
    if (!queue.is_none())
        throw ArgumentError(std::string("synchronize: a metalki.Queue is expected, ") + Py_TYPE(queue.ptr())->tp_name +
                            " was given");
    use_device();
    const nb::object chosen = chosen_device();
    const Device* const named_device = chosen.is_valid() ? instance_of<Device>(chosen) : nullptr;
    const Device& device = named_device ? *named_device : default_device();
    if (const std::optional<Queue> of_task = task_queue(device))
        return wait(*of_task);
    wait(global_queue(device));
}

} // namespace

std::optional<Queue> task_queue(const Device& device) {
    if (!in_event_loop())
        return std::nullopt;
    nb::object queue = hooks.task_queue.get()(device);
    if (queue.is_none())
        return std::nullopt;
    return *nb::inst_ptr<Queue>(queue);
}

Queue queue_of(nb::handle queue, const Device& device) {
    use_device();
    if (queue.is_none()) {
        std::optional<Queue> of_task = task_queue(device);
        return of_task ? *of_task : global_queue(device);
    }
    const auto* named = instance_of<Queue>(queue);
    if (!named)
        throw ArgumentError(std::string("queue: a metalki.Queue is expected, ") + Py_TYPE(queue.ptr())->tp_name + " was given");
    return *named;
}

void bind_device(nb::module_& m) {
    nb::class_<Device>(m, "Device", "A device: where arrays live and kernels run.")
        .def_prop_ro(
            "name", [](const Device& d) { return d.name(); }, "Name for people.")
        .def_prop_ro(
            "index", [](const Device& d) { return d.index(); }, "Position in metalki.devices(), from 0.")
        .def_prop_ro(
            "kind", [](const Device& d) { return d.kind(); }, "\"metal\", \"cpu\" or \"cuda\".")
        .def_prop_ro(
            "id", [](const Device& d) { return d.info().id; }, "What set_device() takes: \"cpu\", \"cuda:0\".")
        .def_prop_ro(
            "max_threads_per_threadgroup", [](const Device& d) { return d.info().max_threads_per_threadgroup; },
            "Upper bound for a work-group; a kernel may allow less.")
        .def_prop_ro(
            "threadgroup_memory_length", [](const Device& d) { return d.info().threadgroup_memory_length; },
            "Bytes of threadgroup memory of a work-group.")
        .def_prop_ro(
            "thread_execution_width", [](const Device& d) { return d.info().thread_execution_width; },
            "Threads in a SIMD-group.")
        .def_prop_ro(
            "unified_memory", [](const Device& d) { return d.info().unified_memory; },
            "Whether host and device share one memory.")
        .def_prop_ro(
            "recommended_working_set_size", [](const Device& d) { return d.info().recommended_working_set_size; },
            "Bytes that may be in use at once without harm to speed.")
        .def_prop_ro(
            "max_buffer_length", [](const Device& d) { return d.info().max_buffer_length; }, "Bytes of the largest array.")
        .def_prop_ro(
            "multiprocessor_count", [](const Device& d) { return d.info().multiprocessor_count; }, "Cores.")
        .def_prop_ro(
            "supports_float64", [](const Device& d) { return d.info().supports_float64; }, "Whether double is there.")
        .def_prop_ro(
            "supports_atomics", [](const Device& d) { return d.info().supports_atomics; }, "Whether atomics are there.")
        .def(
            "synchronize", [](const Device& d) { wait(d); }, "Waits for all work; raises what the device reported.")
        .def(
            "__eq__",
            [](const Device& d, nb::handle o) {
                const auto* other = instance_of<Device>(o);
                return other && *other == d;
            },
            nb::arg("other").none())
        .def("__hash__", [](const Device& d) { return static_cast<Py_ssize_t>(d.index()); })
        .def("__repr__", [](const Device& d) {
            return "<metalki.Device " + std::to_string(d.index()) + ": " + d.info().id + " (" + d.name() + ")>";
        });

    nb::class_<Event>(m, "Event", "A point in a queue's work.")
        .def_prop_ro("is_complete", &Event::is_complete, "Whether the work before the event is done.");

    nb::class_<Queue>(m, "Queue", "An ordered stream of launches and copies.")
        .def(nb::init<const Device&, std::string_view>(), nb::arg("device"), nb::arg("label") = "")
        .def_prop_ro("device", &Queue::device, "The queue's device.")
        .def_prop_ro(
            "label", [](const Queue& q) { return q.label(); }, "The name given when it was made.")
        .def(
            "synchronize", [](const Queue& q) { wait(q); }, "Waits for the queue; raises what the device reported.")
        .def("flush", &Queue::flush, nb::call_guard<GilRelease>(), "Hands all launches to the device.")
        .def_prop_rw("priority", &priority_of, &set_priority, nb::for_setter(nb::arg("level").none()),
                     "\"high\", \"normal\" or \"low\": whose work starts first where several queues wait for the device.")
        .def_prop_rw("time_limit", &time_limit_of, &set_time_limit, nb::for_setter(nb::arg("seconds").none()),
                     "Seconds after which a launch is stopped; None: no limit.")
        .def("cancel", &Queue::cancel, nb::call_guard<GilRelease>(),
             "Stops the running kernel and drops what waits in the queue; the next wait raises DeviceError.")
        .def("record_event", &Queue::record_event, nb::call_guard<GilRelease>(), "Marks what was given to this queue so far.")
        .def("wait_stream", &Queue::wait_stream, nb::arg("stream"), nb::call_guard<GilRelease>(),
             "Later work of this queue runs after what a CUDA stream, given as a number, has so far.")
        .def("let_stream_wait", &Queue::let_stream_wait, nb::arg("stream"), nb::call_guard<GilRelease>(),
             "Later work of a CUDA stream, given as a number, runs after what this queue has so far.")
        .def("wait_event", &Queue::wait_event, nb::arg("event"), nb::call_guard<GilRelease>(),
             "Later work of this queue runs after the event; the device waits, not the caller.")
        .def(
            "__eq__",
            [](const Queue& q, nb::handle o) {
                const auto* other = instance_of<Queue>(o);
                return other && *other == q;
            },
            nb::arg("other").none())
        .def("__hash__", [](const Queue& q) { return reinterpret_cast<std::intptr_t>(q.impl().get()) >> 4; })
        .def("__repr__",
             [](const Queue& q) { return "<metalki.Queue \"" + q.label() + "\" on " + q.device().info().id + ">"; });

    m.def("devices", &devices, nb::call_guard<GilRelease>());
    m.def("default_device", &default_device, nb::call_guard<GilRelease>());
    m.def("find_device", &find_device, nb::arg("name"));
    m.def("global_queue", [](const Device& d) { return queue_of(nb::none(), d); }, nb::arg("device"));
    m.def("thread_queue", [](const Device& d) { return Queue(global_queue(d)); }, nb::arg("device"));
    m.def("synchronize", &synchronize, nb::arg("queue").none() = nb::none(),
          "Waits for a queue, by default the calling thread's or task's on the current device, without holding the GIL.\n\n"
          "Ctrl-C interrupts the wait and stops the queue's work, so that a kernel that never ends does not block it for "
          "ever.\nRaises DeviceError when the device reported a fault.");
    m.def("version", &version);
    m.def("version_info", &version_info);
}

} // namespace metalki::python
