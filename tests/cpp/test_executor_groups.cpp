// Grids, barriers, threadgroup memory, stacks, concurrency and memory use of the executor.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <fstream>
#include <thread>

#include <unistd.h>

#include "executor_fixture.hpp"

using namespace executor_test;

namespace {

void count_threads(const ThreadgroupContext* c) {
    auto* counts = argument<std::atomic<unsigned char>>(c, 0);
    const Uint3 &p = c->threadgroup_position, &t = c->threads_per_threadgroup, &s = c->threads_in_this_threadgroup;
    const Uint3& grid = c->threads_per_grid;
    for (uint32_t z = 0; z < s.z; ++z)
        for (uint32_t y = 0; y < s.y; ++y)
            for (uint32_t x = 0; x < s.x; ++x) {
                const std::size_t row = std::size_t{p.z * t.z + z} * grid.y + p.y * t.y + y;
                ++counts[row * grid.x + p.x * t.x + x];
            }
}

void count_thread(const ThreadgroupContext* c, uint32_t x, uint32_t y, uint32_t z) {
    ThreadgroupContext one = *c;
    const Uint3 &p = c->threadgroup_position, &t = c->threads_per_threadgroup, &grid = c->threads_per_grid;
    const std::size_t row = std::size_t{p.z * t.z + z} * grid.y + p.y * t.y + y;
    barrier(1);
    ++argument<std::atomic<unsigned char>>(&one, 0)[row * grid.x + p.x * t.x + x];
}

// Reverses each threadgroup through static memory and adds what the neighbour left in dynamic memory.
void exchange(const ThreadgroupContext* c, uint32_t x, uint32_t y, uint32_t z) {
    const uint32_t i = index_of(c, x, y, z), n = c->threads_in_this_threadgroup.x;
    auto* own = static_cast<uint32_t*>(c->static_threadgroup_memory);
    auto* given = argument<uint32_t>(c, 1);
    auto* out = argument<uint32_t>(c, 0) + c->threadgroup_position.x * c->threads_per_threadgroup.x;
    for (uint32_t round = 0; round < 3; ++round) {
        own[i] = i + round;
        given[i] = i * 2;
        barrier(1);
        out[i] = own[n - 1 - i] + given[(i + 1) % n];
        barrier(2);
    }
}

void early_return(const ThreadgroupContext* c, uint32_t x, uint32_t, uint32_t) {
    if (x % 3 == 0)
        return;
    barrier(1);
    argument<uint32_t>(c, 0)[x] = static_cast<uint32_t>(simd(2, SimdOp::sum, SimdType::u32, 32, 1));
}

constexpr std::size_t large = std::size_t{4} << 20;

void large_array(const ThreadgroupContext* c, uint32_t x, uint32_t, uint32_t) {
    volatile unsigned char bytes[large];
    for (std::size_t i = 0; i < large; i += 65536)
        bytes[i] = static_cast<unsigned char>(x);
    barrier(1);
    uint32_t wrong = 0;
    for (std::size_t i = 0; i < large; i += 65536)
        wrong += bytes[i] != static_cast<unsigned char>(x);
    argument<uint32_t>(c, 0)[x] = wrong + 1;
}

void large_array_loop(const ThreadgroupContext* c) {
    volatile unsigned char bytes[large * 4];
    for (std::size_t i = 0; i < sizeof bytes; i += 4096)
        bytes[i] = 1;
    argument<uint32_t>(c, 0)[c->threadgroup_position.x] = bytes[4096];
}

std::size_t resident_bytes() {
    std::size_t total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void third(const ThreadgroupContext* c) {
    volatile float one = 1, three = 3;
    *argument<float>(c, 0) = one / three;
}

void check_alignment(const ThreadgroupContext* c, uint32_t x, uint32_t, uint32_t) {
    argument<uint32_t>(c, 0)[x] = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) % 16 == 0;
    barrier(1);
}
void check_alignment_loop(const ThreadgroupContext* c) {
    check_alignment(c, c->threadgroup_position.x, 0, 0);
}

} // namespace

TEST_CASE("kernels start with an aligned stack") {
    cpu::Executor executor(1);
    std::vector<uint32_t> out(32);
    REQUIRE_FALSE(launch(executor, waiting(check_alignment), {32, 1, 1}, {32, 1, 1}, {out.data()}));
    for (std::size_t i = 0; i < 32; ++i)
        CHECK(out[i] == 1);
    REQUIRE_FALSE(launch(executor, looping(check_alignment_loop), {32, 1, 1}, {1, 1, 1}, {out.data()}));
    for (std::size_t i = 0; i < 32; ++i)
        CHECK(out[i] == 1);
}

TEST_CASE("every thread of a grid runs once, whatever the shapes") {
    cpu::Executor executor(4);
    for (const Uint3 grid : {Uint3{1, 1, 1}, {1000, 1, 1}, {33, 17, 5}, {7, 1, 300}, {100000, 1, 1}, {1, 999, 1}})
        for (const Uint3 threads : {Uint3{1, 1, 1}, {32, 1, 1}, {256, 1, 1}, {8, 8, 4}, {5, 3, 2}, {1, 1, 1024}})
            for (const auto& code : {looping(count_threads), waiting(count_thread)}) {
                std::vector<std::atomic<unsigned char>> counts(std::size_t{grid.x} * grid.y * grid.z);
                REQUIRE_FALSE(launch(executor, code, grid, threads, {counts.data()}));
                std::size_t wrong = 0;
                for (const auto& count : counts)
                    wrong += count != 1;
                CHECK(wrong == 0);
            }
}

namespace {

// Counts the visits of each thread, by its number in the grid, and the pieces of rows that they come in.
void count_row(const ThreadgroupContext* c, uint32_t x, uint32_t count, uint32_t y, uint32_t z) {
    auto* visits = argument<std::atomic<uint32_t>>(c, 0);
    const Uint3& grid = c->threads_per_grid;
    const uint64_t first = x + std::uint64_t{grid.x} * (y + std::uint64_t{grid.y} * z);
    for (uint64_t i = first; i < first + count; ++i)
        ++visits[i];
    ++*argument<std::atomic<uint32_t>>(c, 1);
}

} // namespace

TEST_CASE("rows of the grid come in pieces that can be shared, each thread once") {
    cpu::Executor executor(4);
    for (const Uint3 grid : {Uint3{5, 1, 1}, Uint3{8192, 1, 1}, Uint3{16384, 1, 1}, Uint3{100000, 1, 1}, Uint3{64, 64, 1},
                             Uint3{31, 7, 300}, Uint3{20001, 3, 2}}) {
        for (unsigned axes : {1u, 2u, 3u}) {
            CAPTURE(grid.x);
            CAPTURE(axes);
            compiler::KernelCode code;
            code.function.name = "rows";
            code.run_rows = count_row;
            code.axes_in_row = axes;
            const std::size_t threads = std::size_t{grid.x} * grid.y * grid.z;
            std::vector<std::atomic<uint32_t>> visits(threads);
            std::atomic<uint32_t> pieces = 0;
            CHECK(!launch(executor, code, grid, {32, 1, 1}, {visits.data(), &pieces}));
            CHECK(std::ranges::all_of(visits, [](const auto& count) { return count == 1; }));
            CHECK(pieces >= std::min<std::size_t>(threads / 1024, 12));
        }
    }
}

TEST_CASE("an empty grid does nothing and bad threadgroups are refused") {
    cpu::Executor executor(2);
    const auto code = looping(count_threads);
    CHECK_FALSE(launch(executor, code, {0, 1, 1}, {32, 1, 1}, {nullptr}));
    CHECK_FALSE(launch(executor, code, {5, 5, 0}, {32, 1, 1}, {nullptr}));
    CHECK(launch(executor, code, {5, 5, 5}, {0, 1, 1}, {nullptr}));
    CHECK(launch(executor, code, {5, 5, 5}, {1025, 1, 1}, {nullptr}));
    CHECK(launch(executor, code, {5, 5, 5}, {65536, 65536, 1}, {nullptr}));
    CHECK(launch(executor, code, {~0u, ~0u, ~0u}, {1, 1, 1}, {nullptr}));
}

TEST_CASE("barriers order accesses to threadgroup memory for 1 to 1024 threads") {
    cpu::Executor executor(2);
    for (const uint32_t threads : {1u, 2u, 31u, 32u, 33u, 256u, 1000u, 1024u}) {
        std::vector<uint32_t> out(5000);
        const auto code = waiting(exchange, threads * 4);
        const std::vector<void*> arguments{out.data(), nullptr};
        const cpu::ThreadgroupArgument memory{1, threads * 4};
        cpu::Dispatch dispatch;
        dispatch.code = &code;
        dispatch.arguments = arguments;
        dispatch.threadgroup_arguments = {&memory, 1};
        dispatch.grid = {5000, 1, 1};
        dispatch.threadgroup = {threads, 1, 1};
        REQUIRE_FALSE(executor.run(dispatch));
        for (uint32_t p = 0; p < 5000; ++p) {
            const uint32_t base = p / threads * threads, i = p - base, n = std::min(threads, 5000 - base);
            REQUIRE(out[p] == n - 1 - i + 2 + (i + 1) % n * 2);
        }
    }
}

TEST_CASE("threads that have returned do not hold back a barrier or a SIMD-group") {
    cpu::Executor executor(1);
    std::vector<uint32_t> out(96);
    REQUIRE_FALSE(launch(executor, waiting(early_return), {96, 1, 1}, {96, 1, 1}, {out.data()}));
    for (uint32_t x = 0; x < 96; ++x) {
        uint32_t active = 0;
        for (uint32_t other = x / 32 * 32; other < x / 32 * 32 + 32; ++other)
            active += other % 3 != 0;
        CHECK(out[x] == (x % 3 == 0 ? 0 : active));
    }
}

TEST_CASE("large private arrays work and their memory is given back") {
    cpu::Executor executor(2);
    std::vector<uint32_t> out(1024);
    auto code = waiting(large_array);
    code.stack_size = large + 4096;
    REQUIRE_FALSE(launch(executor, code, {1024, 1, 1}, {1024, 1, 1}, {out.data()}));
    for (const uint32_t value : out)
        REQUIRE(value == 1);
    auto loop = looping(large_array_loop);
    loop.stack_size = large * 4 + 4096;
    REQUIRE_FALSE(launch(executor, loop, {10, 1, 1}, {1, 1, 1}, {out.data()}));
    code.stack_size = std::size_t{1} << 60;
    CHECK(launch(executor, code, {1, 1, 1}, {1, 1, 1}, {out.data()}));
}

TEST_CASE("thousands of dispatches from eight threads are right and leave memory flat") {
    cpu::Executor executor(4);
    const auto work = [&] {
        std::vector<std::atomic<unsigned char>> counts(3000);
        const auto loop = looping(count_threads), fibers = waiting(count_thread);
        for (int i = 0; i < 100; ++i) {
            REQUIRE_FALSE(launch(executor, i % 2 == 0 ? loop : fibers, {3000, 1, 1}, {64, 1, 1}, {counts.data()}));
            for (auto& count : counts)
                if (count.exchange(0) != 1)
                    FAIL("a thread ran more or less than once");
        }
    };
    const auto all_threads = [&] {
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back(work);
        for (std::thread& thread : threads)
            thread.join();
    };
    all_threads();
    all_threads();
    const std::size_t before = resident_bytes();
    all_threads();
    all_threads();
    CHECK(resident_bytes() < before + (std::size_t{8} << 20));
}

TEST_CASE("kernels round to nearest and the caller's rounding stays") {
    cpu::Executor executor(1);
    float result = 0;
    std::fesetround(FE_UPWARD);
    const auto fault = launch(executor, looping(third), {1, 1, 1}, {1, 1, 1}, {&result});
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK_FALSE(fault);
    CHECK(after == FE_UPWARD);
    CHECK(result == 0x1.555556p-2f);
}

TEST_CASE("the number of threads can be set from outside") {
    setenv("METALKI_NUM_THREADS", "3", 1);
    CHECK(cpu::usable_cores() == 3);
    setenv("METALKI_NUM_THREADS", "none", 1);
    CHECK(cpu::usable_cores() >= 1);
    unsetenv("METALKI_NUM_THREADS");
}
