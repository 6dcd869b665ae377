// What the tests of the Metal API share: a pool per test, a device, and kernels from source.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <Metal/MetalkiValidation.hpp>

namespace api_test {

inline NS::String* string(const char* text) {
    return NS::String::string(text, NS::UTF8StringEncoding);
}

// The test's view of one device with one queue.
struct Fixture {
    NS::SharedPtr<NS::AutoreleasePool> pool = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
    NS::SharedPtr<MTL::Device> device = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
    NS::SharedPtr<MTL::CommandQueue> queue = NS::TransferPtr(device->newCommandQueue());

    NS::SharedPtr<MTL::Buffer> buffer(NS::UInteger length, MTL::ResourceOptions options = MTL::ResourceStorageModeShared) {
        return NS::TransferPtr(device->newBuffer(length, options));
    }

    NS::SharedPtr<MTL::ComputePipelineState> pipeline(const char* source, const char* name) {
        NS::Error* error = nullptr;
        auto library = NS::TransferPtr(device->newLibrary(string(source), nullptr, &error));
        REQUIRE_MESSAGE(library.get(), (error ? error->localizedDescription()->utf8String() : "no error"));
        auto function = NS::TransferPtr(library->newFunction(string(name)));
        REQUIRE(function.get());
        auto state = NS::TransferPtr(device->newComputePipelineState(function.get(), &error));
        REQUIRE_MESSAGE(state.get(), (error ? error->localizedDescription()->utf8String() : "no error"));
        return state;
    }
};

inline const char* const add_source = R"(
#include <metal_stdlib>
using namespace metal;
kernel void add(device uint* data [[buffer(0)]], constant uint& amount [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    data[i] += amount;
}
)";

// Adds `amount` to the first `count` values of `data` in a new, uncommitted command buffer.
inline MTL::CommandBuffer* encode_add(MTL::CommandQueue* queue, MTL::ComputePipelineState* add, MTL::Buffer* data,
                                      unsigned amount, NS::UInteger count, MTL::CommandBuffer* commands = nullptr) {
    commands = commands ? commands : queue->commandBuffer();
    auto* encoder = commands->computeCommandEncoder();
    encoder->setComputePipelineState(add);
    encoder->setBuffer(data, 0, 0);
    encoder->setBytes(&amount, sizeof amount, 1);
    encoder->dispatchThreads(MTL::Size(count, 1, 1), MTL::Size(32, 1, 1));
    encoder->endEncoding();
    return commands;
}

} // namespace api_test
