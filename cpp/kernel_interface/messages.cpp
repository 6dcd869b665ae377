// The list of waiting messages, and their delivery in the order of completion.
#include "kernel_interface/messages.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

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

    std::atomic<bool> any{false};
    std::atomic<std::int64_t> in_flight{0}; // command buffers whose kernels may print
    std::atomic<int> delivering{0};
    std::recursive_timed_mutex delivery; // one handler at a time
};

// Never destroyed: device threads may outlive static objects.
Waiting& waiting() {
    static Waiting* const instance = new Waiting;
    return *instance;
}

std::size_t bytes_of(const KernelMessage& message) {
    return sizeof(Entry) + message.subsystem.size() + message.category.size() + message.text.size();
}

KernelMessage loss(std::size_t count) {
    return {MessageKind::log, MessageLevel::error, "metalki", "log",
            std::to_string(count) + " messages were dropped: nobody waited for the kernels that wrote them"};
}

std::vector<Entry> take(const detail::QueueImpl* queue) {
    Waiting& w = waiting();
    std::vector<Entry> taken;
    std::lock_guard lock(w.mutex);
    std::deque<Entry> others;
    for (Entry& entry : w.entries) {
        if (queue != nullptr && entry.queue != queue) {
            others.push_back(std::move(entry));
            continue;
        }
        w.bytes -= bytes_of(entry.message);
        taken.push_back(std::move(entry));
    }
    w.entries.swap(others);
    if (w.lost > 0)
        taken.push_back({queue, loss(std::exchange(w.lost, 0))});
    w.any.store(!w.entries.empty(), std::memory_order_release);
    return taken;
}

std::vector<KernelMessage> take_texts(const detail::QueueImpl* queue) {
    std::vector<KernelMessage> messages;
    for (Entry& entry : take(queue))
        messages.push_back(std::move(entry.message));
    return messages;
}

// In front of what has come since.
void put_back(std::vector<Entry> entries, std::size_t first) {
    Waiting& w = waiting();
    std::lock_guard lock(w.mutex);
    for (std::size_t i = entries.size(); i-- > first;) {
        w.bytes += bytes_of(entries[i].message);
        w.entries.push_front(std::move(entries[i]));
    }
    w.any.store(!w.entries.empty(), std::memory_order_release);
}

// Counts a delivery while it lasts, so that others wait for its end.
class Delivering {
public:
    Delivering() { waiting().delivering.fetch_add(1); }
    ~Delivering() { waiting().delivering.fetch_sub(1); }
    Delivering(const Delivering&) = delete;
    Delivering& operator=(const Delivering&) = delete;
};

void hand_over(const detail::QueueImpl* queue, const MessageHandler& handler) {
    const Delivering counted;
    std::vector<Entry> entries = take(queue);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        try {
            handler(entries[i].message);
        } catch (...) {
            put_back(std::move(entries), i + 1);
            throw;
        }
    }
}

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

std::vector<KernelMessage> take_messages(const Queue& queue) {
    return take_texts(queue.impl().get());
}
std::vector<KernelMessage> take_messages() {
    return take_texts(nullptr);
}
bool messages_are_waiting() noexcept {
    return waiting().any.load(std::memory_order_acquire);
}
bool messages_may_come() noexcept {
    return waiting().in_flight.load(std::memory_order_acquire) > 0 || messages_are_waiting();
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
    w.any.store(true, std::memory_order_release);
}

void expect_messages() noexcept {
    waiting().in_flight.fetch_add(1, std::memory_order_relaxed);
}

void messages_came() noexcept {
    waiting().in_flight.fetch_sub(1, std::memory_order_release);
}

void deliver_messages(const QueueImpl* queue) {
    Waiting& w = waiting();
    if (!w.any.load(std::memory_order_acquire) && w.delivering.load(std::memory_order_acquire) == 0) [[likely]]
        return;
    std::shared_ptr<const MessageHandler> handler;
    {
        std::lock_guard lock(w.mutex);
        handler = w.handler;
    }
    if (!handler)
        return;
    std::unique_lock lock(w.delivery, patience);
    hand_over(queue, *handler);
}

} // namespace detail
} // namespace metalki
