// What a launch costs from C++: medians over batches of 1,000, beside plain costs of the same machine in the same run.
// Build: c++ -O2 -std=c++20 bench/launch.cpp -lmetalki (or through find_package(metalki)).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "metalki/metalki.hpp"

namespace {

constexpr int batches = 31;
constexpr int calls = 1000;

// Median over the batches of what one call takes, in microseconds. `after` runs after each batch, untimed.
template <class Call, class After> double median_of(Call call, After after) {
    std::vector<double> results;
    for (int batch = 0; batch < batches; ++batch) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i)
            call();
        const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
        results.push_back(taken.count() / calls);
        after();
    }
    std::nth_element(results.begin(), results.begin() + batches / 2, results.end());
    return results[batches / 2];
}

void report(const char* what, double microseconds) {
    std::printf("%-42s %9.3f us\n", what, microseconds);
}

std::string many_arguments() {
    std::string parameters;
    for (int i = 0; i < 24; ++i)
        parameters += "device float* b" + std::to_string(i) + ", ";
    std::string sum = "n0 + n1 + n2 + n3";
    for (int i = 1; i < 24; ++i)
        sum += " + b" + std::to_string(i) + "[0]";
    return "kernel void many(" + parameters +
           "constant uint& n0, constant uint& n1, constant uint& n2, constant float& n3) { b0[0] = " + sum + "; }";
}

template <std::size_t... I> auto tuple_of(const std::vector<metalki::Buffer>& buffers, std::index_sequence<I...>) {
    return std::tuple{buffers[I]..., 1, 2u, 3, 4.5f};
}

} // namespace

int main() {
    const metalki::Device device = metalki::default_device();
    const metalki::Queue& queue = metalki::global_queue(device);
    auto settle = [&] { queue.synchronize(); };
    auto nothing = [] {};

    volatile int sink = 0;
    const std::function<void()> function = [&] { sink = sink + 1; };
    report("std::function call", median_of([&] { function(); }, nothing));
    std::vector<char> from(4096, 1), to(4096);
    report("memcpy of 4 KiB", median_of(
                                  [&] {
                                      std::memcpy(to.data(), from.data(), to.size());
                                      sink = to[static_cast<std::size_t>(sink) & 4095];
                                  },
                                  nothing));

    const metalki::Kernel empty = device.compile("kernel void empty() {}").kernel();
    const metalki::LaunchOptions once{.ndrange = {1}};
    report("empty kernel, enqueue", median_of([&] { metalki::launch(empty, std::tuple{}, once); }, settle));

    const metalki::Kernel many = device.compile(many_arguments()).kernel();
    std::vector<metalki::Buffer> buffers;
    std::vector<metalki::ArgumentValue> values;
    for (int i = 0; i < 24; ++i)
        values.push_back(metalki::ArgumentValue::of(buffers.emplace_back(device.allocate(256))));
    const unsigned number = 3;
    for (int i = 0; i < 4; ++i)
        values.push_back(metalki::ArgumentValue::bytes(&number, sizeof number));
    report("28 arguments, enqueue", median_of([&] { metalki::launch(many, values, once); }, settle));
    const auto tuple = tuple_of(buffers, std::make_index_sequence<24>{});
    report("28 C++ values, enqueue", median_of([&] { metalki::launch(many, tuple, once); }, settle));

    report("empty kernel, enqueue and wait", median_of(
                                                 [&] {
                                                     metalki::launch(empty, std::tuple{}, once);
                                                     queue.synchronize();
                                                 },
                                                 nothing));
    report("28 arguments, enqueue and wait", median_of(
                                                 [&] {
                                                     metalki::launch(many, values, once);
                                                     queue.synchronize();
                                                 },
                                                 nothing));
    report("empty kernel, enqueue and wait, time limit", median_of(
                                                             [&] {
                                                                 metalki::launch(empty, std::tuple{}, once);
                                                                 queue.synchronize_for(std::chrono::seconds(1));
                                                             },
                                                             nothing));
    report("synchronise an idle queue", median_of([&] { queue.synchronize(); }, nothing));
    report("synchronise an idle device", median_of([&] { device.synchronize(); }, nothing));
    return 0;
}
