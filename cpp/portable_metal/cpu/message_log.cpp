// Stores messages, and writes those of the running kernel.
//
// Reading what a kernel passes may fault, which leaves the function at once: nothing is locked or owned meanwhile.
#include "cpu/message_log.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "cpu/message_format.hpp"

namespace metalki::cpu {

namespace {

struct Header {
    std::uint32_t bytes; // of the whole record
    compiler::LogTarget target;
    std::uint32_t subsystem, category, text; // lengths
};

// Metal's limit of subsystem, category and format is lower.
constexpr std::size_t longest_name = 1023;
constexpr std::size_t longest_format = 8192;

thread_local MessageLog* current_log = nullptr;

std::string_view bounded(const char* text, std::size_t most) {
    return text == nullptr ? std::string_view{} : std::string_view(text, strnlen(text, most));
}

compiler::LogTarget checked(std::uint32_t target) {
    const auto print_all = static_cast<std::uint32_t>(compiler::LogTarget::print_all);
    const auto fault = static_cast<std::uint32_t>(compiler::LogTarget::fault);
    const auto print = static_cast<std::uint32_t>(compiler::LogTarget::print);
    const bool known = (target >= 1 && target <= fault) || target == print || target == print_all;
    return known ? static_cast<compiler::LogTarget>(target) : compiler::LogTarget::notice;
}

// On the heap: the thread-local memory of a shared library is scarce, and so is a kernel's stack.
MessageText* scratch() {
    static thread_local std::unique_ptr<MessageText> text;
    if (!text)
        text.reset(new (std::nothrow) MessageText);
    return text.get();
}

} // namespace

MessageLog::~MessageLog() {
    delete[] storage_.load(std::memory_order_relaxed);
}

void MessageLog::configure(std::size_t capacity, compiler::LogTarget lowest) {
    capacity_ = capacity;
    lowest_ = lowest;
}

std::byte* MessageLog::storage() noexcept {
    std::byte* present = storage_.load(std::memory_order_acquire);
    if (present != nullptr)
        return present;
    // Pages that no message reaches are never touched.
    auto* made = new (std::nothrow) std::byte[capacity_];
    if (made != nullptr && !storage_.compare_exchange_strong(present, made, std::memory_order_acq_rel)) {
        delete[] made;
        return present;
    }
    return made;
}

bool MessageLog::wants(compiler::LogTarget target) noexcept {
    if (target < lowest_)
        return false;
    if (used_.load(std::memory_order_relaxed) < capacity_)
        return true;
    drop(target >= compiler::LogTarget::print);
    return false;
}

void MessageLog::append(const Message& message) noexcept {
    std::byte* memory = storage();
    const std::size_t length = sizeof(Header) + message.subsystem.size() + message.category.size() + message.text.size();
    const std::size_t bytes = (length + alignof(Header) - 1) / alignof(Header) * alignof(Header);
    const std::uint64_t at = used_.fetch_add(bytes, std::memory_order_relaxed);
    if (memory == nullptr || at + bytes > capacity_) {
        // Only one message reaches over the end: what lies behind its begin holds nothing.
        if (at < capacity_)
            end_.store(memory == nullptr ? 0 : at, std::memory_order_relaxed);
        return drop(message.is_print());
    }
    const Header header{static_cast<std::uint32_t>(bytes), message.target, static_cast<std::uint32_t>(message.subsystem.size()),
                        static_cast<std::uint32_t>(message.category.size()), static_cast<std::uint32_t>(message.text.size())};
    std::memcpy(memory + at, &header, sizeof header);
    std::byte* place = memory + at + sizeof header;
    for (const std::string_view part : {message.subsystem, message.category, message.text}) {
        std::copy_n(reinterpret_cast<const std::byte*>(part.data()), part.size(), place);
        place += part.size();
    }
}

void MessageLog::for_each(const std::function<void(const Message&)>& function) const {
    const std::byte* memory = storage_.load(std::memory_order_acquire);
    const std::uint64_t end =
        std::min({used_.load(std::memory_order_relaxed), end_.load(std::memory_order_relaxed), std::uint64_t{capacity_}});
    for (std::uint64_t at = 0; memory != nullptr && at < end;) {
        Header header{};
        std::memcpy(&header, memory + at, sizeof header);
        const auto* text = reinterpret_cast<const char*>(memory + at + sizeof header);
        function({header.target,
                  {text, header.subsystem},
                  {text + header.subsystem, header.category},
                  {text + header.subsystem + header.category, header.text}});
        at += header.bytes;
    }
}

LogScope::LogScope(MessageLog* log) : previous_(current_log) {
    current_log = log;
}

LogScope::~LogScope() {
    current_log = previous_;
}

void log_message(std::uint32_t number, const char* subsystem, const char* category, const char* format,
                 const compiler::LogArgument* arguments, std::uint32_t count) {
    const compiler::LogTarget target = checked(number);
    MessageLog* log = current_log;
    MessageText* text = log != nullptr && log->wants(target) ? scratch() : nullptr;
    if (text == nullptr)
        return;
    text->clear();
    format_message(*text, bounded(format, longest_format), {arguments, count}, target == compiler::LogTarget::print_all);
    const std::string_view sub = bounded(subsystem, longest_name);
    const std::string_view cat = bounded(category, longest_name);
    log->append({target, sub, cat, text->text()});
}

} // namespace metalki::cpu
