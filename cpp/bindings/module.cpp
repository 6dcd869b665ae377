// The extension module metalki._core.
#include "module.hpp"

namespace metalki::python {

Hooks hooks;

NB_MODULE(_core, m) {
    // Objects that live until the process ends are usual here: arrays of a script, functions whose work never completed.
    nb::set_leak_warnings(false);
    m.doc() = "metalki's native part. Use the package metalki instead.";
    bind_errors(m);
    bind_device(m);
    bind_array(m);
    bind_library(m);
    bind_kernel(m);
    bind_callbacks(m);
    bind_messages(m);
    bind_profile(m);
    bind_texture(m);
    m.def(
        "register_types",
        [](nb::handle array_type, nb::list numpy_scalars) {
            hooks.array_type = reinterpret_cast<PyTypeObject*>(array_type.inc_ref().ptr());
            register_numpy_scalars(std::move(numpy_scalars));
        },
        nb::arg("array_type"), nb::arg("numpy_scalars"), "Tells the types that launches know without asking Python.");
}

} // namespace metalki::python
