// A GPU of the fake driver behind the Metal API.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "api_fixture.hpp"
#include "fake_cuda/fake_cuda.hpp"

namespace cuda_test {

using api_test::string;

inline fake_cuda::Control& control() {
    static fake_cuda::Control* const found = [] {
        void* library = dlopen(METALKI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
        return reinterpret_cast<fake_cuda::GetControl>(dlsym(library, "fake_cuda_control"))();
    }();
    return *found;
}

inline bool contains(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

struct Fixture : api_test::Fixture {
    Fixture() {
        auto all = NS::TransferPtr(MTL::CopyAllDevices());
        REQUIRE(all->count() == 2);
        device = NS::RetainPtr(all->object<MTL::Device>(1));
        queue = NS::TransferPtr(device->newCommandQueue());
        control().on_launch(nullptr);
        control().forget_failures();
        control().take_calls();
    }

    MTL::CommandBuffer* copy(MTL::Buffer* to, MTL::Buffer* from, NS::UInteger bytes, MTL::CommandBuffer* commands = nullptr) {
        commands = commands ? commands : queue->commandBuffer();
        auto* encoder = commands->blitCommandEncoder();
        encoder->copyFromBuffer(from, 0, to, 0, bytes);
        encoder->endEncoding();
        return commands;
    }
    MTL::CommandBuffer* fill(MTL::Buffer* buffer, std::uint8_t value, MTL::CommandBuffer* commands = nullptr) {
        commands = commands ? commands : queue->commandBuffer();
        auto* encoder = commands->blitCommandEncoder();
        encoder->fillBuffer(buffer, NS::Range::Make(0, buffer->length()), value);
        encoder->endEncoding();
        return commands;
    }
    static void run(MTL::CommandBuffer* commands) {
        commands->commit();
        commands->waitUntilCompleted();
    }
    static std::string error_of(MTL::CommandBuffer* commands) {
        return commands->error() ? commands->error()->localizedDescription()->utf8String() : "";
    }
};

} // namespace cuda_test
