// Device arrays: memory, the buffer protocol, copies.
#include "metalki/buffer.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "module.hpp"

namespace metalki::python {

namespace {

void set_layout(ArrayData& a, nb::object dtype, unsigned scalar, std::size_t itemsize, std::vector<Py_ssize_t> extents,
                std::string format) {
    a.dtype = std::move(dtype);
    a.scalar = static_cast<ScalarType>(scalar);
    a.itemsize = itemsize;
    a.format = std::move(format);
    a.extents = std::move(extents);
    a.strides.resize(a.extents.size());
    auto stride = static_cast<Py_ssize_t>(itemsize);
    for (std::size_t i = a.extents.size(); i-- > 0;) {
        a.strides[i] = stride;
        stride *= a.extents[i];
    }
    nb::list sizes;
    for (Py_ssize_t extent : a.extents)
        sizes.append(extent);
    a.shape = nb::tuple(sizes);
}

std::size_t element_count(const std::vector<Py_ssize_t>& extents) {
    std::size_t count = 1;
    for (Py_ssize_t extent : extents)
        count *= static_cast<std::size_t>(extent);
    return count;
}

void allocate(ArrayData* self, const Device& device, nb::object dtype, unsigned scalar, std::size_t itemsize,
              std::vector<Py_ssize_t> extents, std::string format, bool is_private, bool zeroed) {
    const std::size_t bytes = element_count(extents) * itemsize;
    Buffer buffer = [&] {
        GilRelease release;
        return device.allocate(bytes, is_private ? Storage::private_ : Storage::shared, {},
                               zeroed ? Contents::zero : Contents::undefined);
    }();
    new (self) ArrayData{buffer, ScalarType::none, std::make_shared<Memory>(buffer), 1, {}, {}, {}, {}, {}};
    set_layout(*self, std::move(dtype), scalar, itemsize, std::move(extents), std::move(format));
}

void make_view(ArrayData* self, const ArrayData& base, nb::object dtype, unsigned scalar, std::size_t itemsize,
               std::vector<Py_ssize_t> extents, std::string format, std::size_t offset) {
    Buffer range = base.buffer.slice(offset, element_count(extents) * itemsize);
    new (self) ArrayData{range, ScalarType::none, base.memory, 1, {}, {}, {}, {}, {}};
    set_layout(*self, std::move(dtype), scalar, itemsize, std::move(extents), std::move(format));
}

// Memory of the device that belongs to another library's object.
void adopt(ArrayData* self, const Device& device, nb::object dtype, unsigned scalar, std::size_t itemsize,
           std::vector<Py_ssize_t> extents, std::string format, std::uint64_t address, nb::object owner) {
    const Buffer buffer = device.adopt(address, element_count(extents) * itemsize, keep_until_done(std::move(owner)));
    new (self) ArrayData{buffer, ScalarType::none, std::make_shared<Memory>(buffer), 1, {}, {}, {}, {}, {}};
    set_layout(*self, std::move(dtype), scalar, itemsize, std::move(extents), std::move(format));
}

// The array's device memory for libraries that speak DLPack.
nb::object dlpack_capsule(nb::object array, int device) {
    const ArrayData& a = *nb::inst_ptr<ArrayData>(array);
    using Code = nb::dlpack::dtype_code;
    static constexpr std::pair<Code, int> types[] = {{Code::Int, 0},   {Code::Bool, 8},  {Code::Int, 8},    {Code::UInt, 8},
                                                     {Code::Int, 16},  {Code::UInt, 16}, {Code::Int, 32},   {Code::UInt, 32},
                                                     {Code::Int, 64},  {Code::UInt, 64}, {Code::Float, 16}, {Code::Bfloat, 16},
                                                     {Code::Float, 32}};
    const auto& [code, bits] = types[static_cast<std::size_t>(a.scalar)];
    if (bits == 0)
        throw ArgumentError("__dlpack__: an array of structs cannot be handed over");
    const std::vector<std::size_t> shape(a.extents.begin(), a.extents.end());
    const nb::dlpack::dtype type{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
    const nb::ndarray<> view(reinterpret_cast<void*>(a.buffer.gpu_address()), shape.size(), shape.data(), array, nullptr, type,
                             nb::device::cuda::value, device);
    nb::object made = nb::cast(view); // a capsule, or an object that gives one
    return PyCapsule_CheckExact(made.ptr()) ? made : made.attr("__dlpack__")();
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
    view->obj = nullptr;
    try {
        auto* const array = instance_of<ArrayData>(object);
        if (!array) {
            PyErr_SetString(PyExc_BufferError, "metalki.Array: it has no memory, as its __init__ has not run");
            return -1;
        }
        ArrayData& a = *array;
        if (a.buffer.storage() != Storage::shared) {
            PyErr_SetString(PyExc_BufferError, "metalki.Array: private storage has no host address; use .numpy() for a copy");
            return -1;
        }
        if ((flags & PyBUF_FORMAT) != 0 && a.format.empty()) {
            PyErr_SetString(PyExc_BufferError, "metalki.Array: this dtype has no buffer format; use .numpy()");
            return -1;
        }
        static char nothing = 0;
        void* contents = a.buffer.contents();
        wait(a.buffer.device());
        view->buf = contents ? contents : &nothing;
        view->len = static_cast<Py_ssize_t>(a.buffer.size());
        view->itemsize = static_cast<Py_ssize_t>(a.itemsize);
        view->readonly = 0;
        view->ndim = (flags & PyBUF_ND) != 0 ? static_cast<int>(a.extents.size()) : 1;
        view->format = (flags & PyBUF_FORMAT) != 0 ? a.format.data() : nullptr;
        view->shape = (flags & PyBUF_ND) != 0 ? a.extents.data() : nullptr;
        view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? a.strides.data() : nullptr;
        view->suboffsets = nullptr;
        view->internal = new std::shared_ptr<Memory>(a.memory);
        a.memory->exports.fetch_add(1);
        Py_INCREF(object);
        view->obj = object;
        return 0;
    } catch (...) {
        set_python_error();
        return -1;
    }
}

void release_buffer(PyObject*, Py_buffer* view) {
    auto* memory = static_cast<std::shared_ptr<Memory>*>(view->internal);
    (*memory)->exports.fetch_sub(1);
    delete memory;
}

PyType_Slot array_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {0, nullptr},
};

void free_memory(const ArrayData& a) {
    if (a.memory->exports.load() != 0)
        throw ArgumentError("unsafe_free: numpy arrays or memoryviews still look into this memory; delete them first");
    a.memory->whole.free();
}

// A host object's bytes, held while a copy may touch them.
class HostBytes {
public:
    HostBytes(nb::handle object, int flags) {
        if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0)
            throw nb::python_error();
    }
    ~HostBytes() { PyBuffer_Release(&view_); }
    HostBytes(const HostBytes&) = delete;
    HostBytes& operator=(const HostBytes&) = delete;
    void* data() const { return view_.buf; }
    std::size_t size() const { return static_cast<std::size_t>(view_.len); }

private:
    Py_buffer view_;
};

// Fills memory that no launch knows yet, and so waits for nothing.
void store_in_new(const ArrayData& destination, nb::handle source) {
    HostBytes bytes(source, PyBUF_SIMPLE);
    void* contents = destination.buffer.contents();
    if (!contents || bytes.size() != destination.buffer.size())
        throw ArgumentError("store_in_new: " + std::to_string(destination.buffer.size()) +
                            " bytes of shared storage are expected, " + std::to_string(bytes.size()) + " were given");
    GilRelease release;
    std::memcpy(contents, bytes.data(), bytes.size());
}

void copy_from_host(const ArrayData& destination, nb::handle source, nb::handle queue) {
    HostBytes bytes(source, PyBUF_SIMPLE);
    const Queue q = queue_of(queue, destination.buffer.device());
    GilRelease release;
    copy(destination.buffer, bytes.data(), bytes.size(), q);
}

void copy_to_host(nb::object destination, const ArrayData& source, nb::handle queue) {
    HostBytes bytes(destination, PyBUF_SIMPLE | PyBUF_WRITABLE);
    const Queue q = queue_of(queue, source.buffer.device());
    // The memoryview keeps the host memory pinned in place until the device has written it.
    auto keep = keep_until_done(nb::steal(PyMemoryView_FromObject(destination.ptr())));
    release_done_objects();
    GilRelease release;
    copy(bytes.data(), source.buffer, bytes.size(), q, std::move(keep));
}

void copy_on_device(const ArrayData& destination, const ArrayData& source, nb::handle queue) {
    const Queue q = queue_of(queue, destination.buffer.device());
    GilRelease release;
    copy(destination.buffer, source.buffer, q);
}

void fill_bytes(const ArrayData& destination, std::uint8_t value, nb::handle queue) {
    const Queue q = queue_of(queue, destination.buffer.device());
    GilRelease release;
    fill(destination.buffer, value, q);
}

} // namespace

void bind_array(nb::module_& m) {
    nb::class_<ArrayData>(m, "ArrayBase", nb::type_slots(array_slots))
        .def("__init__", &allocate, nb::arg("device"), nb::arg("dtype"), nb::arg("scalar"), nb::arg("itemsize"),
             nb::arg("shape"), nb::arg("format"), nb::arg("private"), nb::arg("zeroed"))
        .def("__init__", &adopt, nb::arg("device"), nb::arg("dtype"), nb::arg("scalar"), nb::arg("itemsize"), nb::arg("shape"),
             nb::arg("format"), nb::kw_only(), nb::arg("address"), nb::arg("owner"))
        .def("__init__", &make_view, nb::arg("base"), nb::arg("dtype"), nb::arg("scalar"), nb::arg("itemsize"),
             nb::arg("shape"), nb::arg("format"), nb::arg("offset"))
        .def_prop_ro(
            "dtype", [](const ArrayData& a) { return a.dtype; }, "Element type, a numpy dtype.")
        .def_prop_ro(
            "shape", [](const ArrayData& a) { return a.shape; }, "Sizes, C order: the last axis is contiguous.")
        .def_prop_ro(
            "ndim", [](const ArrayData& a) { return a.extents.size(); }, "Number of axes.")
        .def_prop_ro(
            "size", [](const ArrayData& a) { return element_count(a.extents); }, "Number of elements.")
        .def_prop_ro(
            "itemsize", [](const ArrayData& a) { return a.itemsize; }, "Bytes of an element.")
        .def_prop_ro(
            "nbytes", [](const ArrayData& a) { return a.buffer.size(); }, "Bytes of all elements.")
        .def_prop_ro(
            "strides",
            [](const ArrayData& a) {
                nb::list steps;
                for (Py_ssize_t stride : a.strides)
                    steps.append(stride);
                return nb::tuple(steps);
            },
            "Bytes from one element to the next along each axis.")
        .def_prop_ro(
            "storage", [](const ArrayData& a) { return a.buffer.storage() == Storage::shared ? "shared" : "private"; },
            "\"shared\" (host and device see it) or \"private\".")
        .def_prop_ro(
            "device", [](const ArrayData& a) { return a.buffer.device(); }, "Where the memory is.")
        .def_prop_ro(
            "gpu_address", [](const ArrayData& a) { return a.buffer.gpu_address(); },
            "Device address of the first element, for pointers inside structs.")
        .def_prop_ro("_is_freed", [](const ArrayData& a) { return a.buffer.is_freed(); })
        .def("_free", &free_memory);
    m.def("dlpack_capsule", &dlpack_capsule, nb::arg("array"), nb::arg("device"));
    m.def("store_in_new", &store_in_new, nb::arg("destination"), nb::arg("source"));
    m.def("copy_from_host", &copy_from_host, nb::arg("destination"), nb::arg("source"), nb::arg("queue").none());
    m.def("copy_to_host", &copy_to_host, nb::arg("destination"), nb::arg("source"), nb::arg("queue").none());
    m.def("copy_on_device", &copy_on_device, nb::arg("destination"), nb::arg("source"), nb::arg("queue").none());
    m.def("fill_bytes", &fill_bytes, nb::arg("destination"), nb::arg("value"), nb::arg("queue").none());
}

} // namespace metalki::python
