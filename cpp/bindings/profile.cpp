// metalki.Profile over the C++ one.
#include "metalki/profile.hpp"

#include <nanobind/stl/string.h>

#include "module.hpp"

namespace metalki::python {

namespace {

nb::list launches_of(const Profile& profile) {
    nb::list result;
    for (const LaunchRecord& r : profile.launches())
        result.append(nb::make_tuple(r.kernel.c_str(), r.queue.c_str(), r.queue_id, r.launched, r.started, r.completed, r.bytes,
                                     r.failed));
    return result;
}

nb::list kernels_of(const Profile& profile) {
    nb::list result;
    for (const KernelProfile& k : profile.kernels())
        result.append(nb::make_tuple(k.kernel.c_str(), k.count, k.total, k.shortest, k.longest, k.bytes));
    return result;
}

} // namespace

void bind_profile(nb::module_& m) {
    nb::class_<Profile>(m, "ProfileBase")
        .def(nb::init<>())
        .def("_stop", &Profile::stop, nb::call_guard<GilRelease>())
        .def("_launches", &launches_of)
        .def("_kernels", &kernels_of)
        .def("_table", &Profile::table)
        .def("_trace", &Profile::trace);
}

} // namespace metalki::python
