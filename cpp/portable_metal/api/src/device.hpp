// State of devices, buffers, functions and pipelines.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "Metal/Metal.hpp"
#include "compiler/compiler.hpp"
#include "cpu/executor.hpp"
#include "object.hpp"
#include "string.hpp"

namespace metalki::api {

constexpr NS::UInteger buffer_slots = 31;
constexpr NS::UInteger max_set_bytes = 4096;

class DeviceState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::Device"; }
    std::atomic<std::uint64_t> allocated{0};
    std::atomic<std::uint64_t> promised{0}; // of that, what is memory of ours

    // Counts memory before it is had. False: the machine would not have it once it is touched.
    bool promise(std::uint64_t length);
    void give_back(std::uint64_t length) { promised.fetch_sub(length, std::memory_order_relaxed); }
};
// The one device; lives as long as the process.
DeviceState& cpu_device();
inline MTL::Device* device_pointer() {
    return public_of<MTL::Device>(&cpu_device());
}

// What buffers and textures have in common.
class ResourceState : public ObjectState {
public:
    MTL::StorageMode storage() const { return static_cast<MTL::StorageMode>(options >> 4 & 15); }

    std::size_t length = 0; // bytes
    MTL::ResourceOptions options = 0;
    Reference<StringState> label;
    // Number of the command buffer that retained this resource last: spares it retaining once per bind.
    mutable std::atomic<std::uint64_t> last_holder{0};
};

class BufferState final : public ResourceState {
public:
    const char* class_name() const override { return "MTL::Buffer"; }
    ~BufferState() override;

    std::byte* address = nullptr;
    bool owns_memory = true;
    std::function<void(void*, NS::UInteger)> deallocator;
};

class ConstantValuesState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::FunctionConstantValues"; }
    ObjectState* copy() const override;
    std::vector<compiler::ConstantValue> values;
};

class LibraryState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::Library"; }
    std::shared_ptr<const compiler::Library> code;
    Reference<StringState> label;
    MTL::LibraryType type = MTL::LibraryTypeExecutable;
};

class FunctionState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::Function"; }
    Reference<LibraryState> library;
    std::string name;
    std::vector<compiler::ConstantValue> constants;
    std::shared_ptr<const compiler::KernelCode> code; // set when constants were given
    Reference<StringState> label;
};

// What a kernel's declaration asks of a texture.
struct TextureNeeds {
    enum class Component : std::uint8_t { real, signed_integer, unsigned_integer };
    MTL::TextureType type = MTL::TextureType2D;
    MTL::TextureUsage usage = MTL::TextureUsageUnknown;
    Component component = Component::real;
    bool depth = false;
};

// What a dispatch has to check and fill for one argument of the kernel.
struct ArgumentPlan {
    compiler::ArgumentKind kind;
    bool active;
    bool constant_space;
    std::uint32_t slot;
    std::uint32_t index;
    std::size_t alignment;
    std::size_t minimum; // bytes that must be bound; 0: unknown
    TextureNeeds texture;
};

class PipelineState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::ComputePipelineState"; }
    std::shared_ptr<const compiler::KernelCode> code;
    std::vector<ArgumentPlan> plan;
    NS::UInteger max_threads = cpu::max_threads_per_threadgroup;
    Reference<StringState> label;
};

// New NS::Array (caller owns) of objects that serve as Binding and as Argument.
NS::Array* make_bindings(const compiler::FunctionInfo& function);
MTL::DataType data_type(const compiler::Type& type);

// Stores an autoreleased error where `error` is not null.
void set_error(NS::Error** error, NS::ErrorDomain domain, NS::Integer code, const std::string& text,
               std::span<const compiler::Diagnostic> diagnostics = {});
NS::Error* make_error(NS::ErrorDomain domain, NS::Integer code, const std::string& text,
                      std::span<const compiler::Diagnostic> diagnostics = {});

} // namespace metalki::api
