// What the kernels of one command buffer print: a bounded list that worker threads fill side by side without locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "compiler/kernel_abi.hpp"

namespace metalki::cpu {

class MessageLog {
public:
    struct Message {
        compiler::LogTarget target;
        std::string_view subsystem, category, text;

        bool is_print() const { return target >= compiler::LogTarget::print; }
    };
    static constexpr std::size_t default_capacity = std::size_t{1} << 20;

    MessageLog() = default;
    ~MessageLog();
    MessageLog(const MessageLog&) = delete;
    MessageLog& operator=(const MessageLog&) = delete;

    // Before kernels run. Log messages below `lowest` are not kept.
    void configure(std::size_t capacity, compiler::LogTarget lowest);

    // Callable from several threads at once. Messages without room are counted.
    void append(const Message& message) noexcept;
    // Whether a message of this kind would be kept; counts it when there is no room any more.
    bool wants(compiler::LogTarget target) noexcept;

    // The following only while no kernel runs.
    bool is_empty() const { return used_.load(std::memory_order_relaxed) == 0 && dropped_prints() == 0 && dropped_logs() == 0; }
    void for_each(const std::function<void(const Message&)>& function) const;
    std::uint64_t dropped_prints() const { return dropped_prints_.load(std::memory_order_relaxed); }
    std::uint64_t dropped_logs() const { return dropped_logs_.load(std::memory_order_relaxed); }
    std::size_t capacity() const { return capacity_; }
    compiler::LogTarget lowest() const { return lowest_; }
    // Of messages that were lost before they came here.
    void add_dropped(std::uint64_t prints, std::uint64_t logs) {
        dropped_prints_.fetch_add(prints, std::memory_order_relaxed);
        dropped_logs_.fetch_add(logs, std::memory_order_relaxed);
    }

private:
    std::byte* storage() noexcept;
    void drop(bool is_print) noexcept { (is_print ? dropped_prints_ : dropped_logs_).fetch_add(1, std::memory_order_relaxed); }

    std::size_t capacity_ = default_capacity;
    compiler::LogTarget lowest_ = compiler::LogTarget::debug;
    std::atomic<std::byte*> storage_{nullptr}; // made with the first message
    std::atomic<std::uint64_t> used_{0};       // bytes asked for; more than the capacity once messages were dropped
    std::atomic<std::uint64_t> end_{UINT64_MAX};
    std::atomic<std::uint64_t> dropped_prints_{0}, dropped_logs_{0};
};

// The log of the dispatch that this thread works on.
class LogScope {
public:
    explicit LogScope(MessageLog* log);
    ~LogScope();
    LogScope(const LogScope&) = delete;
    LogScope& operator=(const LogScope&) = delete;

private:
    MessageLog* previous_;
};

// __metalki_rt_log of kernel_abi.hpp.
void log_message(std::uint32_t target, const char* subsystem, const char* category, const char* format,
                 const compiler::LogArgument* arguments, std::uint32_t count);

} // namespace metalki::cpu
