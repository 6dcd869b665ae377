// Where reports of misuse go.
#include "validation.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "Metal/MetalkiValidation.hpp"
#include "object.hpp"
#include "string.hpp"

namespace metalki::api {
namespace {

std::mutex handler_mutex;
std::function<void(const std::string&)>& handler_slot() {
    static auto* handler = new std::function<void(const std::string&)>;
    return *handler;
}

} // namespace

void violation(std::string_view call, std::string_view problem) {
    const std::string message = std::string(call) + ": " + std::string(problem);
    std::function<void(const std::string&)> handler;
    {
        std::lock_guard lock(handler_mutex);
        handler = handler_slot();
    }
    if (handler)
        return handler(message);
    const char* mode = std::getenv("METALKI_VALIDATION");
    if (mode && std::strcmp(mode, "abort") == 0) {
        std::fprintf(stderr, "metalki: %s\n", message.c_str());
        std::abort();
    }
    // A second exception while one is under way would end the process.
    if (std::uncaught_exceptions() > 0) {
        std::fprintf(stderr, "metalki: %s\n", message.c_str());
        return;
    }
    throw MTL::ValidationError(message);
}

} // namespace metalki::api

namespace MTL {

ValidationError::~ValidationError() = default;

void setValidationHandler(std::function<void(const std::string& message)> handler) {
    std::lock_guard lock(metalki::api::handler_mutex);
    metalki::api::handler_slot() = std::move(handler);
}

NS::UInteger unpooledAutoreleaseCount() {
    return metalki::api::unpooled_autoreleases();
}

NS::UInteger liveObjectCount() {
    return metalki::api::live_objects();
}

NS::ErrorDomain const LibraryErrorDomain = MTLSTR("MTLLibraryErrorDomain");
NS::ErrorDomain const CommandBufferErrorDomain = MTLSTR("MTLCommandBufferErrorDomain");
NS::ErrorUserInfoKey const CompileDiagnosticsKey = MTLSTR("metalki.diagnostics");

} // namespace MTL
