// What kernels print and log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "metalki/export.hpp"

namespace metalki {

class Device;
class Queue;

/// How a kernel wrote a message.
enum class MessageKind : std::uint8_t {
    print, ///< KI.print, printf
    log,   ///< os_log
};

/// The levels of os_log.
enum class MessageLevel : std::uint8_t { debug, info, notice, error, fault };

/// One message of one thread.
struct KernelMessage {
    MessageKind kind = MessageKind::print;
    MessageLevel level = MessageLevel::notice; ///< of log messages; os_log's plain log() is notice
    std::string subsystem, category;           ///< of the os_log; empty where it has none
    std::string text;                          ///< as the kernel formatted it; printed text ends lines itself
};

/// Receives messages one by one, on the thread that waits for the work which wrote them. It may use metalki; what it throws
/// comes out of that wait, and the messages behind wait for the next one.
using MessageHandler = std::function<void(const KernelMessage&)>;

/// Replaces the handler, which is print_message at first. With an empty one messages are kept for take_message().
METALKI_API void set_message_handler(MessageHandler handler);

/// Writes printed text to the standard output, and log messages, a line each, to the standard error stream.
METALKI_API void print_message(const KernelMessage& message);

/// Takes the next message of completed work of a queue, or of all queues, that no handler has had; nothing when there is none.
METALKI_API std::optional<KernelMessage> take_message(const Queue& queue);
METALKI_API std::optional<KernelMessage> take_message();

/// How many messages of all queues wait to be taken. Cheap.
METALKI_API std::size_t waiting_messages() noexcept;

/// Whether messages wait, or kernels that may print have been launched and are not complete.
METALKI_API bool messages_may_come() noexcept;

} // namespace metalki
