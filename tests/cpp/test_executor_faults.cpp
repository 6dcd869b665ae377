// Kernels that crash end their dispatch, and nothing else.
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <doctest/doctest.h>

#include "cpu/context.hpp"
#include "executor_fixture.hpp"

using namespace executor_test;

namespace {

// Hidden from the compiler and the sanitizers, which would see what is wrong here.
volatile std::uintptr_t hidden_address;
__attribute__((no_sanitize("undefined", "address"))) void write_to(std::uintptr_t address) {
    hidden_address = address;
    *reinterpret_cast<volatile int*>(hidden_address) = 1;
}
[[maybe_unused]] __attribute__((no_sanitize("undefined"))) int divide(int a, int b) {
    volatile int dividend = a, divisor = b;
    return dividend / divisor;
}
// Through a pointer that may change, or the compiler makes a loop of it.
int recurse(int depth);
int (*volatile next_call)(int) = &recurse;
__attribute__((noinline, no_sanitize("address"))) int recurse(int depth) {
    volatile char frame[1024];
    frame[0] = static_cast<char>(depth);
    return next_call(depth + 1) + frame[0];
}

void bad_write(const ThreadgroupContext* c) {
    if (c->threadgroup_position.x == 3)
        write_to(0x10);
}
void bad_write_in_thread(const ThreadgroupContext*, uint32_t x, uint32_t, uint32_t) {
    barrier(1);
    if (x == 5)
        write_to(0x20);
    barrier(2);
}
void impossible_address(const ThreadgroupContext*) {
    write_to(0x4141414141414141);
}
void overflow(const ThreadgroupContext*) {
    recurse(1);
}
void overflow_in_thread(const ThreadgroupContext*, uint32_t, uint32_t, uint32_t) {
    recurse(1);
}
void illegal(const ThreadgroupContext*) {
#if defined(__x86_64__)
    asm volatile("ud2");
#else
    asm volatile("udf #0");
#endif
}
#if defined(__x86_64__)
void division(const ThreadgroupContext* c) {
    *argument<int>(c, 0) = divide(1, 0);
}
#endif
void fine(const ThreadgroupContext* c, uint32_t x, uint32_t, uint32_t) {
    barrier(1);
    argument<uint32_t>(c, 0)[x] = x;
}
void slow(const ThreadgroupContext* c) {
    ++*argument<std::atomic<uint32_t>>(c, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

METALKI_NO_ADDRESS_SANITIZER void endless(const ThreadgroupContext*) {
    for (volatile bool for_ever = true; for_ever;) {
    }
}
METALKI_NO_ADDRESS_SANITIZER void endless_in_thread(const ThreadgroupContext*, uint32_t x, uint32_t, uint32_t) {
    barrier(1);
    for (volatile bool for_ever = x >= 3; for_ever;) {
    }
    barrier(2);
}

// Generous: what lies behind the loops are kernels as well. The sanitizer would make them longer than this.
template <class Function> compiler::KernelCode with_range(compiler::KernelCode code, Function* function) {
    code.code_begin = reinterpret_cast<const char*>(function);
    code.code_end = reinterpret_cast<const char*>(function) + 128;
    return code;
}

void check_fault(cpu::Executor& executor, const compiler::KernelCode& code, const std::string& expected) {
    std::vector<uint32_t> out(64);
    const auto fault = launch(executor, code, {64 * 64, 1, 1}, {64, 1, 1}, {out.data()});
    CAPTURE(expected);
    REQUIRE(fault);
    CAPTURE(fault->message);
    CHECK(fault->message.find(expected) != std::string::npos);
    REQUIRE_FALSE(launch(executor, waiting(fine), {64, 1, 1}, {64, 1, 1}, {out.data()}));
    for (uint32_t i = 0; i < 64; ++i)
        REQUIRE(out[i] == i);
}

std::atomic<int> signals_seen{0};

} // namespace

TEST_CASE("faults are reported with their place, and the executor works afterwards") {
    // The test framework sets handlers of its own for each case; the executor looks for that every few milliseconds.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    cpu::Executor executor(3);
    for (int round = 0; round < 20; ++round) {
        check_fault(executor, looping(bad_write), "invalid memory access at address 0x10 in threadgroup (3, 0, 0)");
        check_fault(executor, waiting(bad_write_in_thread), "invalid memory access at address 0x20 in threadgroup (");
        check_fault(executor, waiting(bad_write_in_thread), "thread (5, 0, 0)");
        check_fault(executor, looping(impossible_address), "invalid memory access");
        check_fault(executor, looping(overflow), "stack overflow in threadgroup");
        check_fault(executor, waiting(overflow_in_thread), "stack overflow in threadgroup");
        check_fault(executor, looping(illegal), "illegal instruction");
#if defined(__x86_64__)
        check_fault(executor, looping(division), "integer division by zero");
#endif
    }
}

TEST_CASE("signals outside kernels reach the handler that was there before") {
    cpu::Executor executor(1);
    struct sigaction theirs{}, ours{};
    theirs.sa_handler = [](int) { ++signals_seen; };
    sigaction(SIGFPE, &theirs, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(10)); // our handlers are looked after now and then
    uint32_t out[32];
    REQUIRE_FALSE(launch(executor, waiting(fine), {32, 1, 1}, {32, 1, 1}, {out}));
    sigaction(SIGFPE, nullptr, &ours);
    CHECK((ours.sa_flags & SA_SIGINFO) != 0);
    raise(SIGFPE);
    CHECK(signals_seen == 1);
}

TEST_CASE("a dispatch can be stopped from another thread") {
    cpu::Executor executor(2);
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> started{0};
    const std::vector<void*> arguments{&started};
    const auto code = looping(slow);
    cpu::Dispatch dispatch;
    dispatch.code = &code;
    dispatch.arguments = arguments;
    dispatch.grid = {1000000, 1, 1};
    dispatch.threadgroup = {1, 1, 1};
    dispatch.stop = &stop;
    std::thread stopper([&] {
        while (started < 3)
            std::this_thread::yield();
        stop = true;
    });
    const auto fault = executor.run(dispatch);
    stopper.join();
    REQUIRE(fault);
    CHECK(fault->message.find("stopped") != std::string::npos);
    CHECK(started < 1000);
}

TEST_CASE("a threadgroup that never ends is stopped from another thread") {
    cpu::Executor executor(2);
    for (const auto& code :
         {with_range(looping(endless), &endless), with_range(waiting(endless_in_thread), &endless_in_thread)}) {
        std::atomic<bool> stop{false};
        cpu::Dispatch dispatch;
        dispatch.code = &code;
        dispatch.grid = {64, 1, 1};
        dispatch.threadgroup = {16, 1, 1};
        dispatch.stop = &stop;
        std::thread stopper([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            stop = true;
            executor.interrupt(stop);
        });
        const auto fault = executor.run(dispatch);
        stopper.join();
        REQUIRE(fault);
        CHECK(fault->message.find("stopped in threadgroup") != std::string::npos);
        std::vector<uint32_t> out(64);
        REQUIRE_FALSE(launch(executor, waiting(fine), {64, 1, 1}, {64, 1, 1}, {out.data()}));
    }
}

TEST_CASE("a dispatch ends at its time limit, and quick ones do not notice theirs") {
    cpu::Executor executor(2);
    uint32_t out[64];
    const std::vector<void*> arguments{&out};
    const auto slow_code = with_range(looping(endless), &endless), fine_code = waiting(fine);
    cpu::Dispatch dispatch;
    dispatch.arguments = arguments;
    dispatch.grid = {64, 1, 1};
    dispatch.threadgroup = {64, 1, 1};
    for (int round = 0; round < 3; ++round) {
        dispatch.code = &slow_code;
        dispatch.time_limit = std::chrono::milliseconds(20);
        const auto fault = executor.run(dispatch);
        REQUIRE(fault);
        CHECK(fault->message.find("longer than the time limit of 0.02 s") != std::string::npos);
        dispatch.code = &fine_code;
        dispatch.time_limit = std::chrono::hours(1000000);
        CHECK_FALSE(executor.run(dispatch));
    }
}
