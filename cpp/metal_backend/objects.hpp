// The back end's objects: kernel_interface's abstract classes over Metal's. Only names of metal-cpp are used here, so the
// same code drives Apple's Metal and the portable one.
#pragma once

#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>

// The portable Metal offers more than Apple's; what it adds is used where it is there.
#if __has_include(<Metal/MetalkiExtensions.hpp>)
#include <Metal/MetalkiExtensions.hpp>
#define METALKI_EXTENDED_METAL 1
#else
#define METALKI_EXTENDED_METAL 0
#endif

#include <condition_variable>
#include <map>
#include <memory>

#include "kernel_interface/backend.hpp"

namespace metalki::metal {

// Owns what is autoreleased in its scope.
class AutoreleaseScope {
public:
    AutoreleaseScope() : pool_(NS::AutoreleasePool::alloc()->init()) {}
    ~AutoreleaseScope() { pool_->release(); }
    AutoreleaseScope(const AutoreleaseScope&) = delete;
    AutoreleaseScope& operator=(const AutoreleaseScope&) = delete;

private:
    NS::AutoreleasePool* pool_;
};

NS::SharedPtr<NS::String> make_string(std::string_view text);
std::string to_string(const NS::String* text);

class MetalBuffer final : public detail::BufferImpl {
public:
    explicit MetalBuffer(NS::SharedPtr<MTL::Buffer> buffer) : buffer(std::move(buffer)) {}
    void release() override { buffer.reset(); }

    NS::SharedPtr<MTL::Buffer> buffer;
    std::size_t origin = 0; // where the memory starts in it
};

class MetalKernel final : public detail::KernelImpl {
public:
    std::string disassemble(std::string_view form) const override;

    NS::SharedPtr<MTL::Function> function;
    NS::SharedPtr<MTL::ComputePipelineState> pipeline;
    std::shared_ptr<detail::LibraryImpl> library;
    bool prints = false;            // or may, where the device does not tell
    bool takes_only_memory = false; // so that the portable Metal encodes a launch in one call
};

class MetalLibrary final : public detail::LibraryImpl, public std::enable_shared_from_this<MetalLibrary> {
public:
    std::vector<detail::ConstantInfo> constants_of(const std::string& function) override;
    std::vector<detail::ConstantInfo> declared_constants() override;
    std::shared_ptr<const detail::KernelImpl> make_kernel(const std::string& function,
                                                          std::span<const detail::ConstantBytes> constants) override;

    NS::SharedPtr<MTL::Library> library;
    bool may_print = false; // for compilers that do not tell of single kernels

private:
    std::mutex constants_mutex_;
    std::map<std::string, std::vector<detail::ConstantInfo>> constants_;
};

class MetalEvent final : public detail::EventImpl {
public:
    bool reached(std::uint64_t value) const override { return event->signaledValue() >= value; }

    NS::SharedPtr<MTL::SharedEvent> event;
};

class MetalDevice final : public detail::DeviceImpl {
public:
    explicit MetalDevice(NS::SharedPtr<MTL::Device> device);
    std::shared_ptr<detail::BufferImpl> allocate(std::size_t bytes, Storage storage, std::string_view label,
                                                 Contents contents) override;
    std::shared_ptr<detail::BufferImpl> borrow(const void* memory, std::size_t bytes) override;
    std::shared_ptr<detail::BufferImpl> adopt(std::uint64_t address, std::size_t bytes, std::shared_ptr<void> owner) override;
    std::shared_ptr<detail::TextureImpl> make_texture(const TextureOptions& options, const PixelFormat& format) override;
    std::shared_ptr<detail::SamplerImpl> make_sampler(const SamplerOptions& options) override;
    std::shared_ptr<detail::LibraryImpl> compile(const detail::Program& program, const CompileOptions& options) override;
    std::shared_ptr<detail::QueueImpl> make_queue(std::string_view label) override;

    // Byte-wise copy and fill, for what blit encoders refuse: ranges that are not multiples of 4.
    std::shared_ptr<const detail::KernelImpl> byte_kernel(const char* name);

    NS::SharedPtr<MTL::Device> device;
};

// The arguments of a pipeline in call order.
std::vector<ArgumentInfo> read_arguments(const MTL::ComputePipelineReflection* reflection);
struct ValueShape {
    ScalarType scalar = ScalarType::none;
    std::uint8_t rows = 1, columns = 1;
};
ValueShape shape_of(MTL::DataType type);
MTL::DataType data_type_of(ScalarType scalar, unsigned width);

// The messages of a failed or warned compile.
std::vector<Diagnostic> read_diagnostics(NS::Error* error, const std::string& source);

} // namespace metalki::metal
