// What the tests of the kernel interface share: only the public headers are used.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "metalki/metalki.hpp"

inline const std::string metal_header = "#include <metal_stdlib>\nusing namespace metal;\n";

inline metalki::Kernel kernel_of(const std::string& source, std::string_view name = {},
                                 std::vector<metalki::FunctionConstant> constants = {}) {
    return metalki::default_device().compile(metal_header + source).kernel(name, constants);
}

template <class T> metalki::Buffer buffer_of(const std::vector<T>& values) {
    metalki::Buffer buffer = metalki::default_device().allocate(values.size() * sizeof(T));
    if (!values.empty())
        std::memcpy(buffer.contents(), values.data(), values.size() * sizeof(T));
    return buffer;
}

// After a wait for the device.
template <class T> std::vector<T> values_of(const metalki::Buffer& buffer) {
    metalki::default_device().synchronize();
    std::vector<T> values(buffer.size() / sizeof(T));
    if (!values.empty())
        std::memcpy(values.data(), buffer.contents(), values.size() * sizeof(T));
    return values;
}

// The message of the exception of type Error that `function` throws; "" when it throws none.
template <class Error, class Function> std::string message_of(Function function) {
    try {
        function();
    } catch (const Error& error) {
        return error.what();
    } catch (const std::exception& error) {
        FAIL("another exception: ", error.what());
    }
    return "";
}

inline bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}
// The text names everything that is listed.
template <class... Parts> bool has(const std::string& text, std::string_view part, Parts... others) {
    return has(text, part) && has(text, others...);
}
