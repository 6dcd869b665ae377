// Keeps the exceptions' type information in one place, so that catching works across libraries.
#include "metalki/error.hpp"

#include <utility>

namespace metalki {

Error::~Error() = default;
CompileError::CompileError(const std::string& text, std::vector<Diagnostic> diagnostics)
    : Error(text), diagnostics_(std::move(diagnostics)) {}
CompileError::~CompileError() = default;
ArgumentError::~ArgumentError() = default;
LaunchError::~LaunchError() = default;
DeviceError::~DeviceError() = default;
OutOfMemoryError::~OutOfMemoryError() = default;

} // namespace metalki
