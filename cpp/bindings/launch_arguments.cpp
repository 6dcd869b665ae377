// Python values become launch arguments.
#include "launch_arguments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

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

// numpy's scalar types: their value follows the object header, which register_numpy_scalars() verifies.
struct NumpyScalar {
    PyTypeObject* type;
    char kind; // 'i', 'u', 'f'
    std::size_t size;
};
std::array<NumpyScalar, 12> numpy_scalars;
std::size_t numpy_scalar_count = 0;

template <class T> T value_of(PyObject* scalar) {
    T value;
    std::memcpy(&value, reinterpret_cast<const char*>(scalar) + sizeof(PyObject), sizeof value);
    return value;
}

// An integer that a 64-bit slot shows to fit; the general way gives the message otherwise.
template <class T> bool store_integer(std::int64_t number, ArgumentValue& out, detail::ScalarSlot& slot) {
    if (!std::in_range<T>(number))
        return false;
    const T value = static_cast<T>(number);
    std::memcpy(slot.bytes, &value, sizeof value);
    out = ArgumentValue::bytes(slot.bytes, sizeof value);
    return true;
}

// What launches are made of: float to float, and an int that fits to int or uint.
bool encode_common(ScalarType type, PyObject* value, ArgumentValue& out, detail::ScalarSlot& slot) {
    if (PyFloat_CheckExact(value)) {
        const double wide = PyFloat_AS_DOUBLE(value);
        if (type != ScalarType::float32 || !(std::fabs(wide) <= std::numeric_limits<float>::max()))
            return false;
        const float narrow = static_cast<float>(wide);
        std::memcpy(slot.bytes, &narrow, sizeof narrow);
        out = ArgumentValue::bytes(slot.bytes, sizeof narrow);
        return true;
    }
    if (!PyLong_CheckExact(value) || (type != ScalarType::int32 && type != ScalarType::uint32))
        return false;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0)
        return false;
    return type == ScalarType::int32 ? store_integer<std::int32_t>(number, out, slot)
                                     : store_integer<std::uint32_t>(number, out, slot);
}

// The launch checks everything else and keeps what it needs.
bool encode_texture_or_sampler(const ArgumentPlan& plan, PyObject* value, ArgumentValue& out) {
    const nb::handle object(value);
    if (plan.kind == ArgumentKind::texture && nb::isinstance<Texture>(object) && nb::inst_ready(object))
        out = ArgumentValue::of(*nb::inst_ptr<Texture>(object));
    else if (plan.kind == ArgumentKind::sampler && nb::isinstance<Sampler>(object) && nb::inst_ready(object))
        out = ArgumentValue::of(*nb::inst_ptr<Sampler>(object));
    else
        return false;
    return true;
}

} // namespace

void register_numpy_scalars(nb::list samples) {
    numpy_scalar_count = 0;
    for (nb::handle entry : samples) {
        nb::object sample = entry[0];
        const std::string_view kind = nb::cast<const char*>(entry[1]);
        nb::bytes expected = nb::cast<nb::bytes>(entry[2]);
        const void* stored = reinterpret_cast<const char*>(sample.ptr()) + sizeof(PyObject);
        const bool as_expected =
            static_cast<std::size_t>(Py_TYPE(sample.ptr())->tp_basicsize) >= sizeof(PyObject) + expected.size() &&
            std::memcmp(stored, expected.c_str(), expected.size()) == 0;
        if (as_expected && numpy_scalar_count < numpy_scalars.size())
            numpy_scalars[numpy_scalar_count++] = {reinterpret_cast<PyTypeObject*>(sample.type().inc_ref().ptr()), kind[0],
                                                   expected.size()};
    }
}

bool scalar_from_numpy(PyObject* value, ScalarValue& result) {
    const PyTypeObject* type = Py_TYPE(value);
    const auto end = numpy_scalars.begin() + static_cast<std::ptrdiff_t>(numpy_scalar_count);
    const auto found = std::find_if(numpy_scalars.begin(), end, [type](const NumpyScalar& s) { return s.type == type; });
    if (found == end)
        return false;
    switch (found->kind) {
    case 'f':
        result = found->size == 4 ? static_cast<double>(value_of<float>(value)) : value_of<double>(value);
        break;
    case 'u':
        result = found->size == 1   ? std::uint64_t(value_of<std::uint8_t>(value))
                 : found->size == 2 ? std::uint64_t(value_of<std::uint16_t>(value))
                 : found->size == 4 ? std::uint64_t(value_of<std::uint32_t>(value))
                                    : value_of<std::uint64_t>(value);
        break;
    default:
        result = found->size == 1   ? std::int64_t(value_of<std::int8_t>(value))
                 : found->size == 2 ? std::int64_t(value_of<std::int16_t>(value))
                 : found->size == 4 ? std::int64_t(value_of<std::int32_t>(value))
                                    : value_of<std::int64_t>(value);
    }
    return true;
}

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
    if (plan.kind == ArgumentKind::texture || plan.kind == ArgumentKind::sampler)
        return encode_texture_or_sampler(plan, value, out);
    if (!plan.takes_number)
        return false;
    if (encode_common(plan.scalar, value, out, slot))
        return true;
    ScalarValue number;
    try {
        if (PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value))
            scalar_from_python(value, number);
        else if (!scalar_from_numpy(value, number))
            return false;
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
