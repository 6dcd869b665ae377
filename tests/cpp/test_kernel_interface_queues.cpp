// Queues, events, callbacks, and what the device reports.
#include <atomic>
#include <chrono>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "kernel_interface_fixture.hpp"

using namespace metalki;
using namespace std::chrono_literals;

namespace {

Kernel adder() {
    return kernel_of("kernel void adder(device uint* a, constant uint& n, uint i [[thread_position_in_grid]]) { a[i] += n; }");
}
// Takes some tens of milliseconds.
Kernel slow() {
    return kernel_of(R"(
kernel void slow(device uint* a, constant uint& rounds) {
    uint x = a[0];
    for (uint i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
    a[1] = x; a[0] += 1;
})");
}
Kernel faulting() {
    return kernel_of("kernel void wild_pointer(device ulong* where) { *(device uint*)(where[0]) = 1; }");
}

void fault(const Queue& queue) {
    launch(faulting(), std::tuple{buffer_of(std::vector<std::uint64_t>{16})}, {.ndrange = {1}, .queue = &queue});
}

} // namespace

TEST_CASE("work on one queue runs in order") {
    const Kernel add = adder();
    const Kernel twice = kernel_of("kernel void twice(device uint* a, uint i [[thread_position_in_grid]]) { a[i] *= 2; }");
    const Queue queue(default_device(), "mine");
    CHECK(queue.label() == "mine");
    Buffer a = buffer_of(std::vector<std::uint32_t>(8));
    for (int i = 0; i < 10; ++i) {
        launch(add, std::tuple{a, 1u}, {.ndrange = {8}, .queue = &queue});
        launch(twice, std::tuple{a}, {.ndrange = {8}, .queue = &queue});
    }
    queue.synchronize();
    CHECK(static_cast<std::uint32_t*>(a.contents())[7] == 2046);
}

TEST_CASE("what nobody waits for runs as well") {
    const Kernel add = adder();
    Buffer a = buffer_of(std::vector<std::uint32_t>(1));
    launch(add, std::tuple{a, 1u}, {.ndrange = {1}});
    const auto* value = static_cast<volatile std::uint32_t*>(a.contents());
    for (int i = 0; i < 1000 && *value == 0; ++i)
        std::this_thread::sleep_for(1ms);
    CHECK(*value == 1);
    // Also when the queue's handle is gone at once.
    Buffer b = buffer_of(std::vector<std::uint32_t>(1));
    {
        const Queue queue(default_device());
        launch(add, std::tuple{b, 1u}, {.ndrange = {1}, .queue = &queue});
    }
    default_device().synchronize();
    CHECK(*static_cast<std::uint32_t*>(b.contents()) == 1);
}

TEST_CASE("one queue waits for another on the device") {
    const Kernel long_kernel = slow(), add = adder();
    const Queue first(default_device()), second(default_device());
    Buffer a = buffer_of(std::vector<std::uint32_t>{0, 0});
    for (int round = 0; round < 20; ++round) {
        launch(long_kernel, std::tuple{a, 2'000'000u}, {.ndrange = {1}, .queue = &first});
        const Event done = first.record_event();
        second.wait_event(done);
        launch(add, std::tuple{a, 10u}, {.ndrange = {1}, .queue = &second});
        const Event added = second.record_event();
        first.wait_event(added);
    }
    first.synchronize();
    second.synchronize();
    CHECK(values_of<std::uint32_t>(a)[0] == 20 * 11);
    const Event idle = first.record_event();
    first.synchronize();
    CHECK(idle.is_complete());
    second.wait_event(idle); // nothing to wait for
    second.synchronize();
}

TEST_CASE("spawned work follows the spawner's, and the spawner's what it waits for") {
    const Kernel long_kernel = slow(), add = adder();
    Buffer a = buffer_of(std::vector<std::uint32_t>{0, 0}), b = buffer_of(std::vector<std::uint32_t>{0, 0});
    const Kernel move = kernel_of("kernel void move(device uint* to, device const uint* from) { to[0] = from[0] + 1; }");
    launch(long_kernel, std::tuple{a, 400'000'000u}, {.ndrange = {1}});
    const Event before = global_queue(default_device()).record_event();
    const Queue* mine = &global_queue(default_device());
    auto task = spawn([&] {
        CHECK_FALSE(global_queue(default_device()) == *mine);
        launch(move, std::tuple{b, a}, {.ndrange = {1}});
        return std::string("done");
    });
    task.wait();
    launch(move, std::tuple{a, b}, {.ndrange = {1}});
    CHECK_FALSE(before.is_complete()); // neither thread has waited for the device
    CHECK(task.result() == "done");
    CHECK(values_of<std::uint32_t>(a)[0] == 3);
    auto failing = spawn([] { throw std::runtime_error("lost"); });
    CHECK(message_of<std::runtime_error>([&] { failing.wait(); }) == "lost");
    auto moved = std::move(failing);
    auto nothing = spawn([] {});
    nothing.wait();
    spawn([&] { launch(add, std::tuple{a, 4u}, {.ndrange = {1}}); }).wait();
    CHECK(values_of<std::uint32_t>(a)[0] == 7);
}

TEST_CASE("waiting with a time limit") {
    const Kernel long_kernel = slow();
    const Queue queue(default_device());
    Buffer a = buffer_of(std::vector<std::uint32_t>{0, 0});
    // Known to be short at first, then long: the limit holds all the same.
    launch(long_kernel, std::tuple{a, 1u}, {.ndrange = {1}, .queue = &queue});
    CHECK(queue.synchronize_for(10s));
    launch(long_kernel, std::tuple{a, 1u}, {.ndrange = {1}, .queue = &queue});
    CHECK(queue.synchronize_for(10s));
    launch(long_kernel, std::tuple{a, 400'000'000u}, {.ndrange = {1}, .queue = &queue});
    const auto start = std::chrono::steady_clock::now();
    CHECK_FALSE(queue.synchronize_for(1ms));
    CHECK(std::chrono::steady_clock::now() - start < 100ms);
    CHECK_FALSE(default_device().synchronize_for(1ms));
    queue.synchronize();
    CHECK(queue.synchronize_for(0ns));
}

TEST_CASE("callbacks run when everything before is done") {
    const Kernel add = adder();
    const Queue queue(default_device());
    Buffer a = buffer_of(std::vector<std::uint32_t>(1));
    std::atomic<std::uint32_t> seen{0};
    launch(add, std::tuple{a, 5u}, {.ndrange = {1}, .queue = &queue});
    queue.on_complete([&] { seen = *static_cast<std::uint32_t*>(a.contents()); });
    queue.synchronize();
    CHECK(seen == 5);
    // One that launches again.
    queue.on_complete([&] { launch(add, std::tuple{a, 1u}, {.ndrange = {1}, .queue = &queue}); });
    queue.synchronize();
    queue.synchronize();
    CHECK(*static_cast<std::uint32_t*>(a.contents()) == 6);
    queue.on_complete([] { throw std::runtime_error("from the callback"); });
    CHECK(has(message_of<DeviceError>([&] { queue.synchronize(); }), "from the callback"));
    CHECK_THROWS_AS(queue.on_complete({}), ArgumentError);
}

TEST_CASE("a fault is reported once, with the kernel's name, and the device goes on") {
    const Kernel add = adder();
    const Queue queue(default_device());
    fault(queue);
    const std::string message = message_of<DeviceError>([&] { queue.synchronize(); });
    CAPTURE(message);
    CHECK(has(message, "wild_pointer"));
    CHECK(message.find("wild_pointer") == message.rfind("wild_pointer"));
    queue.synchronize();
    Buffer a = buffer_of(std::vector<std::uint32_t>(4));
    launch(add, std::tuple{a, 3u}, {.ndrange = {4}, .queue = &queue});
    queue.synchronize();
    CHECK(values_of<std::uint32_t>(a) == std::vector<std::uint32_t>(4, 3));
}

TEST_CASE("the device waits for all its queues, also when one has failed") {
    const Kernel long_kernel = slow();
    const Queue bad(default_device()), good(default_device());
    Buffer a = buffer_of(std::vector<std::uint32_t>{0, 0});
    fault(bad);
    launch(long_kernel, std::tuple{a, 50'000'000u}, {.ndrange = {1}, .queue = &good});
    CHECK(has(message_of<DeviceError>([] { default_device().synchronize(); }), "wild_pointer"));
    CHECK(*static_cast<std::uint32_t*>(a.contents()) == 1);
    default_device().synchronize();
}

TEST_CASE("a fault of a queue that is gone is reported by the device") {
    {
        const Queue queue(default_device());
        fault(queue);
        queue.flush();
    }
    std::this_thread::sleep_for(20ms);
    CHECK(has(message_of<DeviceError>([] { default_device().synchronize(); }), "wild_pointer"));
    default_device().synchronize();
}

TEST_CASE("thousands of queues") {
    const Kernel add = adder();
    Buffer a = buffer_of(std::vector<std::uint32_t>(1));
    for (int i = 0; i < 3000; ++i) {
        const Queue queue(default_device());
        if (i % 10 == 0) {
            launch(add, std::tuple{a, 1u}, {.ndrange = {1}, .queue = &queue});
            queue.synchronize();
        }
    }
    CHECK(values_of<std::uint32_t>(a)[0] == 300);
}

TEST_CASE("a child process is told that it cannot use the parent's device") {
    global_queue(default_device()).synchronize();
    const Kernel add = adder();
    Buffer a = buffer_of(std::vector<std::uint32_t>(1));
    launch(add, std::tuple{a, 1u}, {.ndrange = {1}});
    default_device().synchronize();
    const pid_t child = fork();
    if (child == 0) {
        int result = 1;
        try {
            launch(add, std::tuple{a, 1u}, {.ndrange = {1}});
            global_queue(default_device()).synchronize();
            result = 2;
        } catch (const DeviceError& error) {
            result = has(error.what(), "fork") ? 0 : 3;
        } catch (...) {
            result = 4;
        }
        _exit(result);
    }
    int status = -1;
    for (int i = 0; i < 500 && waitpid(child, &status, WNOHANG) == 0; ++i)
        std::this_thread::sleep_for(10ms);
    if (!WIFEXITED(status))
        kill(child, SIGKILL);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("idle queues cost nothing where the device is waited for") {
    const Device device = default_device();
    Buffer a = buffer_of(std::vector<std::uint32_t>(1));
    const auto shortest_wait = [&] {
        auto shortest = std::chrono::nanoseconds::max();
        for (int i = 0; i < 200; ++i) {
            const auto start = std::chrono::steady_clock::now();
            device.synchronize();
            shortest = std::min<std::chrono::nanoseconds>(shortest, std::chrono::steady_clock::now() - start);
        }
        return shortest;
    };
    const auto before = shortest_wait();
    std::vector<Queue> queues;
    for (int i = 0; i < 3000; ++i)
        queues.emplace_back(device);
    for (const Queue& queue : queues)
        launch(adder(), std::tuple{a, 0u}, {.ndrange = {1}, .queue = &queue});
    device.synchronize();
    CHECK(shortest_wait() < 20 * before + 2us);
}

TEST_CASE("waiting for the device sees the work of queues that were idle before, in all threads") {
    const Device device = default_device();
    std::vector<std::jthread> threads;
    std::atomic<int> missed{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            const Queue queue(device);
            const Kernel add = adder();
            Buffer a = buffer_of(std::vector<std::uint32_t>(1));
            for (std::uint32_t i = 1; i <= 2000; ++i) {
                launch(add, std::tuple{a, 1u}, {.ndrange = {1}, .queue = &queue});
                device.synchronize();
                missed += *static_cast<std::uint32_t*>(a.contents()) != i;
            }
        });
    threads.clear();
    CHECK(missed == 0);
}
