// Launches, values, copies and fills.
#include <array>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <thread>

#include <unistd.h>

#include "kernel_interface_fixture.hpp"

using namespace metalki;

namespace {

std::vector<std::uint32_t> counted(std::size_t count) {
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), 0u);
    return values;
}

const char* const coordinates = R"(
kernel void where(device uint* out, constant uint3& size, uint3 p [[thread_position_in_grid]]) {
    out[(p.z * size.y + p.y) * size.x + p.x] += 1 + p.x + 100 * p.y + 10000 * p.z;
})";

} // namespace

TEST_CASE("exactly the threads of the ndrange run") {
    const Kernel kernel = kernel_of(coordinates);
    struct Case {
        Extents ndrange, workgroupsize;
    };
    for (const Case& c : {Case{{77}, {}}, Case{{129}, {64}}, Case{{7, 5}, {4, 4}}, Case{{33, 3, 5}, {}},
                          Case{{5, 6, 7}, {2, 4, 3}}, Case{{1, 1, 1}, {8, 8, 8}}}) {
        const std::array<std::uint32_t, 4> size{static_cast<std::uint32_t>(c.ndrange.x()),
                                                static_cast<std::uint32_t>(c.ndrange.y()),
                                                static_cast<std::uint32_t>(c.ndrange.z()), 0};
        Buffer out = buffer_of(std::vector<std::uint32_t>(size[0] * size[1] * size[2]));
        launch(kernel, std::tuple{out, size}, {.ndrange = c.ndrange, .workgroupsize = c.workgroupsize});
        const auto values = values_of<std::uint32_t>(out);
        std::size_t i = 0;
        for (std::uint32_t z = 0; z < size[2]; ++z)
            for (std::uint32_t y = 0; y < size[1]; ++y)
                for (std::uint32_t x = 0; x < size[0]; ++x)
                    CHECK(values[i++] == 1 + x + 100 * y + 10000 * z);
    }
}

TEST_CASE("work-groups by number") {
    const Kernel kernel = kernel_of(coordinates);
    Buffer out = buffer_of(std::vector<std::uint32_t>(12));
    launch(kernel, std::tuple{out, std::array<std::uint32_t, 4>{12, 1, 1, 0}}, {.numworkgroups = {3}, .workgroupsize = {4}});
    CHECK(values_of<std::uint32_t>(out)[11] == 12);
}

TEST_CASE("the configuration that a launch chooses") {
    const Kernel kernel = kernel_of(coordinates);
    for (const Extents& ndrange : {Extents(1), Extents(100), Extents(1 << 20), Extents(3, 1000), Extents(1000, 3, 7)}) {
        const LaunchConfiguration c = launch_configuration(kernel, ndrange);
        std::uint64_t threads = 1;
        for (std::size_t axis = 0; axis < 3; ++axis) {
            threads *= c.workgroupsize.size[axis];
            CHECK(c.workgroupsize.size[axis] <= ndrange.size[axis]);
            CHECK(c.numworkgroups.size[axis] * c.workgroupsize.size[axis] >= ndrange.size[axis]);
            CHECK((c.numworkgroups.size[axis] - 1) * c.workgroupsize.size[axis] < ndrange.size[axis]);
        }
        CHECK(threads <= kernel.max_total_threads_per_threadgroup());
    }
    CHECK(launch_configuration(kernel, Extents(1 << 20), 48).workgroupsize.x() <= 48);
    CHECK(launch_configuration(kernel, Extents(128), 64).workgroupsize.x() <= 64);
    CHECK(launch_configuration(kernel, Extents(1000), 1).numworkgroups.x() == 1000);
    CHECK_THROWS_AS(launch_configuration(kernel, Extents()), ArgumentError);
}

TEST_CASE("numbers and structs are converted by the declared type") {
    struct Mixed {
        float scale;
        std::int32_t shift;
        std::uint8_t flag;
    };
    const Kernel kernel = kernel_of(R"(
struct Mixed { float scale; int shift; uchar flag; };
kernel void k(device float* out, constant half& h, constant uchar& c, constant long& l, constant bool& b, constant Mixed& m,
              constant float4& v, constant float* table) {
    out[0] = h; out[1] = c; out[2] = float(l); out[3] = b; out[4] = m.scale + m.shift + m.flag;
    out[5] = v.x + v.w; out[6] = table[2];
})");
    Buffer out = buffer_of(std::vector<float>(7));
    launch(kernel,
           std::tuple{out, 1.5, 200, -3, true, Mixed{0.5f, -2, 7}, std::array<float, 4>{1, 2, 3, 4},
                      std::array<float, 3>{7, 8, 9}},
           {.ndrange = {1}});
    CHECK(values_of<float>(out) == std::vector<float>{1.5f, 200, -3, 1, 5.5f, 5, 9});
    launch(kernel, std::tuple{out, 2, 0u, std::uint64_t{5}, false, Mixed{}, std::array<float, 4>{}, std::array<float, 3>{}},
           {.ndrange = {1}});
    CHECK(values_of<float>(out) == std::vector<float>{2, 0, 5, 0, 0, 0, 0});
}

TEST_CASE("more bytes than Metal takes inline") {
    const Kernel kernel = kernel_of(
        "kernel void k(device int* out, constant int* table, uint i [[thread_position_in_grid]]) { out[i] = table[i]; }");
    std::array<int, 3000> table;
    std::iota(table.begin(), table.end(), 5);
    Buffer out = buffer_of(std::vector<int>(3000));
    launch(kernel, std::tuple{out, table}, {.ndrange = {3000}});
    CHECK(values_of<int>(out) == std::vector<int>(table.begin(), table.end()));
}

TEST_CASE("slices") {
    const Kernel kernel =
        kernel_of("kernel void k(device uint* a, device const uint* b, uint i [[thread_position_in_grid]]) { a[i] = b[i]; }");
    Buffer a = buffer_of(std::vector<std::uint32_t>(16)), b = buffer_of(counted(16));
    launch(kernel, std::tuple{a.slice(8, 16), b.slice(20, 40).slice(4, 16)}, {.ndrange = {4}});
    const auto values = values_of<std::uint32_t>(a);
    CHECK(std::vector(values.begin() + 1, values.begin() + 7) == std::vector<std::uint32_t>{0, 6, 7, 8, 9, 0});
    CHECK(a.slice(64, 0).size() == 0);
    CHECK_THROWS_AS(a.slice(64, 1), ArgumentError);
    CHECK_THROWS_AS(a.slice(65, 0), ArgumentError);
    CHECK_THROWS_AS(a.slice(4, std::numeric_limits<std::size_t>::max()), ArgumentError);
    CHECK(a.slice(8, 8).gpu_address() == a.gpu_address() + 8);
}

TEST_CASE("one array in two arguments has one address") {
    const Kernel kernel =
        kernel_of("kernel void k(device int* a, device int* b, device int* out) { out[0] = a == b; out[1] = a + 1 == b; }");
    Buffer a = buffer_of(std::vector{0, 0}), out = buffer_of(std::vector{9, 9});
    launch(kernel, std::tuple{a, a, out}, {.ndrange = {1}});
    CHECK(values_of<int>(out) == std::vector{1, 0});
    launch(kernel, std::tuple{a, a.slice(4, 4), out}, {.ndrange = {1}});
    CHECK(values_of<int>(out) == std::vector{0, 1});
}

TEST_CASE("pointers inside structs") {
    const Kernel kernel = kernel_of(R"(
struct Table { device float* row; };
kernel void k(constant Table& t, uint i [[thread_position_in_grid]]) { t.row[i] = i + 0.5f; })");
    Buffer row = buffer_of(std::vector<float>(3));
    const std::array uses{row};
    launch(kernel, std::tuple{std::array<std::uint64_t, 1>{row.gpu_address()}}, {.ndrange = {3}, .uses = uses});
    CHECK(values_of<float>(row) == std::vector{0.5f, 1.5f, 2.5f});
}

TEST_CASE("a launch keeps its buffers") {
    const Kernel kernel =
        kernel_of("kernel void k(device uint* a, device const uint* b, uint i [[thread_position_in_grid]]) { a[i] += b[i]; }");
    Buffer a = buffer_of(std::vector<std::uint32_t>(100));
    for (int i = 0; i < 50; ++i) {
        Buffer b = buffer_of(counted(100));
        launch(kernel, std::tuple{a, b}, {.ndrange = {100}});
        if (i % 2)
            b.free();
    }
    CHECK(values_of<std::uint32_t>(a)[99] == 50 * 99);
}

TEST_CASE("copies") {
    const Queue queue(default_device());
    for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{4}, std::size_t{1001}, std::size_t{1 << 20}}) {
        std::vector<std::uint8_t> data(size), back(size);
        for (std::size_t i = 0; i < size; ++i)
            data[i] = static_cast<std::uint8_t>(i * 7 + 1);
        Buffer hidden = default_device().allocate(size, Storage::private_), seen = default_device().allocate(size);
        CHECK(hidden.contents() == nullptr);
        copy(hidden, data.data(), size, queue);
        std::fill(data.begin(), data.end(), std::uint8_t{0}); // it was read already
        copy(seen, hidden, queue);
        copy(back.data(), seen, size, queue);
        queue.synchronize();
        for (std::size_t i = 0; i < size; ++i)
            REQUIRE(back[i] == static_cast<std::uint8_t>(i * 7 + 1));
    }
}

TEST_CASE("unaligned and overlapping copies") {
    const Queue queue(default_device());
    std::vector<std::uint8_t> data(40);
    std::iota(data.begin(), data.end(), std::uint8_t{0});
    Buffer a = buffer_of(data);
    copy(a.slice(1, 5), a.slice(20, 5), queue);
    copy(a.slice(10, 8), a.slice(8, 8), queue);
    copy(a.slice(28, 8), a.slice(24, 8), queue);
    queue.synchronize();
    std::copy_n(data.begin() + 20, 5, data.begin() + 1);
    std::copy_backward(data.begin() + 8, data.begin() + 16, data.begin() + 18);
    std::copy_backward(data.begin() + 24, data.begin() + 32, data.begin() + 36);
    CHECK(values_of<std::uint8_t>(a) == data);
    CHECK(has(message_of<ArgumentError>([&] { copy(a, a.slice(0, 8), queue); }), "40", "8"));
    CHECK_THROWS_AS(copy(a, data.data(), 3, queue), ArgumentError);
    CHECK_THROWS_AS(copy(data.data(), a, 3, queue), ArgumentError);
    a.free();
    CHECK_THROWS_AS(copy(data.data(), a, 40, queue), ArgumentError);
    CHECK_THROWS_AS(a.contents(), ArgumentError);
    CHECK_THROWS_AS(a.slice(0, 1), ArgumentError);
    a.free();
}

TEST_CASE("fills") {
    const Queue queue(default_device());
    Buffer a = buffer_of(std::vector<std::uint8_t>(16));
    fill(a, 1, queue);
    fill(a.slice(3, 6), 2, queue);
    fill(a.slice(4, 4), 3, queue);
    fill(a.slice(16, 0), 9, queue);
    queue.synchronize();
    CHECK(values_of<std::uint8_t>(a) == std::vector<std::uint8_t>{1, 1, 1, 2, 3, 3, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("eight threads launch at once") {
    const Kernel kernel =
        kernel_of("kernel void k(device uint* a, constant uint& n, uint i [[thread_position_in_grid]]) { a[i] += n; }");
    std::vector<std::thread> threads;
    std::array<std::uint32_t, 8> sums{};
    for (unsigned t = 0; t < 8; ++t)
        threads.emplace_back([&kernel, &sums, t] {
            Buffer a = buffer_of(std::vector<std::uint32_t>(64));
            for (unsigned i = 0; i < 300; ++i)
                launch(kernel, std::tuple{a, t}, {.ndrange = {64}});
            global_queue(default_device()).synchronize();
            const auto* values = static_cast<const std::uint32_t*>(a.contents());
            sums[t] = std::accumulate(values, values + 64, 0u);
        });
    for (std::thread& thread : threads)
        thread.join();
    for (unsigned t = 0; t < 8; ++t)
        CHECK(sums[t] == 64 * 300 * t);
}

// AddressSanitizer keeps freed memory back, so nothing can be told from the resident size.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a thousand launches keep no memory") {
    const Kernel kernel =
        kernel_of("kernel void k(device uint* a, constant uint& n, uint i [[thread_position_in_grid]]) { a[i] += n; }");
    Buffer a = buffer_of(std::vector<std::uint32_t>(64));
    auto resident = [] {
        std::ifstream file("/proc/self/statm");
        std::size_t total = 0, pages = 0;
        file >> total >> pages;
        return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    };
    auto thousand = [&] {
        for (unsigned i = 0; i < 1000; ++i)
            launch(kernel, std::tuple{a, i}, {.ndrange = {64}});
        default_device().synchronize();
        for (unsigned i = 0; i < 1000; ++i) {
            launch(kernel, std::tuple{a, i}, {.ndrange = {64}});
            global_queue(default_device()).synchronize();
        }
    };
    thousand();
    const std::size_t before = resident();
    for (int i = 0; i < 5; ++i)
        thousand();
    CHECK(resident() < before + (std::size_t{512} << 10));
}
#endif
