// Buffers and command buffers of a GPU, without kernels.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "Metal/MetalkiExtensions.hpp"
#include "cuda_fixture.hpp"

#include <atomic>
#include <sys/mman.h>

using namespace cuda_test;

namespace {

// Before anything asks for devices.
[[maybe_unused]] const int chosen = setenv("METALKI_CUDA_DRIVER", METALKI_FAKE_CUDA, 1);

} // namespace

TEST_CASE_FIXTURE(Fixture, "a GPU tells its facts") {
    CHECK(std::string(device->name()->utf8String()) == "NVIDIA Fake GPU");
    CHECK(device->maxThreadsPerThreadgroup().width == 1024);
    CHECK(device->maxThreadgroupMemoryLength() == 227 << 10);
    CHECK_FALSE(device->hasUnifiedMemory());
    CHECK(queue->device() == device.get());
}

TEST_CASE_FIXTURE(Fixture, "new memory is zero, shared and private") {
    for (const NS::UInteger length : {NS::UInteger{4}, NS::UInteger{4096}, NS::UInteger{3} << 20}) {
        for (int round = 0; round < 2; ++round) { // the second time from the blocks that are free again
            auto shared = buffer(length), far = buffer(length, MTL::ResourceStorageModePrivate);
            CHECK(far->contents() == nullptr);
            auto* bytes = static_cast<unsigned char*>(shared->contents());
            CHECK(std::all_of(bytes, bytes + length, [](unsigned char b) { return b == 0; }));
            std::memset(bytes, 0xee, length);
            run(copy(shared.get(), far.get(), length));
            CHECK(std::all_of(bytes, bytes + length, [](unsigned char b) { return b == 0; }));
            run(fill(far.get(), 0xaa));
            std::memset(bytes, 0xaa, length);
        }
    }
}

TEST_CASE_FIXTURE(Fixture, "host and device know shared memory by one address, and pages of the host's own too") {
    auto shared = buffer(64);
    CHECK(shared->gpuAddress() == reinterpret_cast<std::uintptr_t>(shared->contents()));
    void* pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto before = control().registered_ranges();
    bool gone = false;
    {
        auto own = NS::TransferPtr(
            device->newBuffer(pages, 8192, MTL::ResourceStorageModeShared, [&gone](void*, NS::UInteger) { gone = true; }));
        REQUIRE(own);
        CHECK(control().registered_ranges() == before + 1);
        run(fill(own.get(), 7));
        CHECK(static_cast<unsigned char*>(pages)[8191] == 7);
    }
    CHECK(gone);
    CHECK(control().registered_ranges() == before);
    munmap(pages, 8192);
}

TEST_CASE_FIXTURE(Fixture, "memory that is not there is no buffer, and the device goes on") {
    auto most = buffer(std::size_t{200} << 20, MTL::ResourceStorageModePrivate);
    CHECK(most);
    CHECK_FALSE(buffer(std::size_t{200} << 20, MTL::ResourceStorageModePrivate));
    most.reset();
    CHECK(buffer(std::size_t{210} << 20, MTL::ResourceStorageModePrivate)); // what waits for its next use makes room
    CHECK(buffer(4096));
}

TEST_CASE_FIXTURE(Fixture, "memory of another device is no buffer of this one") {
    auto owner = buffer(4096, MTL::ResourceStorageModePrivate);
    const auto adopt = [&] {
        return NS::TransferPtr(MTL::Portable::newBufferAtAddress(device.get(), owner->gpuAddress(), 4096, [] {}));
    };
    CHECK(adopt());
    control().memory_is_of(1);
    CHECK_FALSE(adopt());
    control().memory_is_of(0);
}

TEST_CASE_FIXTURE(Fixture, "commands go to one stream in their order") {
    auto a = buffer(4096), b = buffer(4096);
    auto* commands = fill(a.get(), 3);
    copy(b.get(), a.get(), 1024, commands);
    fill(a.get(), 4, commands);
    control().take_calls();
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(commands->status() == MTL::CommandBufferStatusCompleted);
    CHECK(static_cast<unsigned char*>(b->contents())[1023] == 3);
    CHECK(static_cast<unsigned char*>(b->contents())[1024] == 0);
    CHECK(static_cast<unsigned char*>(a->contents())[0] == 4);
    auto calls = control().take_calls();
    std::erase_if(calls, [](const std::string& call) { return !contains(call, "Memset") && !contains(call, "Memcpy"); });
    CHECK(calls == std::vector<std::string>{"cuMemsetD8Async 4096", "cuMemcpyAsync 1024", "cuMemsetD8Async 4096"});
    CHECK(commands->GPUStartTime() > 0);
    CHECK(commands->GPUEndTime() >= commands->GPUStartTime());
}

TEST_CASE_FIXTURE(Fixture, "handlers run in order, also when nobody waits") {
    auto a = buffer(4096);
    std::atomic<unsigned> seen{0};
    for (unsigned digit = 1; digit <= 4; ++digit) {
        auto* commands = fill(a.get(), 1);
        commands->addCompletedHandler([&seen, digit](MTL::CommandBuffer*) { seen = seen * 10 + digit; });
        commands->commit();
    }
    for (int patience = 0; patience < 2000 && seen != 1234; ++patience)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(seen == 1234);
}

TEST_CASE_FIXTURE(Fixture, "a queue waits on the device for what another queue will signal") {
    auto a = buffer(4096), b = buffer(4096);
    auto other = NS::TransferPtr(device->newCommandQueue());
    auto event = NS::TransferPtr(device->newEvent());
    auto* waits = other->commandBuffer();
    waits->encodeWait(event.get(), 1);
    copy(b.get(), a.get(), 4096, waits);
    waits->commit(); // before the signal: the device does not know of it yet
    auto* signals = fill(a.get(), 9);
    signals->encodeSignalEvent(event.get(), 1);
    control().take_calls();
    signals->commit();
    waits->waitUntilCompleted();
    CHECK(static_cast<unsigned char*>(b->contents())[100] == 9);
    // Where the signal is with the device already, the wait goes there as well.
    auto* later = fill(a.get(), 11);
    later->encodeSignalEvent(event.get(), 2);
    later->commit();
    auto* last = other->commandBuffer();
    last->encodeWait(event.get(), 2);
    run(copy(b.get(), a.get(), 4096, last));
    CHECK(static_cast<unsigned char*>(b->contents())[100] == 11);
}

// Only the handlers of one queue come in a promised order.
TEST_CASE_FIXTURE(Fixture, "a command buffer completes after the one of another queue that it waited for") {
    auto a = buffer(4096);
    auto other = NS::TransferPtr(device->newCommandQueue());
    auto event = NS::TransferPtr(device->newSharedEvent());
    for (std::uint64_t round = 1; round <= 50; ++round) {
        std::atomic<bool> heard_of_first{false}, first_was_complete{false};
        auto first = NS::RetainPtr(fill(a.get(), 1));
        first->encodeSignalEvent(event.get(), round);
        first->addCompletedHandler([&](MTL::CommandBuffer*) { heard_of_first = true; });
        first->commit();
        auto* second = other->commandBuffer();
        second->encodeWait(event.get(), round);
        fill(a.get(), 2, second);
        second->addCompletedHandler(
            [&](MTL::CommandBuffer*) { first_was_complete = first->status() == MTL::CommandBufferStatusCompleted; });
        second->commit();
        second->waitUntilCompleted();
        CHECK(first_was_complete);
        first->waitUntilCompleted();
        CHECK(heard_of_first);
        CHECK(second->GPUEndTime() >= second->GPUStartTime());
    }
}

TEST_CASE_FIXTURE(Fixture, "the times of a queue's command buffers do not overlap") {
    auto a = buffer(1 << 20);
    std::vector<NS::SharedPtr<MTL::CommandBuffer>> all;
    for (int i = 0; i < 20; ++i) {
        all.push_back(NS::RetainPtr(fill(a.get(), 1)));
        all.back()->commit();
    }
    all.back()->waitUntilCompleted();
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i]->GPUEndTime() >= all[i]->GPUStartTime());
        if (i > 0)
            CHECK(all[i]->GPUStartTime() >= all[i - 1]->GPUEndTime());
    }
}

TEST_CASE_FIXTURE(Fixture, "the host signals what a queue waits for, and hears of signals within a command buffer") {
    auto a = buffer(4096);
    auto event = NS::TransferPtr(device->newSharedEvent());
    auto* commands = queue->commandBuffer();
    commands->encodeSignalEvent(event.get(), 1);
    commands->encodeWait(event.get(), 2);
    fill(a.get(), 5, commands);
    commands->encodeSignalEvent(event.get(), 3);
    commands->commit();
    CHECK(event->waitUntilSignaledValue(1, 10000));
    CHECK(static_cast<unsigned char*>(a->contents())[0] == 0);
    CHECK(commands->status() < MTL::CommandBufferStatusCompleted);
    event->setSignaledValue(2);
    commands->waitUntilCompleted();
    CHECK(event->signaledValue() == 3);
    CHECK(static_cast<unsigned char*>(a->contents())[0] == 5);
}

TEST_CASE_FIXTURE(Fixture, "the CPU waits for the GPU and the other way round") {
    auto cpu = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
    auto cpu_queue = NS::TransferPtr(cpu->newCommandQueue());
    auto event = NS::TransferPtr(device->newSharedEvent());
    auto a = buffer(4096);
    auto* first = cpu_queue->commandBuffer();
    first->encodeWait(event.get(), 1);
    first->encodeSignalEvent(event.get(), 2);
    first->commit();
    auto* gpu = fill(a.get(), 1);
    gpu->encodeSignalEvent(event.get(), 1);
    gpu->encodeWait(event.get(), 2);
    fill(a.get(), 2, gpu);
    run(gpu);
    first->waitUntilCompleted();
    CHECK(static_cast<unsigned char*>(a->contents())[0] == 2);
}

TEST_CASE_FIXTURE(Fixture, "what the driver refuses is told by the command buffer, and the next one runs") {
    auto a = buffer(4096);
    control().fail("cuMemsetD8Async", 1, 1);
    auto* commands = fill(a.get(), 1);
    run(commands);
    CHECK(commands->status() == MTL::CommandBufferStatusError);
    CHECK_MESSAGE(contains(error_of(commands), "cuMemsetD8Async"), error_of(commands));
    CHECK_MESSAGE(contains(error_of(commands), "CUDA_ERROR_INVALID_VALUE"), error_of(commands));
    auto* next = fill(a.get(), 2);
    run(next);
    CHECK(next->status() == MTL::CommandBufferStatusCompleted);
    CHECK(static_cast<unsigned char*>(a->contents())[0] == 2);
}

TEST_CASE_FIXTURE(Fixture,
                  "any call of the driver may fail: the error is reported, nobody waits for ever, and the next buffer runs") {
    auto a = buffer(4096), far = buffer(4096, MTL::ResourceStorageModePrivate);
    auto event = NS::TransferPtr(device->newSharedEvent());
    std::uint64_t value = 0;
    for (const char* call : {"cuMemsetD8Async", "cuMemcpyAsync", "cuEventRecord", "cuStreamWriteValue64", "cuEventCreate"})
        for (int nth = 1; nth <= 4; ++nth) {
            control().fail(call, nth, 2);
            auto* commands = fill(far.get(), 1);
            copy(a.get(), far.get(), 4096, commands);
            commands->encodeSignalEvent(event.get(), ++value);
            run(commands);
            CHECK(event->waitUntilSignaledValue(value, 10000));
            for (int i = 0; i < 4; ++i) // what is left of the failures
                run(copy(a.get(), far.get(), 4096, fill(far.get(), 2)));
            auto* good = copy(a.get(), far.get(), 4096, fill(far.get(), 3));
            run(good);
            CHECK_MESSAGE(good->status() == MTL::CommandBufferStatusCompleted, call, " ", nth, ": ", error_of(good));
            CHECK(static_cast<unsigned char*>(a->contents())[4095] == 3);
        }
}

TEST_CASE_FIXTURE(Fixture,
                  "a fault ends the context; shared memory stays, private contents are lost, and the device is usable again") {
    auto shared = buffer(4096), lost = buffer(4096, MTL::ResourceStorageModePrivate);
    run(fill(shared.get(), 42));
    control().fail("cuMemsetD8Async", 1, 700);
    auto* commands = fill(shared.get(), 43);
    run(commands);
    CHECK(commands->status() == MTL::CommandBufferStatusError);
    CHECK_MESSAGE(contains(error_of(commands), "CUDA_ERROR_ILLEGAL_ADDRESS"), error_of(commands));
    auto* next = fill(shared.get(), 44);
    run(next);
    CHECK_MESSAGE(next->status() == MTL::CommandBufferStatusCompleted, error_of(next));
    CHECK(static_cast<unsigned char*>(shared->contents())[4095] == 44);
    auto calls = control().take_calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuDevicePrimaryCtxReset") == 1);
    auto* encoder = queue->commandBuffer()->blitCommandEncoder();
    CHECK_THROWS_WITH_AS(encoder->fillBuffer(lost.get(), NS::Range::Make(0, 4), 1), doctest::Contains("lost"),
                         MTL::ValidationError);
    encoder->endEncoding();
    auto fresh = buffer(4096, MTL::ResourceStorageModePrivate);
    auto* again = copy(shared.get(), fresh.get(), 4096);
    run(again);
    CHECK(again->status() == MTL::CommandBufferStatusCompleted);
    CHECK(static_cast<unsigned char*>(shared->contents())[0] == 0);
}
