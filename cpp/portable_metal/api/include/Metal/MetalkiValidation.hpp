// Our own addition to the Metal API: how misuse is reported, what tests can read, and keys of our errors.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "MTLDefines.hpp"

namespace MTL {

// Misuse of the API. The call that raised it has changed nothing.
class METALKI_API ValidationError : public std::logic_error {
public:
    using std::logic_error::logic_error;
    ~ValidationError() override;
};

// Replaces what happens on misuse; null restores the default: throw ValidationError, or abort the process when the
// environment variable METALKI_VALIDATION is "abort". After a handler that returns, the call returns without effect.
METALKI_API void setValidationHandler(std::function<void(const std::string& message)> handler);

// Objects that were autoreleased on a thread without a pool, and thus leaked, since the process started.
METALKI_API NS::UInteger unpooledAutoreleaseCount();

// Objects that exist now, constants left out.
METALKI_API NS::UInteger liveObjectCount();

// Domains of the errors that libraries, pipelines and command buffers report.
METALKI_API extern NS::ErrorDomain const LibraryErrorDomain;
METALKI_API extern NS::ErrorDomain const CommandBufferErrorDomain;

// In the userInfo of a LibraryErrorDomain error: an NS::Array with an NS::Dictionary per diagnostic. Its keys are the
// strings "file", "severity" ("error", "warning", "note"), "message", "sourceLine" (NS::String) and "line", "column"
// (NS::Number, from 1; 0 when unknown). The key itself is the string "metalki.diagnostics".
METALKI_API extern NS::ErrorUserInfoKey const CompileDiagnosticsKey;

} // namespace MTL
