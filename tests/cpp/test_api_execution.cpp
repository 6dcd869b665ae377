// Queues, events, handlers, errors and times.
#include "api_fixture.hpp"

#include <atomic>
#include <thread>
#include <vector>

using namespace api_test;

TEST_CASE_FIXTURE(Fixture, "command buffers of a queue run in the order of enqueueing") {
    auto add = pipeline(add_source, "add");
    auto data = buffer(4);
    auto* value = static_cast<unsigned*>(data->contents());
    auto* first = queue->commandBuffer();
    auto* second = queue->commandBuffer();
    first->enqueue();
    second->enqueue();
    unsigned seen = 0;
    encode_add(nullptr, add.get(), data.get(), 1, 1, first);
    first->addCompletedHandler([&](MTL::CommandBuffer*) { seen = seen * 10 + 1; });
    second->addCompletedHandler([&](MTL::CommandBuffer*) { seen = seen * 10 + 2; });
    encode_add(nullptr, add.get(), data.get(), 10, 1, second);
    second->commit();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(*value == 0);
    first->commit();
    second->waitUntilCompleted();
    CHECK(*value == 11);
    CHECK(seen == 12);
    CHECK(first->GPUStartTime() > 0);
    CHECK(first->GPUEndTime() >= first->GPUStartTime());
    CHECK(second->GPUStartTime() >= first->GPUEndTime());
}

TEST_CASE_FIXTURE(Fixture, "an enqueued buffer that is given up lets the next one run") {
    auto* second = queue->commandBuffer();
    {
        auto inner = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
        queue->commandBuffer()->enqueue();
        second->commit();
    }
    second->waitUntilCompleted();
    CHECK(second->status() == MTL::CommandBufferStatusCompleted);
}

TEST_CASE_FIXTURE(Fixture, "thousands of queues may wait for events without blocking host or device") {
    auto add = pipeline(add_source, "add");
    auto data = buffer(4);
    auto event = NS::TransferPtr(device->newSharedEvent());
    std::vector<NS::SharedPtr<MTL::CommandQueue>> queues;
    std::vector<NS::SharedPtr<MTL::CommandBuffer>> waiting;
    for (unsigned i = 0; i < 2000; ++i) {
        queues.push_back(NS::TransferPtr(device->newCommandQueue()));
        auto* commands = queues.back()->commandBuffer();
        commands->encodeWait(event.get(), i + 1);
        encode_add(nullptr, add.get(), data.get(), 1, 1, commands);
        commands->encodeSignalEvent(event.get(), i + 2);
        commands->commit();
        waiting.push_back(NS::RetainPtr(commands));
    }
    encode_add(queue.get(), add.get(), data.get(), 100, 1)->commit();
    auto* done = queue->commandBuffer();
    done->commit();
    done->waitUntilCompleted();
    CHECK(*static_cast<unsigned*>(data->contents()) == 100);
    auto* start = queue->commandBuffer();
    start->encodeSignalEvent(event.get(), 1);
    start->commit();
    waiting.back()->waitUntilCompleted();
    CHECK(*static_cast<unsigned*>(data->contents()) == 2100);
    CHECK(event->waitUntilSignaledValue(2001, 1000));
    CHECK(!event->waitUntilSignaledValue(5000, 1));
}

TEST_CASE_FIXTURE(Fixture, "handlers may throw, and may wait for later buffers of the queue") {
    auto* second = queue->commandBuffer();
    auto* first = queue->commandBuffer();
    std::atomic<int> calls{0};
    first->addScheduledHandler([&](MTL::CommandBuffer*) { ++calls; });
    first->addCompletedHandler([&](MTL::CommandBuffer*) {
        second->waitUntilCompleted();
        ++calls;
        throw std::runtime_error("from a handler");
    });
    second->addCompletedHandler(
        [&](MTL::CommandBuffer* self) { calls += self->status() == MTL::CommandBufferStatusCompleted; });
    first->enqueue();
    second->commit();
    first->commit();
    first->waitUntilCompleted();
    second->waitUntilCompleted();
    CHECK(calls == 3);
}

TEST_CASE_FIXTURE(Fixture, "a fault ends its buffer with an error and spares the next") {
    auto fault = pipeline(R"(
#include <metal_stdlib>
using namespace metal;
kernel void fault(device ulong* where [[buffer(0)]]) { *reinterpret_cast<device uint*>(*where) = 1; }
)",
                          "fault");
    auto add = pipeline(add_source, "add");
    auto data = buffer(8);
    auto event = NS::TransferPtr(device->newSharedEvent());
    *static_cast<std::uint64_t*>(data->contents()) = 8;
    auto* bad = queue->commandBuffer();
    auto* encoder = bad->computeCommandEncoder();
    encoder->setComputePipelineState(fault.get());
    encoder->setBuffer(data.get(), 0, 0);
    encoder->dispatchThreads(MTL::Size(1, 1, 1), MTL::Size(1, 1, 1));
    encoder->endEncoding();
    encode_add(nullptr, add.get(), data.get(), 1, 1, bad);
    bad->encodeSignalEvent(event.get(), 1);
    bad->commit();
    auto* good = encode_add(queue.get(), add.get(), data.get(), 2, 1);
    good->commit();
    good->waitUntilCompleted();
    CHECK(bad->status() == MTL::CommandBufferStatusError);
    REQUIRE(bad->error());
    CHECK(bad->error()->domain()->isEqualToString(MTL::CommandBufferErrorDomain));
    CHECK(std::string(bad->error()->localizedDescription()->utf8String()).find("fault") != std::string::npos);
    CHECK(good->error() == nullptr);
    CHECK(*static_cast<std::uint64_t*>(data->contents()) == 10);
    CHECK(event->signaledValue() == 1);
}

TEST_CASE_FIXTURE(Fixture, "threads encode and wait side by side, and nothing leaks") {
    auto add = pipeline(add_source, "add");
    const auto before = MTL::liveObjectCount();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            auto pool = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
            auto own = NS::TransferPtr(device->newCommandQueue());
            auto data = buffer(400);
            MTL::CommandBuffer* last = nullptr;
            for (int i = 0; i < 200; ++i) {
                last = encode_add(t % 2 ? queue.get() : own.get(), add.get(), data.get(), 1, 100);
                last->commit();
                if (i % 10 == 0)
                    last->waitUntilCompleted();
            }
            last->waitUntilCompleted();
            const auto* values = static_cast<const unsigned*>(data->contents());
            for (int i = 0; i < 100; ++i)
                wrong += values[i] != 200;
        });
    for (auto& thread : threads)
        thread.join();
    CHECK(wrong == 0);
    // Threads of the library let go of the last buffers a moment after they have completed.
    for (int i = 0; i < 500 && MTL::liveObjectCount() > before; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(MTL::liveObjectCount() <= before);
}

TEST_CASE_FIXTURE(Fixture, "reflection and compile errors") {
    auto add = pipeline(add_source, "add");
    auto* bindings = add->reflection()->bindings();
    REQUIRE(bindings->count() == 2);
    auto* data = bindings->object<MTL::BufferBinding>(0);
    CHECK(data->name()->isEqualToString(MTLSTR("data")));
    CHECK(data->bufferDataType() == MTL::DataTypeUInt);
    CHECK(data->access() != MTL::BindingAccessReadOnly);
    CHECK(bindings->object<MTL::BufferBinding>(1)->access() == MTL::BindingAccessReadOnly);
    NS::Error* error = nullptr;
    CHECK(device->newLibrary(string("kernel void broken(device uint* a) {\n    a[0] = nonsense;\n}\n"), nullptr, &error) ==
          nullptr);
    REQUIRE(error);
    CHECK(error->code() == MTL::LibraryErrorCompileFailure);
    auto* diagnostics = error->userInfo()->object<NS::Array>(MTL::CompileDiagnosticsKey);
    REQUIRE(diagnostics);
    CHECK(diagnostics->object<NS::Dictionary>(0)->object<NS::Number>(MTLSTR("line"))->intValue() == 2);
}
