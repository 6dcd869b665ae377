// Launches on a GPU: what the driver is given, and what becomes of faults. Kernels do here what the test says.
#include "cuda_fixture.hpp"

#include <array>
#include <atomic>

using namespace cuda_test;

namespace {

template <class T> T read(const fake_cuda::Launch& launch, std::size_t offset) {
    T value{};
    REQUIRE(offset + sizeof value <= launch.parameters.size());
    std::memcpy(&value, launch.parameters.data() + offset, sizeof value);
    return value;
}

// The number is a parameter of its own, at some multiple of its size.
template <class T> bool has(const fake_cuda::Launch& launch, T wanted) {
    for (std::size_t at = 0; at + sizeof(T) <= launch.parameters.size(); at += sizeof(T)) {
        T value;
        std::memcpy(&value, launch.parameters.data() + at, sizeof value);
        if (value == wanted)
            return true;
    }
    return false;
}

struct Launches : Fixture {
    std::mutex mutex;
    std::vector<fake_cuda::Launch> seen;

    Launches() {
        control().on_launch([this](const fake_cuda::Launch& launch) {
            const std::lock_guard lock(mutex);
            seen.push_back(launch);
            return 0;
        });
    }
    ~Launches() { control().on_launch(nullptr); }

    MTL::CommandBuffer* dispatch(MTL::ComputePipelineState* state, std::vector<MTL::Buffer*> buffers, MTL::Size threads,
                                 MTL::Size group) {
        auto* commands = queue->commandBuffer();
        auto* encoder = commands->computeCommandEncoder();
        encoder->setComputePipelineState(state);
        for (std::size_t i = 0; i < buffers.size(); ++i)
            encoder->setBuffer(buffers[i], 0, i);
        encoder->dispatchThreads(threads, group);
        encoder->endEncoding();
        return commands;
    }
};

const char* const mark_source = R"(
#include <metal_stdlib>
using namespace metal;
kernel void mark(device uint* data [[buffer(0)]], uint3 p [[thread_position_in_grid]]) { data[0] = p.x; }
)";

} // namespace

TEST_CASE_FIXTURE(Launches, "a launch has its geometry, addresses, and numbers by value") {
    auto add = pipeline(api_test::add_source, "add");
    CHECK(add->maxTotalThreadsPerThreadgroup() == 1024);
    CHECK(add->threadExecutionWidth() == 32);
    auto data = buffer(4096);
    run(api_test::encode_add(queue.get(), add.get(), data.get(), 0x12345678, 1000));
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].grid[0] == 32); // 1000 threads in groups of 32
    CHECK(seen[0].block[0] == 32);
    CHECK(has<std::uint64_t>(seen[0], data->gpuAddress()));
    CHECK(has<std::uint32_t>(seen[0], 0x12345678));
    CHECK(has<std::uint32_t>(seen[0], 1000));
}

TEST_CASE_FIXTURE(Launches, "numbers in a buffer go by their address") {
    auto add = pipeline(api_test::add_source, "add");
    auto data = buffer(4096), amount = buffer(16);
    run(dispatch(add.get(), {data.get(), amount.get()}, MTL::Size(64, 1, 1), MTL::Size(32, 1, 1)));
    REQUIRE(seen.size() == 1);
    CHECK(has<std::uint64_t>(seen[0], amount->gpuAddress()));
}

TEST_CASE_FIXTURE(Launches, "grids that CUDA refuses go in parts, and deep threadgroups as lines") {
    auto mark = pipeline(mark_source, "mark");
    auto data = buffer(64);
    run(dispatch(mark.get(), {data.get()}, MTL::Size(2, 70000, 131071), MTL::Size(1, 1, 1)));
    std::uint64_t groups = 0;
    for (const auto& launch : seen) {
        CHECK(launch.grid[1] <= 65535);
        CHECK(launch.grid[2] <= 65535);
        groups += std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
    }
    CHECK(groups == std::uint64_t{2} * 70000 * 131071);
    CHECK(seen.size() == 6);
    seen.clear();
    run(dispatch(mark.get(), {data.get()}, MTL::Size(1, 1, 2048), MTL::Size(1, 1, 1024)));
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].block[0] == 1024);
    CHECK(seen[0].grid[2] == 2);
}

TEST_CASE_FIXTURE(Launches, "threadgroup memory is asked for, also beyond what kernels have without asking") {
    auto state = pipeline(R"(
        #include <metal_stdlib>
        using namespace metal;
        kernel void k(device float* a [[buffer(0)]], threadgroup float* b [[threadgroup(0)]],
                      threadgroup float* c [[threadgroup(1)]], uint i [[thread_index_in_threadgroup]]) {
            b[i] = a[i]; c[i] = 1; threadgroup_barrier(mem_flags::mem_threadgroup); a[i] = b[31 - i] + c[i]; })",
                          "k");
    auto data = buffer(4096);
    for (const NS::UInteger length : {NS::UInteger{256}, NS::UInteger{100} << 10}) {
        auto* commands = queue->commandBuffer();
        auto* encoder = commands->computeCommandEncoder();
        encoder->setComputePipelineState(state.get());
        encoder->setBuffer(data.get(), 0, 0);
        encoder->setThreadgroupMemoryLength(length, 0);
        encoder->setThreadgroupMemoryLength(128, 1);
        encoder->dispatchThreads(MTL::Size(32, 1, 1), MTL::Size(32, 1, 1));
        encoder->endEncoding();
        run(commands);
        CHECK_MESSAGE(commands->status() == MTL::CommandBufferStatusCompleted, error_of(commands));
        CHECK(seen.back().shared_bytes == length + 128);
        CHECK(has<std::uint64_t>(seen.back(), length)); // where the second part begins
    }
}

TEST_CASE_FIXTURE(Launches, "an indirect dispatch reads its grid when the device gets there") {
    auto mark = pipeline(mark_source, "mark");
    auto data = buffer(64), numbers = buffer(12, MTL::ResourceStorageModePrivate), from = buffer(12);
    const std::array<std::uint32_t, 3> groups{3, 5, 7};
    std::memcpy(from->contents(), groups.data(), sizeof groups);
    auto* commands = copy(numbers.get(), from.get(), 12);
    auto* encoder = commands->computeCommandEncoder();
    encoder->setComputePipelineState(mark.get());
    encoder->setBuffer(data.get(), 0, 0);
    encoder->dispatchThreadgroups(numbers.get(), 0, MTL::Size(8, 1, 1));
    encoder->endEncoding();
    run(commands);
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].grid[0] == 3);
    CHECK(seen[0].grid[1] == 5);
    CHECK(seen[0].grid[2] == 7);
}

TEST_CASE_FIXTURE(Launches, "what comes again and again is compiled for its size of threadgroup") {
    auto mark = pipeline(mark_source, "mark");
    auto data = buffer(64);
    control().take_calls();
    for (int i = 0; i < 20; ++i)
        run(dispatch(mark.get(), {data.get()}, MTL::Size(640, 1, 1), MTL::Size(64, 1, 1)));
    const auto calls = control().take_calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuModuleLoadDataEx") == 1);
    CHECK(seen.size() == 20);
}

TEST_CASE_FIXTURE(Launches, "a block does the work of two threadgroups in large grids of rows") {
    auto rows = pipeline(R"(
#include <metal_stdlib>
using namespace metal;
kernel void rows(device float* out [[buffer(0)]], device const float* a [[buffer(1)]], device const float* x [[buffer(2)]],
                 uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    float sum = 0;
    for (uint k = 8 * lane; k < 1024; k += 256)
        for (uint i = 0; i < 8; ++i) sum += a[group * 1024 + k + i] * x[k + i];
    sum = simd_sum(sum);
    if (lane == 0) out[group] = sum;
}
)",
                         "rows");
    auto data = buffer(64);
    const auto launched = [&](unsigned groups) {
        for (int i = 0; i < 8; ++i)
            run(dispatch(rows.get(), {data.get(), data.get(), data.get()}, MTL::Size(32 * groups, 1, 1), MTL::Size(32, 1, 1)));
        return seen.back().grid[0];
    };
    CHECK(launched(4096) == 2048);
    CHECK(launched(4097) == 4097); // the last one would be alone
    CHECK(launched(64) == 64);     // processors would have nothing to do
    CHECK(launched(4096) == 2048);
}

TEST_CASE_FIXTURE(Fixture, "a fault names the kernel, fails what comes behind it, and leaves a device that is usable again") {
    auto add = pipeline(api_test::add_source, "add");
    auto data = buffer(4096);
    run(fill(data.get(), 1));
    std::atomic<bool> go{false};
    control().on_launch([&go](const fake_cuda::Launch&) {
        while (!go)
            std::this_thread::yield();
        return 700;
    });
    auto event = NS::TransferPtr(device->newSharedEvent());
    auto* before = fill(data.get(), 5);
    auto* bad = api_test::encode_add(queue.get(), add.get(), data.get(), 1, 10);
    auto* behind = fill(data.get(), 6);
    behind->encodeSignalEvent(event.get(), 1);
    for (auto* commands : {before, bad, behind})
        commands->commit();
    before->waitUntilCompleted();
    CHECK(before->status() == MTL::CommandBufferStatusCompleted);
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the one behind is with the device
    go = true;
    bad->waitUntilCompleted();
    behind->waitUntilCompleted();
    CHECK_MESSAGE(contains(error_of(bad), "kernel 'add': an illegal memory access"), error_of(bad));
    CHECK_MESSAGE(contains(error_of(behind), "not run"), error_of(behind));
    CHECK(event->signaledValue() == 1); // nobody waits for ever
    CHECK(static_cast<unsigned char*>(data->contents())[0] == 5);
    control().on_launch(nullptr);
    auto* next = api_test::encode_add(queue.get(), add.get(), data.get(), 1, 10); // loaded again
    run(next);
    CHECK_MESSAGE(next->status() == MTL::CommandBufferStatusCompleted, error_of(next));
}

TEST_CASE_FIXTURE(Fixture, "launches that the driver refuses name the kernel, and the next one runs") {
    auto add = pipeline(api_test::add_source, "add");
    auto data = buffer(4096);
    control().fail("cuLaunchKernel", 1, 701);
    auto* bad = api_test::encode_add(queue.get(), add.get(), data.get(), 1, 10);
    run(bad);
    CHECK_MESSAGE(contains(error_of(bad), "kernel 'add': cuLaunchKernel"), error_of(bad));
    auto* next = api_test::encode_add(queue.get(), add.get(), data.get(), 1, 10);
    run(next);
    CHECK(next->status() == MTL::CommandBufferStatusCompleted);
}

TEST_CASE_FIXTURE(Fixture, "code that the driver does not take is no pipeline") {
    NS::Error* error = nullptr;
    auto library = NS::TransferPtr(
        device->newLibrary(string("kernel void unseen(device int* a [[buffer(0)]]) { a[0] = 7654321; }"), nullptr, &error));
    auto function = NS::TransferPtr(library->newFunction(string("unseen")));
    control().fail("cuModuleLoadDataEx", 1, 1);
    CHECK(device->newComputePipelineState(function.get(), &error) == nullptr);
    REQUIRE(error);
    CHECK(contains(error->localizedDescription()->utf8String(), "unseen"));
    CHECK(NS::TransferPtr(device->newComputePipelineState(function.get(), &error)));
}
