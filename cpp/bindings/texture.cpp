// Textures and samplers.
#include "metalki/texture.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "module.hpp"

namespace metalki::python {

namespace {

void make_texture(Texture* self, const Device& device, std::string format, unsigned type, std::size_t width, std::size_t height,
                  std::size_t depth, std::size_t layers, std::size_t mip_levels, unsigned access, std::string label) {
    TextureOptions options;
    options.format = std::move(format);
    options.type = static_cast<TextureType>(type);
    options.width = width;
    options.height = height;
    options.depth = depth;
    options.array_length = layers;
    options.mip_levels = mip_levels;
    options.access = static_cast<Access>(access);
    options.label = std::move(label);
    GilRelease release;
    new (self) Texture(device, options);
}

void make_sampler(Sampler* self, const Device& device, unsigned filter, unsigned mip_filter, unsigned address,
                  bool normalized) {
    SamplerOptions options;
    options.filter = static_cast<Filter>(filter);
    options.mip_filter = static_cast<MipFilter>(mip_filter);
    options.address = static_cast<AddressMode>(address);
    options.normalized = normalized;
    new (self) Sampler(device, options);
}

// A host object's bytes, held while they are copied.
struct HostBytes {
    HostBytes(nb::handle object, int flags) {
        if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0)
            throw nb::python_error();
    }
    ~HostBytes() { PyBuffer_Release(&view); }
    HostBytes(const HostBytes&) = delete;
    HostBytes& operator=(const HostBytes&) = delete;
    Py_buffer view;
};

void write(const Texture& texture, nb::handle source, std::size_t level) {
    HostBytes bytes(source, PyBUF_SIMPLE);
    wait(texture.device());
    GilRelease release;
    texture.write(bytes.view.buf, static_cast<std::size_t>(bytes.view.len), level);
}

void read(const Texture& texture, nb::handle destination, std::size_t level) {
    HostBytes bytes(destination, PyBUF_SIMPLE | PyBUF_WRITABLE);
    wait(texture.device());
    GilRelease release;
    texture.read(bytes.view.buf, static_cast<std::size_t>(bytes.view.len), level);
}

nb::list list_formats() {
    nb::list list;
    for (const PixelFormat& format : pixel_formats())
        list.append(nb::make_tuple(std::string(format.name), format.channels, static_cast<unsigned>(format.element)));
    return list;
}

} // namespace

void bind_texture(nb::module_& m) {
    nb::class_<Texture>(m, "TextureBase")
        .def("__init__", &make_texture, nb::arg("device"), nb::arg("format"), nb::arg("type"), nb::arg("width"),
             nb::arg("height"), nb::arg("depth"), nb::arg("layers"), nb::arg("mip_levels"), nb::arg("access"), nb::arg("label"))
        .def_prop_ro("width", &Texture::width, "Texels along x.")
        .def_prop_ro("height", &Texture::height, "Texels along y; 1 where the type has no y.")
        .def_prop_ro("depth", &Texture::depth, "Texels along z; 1 where the type has no z.")
        .def_prop_ro(
            "array_length", [](const Texture& t) { return t.options().array_length; }, "Layers of an array, else 1.")
        .def_prop_ro(
            "mip_levels", [](const Texture& t) { return t.options().mip_levels; },
            "Levels, each half as large as the one before.")
        .def_prop_ro(
            "pixel_format", [](const Texture& t) { return t.options().format; }, "MTLPixelFormat's name, in lower case.")
        .def_prop_ro(
            "nbytes", [](const Texture& t) { return t.nbytes(); }, "Bytes of the first level.")
        .def_prop_ro("device", &Texture::device, "Where the memory is.")
        .def("_write", &write, nb::arg("source"), nb::arg("level"))
        .def("_read", &read, nb::arg("destination"), nb::arg("level"));
    nb::class_<Sampler>(m, "SamplerBase")
        .def("__init__", &make_sampler, nb::arg("device"), nb::arg("filter"), nb::arg("mip_filter"), nb::arg("address"),
             nb::arg("normalized"))
        .def_prop_ro("device", &Sampler::device, "The device it was made for.")
        .def_prop_ro(
            "normalized", [](const Sampler& s) { return s.options().normalized; },
            "Whether coordinates go from 0 to 1 rather than count pixels.");
    m.def("pixel_formats", &list_formats, "All formats: name, elements of a pixel, code of the element type.");
}

} // namespace metalki::python
