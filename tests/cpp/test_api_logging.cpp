// MTL::LogState: who gets the messages of kernels, and when.
#include <mutex>
#include <vector>

#include "api_fixture.hpp"

namespace {

const char* const source = R"(
#include <metal_stdlib>
#include <metal_logging>
using namespace metal;
constant os_log custom("sub", "cat");
kernel void say(uint i [[thread_position_in_grid]]) {
    custom.log_debug("debug %u", i);
    os_log_default.log_error("error %u", i);
    printf("print %u", i);
}
)";

struct Message {
    std::string subsystem, category, text;
    MTL::LogLevel level;
    bool operator==(const Message&) const = default;
};

std::string text_of(NS::String* string) {
    return string ? string->utf8String() : "(null)";
}

struct LogFixture : api_test::Fixture {
    NS::SharedPtr<MTL::ComputePipelineState> say = pipeline(source, "say");
    std::vector<Message> messages;

    NS::SharedPtr<MTL::LogState> log_state(MTL::LogLevel level = MTL::LogLevelDebug, NS::Integer bytes = 1 << 20) {
        auto descriptor = NS::TransferPtr(MTL::LogStateDescriptor::alloc()->init());
        descriptor->setLevel(level);
        descriptor->setBufferSize(bytes);
        NS::Error* error = nullptr;
        auto state = NS::TransferPtr(device->newLogState(descriptor.get(), &error));
        REQUIRE(state.get());
        state->addLogHandler([this](NS::String* subsystem, NS::String* category, MTL::LogLevel logLevel, NS::String* message) {
            messages.push_back({text_of(subsystem), text_of(category), text_of(message), logLevel});
        });
        return state;
    }
    MTL::CommandBuffer* buffer_with(const MTL::LogState* state) {
        auto descriptor = NS::TransferPtr(MTL::CommandBufferDescriptor::alloc()->init());
        descriptor->setLogState(state);
        return queue->commandBuffer(descriptor.get());
    }
    void run(MTL::CommandBuffer* commands, NS::UInteger threads = 1) {
        auto* encoder = commands->computeCommandEncoder();
        encoder->setComputePipelineState(say.get());
        encoder->dispatchThreads(MTL::Size(threads, 1, 1), MTL::Size(1, 1, 1));
        encoder->endEncoding();
        commands->commit();
        commands->waitUntilCompleted();
    }
};

} // namespace

TEST_CASE_FIXTURE(LogFixture, "the log state of a command buffer gets its messages") {
    run(buffer_with(log_state().get()));
    CHECK(messages == std::vector<Message>{{"sub", "cat", "debug 0", MTL::LogLevelDebug},
                                           {"(null)", "(null)", "error 0", MTL::LogLevelError},
                                           {"metalki", "print", "print 0", MTL::LogLevelNotice}});
}

TEST_CASE_FIXTURE(LogFixture, "a queue gives its log state to its command buffers") {
    auto descriptor = NS::TransferPtr(MTL::CommandQueueDescriptor::alloc()->init());
    auto of_queue = log_state();
    descriptor->setLogState(of_queue.get());
    CHECK(descriptor->logState() == of_queue.get());
    queue = NS::TransferPtr(device->newCommandQueue(descriptor.get()));
    run(queue->commandBuffer());
    CHECK(messages.size() == 3);
    std::vector<Message> of_buffer;
    auto other = NS::TransferPtr(device->newLogState(NS::TransferPtr(MTL::LogStateDescriptor::alloc()->init()).get(), nullptr));
    other->addLogHandler([&](NS::String*, NS::String*, MTL::LogLevel level, NS::String* text) {
        of_buffer.push_back({"", "", text_of(text), level});
    });
    run(buffer_with(other.get()));
    CHECK(messages.size() == 3); // the buffer's own comes first
    CHECK(of_buffer.size() == 3);
}

TEST_CASE_FIXTURE(LogFixture, "log messages below the level are not kept") {
    run(buffer_with(log_state(MTL::LogLevelError).get()));
    REQUIRE(messages.size() == 2);
    CHECK(messages[0].text == "error 0");
    CHECK(messages[1].text == "print 0");
}

TEST_CASE_FIXTURE(LogFixture, "what the buffer has no room for is counted") {
    run(buffer_with(log_state(MTL::LogLevelError, 1024).get()), 1000);
    REQUIRE(messages.size() > 3);
    CHECK(messages.size() < 60);
    unsigned long lost = 0;
    for (std::size_t i = messages.size() - 2; i < messages.size(); ++i) {
        CHECK(messages[i].text.find("dropped") != std::string::npos);
        lost += std::stoul(messages[i].text.substr(messages[i].text.find_first_of("0123456789")));
    }
    CHECK(lost + messages.size() - 2 == 2000);
}

TEST_CASE_FIXTURE(LogFixture, "messages come before completed handlers") {
    MTL::CommandBuffer* commands = buffer_with(log_state().get());
    std::size_t seen = 0;
    commands->addCompletedHandler([&](MTL::CommandBuffer*) { seen = messages.size(); });
    run(commands);
    CHECK(seen == 3);
}

TEST_CASE_FIXTURE(LogFixture, "sizes out of range are refused") {
    for (NS::Integer bytes : {NS::Integer{-1}, NS::Integer{0}, NS::Integer{1023}, (NS::Integer{1} << 30) + 1}) {
        auto descriptor = NS::TransferPtr(MTL::LogStateDescriptor::alloc()->init());
        descriptor->setBufferSize(bytes);
        NS::Error* error = nullptr;
        CHECK(device->newLogState(descriptor.get(), &error) == nullptr);
        REQUIRE(error);
        CHECK(error->code() == MTL::LogStateErrorInvalidSize);
        CHECK(error->domain()->isEqualToString(MTL::LogStateErrorDomain));
    }
}

TEST_CASE_FIXTURE(LogFixture, "a handler that throws does not keep others from their messages") {
    auto state = log_state();
    state->addLogHandler([](NS::String*, NS::String*, MTL::LogLevel, NS::String*) { throw 1; });
    run(buffer_with(state.get()));
    CHECK(messages.size() == 3);
}
