// Messages of kernels: their text against the C library's, formats that do not fit, and the log that several threads fill.
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "cpu/message_format.hpp"
#include "cpu/message_log.hpp"
#include "executor_fixture.hpp"

using namespace executor_test;
using compiler::LogArgument;
using compiler::LogTarget;
using compiler::LogType;

namespace {

// The same numbers in each run.
class Random {
public:
    unsigned below(unsigned n) { return static_cast<unsigned>(engine_() % n); }
    bool one_in(unsigned n) { return below(n) == 0; }
    uint64_t bits() { return engine_(); }
    char of(std::string_view letters) { return letters[below(static_cast<unsigned>(letters.size()))]; }

private:
    std::mt19937_64 engine_{1};
};

std::string formatted(std::string_view format, const std::vector<LogArgument>& arguments, bool prints_extras = false) {
    auto text = std::make_unique<cpu::MessageText>();
    text->clear();
    cpu::format_message(*text, format, arguments, prints_extras);
    return std::string(text->text());
}

// %, flags, width, precision
std::string random_start(Random& random) {
    std::string format = "%";
    for (char flag : std::string_view("-+ #0"))
        format += random.one_in(4) ? std::string(1, flag) : "";
    format += random.one_in(2) ? std::to_string(random.below(30)) : "";
    if (random.one_in(2))
        format += '.' + (random.one_in(5) ? std::string() : std::to_string(random.below(random.one_in(4) ? 300 : 12)));
    return format;
}

template <class Value> std::string by_the_library(const std::string& format, Value value) {
    std::array<char, 2048> text{};
    std::snprintf(text.data(), text.size(), format.c_str(), value);
    return text.data();
}

float random_float(Random& random) {
    float value = 0;
    const auto bits = static_cast<uint32_t>(random.bits());
    switch (random.below(3)) {
    case 0:
        std::memcpy(&value, &bits, sizeof value);
        return std::isnan(value) ? 1.0f : value;
    case 1:
        return static_cast<float>(random.below(2000)) / 8 - 100;
    default:
        return std::ldexp(1 + static_cast<float>(random.below(1000)) / 1000, static_cast<int>(random.below(40)) - 20);
    }
}

} // namespace

TEST_CASE("numbers look as the C library writes them") {
    Random random;
    for (int i = 0; i < 20000; ++i) {
        std::string format = random_start(random);
        std::string expected, got;
        if (random.one_in(2)) {
            const float value = random_float(random);
            format += random.of("fFeEgGaA");
            expected = by_the_library(format, static_cast<double>(value));
            got = formatted(format, {{&value, LogType::f32, 1, 1}});
        } else if (random.one_in(2)) {
            const auto value = static_cast<int>(random.bits());
            format += std::string(random.below(3), 'h') + random.of("diuxXo");
            expected = by_the_library(format, value);
            got = formatted(format, {{&value, LogType::i32, 1, 1}});
        } else {
            const auto value = static_cast<long>(random.bits());
            format += std::string("l") + random.of("diuxXo");
            expected = by_the_library(format, value);
            got = formatted(format, {{&value, LogType::i64, 1, 1}});
        }
        REQUIRE_MESSAGE(got == expected, format);
    }
}

// Memory of exactly the right size, so that the sanitizer sees whatever is read beyond.
TEST_CASE("no format reads more than its arguments") {
    constexpr unsigned sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 1};
    Random random;
    for (int i = 0; i < 20000; ++i) {
        std::vector<char> format(random.below(24));
        for (char& c : format)
            c = random.of("%%%%%%ddfsvxhlz0123456789.*-+# aegcpnuiy{}\n\xff");
        std::vector<std::unique_ptr<unsigned char[]>> memory;
        std::vector<LogArgument> arguments;
        for (unsigned n = random.below(5); n > 0; --n) {
            const auto type = static_cast<LogType>(random.below(14));
            if (type >= LogType::pointer) {
                arguments.push_back({type == LogType::text && random.one_in(2) ? "text" : nullptr, type, 1, 1});
                continue;
            }
            const auto rows = static_cast<std::uint16_t>(1 + random.below(4));
            const auto columns = static_cast<std::uint16_t>(random.one_in(8) ? 1 + random.below(4) : 1);
            const unsigned count = columns == 1 ? rows : columns * (rows == 3 ? 4u : rows);
            const std::size_t bytes = sizes[static_cast<std::size_t>(type)] * count;
            memory.push_back(std::make_unique<unsigned char[]>(bytes));
            for (std::size_t b = 0; b < bytes; ++b)
                memory.back()[b] = static_cast<unsigned char>(random.bits());
            arguments.push_back({memory.back().get(), type, rows, columns});
        }
        CHECK(formatted({format.data(), format.size()}, arguments, random.one_in(2)).size() <= 8192);
    }
}

TEST_CASE("threads fill a log side by side") {
    cpu::MessageLog log;
    constexpr int writers = 4, each = 2000;
    std::vector<std::thread> threads;
    for (int w = 0; w < writers; ++w)
        threads.emplace_back([&log, w] {
            for (int i = 0; i < each; ++i)
                log.append({LogTarget::print, {}, "c", std::to_string(w) + " " + std::to_string(i)});
        });
    for (std::thread& thread : threads)
        thread.join();
    std::map<int, int> next;
    log.for_each([&](const cpu::MessageLog::Message& message) {
        int writer = 0, i = 0;
        REQUIRE(std::sscanf(std::string(message.text).c_str(), "%d %d", &writer, &i) == 2);
        CHECK(i == next[writer]++);
        CHECK(message.category == "c");
    });
    for (int w = 0; w < writers; ++w)
        CHECK(next[w] == each);
    CHECK(log.dropped_prints() + log.dropped_logs() == 0);
}

TEST_CASE("a full log counts what it drops") {
    cpu::MessageLog log;
    log.configure(1000, LogTarget::info);
    CHECK(log.is_empty());
    CHECK_FALSE(log.wants(LogTarget::debug));
    std::vector<std::thread> threads;
    for (int w = 0; w < 4; ++w)
        threads.emplace_back([&log] {
            for (int i = 0; i < 100; ++i)
                log.append({i % 2 == 0 ? LogTarget::print : LogTarget::error, "s", {}, "0123456789"});
        });
    for (std::thread& thread : threads)
        thread.join();
    std::uint64_t kept = 0;
    log.for_each([&](const cpu::MessageLog::Message& message) {
        CHECK(message.text == "0123456789");
        ++kept;
    });
    CHECK(kept > 10);
    CHECK(kept + log.dropped_prints() + log.dropped_logs() == 400);
    CHECK_FALSE(log.wants(LogTarget::print));
}

TEST_CASE("a message goes to the log of its dispatch; what precedes a fault is there") {
    static const auto write = symbol<compiler::LogFunction>("__metalki_rt_log");
    const compiler::KernelCode code = looping([](const ThreadgroupContext* c) {
        const uint32_t group = c->threadgroup_position.x;
        const LogArgument argument{&group, LogType::u32, 1, 1};
        write(static_cast<uint32_t>(LogTarget::print), nullptr, nullptr, "group %u", &argument, 1);
        if (group == 1)
            write(static_cast<uint32_t>(LogTarget::print), nullptr, nullptr, reinterpret_cast<const char*>(16), nullptr, 0);
    });
    cpu::Executor executor(1);
    cpu::MessageLog log;
    cpu::Dispatch dispatch;
    dispatch.code = &code;
    dispatch.grid = {2, 1, 1};
    dispatch.threadgroup = {1, 1, 1};
    dispatch.log = &log;
    CHECK(executor.run(dispatch).has_value());
    std::vector<std::string> texts;
    log.for_each([&](const cpu::MessageLog::Message& message) { texts.emplace_back(message.text); });
    CHECK(texts == std::vector<std::string>{"group 0", "group 1"});
    dispatch.log = nullptr;
    dispatch.grid = {1, 1, 1};
    CHECK_FALSE(executor.run(dispatch).has_value());
}
