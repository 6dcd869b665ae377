// The exceptions metalki throws. Each kind is its own type, so that a caller can tell a mistake of its own from a
// fault of the device.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "metalki/export.hpp"

namespace metalki {

/// Base of everything metalki throws.
class METALKI_API Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    Error(const Error&) = default;
    Error& operator=(const Error&) = default;
    ~Error() override;
};

/// Weight of a compiler message.
enum class Severity : std::uint8_t { note, warning, error };

/// One message of the compiler.
struct Diagnostic {
    std::string file;    ///< "program_source" for the text given to compile()
    unsigned line = 0;   ///< 1-based; 0: not known
    unsigned column = 0; ///< 1-based; 0: not known
    Severity severity = Severity::error;
    std::string message;     ///< without position and severity
    std::string source_line; ///< the text of that line; empty when not known
};

/// The source does not compile. what() is the compiler's whole text.
class METALKI_API CompileError : public Error {
public:
    CompileError(const std::string& text, std::vector<Diagnostic> diagnostics);
    CompileError(const CompileError&) = default;
    CompileError& operator=(const CompileError&) = default;
    ~CompileError() override;
    /// One entry per message, in the compiler's order.
    std::span<const Diagnostic> diagnostics() const { return diagnostics_; }

private:
    std::vector<Diagnostic> diagnostics_;
};

/// A value given to metalki is not one it can take. Nothing has been done.
class METALKI_API ArgumentError : public Error {
public:
    using Error::Error;
    ArgumentError(const ArgumentError&) = default;
    ArgumentError& operator=(const ArgumentError&) = default;
    ~ArgumentError() override;
};

/// A launch was refused for a reason other than its arguments. Nothing has been started.
class METALKI_API LaunchError : public Error {
public:
    using Error::Error;
    LaunchError(const LaunchError&) = default;
    LaunchError& operator=(const LaunchError&) = default;
    ~LaunchError() override;
};

/// The device reported a fault while it ran something; raised once, by the next wait.
class METALKI_API DeviceError : public Error {
public:
    using Error::Error;
    DeviceError(const DeviceError&) = default;
    DeviceError& operator=(const DeviceError&) = default;
    ~DeviceError() override;
};

/// Memory could not be had; the message states the size asked for and the limits.
class METALKI_API OutOfMemoryError : public Error {
public:
    using Error::Error;
    OutOfMemoryError(const OutOfMemoryError&) = default;
    OutOfMemoryError& operator=(const OutOfMemoryError&) = default;
    ~OutOfMemoryError() override;
};

} // namespace metalki
