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
        "set_hooks",
        [](nb::handle array_type, nb::handle convert, nb::handle finish, nb::handle make_kernel, nb::handle describe_argument,
           nb::handle task_queue, nb::list numpy_scalars) {
            hooks.array_type = reinterpret_cast<PyTypeObject*>(array_type.inc_ref().ptr());
            hooks.convert = convert.inc_ref().ptr();
            hooks.finish = finish.inc_ref().ptr();
            hooks.make_kernel = make_kernel.inc_ref().ptr();
            hooks.describe_argument = describe_argument.inc_ref().ptr();
            hooks.task_queue = task_queue.inc_ref().ptr();
            register_numpy_scalars(std::move(numpy_scalars));
        },
        "Registers the package's types and slow paths.");
}

} // namespace metalki::python
