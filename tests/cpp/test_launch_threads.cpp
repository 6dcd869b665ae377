// Launches from several threads, for the thread sanitizer above all: own queues, one queue, events, callbacks, frees.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <thread>
#include <tuple>
#include <vector>

#include "metalki/metalki.hpp"

namespace {

using namespace metalki;

constexpr int threads = 4;

Library library() {
    static const Library compiled = default_device().compile(R"(
#include <metal_stdlib>
using namespace metal;
kernel void step(device uint* a, constant uint& factor, constant uint& term, uint i [[thread_position_in_grid]]) {
    a[i] = a[i] * factor + term;
}
kernel void count(device atomic_uint* total, constant uint& amount) {
    atomic_fetch_add_explicit(total, amount, memory_order_relaxed);
}
)");
    return compiled;
}

// Calls work(0), work(1), ... at once, each in a thread.
template <class Work> void in_threads(Work work) {
    std::barrier ready(threads);
    std::vector<std::thread> running;
    for (int number = 0; number < threads; ++number)
        running.emplace_back([&, number] {
            ready.arrive_and_wait();
            work(number);
        });
    for (std::thread& thread : running)
        thread.join();
}

Buffer zeros(std::size_t count) {
    Buffer buffer = default_device().allocate(count * sizeof(std::uint32_t));
    std::memset(buffer.contents(), 0, count * sizeof(std::uint32_t));
    return buffer;
}

std::uint32_t first(const Buffer& buffer) {
    std::uint32_t value;
    std::memcpy(&value, buffer.contents(), sizeof value);
    return value;
}

std::uint32_t expected(int steps) {
    std::uint32_t value = 0;
    for (int i = 0; i < steps; ++i)
        value = value * 3 + static_cast<std::uint32_t>(i);
    return value;
}

} // namespace

TEST_CASE("threads on queues of their own") {
    const Kernel step = library().kernel("step");
    std::atomic<int> right{0};
    in_threads([&](int number) {
        const Queue& queue = global_queue(default_device());
        const Buffer a = zeros(3);
        for (int i = 0; i < 700; ++i) {
            launch(step, std::tuple{a, 3, i}, {.ndrange = {3}});
            if (i % 61 == number)
                queue.synchronize();
        }
        queue.synchronize();
        right += first(a) == expected(700);
    });
    CHECK(right == threads);
}

TEST_CASE("threads on one queue") {
    const Kernel step = library().kernel("step"), count = library().kernel("count");
    const Queue queue(default_device(), "shared");
    const Buffer total = zeros(1);
    std::atomic<int> right{0};
    in_threads([&](int number) {
        const Buffer a = zeros(1);
        for (int i = 0; i < 400; ++i) {
            launch(step, std::tuple{a, 3, i}, {.ndrange = {1}, .queue = &queue});
            launch(count, std::tuple{total, 1}, {.ndrange = {2}, .queue = &queue});
            if (i % 53 == number)
                queue.synchronize();
            else if (i % 53 == number + threads)
                queue.flush();
        }
        queue.synchronize();
        right += first(a) == expected(400);
    });
    CHECK(right == threads);
    CHECK(first(total) == threads * 400 * 2);
}

TEST_CASE("events, callbacks and buffers that go, from several threads") {
    const Kernel step = library().kernel("step");
    const Queue shared(default_device(), "shared");
    std::atomic<int> right{0}, called{0};
    in_threads([&](int) {
        const Queue own(default_device());
        const Buffer a = zeros(1);
        for (int i = 0; i < 100; ++i) {
            const Queue& queue = i % 2 ? own : shared;
            const Queue& before = i % 2 ? shared : own;
            queue.wait_event(before.record_event());
            launch(step, std::tuple{a, 3, i}, {.ndrange = {1}, .queue = &queue});
            launch(step, std::tuple{zeros(8), 1, i}, {.ndrange = {8}, .queue = &queue});
            if (i % 10 == 0)
                queue.on_complete([&] { ++called; });
        }
        own.synchronize();
        right += first(a) == expected(100);
    });
    shared.synchronize();
    CHECK(right == threads);
    CHECK(called == threads * 10);
}

TEST_CASE("one thread waits while others launch") {
    const Kernel count = library().kernel("count");
    const Queue queue(default_device());
    const Buffer total = zeros(1);
    in_threads([&](int number) {
        for (int i = 0; i < 300; ++i) {
            if (number == 0) {
                queue.synchronize();
                default_device().synchronize();
            } else {
                launch(count, std::tuple{total, 1}, {.ndrange = {1}, .queue = &queue});
            }
        }
    });
    queue.synchronize();
    CHECK(queue.is_idle());
    CHECK(first(total) == (threads - 1) * 300);
}
