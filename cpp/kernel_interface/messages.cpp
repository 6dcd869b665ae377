// The list of waiting messages, and their delivery in the order of completion.
#include "kernel_interface/messages.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#ifndef _WIN32
#include <pthread.h>
#endif

#include "kernel_interface/backend.hpp"

namespace metalki {

namespace {

// Messages of programs that never wait for their work.
constexpr std::size_t most_bytes = std::size_t{16} << 20;

// Longer than this nobody waits for another thread's handler: that one may wait for this thread.
constexpr std::chrono::seconds patience{1};

struct Entry {
    const detail::QueueImpl* queue;
    KernelMessage message;
};

struct Waiting {
    std::mutex mutex;
    std::deque<Entry> entries;
    std::size_t bytes = 0;
    std::size_t lost = 0;
    std::shared_ptr<const MessageHandler> handler = std::make_shared<const MessageHandler>(&print_message);

    std::atomic<std::size_t> count{0};      // of the entries
    std::atomic<std::int64_t> in_flight{0}; // command buffers whose kernels may print
    std::atomic<int> delivering{0};
    std::timed_mutex delivery; // one handler at a time
};

// Never destroyed: device threads may outlive static objects.
std::atomic<Waiting*>& instance() {
    static std::atomic<Waiting*> pointer{new Waiting};
    return pointer;
}

Waiting& waiting() {
    return *instance().load(std::memory_order_acquire);
}

#ifndef _WIN32
// What the parent's kernels print is the parent's to tell.
[[maybe_unused]] const int forgets_in_children = pthread_atfork(nullptr, nullptr, [] {
    auto* fresh = new Waiting;
    fresh->handler = waiting().handler;
    instance().store(fresh, std::memory_order_release);
});
#endif

std::size_t bytes_of(const KernelMessage& message) {
    return sizeof(Entry) + message.subsystem.size() + message.category.size() + message.text.size();
}

KernelMessage loss(std::size_t count) {
    return {MessageKind::log, MessageLevel::error, "metalki", "log",
            std::to_string(count) + " messages were dropped: nobody waited for the kernels that wrote them"};
}

// The first message of a queue, or of all for null.
std::optional<KernelMessage> take(const detail::QueueImpl* queue) {
    Waiting& w = waiting();
    std::lock_guard lock(w.mutex);
    const auto mine = [queue](const Entry& entry) { return queue == nullptr || entry.queue == queue; };
    const auto found = std::find_if(w.entries.begin(), w.entries.end(), mine);
    if (found == w.entries.end()) {
        const std::size_t lost = std::exchange(w.lost, 0);
        return lost > 0 ? std::optional(loss(lost)) : std::nullopt;
    }
    KernelMessage message = std::move(found->message);
    w.bytes -= bytes_of(message);
    w.entries.erase(found);
    w.count.store(w.entries.size(), std::memory_order_release);
    return message;
}

thread_local bool delivers_here = false;

// Counts a delivery while it lasts, so that others wait for its end.
class Delivering {
public:
    Delivering() {
        waiting().delivering.fetch_add(1);
        delivers_here = true;
    }
    ~Delivering() {
        delivers_here = false;
        waiting().delivering.fetch_sub(1);
    }
    Delivering(const Delivering&) = delete;
    Delivering& operator=(const Delivering&) = delete;
};

const char* name_of(MessageLevel level) {
    constexpr const char* names[] = {"debug", "info", "notice", "error", "fault"};
    return names[static_cast<std::size_t>(level)];
}

} // namespace

void set_message_handler(MessageHandler handler) {
    auto made = handler ? std::make_shared<const MessageHandler>(std::move(handler)) : nullptr;
    std::lock_guard lock(waiting().mutex);
    waiting().handler.swap(made);
}

void print_message(const KernelMessage& message) {
    if (message.kind == MessageKind::print) {
        std::fwrite(message.text.data(), 1, message.text.size(), stdout);
        std::fflush(stdout);
        return;
    }
    std::string line = std::string("metalki.kernel ") + name_of(message.level) + ": ";
    for (const std::string* part : {&message.subsystem, &message.category})
        line += part->empty() ? "" : *part + ": ";
    line += message.text;
    if (!line.ends_with('\n'))
        line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
}

std::optional<KernelMessage> take_message(const Queue& queue) {
    return take(queue.impl().get());
}
std::optional<KernelMessage> take_message() {
    return take(nullptr);
}
std::size_t waiting_messages() noexcept {
    return waiting().count.load(std::memory_order_acquire);
}
bool messages_may_come() noexcept {
    return waiting().in_flight.load(std::memory_order_acquire) > 0 || waiting_messages() > 0;
}

namespace detail {

void add_message(const QueueImpl* queue, KernelMessage message) {
    Waiting& w = waiting();
    const std::size_t bytes = bytes_of(message);
    std::lock_guard lock(w.mutex);
    if (w.bytes + bytes > most_bytes) {
        ++w.lost;
        return;
    }
    w.bytes += bytes;
    w.entries.push_back({queue, std::move(message)});
    w.count.store(w.entries.size(), std::memory_order_release);
}

void expect_messages() noexcept {
    waiting().in_flight.fetch_add(1, std::memory_order_relaxed);
}

void messages_came() noexcept {
    waiting().in_flight.fetch_sub(1, std::memory_order_release);
}

void deliver_messages(const QueueImpl* queue) {
    Waiting& w = waiting();
    if (waiting_messages() == 0 && w.delivering.load(std::memory_order_acquire) == 0) [[likely]]
        return;
    std::shared_ptr<const MessageHandler> handler;
    {
        std::lock_guard lock(w.mutex);
        handler = w.handler;
    }
    if (!handler)
        return;
    if (delivers_here)
        return; // a handler waits: the messages come when it has returned
    const Delivering counted;
    const std::unique_lock lock(w.delivery, patience);
    // Not for ever, should the handler itself make kernels print.
    for (std::size_t left = waiting_messages() + 1; left > 0; --left) {
        const std::optional<KernelMessage> message = take(queue);
        if (!message)
            break;
        (*handler)(*message);
    }
}

} // namespace detail
} // namespace metalki
