// Memory of buffers of all sizes: nobody else's, zeroed, aligned, and had again once it was given back.
#include "api_fixture.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace {

struct Held {
    NS::SharedPtr<MTL::Buffer> buffer;
    std::uint8_t value = 0;
    bool is_whole() const {
        const auto* bytes = static_cast<const std::uint8_t*>(buffer->contents());
        return std::all_of(bytes, bytes + buffer->length(), [&](std::uint8_t byte) { return byte == value; });
    }
};

// Wrong values and addresses found.
int make_fill_and_free(MTL::Device* device, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Held> held;
    int wrong = 0;
    for (int step = 0; step < 4000; ++step) {
        if (held.size() < 300 && random() % 5 < 3) {
            const std::size_t most = std::size_t{1} << (1 + random() % 18);
            Held made{NS::TransferPtr(device->newBuffer(1 + random() % most, MTL::ResourceStorageModeShared)), 0};
            wrong += !made.is_whole() || reinterpret_cast<std::uintptr_t>(made.buffer->contents()) % 256 != 0;
            made.value = static_cast<std::uint8_t>(1 + random() % 255);
            std::fill_n(static_cast<std::uint8_t*>(made.buffer->contents()), made.buffer->length(), made.value);
            held.push_back(std::move(made));
        } else if (!held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            wrong += !held.back().is_whole();
            held.pop_back();
        }
    }
    return wrong + static_cast<int>(std::count_if(held.begin(), held.end(), [](const Held& h) { return !h.is_whole(); }));
}

} // namespace

TEST_CASE("buffers of all sizes, made and freed by several threads, share no memory") {
    auto* device = MTL::CreateSystemDefaultDevice();
    std::vector<int> wrong(4, -1);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < wrong.size(); ++i)
        threads.emplace_back([&, i] { wrong[i] = make_fill_and_free(device, i); });
    for (std::thread& thread : threads)
        thread.join();
    CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("every length up to 64 KiB and beyond can be used to its last byte") {
    auto* device = MTL::CreateSystemDefaultDevice();
    std::vector<Held> held;
    for (NS::UInteger length = 1; length < 140000; length += 1 + length / 40)
        for (NS::UInteger near : {length - 1, length, length + 1})
            if (near != 0) {
                auto buffer = NS::TransferPtr(device->newBuffer(near, MTL::ResourceStorageModeShared));
                const auto value = static_cast<std::uint8_t>(held.size() * 7 + 1);
                std::fill_n(static_cast<std::uint8_t*>(buffer->contents()), near, value);
                held.push_back({std::move(buffer), value});
            }
    CHECK(std::all_of(held.begin(), held.end(), [](const Held& h) { return h.is_whole(); }));
}
