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

bool is_struct(const ArgumentInfo& info) {
    return info.scalar == ScalarType::none && !info.is_pointer_value;
}

// Whether an array of this element type may stand for what the kernel declares.
bool matches(const ArgumentInfo& info, const ArrayData& array) {
    if (is_struct(info)) {
        if (array.scalar == ScalarType::none)
            return info.nbytes == 0 || array.itemsize == info.nbytes;
        return array.itemsize == 1 && (info.nbytes == 0 || array.buffer.size() % info.nbytes == 0);
    }
    if (info.is_pointer_value)
        return array.scalar == ScalarType::uint64;
    return array.scalar == info.scalar || (is_one_byte_integer(info.scalar) && array.itemsize == 1);
}

constexpr std::uint32_t bit_of(ScalarType type) {
    return 1u << static_cast<unsigned>(type);
}

// The element types for which matches() does not depend on anything else.
std::uint32_t matching_types(const ArgumentInfo& info) {
    if (info.kind != ArgumentKind::buffer || !info.active || is_struct(info))
        return 0;
    if (info.is_pointer_value)
        return bit_of(ScalarType::uint64);
    if (is_one_byte_integer(info.scalar))
        return bit_of(ScalarType::bool_) | bit_of(ScalarType::int8) | bit_of(ScalarType::uint8);
    return bit_of(info.scalar);
}

// Names kernel and argument in messages.
std::string description_of(const Kernel& kernel, std::size_t position) {
    const ArgumentInfo& info = kernel.arguments()[position];
    return "kernel \"" + kernel.name() + "\", argument " + std::to_string(position) + " \"" + info.name + "\" (" +
           info.type_name + ")";
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

// The launch checks everything else and keeps what it needs.
bool encode_texture_or_sampler(ArgumentKind kind, PyObject* value, ArgumentValue& out) {
    if (const auto* texture = kind == ArgumentKind::texture ? instance_of<Texture>(value) : nullptr)
        out = ArgumentValue::of(*texture);
    else if (const auto* sampler = kind == ArgumentKind::sampler ? instance_of<Sampler>(value) : nullptr)
        out = ArgumentValue::of(*sampler);
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
        const bool is_number = info.active && info.kind == ArgumentKind::buffer && info.access == Access::read &&
                               info.rows == 1 && info.columns == 1 && !info.is_pointer_value;
        plan.number = is_number ? info.scalar : ScalarType::none;
        plan.arrays = matching_types(info);
        plans.push_back(plan);
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

bool encode_seldom(const Kernel& kernel, std::size_t position, const ArgumentPlan& plan, PyObject* value, ArgumentValue& out,
                   detail::ScalarSlot& slot) {
    const ArgumentInfo& info = kernel.arguments()[position];
    if (!info.active) {
        out = ArgumentValue::none();
        return true;
    }
    if (Py_TYPE(value) == hooks.array_type) {
        const auto* array = instance_of<ArrayData>(value);
        if (!array || info.kind != ArgumentKind::buffer || array->buffer.size() == 0 || !matches(info, *array))
            return false;
        out = ArgumentValue::of(array->buffer);
        return true;
    }
    if (info.kind == ArgumentKind::texture || info.kind == ArgumentKind::sampler)
        return encode_texture_or_sampler(info.kind, value, out);
    if (plan.number == ScalarType::none)
        return false;
    ScalarValue number;
    try {
        if (PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value))
            scalar_from_python(value, number);
        else if (!scalar_from_numpy(value, number))
            return false;
    } catch (const ArgumentError& error) {
        throw ArgumentError(description_of(kernel, position) + ": " + error.what() + ", which does not fit " +
                            std::string(name_of(plan.number)));
    }
    std::size_t length = 0;
    try {
        length = encode_scalar(plan.number, number, slot.bytes, {});
    } catch (const ArgumentError&) {
        // Once more, with the text that only a refusal needs.
        length = encode_scalar(plan.number, number, slot.bytes, description_of(kernel, position));
    }
    out = ArgumentValue::bytes(slot.bytes, length);
    return true;
}

void encode_converted(const Kernel& kernel, PyObject* object, std::size_t position, PyObject* value, bool launches_nothing,
                      ArgumentValue& out, Conversions& conversions) {
    if (Py_TYPE(value) == hooks.array_type && !nb::inst_ready(nb::handle(value)))
        throw ArgumentError(description_of(kernel, position) + ": the array has no memory, as its __init__ has not run");
    if (!conversions.state.is_valid())
        conversions.state = nb::dict();
    nb::object result = hooks.convert.get()(nb::handle(object), position, nb::handle(value), conversions.state,
                                            launches_nothing, conversions.queue);
    if (result.is_none())
        out = ArgumentValue::none();
    else if (const auto* array = instance_of<ArrayData>(result))
        out = ArgumentValue::of(array->buffer);
    else if (PyBytes_CheckExact(result.ptr()))
        out = ArgumentValue::bytes(PyBytes_AS_STRING(result.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(result.ptr())));
    else if (PyLong_CheckExact(result.ptr()))
        out = ArgumentValue::threadgroup(nb::cast<std::size_t>(result));
    else
        throw ArgumentError(description_of(kernel, position) + ": the conversion gave a " + Py_TYPE(result.ptr())->tp_name);
    conversions.objects.push_back(std::move(result));
}

} // namespace metalki::python
