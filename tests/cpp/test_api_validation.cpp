// Every misuse is reported and changes nothing.
#include "api_fixture.hpp"

#include <vector>

using namespace api_test;
#define REFUSED(expression) CHECK_THROWS_AS(expression, MTL::ValidationError)

TEST_CASE_FIXTURE(Fixture, "buffers") {
    REFUSED(device->newBuffer(NS::UInteger{0}, MTL::ResourceStorageModeShared));
    REFUSED(device->newBuffer(device->maxBufferLength() + 1, MTL::ResourceStorageModeShared));
    REFUSED(device->newBuffer(16, MTL::ResourceStorageModeMemoryless));
    REFUSED(device->newBuffer(nullptr, 16, MTL::ResourceStorageModeShared));
    alignas(16384) static char page[16384];
    REFUSED(device->newBuffer(page + 1, 16384, MTL::ResourceStorageModeShared, nullptr));
    REFUSED(device->newBuffer(page, 100, MTL::ResourceStorageModeShared, nullptr));
    REFUSED(device->newBuffer(page, 16, MTL::ResourceStorageModePrivate));
    REFUSED(buffer(16)->didModifyRange(NS::Range(0, 4)));
    REFUSED(buffer(16, MTL::ResourceStorageModeManaged)->didModifyRange(NS::Range(8, 9)));
    CHECK(buffer(16, MTL::ResourceStorageModePrivate)->contents() == nullptr);
    bool freed = false;
    NS::TransferPtr(device->newBuffer(page, 16384, MTL::ResourceStorageModeShared, [&](void*, NS::UInteger) { freed = true; }));
    CHECK(freed);
}

TEST_CASE_FIXTURE(Fixture, "life of encoders and command buffers") {
    auto* commands = queue->commandBuffer();
    REFUSED(commands->waitUntilCompleted());
    auto* encoder = commands->computeCommandEncoder();
    REFUSED(commands->computeCommandEncoder());
    REFUSED(commands->blitCommandEncoder());
    REFUSED(commands->commit());
    encoder->endEncoding();
    REFUSED(encoder->endEncoding());
    REFUSED(encoder->setBuffer(nullptr, 0, 0));
    REFUSED(encoder->setBytes("abcd", 4, 0));
    commands->commit();
    REFUSED(commands->commit());
    REFUSED(commands->enqueue());
    REFUSED(commands->computeCommandEncoder());
    REFUSED(commands->addCompletedHandler([](MTL::CommandBuffer*) {}));
    commands->waitUntilCompleted();
    CHECK(commands->status() == MTL::CommandBufferStatusCompleted);
    auto* abandoned = queue->commandBuffer();
    auto* inner = NS::AutoreleasePool::alloc()->init();
    abandoned->computeCommandEncoder();
    REFUSED(inner->release());
    REFUSED(abandoned->commit());
}

TEST_CASE_FIXTURE(Fixture, "compute arguments") {
    auto add = pipeline(add_source, "add");
    auto data = buffer(256);
    auto* commands = queue->commandBuffer();
    auto* encoder = commands->computeCommandEncoder();
    const MTL::Size one(1, 1, 1);
    std::vector<char> bytes(5000);
    REFUSED(encoder->dispatchThreads(one, one)); // no pipeline
    REFUSED(encoder->setComputePipelineState(nullptr));
    encoder->setComputePipelineState(add.get());
    REFUSED(encoder->dispatchThreads(one, one)); // nothing bound
    REFUSED(encoder->setBytes(bytes.data(), 5000, 1));
    REFUSED(encoder->setBytes(bytes.data(), 0, 1));
    REFUSED(encoder->setBytes(nullptr, 4, 1));
    REFUSED(encoder->setBytes(bytes.data(), 4, 31));
    REFUSED(encoder->setBuffer(data.get(), 0, 31));
    REFUSED(encoder->setBuffer(data.get(), 256, 0));
    REFUSED(encoder->setBufferOffset(0, 0));
    encoder->setBuffer(data.get(), 0, 0);
    REFUSED(encoder->setBufferOffset(256, 0));
    const MTL::Buffer* two[] = {data.get(), data.get()};
    const NS::UInteger offsets[] = {0, 0};
    REFUSED(encoder->setBuffers(two, offsets, NS::Range(30, 2)));
    encoder->setBytes(bytes.data(), 2, 1);
    REFUSED(encoder->dispatchThreads(one, one)); // two bytes for a uint
    encoder->setBytes(bytes.data(), 4, 1);
    REFUSED(encoder->dispatchThreads(MTL::Size(0, 1, 1), one));
    REFUSED(encoder->dispatchThreads(one, MTL::Size(0, 1, 1)));
    REFUSED(encoder->dispatchThreads(one, MTL::Size(1025, 1, 1)));
    REFUSED(encoder->dispatchThreads(one, MTL::Size(64, 64, 1)));
    REFUSED(encoder->dispatchThreads(MTL::Size(NS::UInteger{1} << 32, 1, 1), one));
    encoder->setBufferOffset(2, 0);
    REFUSED(encoder->dispatchThreads(one, one)); // misaligned
    encoder->setBufferOffset(4, 0);
    REFUSED(encoder->setThreadgroupMemoryLength(17, 0));
    REFUSED(encoder->setThreadgroupMemoryLength(16, 31));
    REFUSED(encoder->setThreadgroupMemoryLength(32768 + 16, 0));
    REFUSED(encoder->dispatchThreadgroups(nullptr, 0, one));
    REFUSED(encoder->dispatchThreadgroups(data.get(), 2, one));
    REFUSED(encoder->dispatchThreadgroups(data.get(), 248, one));
    REFUSED(encoder->useResource(nullptr, MTL::ResourceUsageRead));
    REFUSED(encoder->memoryBarrier(MTL::BarrierScope{0}));
    REFUSED(encoder->popDebugGroup());
    encoder->dispatchThreads(one, one);
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(commands->error() == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "copies, fills and events") {
    auto a = buffer(64), b = buffer(64);
    auto event = NS::TransferPtr(device->newSharedEvent());
    auto* commands = queue->commandBuffer();
    auto* blit = commands->blitCommandEncoder();
    REFUSED(blit->copyFromBuffer(nullptr, 0, b.get(), 0, 4));
    REFUSED(blit->copyFromBuffer(a.get(), 2, b.get(), 0, 4));
    REFUSED(blit->copyFromBuffer(a.get(), 0, b.get(), 0, 3));
    REFUSED(blit->copyFromBuffer(a.get(), 0, b.get(), 0, 0));
    REFUSED(blit->copyFromBuffer(a.get(), 0, b.get(), 32, 64));
    REFUSED(blit->copyFromBuffer(a.get(), 0, a.get(), 16, 32));
    REFUSED(blit->fillBuffer(nullptr, NS::Range(0, 4), 0));
    REFUSED(blit->fillBuffer(a.get(), NS::Range(60, 8), 0));
    REFUSED(blit->fillBuffer(a.get(), NS::Range(1, 4), 0));
    REFUSED(blit->synchronizeResource(a.get()));
    REFUSED(commands->encodeWait(event.get(), 1)); // encoder open
    blit->fillBuffer(a.get(), NS::Range(0, 64), 7);
    blit->copyFromBuffer(a.get(), 0, b.get(), 32, 32);
    blit->endEncoding();
    REFUSED(commands->encodeWait(nullptr, 1));
    REFUSED(commands->encodeSignalEvent(event.get(), 0));
    event->setSignaledValue(5);
    REFUSED(event->setSignaledValue(4));
    REFUSED(commands->encodeSignalEvent(event.get(), 5));
    commands->commit();
    commands->waitUntilCompleted();
    const auto* bytes = static_cast<const unsigned char*>(b->contents());
    CHECK(bytes[31] == 0);
    CHECK(bytes[32] == 7);
    CHECK(bytes[63] == 7);
}

TEST_CASE("a handler that returns makes the call do nothing") {
    Fixture fixture;
    std::string seen;
    MTL::setValidationHandler([&](const std::string& message) { seen = message; });
    CHECK(fixture.device->newBuffer(NS::UInteger{0}, MTL::ResourceStorageModeShared) == nullptr);
    MTL::setValidationHandler(nullptr);
    CHECK(seen == "MTL::Device::newBuffer: length is 0");
}
