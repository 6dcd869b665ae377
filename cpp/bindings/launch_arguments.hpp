// The argument plan of a kernel: what each argument takes, prepared once, read at every launch.
#pragma once

#include <string>
#include <vector>

#include "module.hpp"

namespace metalki::python {

struct ArgumentPlan {
    ArgumentKind kind;
    ScalarType scalar;
    bool active;
    bool takes_number; // read-only, one number
    bool is_struct;
    bool is_address; // the pointee is a device address
    std::size_t nbytes;
    std::string name;
    std::string what; // names kernel and argument in messages
};

std::vector<ArgumentPlan> plan_of(const Kernel& kernel);

/// Objects that must live until launch() returns, made only when an argument needed conversion.
struct Conversions {
    std::vector<nb::object> objects;
    nb::object state; // dict that metalki._arguments keeps for this launch
};

/// Encodes `value` without calling Python code and without creating objects. False: not one of the common kinds.
bool encode_directly(const ArgumentPlan& plan, PyObject* value, ArgumentValue& out, detail::ScalarSlot& slot);

/// Encodes anything else through metalki._arguments.convert. Throws nb::python_error.
void encode_converted(const ArgumentPlan& plan, PyObject* kernel, std::size_t position, PyObject* value, bool launches_nothing,
                      ArgumentValue& out, Conversions& conversions);

} // namespace metalki::python
