// State behind MTL::LogState, and what becomes of a command buffer's messages.
#pragma once

#include <mutex>
#include <vector>

#include "Metal/MTLLogState.hpp"
#include "cpu/message_log.hpp"
#include "object.hpp"

namespace metalki::api {

class CommandBufferState;

class LogStateState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::LogState"; }

    std::size_t capacity = cpu::MessageLog::default_capacity;
    MTL::LogLevel level = MTL::LogLevelDebug;
    std::mutex mutex;
    std::vector<MTL::LogHandlerFunction> handlers;
};

// Hands the messages of a completed command buffer to its log state's handlers.
void deliver_messages(CommandBufferState& buffer);

} // namespace metalki::api
