// Launching allocates nothing: neither with new nor with malloc, on no thread, once the memory of a queue has been made.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "metalki/metalki.hpp"

namespace {
std::atomic<long> allocations{0};
}

// glibc's own names, behind those that every library of the process now finds here.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_realloc(block, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    return memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}
}

namespace {

using namespace metalki;

// Of `work`, once all lists have their size. The fewest of several times: how many command buffers are under way at once, and
// so how many there are to be kept, is up to the machine.
template <class Work> long allocations_of(Work work) {
    long fewest = std::numeric_limits<long>::max();
    for (int i = 0; i < 12; ++i) {
        const long before = allocations.load();
        work();
        fewest = std::min(fewest, allocations.load() - before);
    }
    return fewest;
}

Kernel many_arguments(const Device& device) {
    std::string parameters, sum;
    for (int i = 0; i < 14; ++i) {
        parameters +=
            (i ? ", device float* b" : "device float* b") + std::to_string(i) + ", constant float& n" + std::to_string(i);
        sum += (i ? " + n" : "n") + std::to_string(i);
    }
    return device.compile("kernel void many(" + parameters + ") { b0[0] = " + sum + "; }").kernel();
}

} // namespace

TEST_CASE("the counter counts") {
    CHECK(allocations_of([] {
              void* volatile block = std::malloc(8);
              std::free(block);
          }) == 1);
    CHECK(allocations_of([] { std::vector<char> characters(1000, 'x'); }) == 1);
}

TEST_CASE("launching an empty kernel") {
    const Device device = default_device();
    const Queue queue(device);
    const Kernel empty = device.compile("kernel void empty() {}").kernel();
    CHECK(allocations_of([&] {
              for (int i = 0; i < 1000; ++i)
                  launch(empty, std::tuple{}, {.ndrange = {1}, .queue = &queue});
              queue.synchronize();
          }) == 0);
}

TEST_CASE("launching a kernel with 28 arguments") {
    const Device device = default_device();
    const Queue queue(device);
    const Kernel many = many_arguments(device);
    std::vector<Buffer> b;
    for (int i = 0; i < 14; ++i)
        b.push_back(device.allocate(256));
    CHECK(allocations_of([&] {
              for (int i = 0; i < 1000; ++i)
                  launch(many,
                         std::tuple{b[0], 1,    b[1], 2.5f, b[2], 3,    b[3],  4.5f, b[4],  5,    b[5],  6.5f, b[6],  7,
                                    b[7], 8.5f, b[8], 9,    b[9], 10.5, b[10], 11,   b[11], 12.5, b[12], 13,   b[13], 14.5f},
                         {.ndrange = {1}, .queue = &queue});
              queue.synchronize();
          }) == 0);
    CHECK(static_cast<float*>(b[0].contents())[0] ==
          1 + 2.5f + 3 + 4.5f + 5 + 6.5f + 7 + 8.5f + 9 + 10.5f + 11 + 12.5f + 13 + 14.5f);
}

TEST_CASE("launching and waiting") {
    const Device device = default_device();
    const Queue queue(device);
    const Kernel empty = device.compile("kernel void empty() {}").kernel();
    CHECK(allocations_of([&] {
              for (int i = 0; i < 200; ++i) {
                  launch(empty, std::tuple{}, {.ndrange = {1}, .queue = &queue});
                  queue.synchronize();
              }
          }) == 0);
    CHECK(allocations_of([&] { queue.synchronize(); }) == 0);
}
