// Kernels that never end, work that is taken back, whose work goes first, and children of processes that use the device.
#include <atomic>
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

// Each for ever, in its own way.
const std::vector<std::string> endless_kernels{
    "kernel void endless(device uint* a) { while (true) {} }",
    "kernel void endless(device atomic_uint* a) { while (atomic_load_explicit(a, memory_order_relaxed) == 0) {} }",
    "kernel void endless(device uint* a, uint i [[thread_position_in_grid]]) { for (uint k = 0; k < 10; k += a[0]) a[i + 1] = "
    "k; }",
    "kernel void endless(device float* a) { float x = 0; while (x >= 0) { x = fabs(sin(x + 1)); a[1] = x; } }",
    R"(kernel void endless(device uint* a) {
        for (;;) { threadgroup_barrier(mem_flags::mem_device); a[1] = 1; } })",
    R"(kernel void endless(device float* a, uint lane [[thread_index_in_simdgroup]]) {
        float x = lane; do x = simd_sum(x) / 32; while (x >= 0); a[1] = x; })",
    R"(kernel void endless(device uint* a, uint i [[thread_index_in_threadgroup]]) {
        threadgroup uint shared[64]; shared[i] = i; threadgroup_barrier(mem_flags::mem_threadgroup);
        if (i == 5) while (a[0] == 0) a[1] = shared[3];
        threadgroup_barrier(mem_flags::mem_threadgroup); a[2] = 1; })",
};

void check_usable(const Queue& queue) {
    Buffer a = buffer_of(std::vector<std::uint32_t>(100));
    launch(adder(), std::tuple{a, 3u}, {.ndrange = {100}, .queue = &queue});
    queue.synchronize();
    CHECK(values_of<std::uint32_t>(a) == std::vector<std::uint32_t>(100, 3));
}

// Runs `function` in a child; its result is the exit status, -1 when it has to be killed.
template <class Function> int status_of_child(Function function) {
    const pid_t child = fork();
    if (child == 0) {
        int result = 100;
        try {
            result = function();
        } catch (...) {
        }
        _exit(result);
    }
    int status = -1;
    for (int i = 0; i < 2000 && waitpid(child, &status, WNOHANG) == 0; ++i)
        std::this_thread::sleep_for(10ms);
    if (!WIFEXITED(status)) {
        kill(child, SIGKILL);
        return -1;
    }
    return WEXITSTATUS(status);
}

template <class Function> bool is_refused(Function function) {
    try {
        function();
    } catch (const DeviceError& error) {
        return has(error.what(), "fork");
    }
    return false;
}

} // namespace

TEST_CASE("kernels that never end are stopped at the queue's time limit") {
    for (const std::string& source : endless_kernels) {
        CAPTURE(source);
        const Queue queue(default_device(), QueueOptions{.label = "limited", .time_limit = 30ms});
        CHECK(queue.time_limit() == 30ms);
        Buffer a = buffer_of(std::vector<std::uint32_t>(200));
        launch(kernel_of(source), std::tuple{a}, {.ndrange = {64}, .queue = &queue});
        CHECK(has(message_of<DeviceError>([&] { queue.synchronize(); }), "endless", "time limit of 0.03 s"));
        check_usable(queue);
    }
}

TEST_CASE("kernels that never end are stopped by cancel") {
    for (const std::string& source : endless_kernels) {
        CAPTURE(source);
        const Queue queue(default_device());
        Buffer a = buffer_of(std::vector<std::uint32_t>(200));
        launch(kernel_of(source), std::tuple{a}, {.ndrange = {64}, .queue = &queue});
        CHECK_FALSE(queue.synchronize_for(5ms));
        queue.cancel();
        CHECK(has(message_of<DeviceError>([&] { queue.synchronize(); }), "endless", "stopped"));
        check_usable(queue);
    }
}

TEST_CASE("cancelling drops what waits, lets others go on, and an idle queue does not mind") {
    const Queue queue(default_device()), other(default_device());
    queue.cancel();
    queue.synchronize();
    Buffer a = buffer_of(std::vector<std::uint32_t>(2)), b = buffer_of(std::vector<std::uint32_t>(2));
    launch(kernel_of(endless_kernels[1]), std::tuple{a}, {.ndrange = {1}, .queue = &queue});
    launch(adder(), std::tuple{b, 1u}, {.ndrange = {2}, .queue = &queue});
    other.wait_event(queue.record_event());
    launch(adder(), std::tuple{b, 10u}, {.ndrange = {2}, .queue = &other});
    CHECK_FALSE(other.synchronize_for(5ms));
    default_device().cancel(); // `other` waits for the event: that is given up as well
    CHECK_THROWS_AS(queue.synchronize(), DeviceError);
    CHECK_THROWS_AS(other.synchronize(), DeviceError);
    CHECK(values_of<std::uint32_t>(b) == std::vector<std::uint32_t>(2, 0));
    check_usable(queue);
    check_usable(other);
}

TEST_CASE("a waiting queue runs once the queue before it is cancelled") {
    const Queue first(default_device()), second(default_device());
    Buffer a = buffer_of(std::vector<std::uint32_t>(2)), b = buffer_of(std::vector<std::uint32_t>(2));
    launch(kernel_of(endless_kernels[1]), std::tuple{a}, {.ndrange = {1}, .queue = &first});
    second.wait_event(first.record_event());
    launch(adder(), std::tuple{b, 10u}, {.ndrange = {2}, .queue = &second});
    second.flush();
    first.cancel();
    second.synchronize();
    CHECK_THROWS_AS(first.synchronize(), DeviceError);
    CHECK(values_of<std::uint32_t>(b) == std::vector<std::uint32_t>(2, 10));
}

TEST_CASE("threads that cancel and limit each other's endless kernels") {
    std::vector<Kernel> kernels;
    for (const std::string& source : endless_kernels)
        kernels.push_back(kernel_of(source));
    const Kernel add = adder();
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (unsigned round = 0; round < 30; ++round) {
                const Queue queue(default_device());
                if ((round + t) % 3 == 0)
                    queue.set_time_limit(std::chrono::milliseconds(1 + round % 4));
                Buffer a = buffer_of(std::vector<std::uint32_t>(200)), b = buffer_of(std::vector<std::uint32_t>(64));
                launch(kernels[(round + t) % kernels.size()], std::tuple{a}, {.ndrange = {64}, .queue = &queue});
                launch(add, std::tuple{b, 1u}, {.ndrange = {64}, .queue = &queue});
                std::thread canceller;
                if ((round + t) % 3 != 0) {
                    canceller = std::thread([queue, round] {
                        std::this_thread::sleep_for(std::chrono::microseconds(round % 5 * 700));
                        queue.cancel();
                    });
                }
                CHECK_THROWS_AS(queue.synchronize(), DeviceError);
                if (canceller.joinable())
                    canceller.join();
                launch(add, std::tuple{b, 3u}, {.ndrange = {64}, .queue = &queue});
                try {
                    queue.synchronize(); // the canceller may have come twice as late
                } catch (const DeviceError&) {
                }
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    check_usable(Queue(default_device()));
}

TEST_CASE("other queues go on beside a kernel that never ends") {
    const Kernel endless = kernel_of(endless_kernels[1]), add = adder();
    Buffer flag = buffer_of(std::vector<std::uint32_t>(1)), b = buffer_of(std::vector<std::uint32_t>(8));
    for (int round = 0; round < 100; ++round) {
        const Queue stuck(default_device()), other(default_device());
        launch(endless, std::tuple{flag}, {.ndrange = {1}, .queue = &stuck});
        launch(add, std::tuple{b, 1u}, {.ndrange = {8}, .queue = &other});
        stuck.flush();
        other.flush(); // at once: the thread that has been woken for the first may not have come yet
        REQUIRE(other.synchronize_for(20s));
        stuck.cancel();
        CHECK_THROWS_AS(stuck.synchronize(), DeviceError);
    }
}

TEST_CASE("bad limits") {
    const Queue queue(default_device());
    CHECK(queue.time_limit() == 0ns);
    CHECK(has(message_of<ArgumentError>([&] { queue.set_time_limit(-1s); }), "set_time_limit", "negative"));
    queue.set_time_limit(std::chrono::nanoseconds::max());
    check_usable(queue);
    queue.set_time_limit(0s);
    check_usable(queue);
}

TEST_CASE("work of queues with a higher priority starts first") {
    // Occupies all that the device runs at once; the host opens the gates.
    const Kernel gate = kernel_of(R"(kernel void gate(device atomic_uint* a) {
        atomic_store_explicit(a, 1, memory_order_relaxed);
        while (atomic_load_explicit(a + 1, memory_order_relaxed) == 0) {} })");
    const Kernel record = kernel_of(R"(kernel void record(device atomic_uint* count, device uint* place) {
        place[0] = atomic_fetch_add_explicit(count, 1, memory_order_relaxed) + 1; })");
    std::vector<std::pair<Queue, Buffer>> gates;
    auto word = [](const Buffer& buffer, std::size_t i) {
        return std::atomic_ref<std::uint32_t>(static_cast<std::uint32_t*>(buffer.contents())[i]);
    };
    for (bool started = true; started;) {
        gates.emplace_back(Queue(default_device(), "gate"), buffer_of(std::vector<std::uint32_t>(2)));
        const auto& [queue, flags] = gates.back();
        launch(gate, std::tuple{flags}, {.ndrange = {1}, .queue = &queue});
        queue.flush();
        for (int i = 0; i < 1000 && word(flags, 0).load() == 0; ++i)
            std::this_thread::sleep_for(1ms);
        started = word(flags, 0).load() == 1;
    }
    gates.back().first.cancel(); // it never ran
    gates.pop_back();
    Buffer count = buffer_of(std::vector<std::uint32_t>(1)), places = buffer_of(std::vector<std::uint32_t>(3));
    const std::array levels{Priority::low, Priority::normal, Priority::high};
    std::vector<Queue> queues;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        queues.emplace_back(default_device(), QueueOptions{.label = {}, .priority = levels[i]});
        CHECK(queues.back().priority() == levels[i]);
        launch(record, std::tuple{count, places.slice(i * 4, 4)}, {.ndrange = {1}, .queue = &queues.back()});
        queues.back().flush();
    }
    word(gates[0].second, 1).store(1);
    while (word(count, 0).load() < 3)
        std::this_thread::sleep_for(1ms);
    for (const auto& [queue, flags] : gates)
        word(flags, 1).store(1);
    try {
        default_device().synchronize();
    } catch (const DeviceError&) { // of the gate that was dropped
    }
    CHECK(values_of<std::uint32_t>(places) == std::vector<std::uint32_t>{3, 2, 1});
}

TEST_CASE("a child process is told that it cannot use the parent's device, whatever it calls") {
    const Kernel add = adder();
    const Queue queue(default_device()), full(default_device());
    Buffer a = buffer_of(std::vector<std::uint32_t>(8)), b = buffer_of(std::vector<std::uint32_t>(8));
    launch(kernel_of(endless_kernels[1]), std::tuple{b}, {.ndrange = {1}, .queue = &full});
    launch(add, std::tuple{a, 1u}, {.ndrange = {8}, .queue = &queue});
    const Event event = queue.record_event();
    const std::vector<std::function<void()>> calls{
        [&] { launch(add, std::tuple{a, 1u}, {.ndrange = {8}}); },
        [&] { launch(add, std::tuple{a, 1u}, {.ndrange = {8}, .queue = &queue}); },
        [&] { queue.synchronize(); },
        [&] { full.synchronize(); },
        [&] { full.cancel(); },
        [&] { Queue(default_device()).synchronize(); },
        [&] { default_device().synchronize(); },
        [&] { default_device().synchronize_for(1ms); },
        [&] { queue.flush(); },
        [&] { queue.record_event(); },
        [&] { Queue(default_device()).wait_event(event); },
        [&] { queue.on_complete([] {}); },
        [&] { copy(a, b, queue); },
        [&] { copy(a, "12345678901234567890123456789012", 32, queue); },
        [&] { fill(a, 1, queue); },
        [&] { (void)default_device().allocate(100); },
        [&] { (void)Queue(default_device()); },
        [&] { (void)Texture(default_device(), TextureOptions{}); },
        [&] { (void)Sampler(default_device(), SamplerOptions{}); },
    };
    for (std::size_t i = 0; i < calls.size(); ++i) {
        CAPTURE(i);
        CHECK(status_of_child([&] { return is_refused(calls[i]) ? 0 : 1; }) == 0);
    }
    // The child may exit in the ordinary way.
    CHECK(status_of_child([&] {
              std::exit(is_refused(calls[0]) ? 0 : 1);
              return 2;
          }) == 0);
    full.cancel();
    CHECK_THROWS_AS(full.synchronize(), DeviceError);
    check_usable(queue);
}
