// Compiling MSL.
#include "metalki/library.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "module.hpp"

namespace metalki::python {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Library compile(const Device& device, const std::string& source, Pairs macros, const std::string& math_mode,
                std::string language_version, std::vector<std::string> include_dirs, Pairs headers) {
    CompileOptions options;
    options.macros = std::move(macros);
    options.math_mode = math_mode == "safe" ? MathMode::safe : math_mode == "fast" ? MathMode::fast : MathMode::relaxed;
    options.language_version = std::move(language_version);
    options.include_dirs = std::move(include_dirs);
    options.headers = std::move(headers);
    GilRelease release;
    return device.compile(source, options);
}

} // namespace

void bind_library(nb::module_& m) {
    nb::class_<Library>(m, "LibraryBase")
        .def(nb::init<const Library&>())
        .def_prop_ro("device", &Library::device, "The device it was compiled for.")
        .def_prop_ro(
            "function_names", [](const Library& l) { return l.function_names(); }, "Names of its kernels.")
        .def_prop_ro("_warnings",
                     [](const Library& l) {
                         nb::list entries;
                         for (const Diagnostic& d : l.warnings())
                             entries.append(nb::make_tuple(d.line, d.column, severity_name(d.severity),
                                                           nb::bytes(d.message.data(), d.message.size()),
                                                           nb::bytes(d.file.data(), d.file.size())));
                         return entries;
                     })
        .def_prop_ro("_identity", [](const Library& l) { return reinterpret_cast<std::uintptr_t>(l.impl().get()); });
    m.def("compile", &compile, nb::arg("device"), nb::arg("source"), nb::arg("macros") = Pairs(),
          nb::arg("math_mode") = "relaxed", nb::arg("language_version") = "",
          nb::arg("include_dirs") = std::vector<std::string>(), nb::arg("headers") = Pairs());
}

} // namespace metalki::python
