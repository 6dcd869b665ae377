// MTL::LogState, and the delivery of messages.
#include "log_state.hpp"

#include <cstdio>

#include "Metal/MetalkiExtensions.hpp"
#include "commands.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

constexpr NS::Integer smallest_buffer = 1024;
constexpr NS::Integer largest_buffer = NS::Integer{1} << 30;

class LogDescriptorState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::LogStateDescriptor"; }
    ObjectState* copy() const override {
        auto* other = new LogDescriptorState;
        other->size = size;
        other->level = level;
        return other;
    }
    NS::Integer size = cpu::MessageLog::default_capacity;
    MTL::LogLevel level = MTL::LogLevelDebug;
};

using Message = cpu::MessageLog::Message;

MTL::LogLevel level_of(const Message& message) {
    return message.is_print() ? MTL::LogLevelNotice : static_cast<MTL::LogLevel>(message.target);
}

void write_out(const Message& message) {
    if (message.is_print()) {
        std::fwrite(message.text.data(), 1, message.text.size(), stdout);
        std::fflush(stdout);
        return;
    }
    constexpr const char* names[] = {"log", "debug", "info", "notice", "error", "fault"};
    std::string line = names[static_cast<std::size_t>(level_of(message))];
    for (const std::string_view part : {message.subsystem, message.category})
        if (!part.empty())
            line.append(line.back() == ':' ? "" : ":").append(part);
    line.append(": ").append(message.text);
    if (!line.ends_with('\n'))
        line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
}

NS::String* text_or_null(std::string_view text) {
    return text.empty() ? nullptr : autoreleased_string(text);
}

void hand_over(const MTL::LogHandlerFunction& handler, const Message& message) {
    ScopedPool pool;
    try {
        NS::String* subsystem = message.is_print() ? constant_string(MTL::Portable::printSubsystem) : nullptr;
        NS::String* category = message.is_print() ? constant_string(MTL::Portable::printCategory) : nullptr;
        handler(subsystem ? subsystem : text_or_null(message.subsystem), category ? category : text_or_null(message.category),
                level_of(message), autoreleased_string(message.text));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "metalki: a log handler threw: %s\n", error.what());
    } catch (...) {
        std::fprintf(stderr, "metalki: a log handler threw\n");
    }
}

std::string loss(std::uint64_t count, const cpu::MessageLog& log) {
    return "metalki: " + std::to_string(count) + (count == 1 ? " message was" : " messages were") +
           " dropped: the log of a command buffer holds " + std::to_string(log.capacity()) + " bytes\n";
}

} // namespace

void deliver_messages(CommandBufferState& buffer) {
    const cpu::MessageLog& log = buffer.log;
    std::vector<MTL::LogHandlerFunction> handlers;
    if (LogStateState* state = buffer.log_state.get()) {
        std::lock_guard lock(state->mutex);
        handlers = state->handlers;
    }
    const auto deliver = [&](const Message& message) {
        if (handlers.empty())
            write_out(message);
        for (const auto& handler : handlers)
            hand_over(handler, message);
    };
    log.for_each(deliver);
    if (const std::uint64_t count = log.dropped_prints(); count > 0)
        deliver({compiler::LogTarget::print, {}, {}, loss(count, log)});
    if (const std::uint64_t count = log.dropped_logs(); count > 0)
        deliver({compiler::LogTarget::error, "metalki", "log", loss(count, log)});
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

NS::ErrorDomain const LogStateErrorDomain = MTLSTR("MTLLogStateErrorDomain");

LogState* Device::newLogState(const LogStateDescriptor* descriptor, NS::Error** error) {
    if (!require(descriptor, "MTL::Device::newLogState", "descriptor is null"))
        return nullptr;
    const auto& wanted = state_of<LogDescriptorState>(descriptor);
    if (wanted.size < smallest_buffer || wanted.size > largest_buffer) {
        set_error(error, LogStateErrorDomain, LogStateErrorInvalidSize,
                  "bufferSize is " + std::to_string(wanted.size) + " bytes; expected " + std::to_string(smallest_buffer) +
                      " to " + std::to_string(largest_buffer));
        return nullptr;
    }
    auto* state = new LogStateState;
    state->capacity = static_cast<std::size_t>(wanted.size);
    state->level = wanted.level;
    return public_of<LogState>(state);
}

void LogState::addLogHandler(const LogHandlerFunction& handler) {
    if (!require(static_cast<bool>(handler), "MTL::LogState::addLogHandler", "the handler is empty"))
        return;
    auto& state = state_of<LogStateState>(this);
    std::lock_guard lock(state.mutex);
    state.handlers.push_back(handler);
}

LogStateDescriptor* LogStateDescriptor::alloc() {
    return public_of<LogStateDescriptor>(new LogDescriptorState);
}
LogStateDescriptor* LogStateDescriptor::init() {
    return this;
}
NS::Integer LogStateDescriptor::bufferSize() const {
    return state_of<LogDescriptorState>(this).size;
}
LogLevel LogStateDescriptor::level() const {
    return state_of<LogDescriptorState>(this).level;
}
void LogStateDescriptor::setBufferSize(NS::Integer bufferSize) {
    state_of<LogDescriptorState>(this).size = bufferSize;
}
void LogStateDescriptor::setLevel(LogLevel level) {
    const bool known = level >= LogLevelUndefined && level <= LogLevelFault;
    if (require(known, "MTL::LogStateDescriptor::setLevel", "no such level"))
        state_of<LogDescriptorState>(this).level = level;
}

} // namespace MTL
