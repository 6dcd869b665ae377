// Python values become launch arguments.
#include "launch_arguments.hpp"

namespace metalki::python {

namespace {

bool is_one_byte_integer(ScalarType type) {
    return type == ScalarType::int8 || type == ScalarType::uint8;
}

// Whether an array of this element type may stand for what the kernel declares.
bool matches(const ArgumentPlan& plan, const ArrayData& array) {
    if (plan.is_struct) {
        if (array.scalar == ScalarType::none)
            return plan.nbytes == 0 || array.itemsize == plan.nbytes;
        return array.itemsize == 1 && (plan.nbytes == 0 || array.buffer.size() % plan.nbytes == 0);
    }
    if (plan.is_address)
        return array.scalar == ScalarType::uint64;
    return array.scalar == plan.scalar || (is_one_byte_integer(plan.scalar) && array.itemsize == 1);
}

} // namespace

std::vector<ArgumentPlan> plan_of(const Kernel& kernel) {
    std::vector<ArgumentPlan> plans;
    for (const ArgumentInfo& info : kernel.arguments()) {
        ArgumentPlan plan;
        plan.kind = info.kind;
        plan.scalar = info.scalar;
        plan.active = info.active;
        plan.is_address = info.is_pointer_value;
        plan.is_struct = info.scalar == ScalarType::none && !info.is_pointer_value;
        plan.takes_number = info.kind == ArgumentKind::buffer && info.access == Access::read && info.rows == 1 &&
                            info.columns == 1 && info.scalar != ScalarType::none && !info.is_pointer_value;
        plan.nbytes = info.nbytes;
        plan.name = info.name;
        plan.what = "kernel \"" + kernel.name() + "\", argument " + std::to_string(plans.size()) + " \"" + info.name + "\" (" +
                    info.type_name + ")";
        plans.push_back(std::move(plan));
    }
    return plans;
}

bool scalar_from_python(PyObject* value, ScalarValue& result) {
    if (PyBool_Check(value)) {
        result = value == Py_True;
        return true;
    }
    if (PyFloat_Check(value)) {
        result = PyFloat_AS_DOUBLE(value);
        return true;
    }
    if (!PyLong_Check(value))
        return false;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) {
        result = static_cast<std::int64_t>(number);
        return true;
    }
    if (overflow > 0) {
        const unsigned long long large = PyLong_AsUnsignedLongLong(value);
        if (!PyErr_Occurred()) {
            result = static_cast<std::uint64_t>(large);
            return true;
        }
        PyErr_Clear();
    }
    throw ArgumentError("an integer that needs more than 64 bits was given");
}

bool encode_directly(const ArgumentPlan& plan, PyObject* value, ArgumentValue& out, detail::ScalarSlot& slot) {
    if (!plan.active) {
        out = ArgumentValue::none();
        return true;
    }
    if (Py_TYPE(value) == hooks.array_type) {
        const ArrayData& array = *nb::inst_ptr<ArrayData>(nb::handle(value));
        if (plan.kind != ArgumentKind::buffer || array.buffer.size() == 0 || !matches(plan, array))
            return false;
        out = ArgumentValue::of(array.buffer);
        return true;
    }
    if (!plan.takes_number || !(PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value)))
        return false;
    ScalarValue number;
    try {
        scalar_from_python(value, number);
    } catch (const ArgumentError& error) {
        throw ArgumentError(plan.what + ": " + error.what() + ", which does not fit " + std::string(name_of(plan.scalar)));
    }
    out = ArgumentValue::bytes(slot.bytes, encode_scalar(plan.scalar, number, slot.bytes, plan.what));
    return true;
}

void encode_converted(const ArgumentPlan& plan, PyObject* kernel, std::size_t position, PyObject* value, bool launches_nothing,
                      ArgumentValue& out, Conversions& conversions) {
    if (!conversions.state.is_valid())
        conversions.state = nb::dict();
    nb::object result =
        nb::handle(hooks.convert)(nb::handle(kernel), position, nb::handle(value), conversions.state, launches_nothing);
    if (result.is_none())
        out = ArgumentValue::none();
    else if (nb::isinstance<ArrayData>(result))
        out = ArgumentValue::of(nb::inst_ptr<ArrayData>(result)->buffer);
    else if (PyBytes_CheckExact(result.ptr()))
        out = ArgumentValue::bytes(PyBytes_AS_STRING(result.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(result.ptr())));
    else if (PyLong_CheckExact(result.ptr()))
        out = ArgumentValue::threadgroup(nb::cast<std::size_t>(result));
    else
        throw ArgumentError(plan.what + ": the conversion gave a " + Py_TYPE(result.ptr())->tp_name);
    conversions.objects.push_back(std::move(result));
}

} // namespace metalki::python
