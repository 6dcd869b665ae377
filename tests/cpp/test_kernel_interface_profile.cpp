// Profiles: counts, times of the device, bytes, and the trace.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "kernel_interface_fixture.hpp"

using namespace metalki;

namespace {

const std::string source = R"(
kernel void quick(device uint* a, uint i [[thread_position_in_grid]]) { a[i] += 1; }
kernel void lengthy(device volatile uint* a, constant uint& n) { for (uint i = 0; i < n; ++i) a[0] = i; }
)";

} // namespace

TEST_CASE("a profile holds every launch with the device's times") {
    const Kernel quick = kernel_of(source, "quick"), lengthy = kernel_of(source, "lengthy");
    const Queue first(default_device(), "first \"queue\""), second(default_device(), "second");
    Buffer a = buffer_of(std::vector<std::uint32_t>(64));
    launch(quick, std::tuple{a}, {.ndrange = {64}, .queue = &first}); // before: not recorded
    Profile profile;
    CHECK(has(message_of<ArgumentError>([] { Profile another; }), "profile"));
    for (int i = 0; i < 200; ++i)
        launch(quick, std::tuple{a}, {.ndrange = {64}, .queue = &first});
    launch(lengthy, std::tuple{a, 20'000'000u}, {.ndrange = {1}, .queue = &first});
    const Event long_done = first.record_event();
    second.wait_event(long_done);
    launch(quick, std::tuple{a.slice(0, 16)}, {.ndrange = {4}, .queue = &second});
    std::thread([&] { launch(quick, std::tuple{a}, {.ndrange = {64}}); }).join();
    profile.stop();
    profile.stop();
    launch(quick, std::tuple{a}, {.ndrange = {64}, .queue = &first}); // after
    first.synchronize();

    const auto kernels = profile.kernels();
    REQUIRE(kernels.size() == 2);
    CHECK(kernels[0].kernel == "lengthy"); // sorted by time
    CHECK(kernels[0].count == 1);
    CHECK(kernels[1].count == 202);
    CHECK(kernels[1].bytes == 201 * 256 + 16);
    CHECK(kernels[1].shortest <= kernels[1].longest);

    const auto launches = profile.launches();
    REQUIRE(launches.size() == 203);
    const LaunchRecord *slow = nullptr, *waited = nullptr;
    for (std::size_t i = 0; i < launches.size(); ++i) {
        const LaunchRecord& l = launches[i];
        CHECK(l.launched >= 0);
        CHECK(l.started >= l.launched);
        CHECK(l.completed >= l.started);
        CHECK_FALSE(l.failed);
        if (i > 0)
            CHECK(l.launched >= launches[i - 1].launched);
        if (i > 0 && l.queue_id == launches[i - 1].queue_id)
            CHECK(l.started >= launches[i - 1].completed); // in order, one after the other
        slow = l.kernel == "lengthy" ? &l : slow;
        waited = l.queue == "second" ? &l : waited;
    }
    REQUIRE((slow && waited));
    CHECK(waited->started >= slow->completed); // its time is its own, without the wait for the event
    CHECK(has(profile.table(), "kernel", "lengthy", "quick", "202"));
}

TEST_CASE("failed launches are in the profile, and the wait tells of them") {
    const Kernel wild = kernel_of("kernel void wild(device ulong* where) { *(device uint*)(where[0]) = 1; }");
    Profile profile;
    launch(wild, std::tuple{buffer_of(std::vector<std::uint64_t>{16})}, {.ndrange = {1}});
    CHECK(has(message_of<DeviceError>([&] { profile.stop(); }), "wild"));
    REQUIRE(profile.launches().size() == 1);
    CHECK(profile.launches()[0].failed);
    Profile next; // the recording has ended
}

TEST_CASE("a trace is written to a file") {
    const Queue queue(default_device(), "a \"label\"\n");
    Profile profile;
    launch(kernel_of(source, "quick"), std::tuple{buffer_of(std::vector<std::uint32_t>(8))}, {.ndrange = {8}, .queue = &queue});
    profile.stop();
    const std::string path = std::tmpnam(nullptr);
    profile.save(path);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    std::remove(path.c_str());
    CHECK(text.str() == profile.trace());
    CHECK(has(text.str(), "\"traceEvents\"", R"("ph": "X")", R"("name": "quick")", R"("a \"label\"\u000a")"));
    CHECK(has(message_of<ArgumentError>([&] { profile.save("/no/such/folder/trace.json"); }), "/no/such/folder/trace.json"));
}
