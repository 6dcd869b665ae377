// metalki.Kernel: a hand-written type, so that a launch calls straight into C++ without an argument tuple or dict.
#include "metalki/kernel.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "launch_arguments.hpp"
#include "module.hpp"

// Needs Python.h before it.
#include <structmember.h>

namespace metalki::python {

namespace {

struct KernelState {
    Kernel kernel;
    std::vector<ArgumentPlan> plans;
    nb::object arguments; // tuple of metalki.Argument, made when first asked for
    Device device;
};

struct KernelObject {
    PyObject_HEAD vectorcallfunc call;
    KernelState* state;
    PyObject* weak_references;
};

PyTypeObject* kernel_type = nullptr;

KernelState& state_of(PyObject* self) {
    return *reinterpret_cast<KernelObject*>(self)->state;
}

[[noreturn]] void refuse(const KernelState& state, const std::string& why) {
    throw ArgumentError("launch of \"" + state.kernel.name() + "\": " + why);
}

std::uint64_t extent_from(const KernelState& state, const char* what, PyObject* item) {
    nb::object number = PyLong_CheckExact(item) ? nb::borrow(item) : nb::steal(PyNumber_Index(item));
    if (!number.is_valid()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            throw nb::python_error();
        PyErr_Clear();
        refuse(state, std::string(what) + " takes integers, " + text_of(item) + " was given");
    }
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow < 0 || (overflow == 0 && value < 0))
        refuse(state, std::string(what) + " may not be negative, " + text_of(number.ptr()) + " was given");
    if (overflow > 0)
        refuse(state, std::string(what) + ": " + text_of(number.ptr()) + " is above the limit of 4294967295 threads");
    return static_cast<std::uint64_t>(value);
}

// An int or a 1- to 3-tuple, x first.
Extents extents_from(const KernelState& state, const char* what, PyObject* value) {
    Extents result;
    if (PyTuple_Check(value) || PyList_Check(value)) {
        nb::object items = nb::steal(PySequence_Fast(value, "geometry"));
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.ptr());
        if (count < 1 || count > 3)
            refuse(state, std::string(what) + " has one to three dimensions, " + std::to_string(count) +
                              " were given: " + text_of(value));
        for (Py_ssize_t i = 0; i < count; ++i)
            result.size[static_cast<std::size_t>(i)] = extent_from(state, what, PySequence_Fast_GET_ITEM(items.ptr(), i));
        result.rank = static_cast<std::uint8_t>(count);
        return result;
    }
    if (PyUnicode_Check(value) || PyBytes_Check(value) || !PyIndex_Check(value))
        refuse(state, std::string(what) + " takes an int or a tuple of one to three ints, " + text_of(value) + " was given");
    result.size[0] = extent_from(state, what, value);
    result.rank = 1;
    return result;
}

// The names of the options that a launch takes.
struct Options {
    LaunchOptions launch;
    std::vector<Buffer> uses;
    std::optional<Queue> task_queue;
};

// Keyword names are interned, so a pointer mostly tells; a name made at run time is compared.
struct OptionName {
    PyObject* interned;
    const char* text;
    explicit OptionName(const char* name) : interned(PyUnicode_InternFromString(name)), text(name) {}
    bool is(PyObject* name) const {
        return name == interned || (!PyUnicode_CHECK_INTERNED(name) && PyUnicode_CompareWithASCIIString(name, text) == 0);
    }
};

struct OptionNames {
    OptionName ndrange{"ndrange"}, numworkgroups{"numworkgroups"}, workgroupsize{"workgroupsize"},
        max_work_group_size{"max_work_group_size"}, queue{"queue"}, uses{"uses"}, threads{"threads"}, groups{"groups"};
};

const OptionNames& option_names() {
    static const OptionNames& names = *new OptionNames; // lives as long as the interpreter
    return names;
}

void set_uses(const KernelState& state, Options& options, PyObject* value) {
    nb::object items = nb::steal(PySequence_Fast(value, "uses: a tuple of arrays is expected"));
    if (!items.is_valid()) {
        PyErr_Clear();
        refuse(state, "uses takes a tuple of metalki.Array, " + text_of(value) + " was given");
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
        const auto* array = instance_of<ArrayData>(item);
        if (!array)
            refuse(state, "uses takes a tuple of metalki.Array, it holds a " + std::string(Py_TYPE(item)->tp_name));
        options.uses.push_back(array->buffer);
    }
    options.launch.uses = options.uses;
}

bool is_option(const OptionNames& names, PyObject* name) {
    return names.ndrange.is(name) || names.numworkgroups.is(name) || names.workgroupsize.is(name) ||
           names.max_work_group_size.is(name) || names.queue.is(name) || names.uses.is(name);
}

void set_group(const KernelState& state, Options& options, PyObject* value) {
    options.launch.workgroupsize = extents_from(state, "workgroupsize (threads of a threadgroup)", value);
    if (options.launch.workgroupsize.empty())
        refuse(state, "workgroupsize (threads of a threadgroup) must be positive, " + text_of(value) + " was given");
}

void set_option(const KernelState& state, Options& options, PyObject* name, PyObject* value) {
    const OptionNames& names = option_names();
    if (value == Py_None && is_option(names, name))
        return;
    if (names.ndrange.is(name))
        options.launch.ndrange = extents_from(state, "ndrange", value);
    else if (names.workgroupsize.is(name))
        set_group(state, options, value);
    else if (names.numworkgroups.is(name))
        options.launch.numworkgroups = extents_from(state, "numworkgroups", value);
    else if (names.max_work_group_size.is(name)) {
        options.launch.max_work_group_size = extent_from(state, "max_work_group_size", value);
        if (options.launch.max_work_group_size == 0)
            refuse(state, "max_work_group_size is at least 1, 0 was given");
    } else if (names.queue.is(name)) {
        options.launch.queue = instance_of<Queue>(value);
        if (!options.launch.queue)
            refuse(state, "queue takes a metalki.Queue, " + text_of(value) + " was given");
    } else if (names.uses.is(name))
        set_uses(state, options, value);
    else if (names.threads.is(name) || names.groups.is(name))
        refuse(state, text_of(name) + " is not taken: give ndrange (threads in all) or numworkgroups, and workgroupsize");
    else
        refuse(state, "there is no option " + text_of(name) +
                          "; there are ndrange, numworkgroups, workgroupsize, max_work_group_size, queue and uses");
}

std::string argument_names(const KernelState& state) {
    std::string names;
    for (const ArgumentInfo& info : state.kernel.arguments())
        names += (names.empty() ? "" : ", ") + info.name;
    return names;
}

// With Metal's indices, since those are what the kernel's author wrote down.
[[noreturn]] void refuse_count(const KernelState& state, std::size_t count) {
    static const char* const kinds[] = {"buffer", "threadgroup", "texture", "sampler"};
    std::string names;
    for (const ArgumentInfo& info : state.kernel.arguments())
        names += (names.empty() ? ": " : ", ") + info.name + " (" + kinds[static_cast<std::size_t>(info.kind)] + " index " +
                 std::to_string(info.index) + ")";
    refuse(state, "it takes " + std::to_string(state.plans.size()) + " arguments" + names + "; " + std::to_string(count) +
                      " were given");
}

// The running asyncio task's queue, else the calling thread's.
void choose_queue(const KernelState& state, Options& options) {
    options.task_queue = task_queue(state.device);
    options.launch.queue = options.task_queue ? &*options.task_queue : &global_queue(state.device);
}

// Memory for N values that need no constructor: writing zeros first would cost a tenth of a launch.
template <class T, std::size_t N> struct Room {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    alignas(T) std::byte bytes[N * sizeof(T)];
    T* data() { return reinterpret_cast<T*>(bytes); }
};

void launch_values(PyObject* self, PyObject* const* values, std::size_t count, Options& options) {
    KernelState& state = state_of(self);
    if (count != state.plans.size())
        refuse_count(state, count);
    if (!options.launch.queue)
        choose_queue(state, options);
    wait_for_room(*options.launch.queue);
    constexpr std::size_t usual = 40; // 31 buffers and some threadgroup memory
    Room<ArgumentValue, usual> few_encoded;
    std::array<detail::ScalarSlot, usual> few_slots;
    std::vector<ArgumentValue> many_encoded(count > usual ? count : 0);
    std::vector<detail::ScalarSlot> many_slots(count > usual ? count : 0);
    ArgumentValue* encoded = count > usual ? many_encoded.data() : few_encoded.data();
    detail::ScalarSlot* slots = count > usual ? many_slots.data() : few_slots.data();

    const bool launches_nothing = options.launch.ndrange.given() && options.launch.ndrange.empty();
    Conversions conversions;
    for (std::size_t i = 0; i < count; ++i)
        if (!encode_directly(state.kernel, i, state.plans[i], values[i], encoded[i], slots[i])) [[unlikely]] {
            if (!conversions.queue.is_valid())
                conversions.queue = nb::cast(*options.launch.queue);
            encode_converted(state.kernel, self, i, values[i], launches_nothing, encoded[i], conversions);
        }
    launch(state.kernel, std::span<const ArgumentValue>(encoded, count), options.launch);
    if (conversions.state.is_valid() && PyDict_GET_SIZE(conversions.state.ptr()) != 0) {
        hooks.finish.get()(nb::handle(self), conversions.state, conversions.queue);
    }
}

void launch_dict(PyObject* self, PyObject* dict, Options& options) {
    KernelState& state = state_of(self);
    const std::span<const ArgumentInfo> infos = state.kernel.arguments();
    std::vector<PyObject*> values(infos.size(), nullptr);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value)) {
        auto info = std::find_if(infos.begin(), infos.end(), [key](const ArgumentInfo& i) {
            return PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, i.name.c_str()) == 0;
        });
        if (info == infos.end())
            refuse(state, "it has no argument " + text_of(key) + "; it has " + argument_names(state));
        values[static_cast<std::size_t>(info - infos.begin())] = value;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!values[i]) {
            if (infos[i].active)
                refuse(state, "argument \"" + infos[i].name + "\" is missing");
            values[i] = Py_None;
        }
    // Conversions run Python code that could change the dict.
    std::vector<nb::object> held;
    for (PyObject* object : values)
        held.push_back(nb::borrow(object));
    launch_values(self, values.data(), values.size(), options);
}

void launch_collection(PyObject* self, PyObject* arguments, Options& options) {
    if (PyDict_Check(arguments))
        return launch_dict(self, arguments, options);
    if (!PyTuple_Check(arguments) && !PyList_Check(arguments))
        refuse(state_of(self), "the arguments are a tuple, or a dict by parameter name; " + text_of(arguments) + " was given");
    nb::object items = nb::steal(PySequence_Tuple(arguments));
    launch_values(self, reinterpret_cast<PyTupleObject*>(items.ptr())->ob_item,
                  static_cast<std::size_t>(PyTuple_GET_SIZE(items.ptr())), options);
}

void read_options(const KernelState& state, Options& options, PyObject* const* values, PyObject* names) {
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
        set_option(state, options, PyTuple_GET_ITEM(names, i), values[i]);
}

PyObject* kernel_call(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* names) {
    try {
        const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
        Options options;
        read_options(state_of(self), options, args + count, names);
        if (count == 1 && PyDict_CheckExact(args[0]))
            launch_dict(self, args[0], options);
        else
            launch_values(self, args, count, options);
        Py_RETURN_NONE;
    } catch (...) {
        set_python_error();
        return nullptr;
    }
}

PyObject* kernel_launch(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    try {
        if (count != 1)
            refuse(state_of(self), "launch() takes one tuple or dict of arguments, " + std::to_string(count) + " were given");
        Options options;
        read_options(state_of(self), options, args + count, names);
        launch_collection(self, args[0], options);
        Py_RETURN_NONE;
    } catch (...) {
        set_python_error();
        return nullptr;
    }
}

// Runs `function`, turning C++ exceptions into Python's.
template <class Function> PyObject* guarded(Function function) noexcept {
    try {
        return nb::object(function()).release().ptr();
    } catch (...) {
        set_python_error();
        return nullptr;
    }
}

const char* name_of(ArgumentKind kind) {
    static const char* const names[] = {"buffer", "threadgroup", "texture", "sampler"};
    return names[static_cast<std::size_t>(kind)];
}

const char* name_of(Access access) {
    static const char* const names[] = {"read", "write", "read_write"};
    return names[static_cast<std::size_t>(access)];
}

PyObject* get_arguments(PyObject* self, void*) {
    return guarded([&] {
        KernelState& state = state_of(self);
        if (!state.arguments.is_valid()) {
            nb::list list;
            for (const ArgumentInfo& a : state.kernel.arguments()) {
                nb::list members;
                for (const StructMember& member : a.members)
                    members.append(nb::make_tuple(member.name.c_str(), member.offset, member.type_name.c_str(),
                                                  static_cast<unsigned>(member.scalar), member.rows, member.columns));
                list.append(hooks.describe_argument.get()(a.name.c_str(), name_of(a.kind), a.index, name_of(a.access),
                                                          a.type_name.c_str(), static_cast<unsigned>(a.scalar), a.rows,
                                                          a.columns, a.nbytes, a.alignment, a.is_pointer_value, a.active,
                                                          nb::tuple(members)));
            }
            state.arguments = nb::tuple(list);
        }
        return state.arguments;
    });
}

PyObject* get_name(PyObject* self, void*) {
    return guarded([&] { return nb::object(nb::str(state_of(self).kernel.name().c_str())); });
}
PyObject* get_device(PyObject* self, void*) {
    return guarded([&] { return nb::cast(state_of(self).kernel.device()); });
}
PyObject* get_max_threads(PyObject* self, void*) {
    return PyLong_FromUnsignedLongLong(state_of(self).kernel.max_total_threads_per_threadgroup());
}
PyObject* get_width(PyObject* self, void*) {
    return PyLong_FromUnsignedLongLong(state_of(self).kernel.thread_execution_width());
}
PyObject* get_static_memory(PyObject* self, void*) {
    return PyLong_FromUnsignedLongLong(state_of(self).kernel.static_threadgroup_memory_length());
}

PyObject* kernel_disassemble(PyObject* self, PyObject* form) {
    return guarded([&] {
        const char* text = PyUnicode_Check(form) ? PyUnicode_AsUTF8(form) : nullptr;
        if (!text) {
            PyErr_Clear();
            throw ArgumentError("disassemble: a str such as \"llvm\" is expected, " + text_of(form) + " was given");
        }
        const std::string result = state_of(self).kernel.disassemble(text);
        return nb::object(nb::str(result.data(), result.size()));
    });
}

PyObject* kernel_repr(PyObject* self) {
    return guarded([&] {
        const KernelState& state = state_of(self);
        const std::string text = "<metalki.Kernel " + state.kernel.name() + "(" + argument_names(state) + ")>";
        return nb::object(nb::str(text.c_str()));
    });
}

PyObject* kernel_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
    return guarded([&] { return nb::steal(PyObject_Call(hooks.make_kernel.get().ptr(), args, kwargs)); });
}
// kernel_new() has done everything.
int kernel_init(PyObject*, PyObject*, PyObject*) {
    return 0;
}

void kernel_dealloc(PyObject* self) {
    auto* object = reinterpret_cast<KernelObject*>(self);
    if (object->weak_references)
        PyObject_ClearWeakRefs(self);
    delete object->state;
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

Py_hash_t kernel_hash(PyObject* self) {
    return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(state_of(self).kernel.impl().get()) >> 4);
}

PyObject* kernel_compare(PyObject* self, PyObject* other, int operation) {
    if (Py_TYPE(other) != kernel_type || (operation != Py_EQ && operation != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((state_of(self).kernel == state_of(other).kernel) == (operation == Py_EQ));
}

PyMethodDef kernel_methods[] = {
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(kernel_launch)), METH_FASTCALL | METH_KEYWORDS,
     "launch(arguments, /, *, ndrange=None, numworkgroups=None, workgroupsize=None, max_work_group_size=None, queue=None, "
     "uses=())\n\nLaunches with the arguments as a tuple in declaration order, or as a dict by parameter name."},
    {"disassemble", kernel_disassemble, METH_O,
     "disassemble(form)\n\nThe kernel's text as \"msl\", \"llvm\" or \"asm\", where the device has it."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kernel_properties[] = {
    {"name", get_name, nullptr, "The kernel's name.", nullptr},
    {"device", get_device, nullptr, "The device it was compiled for.", nullptr},
    {"arguments", get_arguments, nullptr, "Its arguments in call order: a tuple of metalki.Argument.", nullptr},
    {"max_total_threads_per_threadgroup", get_max_threads, nullptr, "Largest work-group.", nullptr},
    {"thread_execution_width", get_width, nullptr, "Threads of a SIMD-group.", nullptr},
    {"static_threadgroup_memory_length", get_static_memory, nullptr, "Bytes of threadgroup memory it declares itself.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef kernel_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelObject, call), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(KernelObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

const char kernel_doc[] =
    "Kernel(source, name=None, *, function_constants=None, options=None)\n--\n\n"
    "A compiled kernel. Calling it launches it without waiting:\n"
    "kernel(*arguments, ndrange=None, numworkgroups=None, workgroupsize=None, max_work_group_size=None, queue=None, uses=()).\n"
    "ndrange is the number of threads, numworkgroups the number of work-groups; each an int or up to three ints, x first.\n"
    "Raises ArgumentError before anything runs when an argument or the geometry is not right. A numpy array for an argument\n"
    "that the kernel writes makes the call wait and copies the result back.";

PyType_Slot kernel_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(kernel_new)},
    {Py_tp_init, reinterpret_cast<void*>(kernel_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(kernel_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(kernel_repr)},
    {Py_tp_hash, reinterpret_cast<void*>(kernel_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(kernel_compare)},
    {Py_tp_methods, kernel_methods},
    {Py_tp_getset, kernel_properties},
    {Py_tp_members, kernel_members},
    {Py_tp_doc, const_cast<char*>(kernel_doc)},
    {0, nullptr},
};

PyType_Spec kernel_spec = {"metalki.Kernel", sizeof(KernelObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                           kernel_slots};

nb::object wrap(Kernel kernel) {
    auto state = std::make_unique<KernelState>(KernelState{kernel, plan_of(kernel), {}, kernel.device()});
    auto* object = reinterpret_cast<KernelObject*>(kernel_type->tp_alloc(kernel_type, 0));
    if (!object)
        throw nb::python_error();
    object->call = kernel_call;
    object->state = state.release();
    return nb::steal(reinterpret_cast<PyObject*>(object));
}

FunctionConstant constant_from(nb::handle key, nb::handle values) {
    std::vector<ScalarValue> scalars;
    for (nb::handle item : values) {
        ScalarValue value;
        if (!scalar_from_python(item.ptr(), value))
            throw ArgumentError("function constant " + text_of(key.ptr()) + ": a number is expected, " + text_of(item.ptr()) +
                                " was given");
        scalars.push_back(value);
    }
    if (PyLong_Check(key.ptr()))
        return FunctionConstant(nb::cast<unsigned>(key), std::move(scalars));
    return FunctionConstant(std::string(PyUnicode_AsUTF8(key.ptr())), std::move(scalars));
}

nb::object make_kernel(const Library& library, const char* name, nb::list constants) {
    std::vector<FunctionConstant> converted;
    for (nb::handle entry : constants)
        converted.push_back(constant_from(entry[0], entry[1]));
    Kernel kernel = [&] {
        GilRelease release;
        return library.kernel(name, converted);
    }();
    return wrap(std::move(kernel));
}

const KernelState& checked_state(nb::handle kernel) {
    if (Py_TYPE(kernel.ptr()) != kernel_type)
        throw ArgumentError(std::string("a metalki.Kernel is expected, ") + Py_TYPE(kernel.ptr())->tp_name + " was given");
    return state_of(kernel.ptr());
}

nb::object to_python(const Extents& extents) {
    nb::list sizes;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, extents.rank); ++i)
        sizes.append(extents.size[i]);
    return nb::tuple(sizes);
}

} // namespace

void bind_kernel(nb::module_& m) {
    kernel_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kernel_spec));
    if (!kernel_type)
        throw nb::python_error();
    m.attr("Kernel") = nb::borrow(reinterpret_cast<PyObject*>(kernel_type));
    m.def("make_kernel", &make_kernel, nb::arg("library"), nb::arg("name"), nb::arg("constants"));
    m.def(
        "launch_configuration",
        [](nb::handle kernel, nb::handle ndrange, std::uint64_t max_work_group_size) {
            const KernelState& state = checked_state(kernel);
            const LaunchConfiguration result =
                launch_configuration(state.kernel, extents_from(state, "ndrange", ndrange.ptr()), max_work_group_size);
            return nb::make_tuple(to_python(result.numworkgroups), to_python(result.workgroupsize));
        },
        nb::arg("kernel").none(), nb::arg("ndrange").none(), nb::arg("max_work_group_size"));
    m.def(
        "kernel_max_work_group_size",
        [](nb::handle kernel, std::uint64_t max_work_items) {
            return checked_state(kernel).kernel.max_work_group_size(max_work_items);
        },
        nb::arg("kernel").none(), nb::arg("max_work_items"));
}

} // namespace metalki::python
