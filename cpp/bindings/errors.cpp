// C++ exceptions become the Python exceptions of metalki.errors.
#include <new>

#include "module.hpp"

namespace metalki::python {

const char* severity_name(Severity severity) {
    switch (severity) {
    case Severity::note:
        return "note";
    case Severity::warning:
        return "warning";
    default:
        return "error";
    }
}

namespace {

void raise(const char* type, const char* text) {
    nb::object cls = nb::module_::import_("metalki.errors").attr(type);
    nb::object message = nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)), "replace"));
    PyErr_SetObject(cls.ptr(), message.ptr());
}

void raise_compile_error(const CompileError& error) {
    nb::list entries;
    for (const Diagnostic& d : error.diagnostics())
        entries.append(nb::make_tuple(d.line, d.column, severity_name(d.severity),
                                      nb::bytes(d.message.data(), d.message.size()), nb::bytes(d.file.data(), d.file.size())));
    nb::object instance =
        nb::module_::import_("metalki.errors").attr("_compile_error")(nb::bytes(error.what(), strlen(error.what())), entries);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(instance.ptr())), instance.ptr());
}

// Sets the Python error when `pointer` is one of metalki's exceptions, lets others pass.
void translate(const std::exception_ptr& pointer, void*) {
    try {
        std::rethrow_exception(pointer);
    } catch (const CompileError& error) {
        raise_compile_error(error);
    } catch (const ArgumentError& error) {
        raise("ArgumentError", error.what());
    } catch (const LaunchError& error) {
        raise("LaunchError", error.what());
    } catch (const DeviceError& error) {
        raise("DeviceError", error.what());
    } catch (const OutOfMemoryError& error) {
        raise("OutOfMemoryError", error.what());
    } catch (const Error& error) {
        raise("MetalkiError", error.what());
    }
}

} // namespace

std::string text_of(PyObject* object) {
    try {
        const nb::object text = nb::module_::import_("metalki._text").attr("shown")(nb::handle(object));
        if (const char* utf8 = PyUnicode_AsUTF8(text.ptr()))
            return utf8;
        PyErr_Clear();
    } catch (nb::python_error&) {
    }
    return Py_TYPE(object)->tp_name;
}

void set_python_error() noexcept {
    try {
        try {
            throw;
        } catch (const Error&) {
            translate(std::current_exception(), nullptr);
        }
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "metalki: unknown exception");
    }
}

void bind_errors(nb::module_&) {
    nb::register_exception_translator(translate);
}

} // namespace metalki::python
