// Log states and their handlers.
#include "metal_backend/messages.hpp"

#include "kernel_interface/device_header.hpp"
#include "kernel_interface/messages.hpp"

namespace metalki::metal {

namespace {

constexpr NS::Integer log_bytes = NS::Integer{1} << 20; // of one command buffer

// What the log of KI.print is called in <kernel_interface>.
constexpr std::string_view print_subsystem = "metalki", print_category = "print";

MessageLevel level_of(MTL::LogLevel level) {
    switch (level) {
    case MTL::LogLevelDebug:
        return MessageLevel::debug;
    case MTL::LogLevelInfo:
        return MessageLevel::info;
    case MTL::LogLevelError:
        return MessageLevel::error;
    case MTL::LogLevelFault:
        return MessageLevel::fault;
    default:
        return MessageLevel::notice;
    }
}

} // namespace

NS::SharedPtr<MTL::LogState> make_log_state(MTL::Device& device, const detail::QueueImpl* queue) {
    AutoreleaseScope scope;
    auto descriptor = NS::TransferPtr(MTL::LogStateDescriptor::alloc()->init());
    descriptor->setBufferSize(log_bytes);
    descriptor->setLevel(MTL::LogLevelDebug);
    NS::Error* error = nullptr;
    auto state = NS::TransferPtr(device.newLogState(descriptor.get(), &error));
    if (!state)
        throw LaunchError("the device gives no log for a kernel that prints" +
                          (error ? ": " + to_string(error->localizedDescription()) : std::string()));
    state->addLogHandler(MTL::LogHandlerFunction([queue](NS::String* subsystem, NS::String* category, MTL::LogLevel level,
                                                         NS::String* text) {
        KernelMessage message{MessageKind::log, level_of(level), to_string(subsystem), to_string(category), to_string(text)};
        if (message.subsystem == print_subsystem && message.category == print_category)
            message = {MessageKind::print, MessageLevel::notice, {}, {}, std::move(message.text)};
        detail::add_message(queue, std::move(message));
    }));
    return state;
}

bool may_print(std::string_view program) {
    const std::string_view header = detail::device_header(); // only says how to print
    const std::size_t at = program.find(header);
    if (at != std::string_view::npos)
        return may_print(program.substr(0, at)) || may_print(program.substr(at + header.size()));
    return program.find("os_log") != std::string_view::npos || program.find("print") != std::string_view::npos;
}

} // namespace metalki::metal
