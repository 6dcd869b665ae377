// The argument plan of a kernel: what each argument takes, prepared once, read at every launch.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "module.hpp"

namespace metalki::python {

struct ArgumentPlan {
    ScalarType number = ScalarType::none; // what one number becomes; none: it takes no number
    std::uint32_t arrays = 0;             // a bit for the ScalarType of every array that needs no further look
};

std::vector<ArgumentPlan> plan_of(const Kernel& kernel);

/// Objects that must live until launch() returns, made only when an argument needed conversion.
struct Conversions {
    std::vector<nb::object> objects;
    nb::object queue; // of the launch
    nb::object state; // dict that metalki._arguments keeps for this launch
};

// An int's value where it has few digits, as most have. False: ask Python.
inline bool small_integer(PyObject* number, std::int64_t& value) {
#if PY_VERSION_HEX >= 0x030C0000
    auto* object = reinterpret_cast<PyLongObject*>(number);
    if (!PyUnstable_Long_IsCompact(object))
        return false;
    value = PyUnstable_Long_CompactValue(object);
    return true;
#else
    const Py_ssize_t size = Py_SIZE(number);
    const std::int64_t digit = reinterpret_cast<PyLongObject*>(number)->ob_digit[0];
    value = size < 0 ? -digit : size == 0 ? 0 : digit;
    return size >= -1 && size <= 1;
#endif
}

// The numbers that launches are made of: float to float, and an int that fits to int or uint.
inline bool encode_number(ScalarType type, PyObject* value, ArgumentValue& out, detail::ScalarSlot& slot) {
    if (type == ScalarType::float32) {
        if (!PyFloat_CheckExact(value) || !(std::fabs(PyFloat_AS_DOUBLE(value)) <= std::numeric_limits<float>::max()))
            return false;
        const auto number = static_cast<float>(PyFloat_AS_DOUBLE(value));
        std::memcpy(slot.bytes, &number, sizeof number);
    } else {
        std::int64_t number;
        if (!PyLong_CheckExact(value) || !small_integer(value, number) ||
            !(type == ScalarType::int32    ? std::in_range<std::int32_t>(number)
              : type == ScalarType::uint32 ? std::in_range<std::uint32_t>(number)
                                           : false))
            return false;
        const auto word = static_cast<std::uint32_t>(number);
        std::memcpy(slot.bytes, &word, sizeof word);
    }
    out = ArgumentValue::bytes(slot.bytes, sizeof(std::uint32_t));
    return true;
}

/// encode_directly() for arrays of structs, other numbers, textures, samplers and what is switched off.
bool encode_seldom(const Kernel& kernel, std::size_t position, const ArgumentPlan& plan, PyObject* value, ArgumentValue& out,
                   detail::ScalarSlot& slot);

/// Encodes `value` without calling Python code and without creating objects. False: not one of the common kinds.
inline bool encode_directly(const Kernel& kernel, std::size_t position, const ArgumentPlan& plan, PyObject* value,
                            ArgumentValue& out, detail::ScalarSlot& slot) {
    if (Py_TYPE(value) == hooks.array_type) {
        const ArrayData& array = *nb::inst_ptr<ArrayData>(nb::handle(value));
        // An array whose __init__ has not run is all zeros.
        if ((plan.arrays >> static_cast<unsigned>(array.scalar) & 1) != 0 && array.buffer.size() != 0) [[likely]] {
            out = ArgumentValue::of(array.buffer);
            return true;
        }
    } else if (encode_number(plan.number, value, out, slot)) [[likely]] {
        return true;
    }
    return encode_seldom(kernel, position, plan, value, out, slot);
}

/// Encodes anything else through metalki._arguments.convert, which gets `object`, the kernel's. Throws nb::python_error.
void encode_converted(const Kernel& kernel, PyObject* object, std::size_t position, PyObject* value, bool launches_nothing,
                      ArgumentValue& out, Conversions& conversions);

} // namespace metalki::python
