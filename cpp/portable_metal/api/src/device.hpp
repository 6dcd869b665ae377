// State of devices, buffers, functions and pipelines.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "Metal/Metal.hpp"
#include "compiler/compiler.hpp"
#include "object.hpp"
#include "string.hpp"

namespace metalki::api {

constexpr NS::UInteger buffer_slots = 31;
constexpr NS::UInteger max_set_bytes = 4096;

struct DeviceFacts {
    std::string name;
    std::uint64_t registry_id = 0;
    std::uint64_t max_buffer_length = 0, working_set = 0; // bytes
    std::uint32_t max_threads_per_threadgroup = 0, max_threadgroup_memory = 0;
    unsigned cores = 0;
    bool has_unified_memory = false;
};

// The code of one specialised kernel for one device.
struct DeviceCode {
    virtual ~DeviceCode() = default;

    compiler::FunctionInfo function;
    std::size_t static_threadgroup_memory = 0; // bytes
    std::uint32_t max_threads = 0;             // of a threadgroup
    std::uint32_t preferred_threads = 0; // of a threadgroup, where the device knows better than any caller; 0: it does not
    compiler::GroupWork group_work;
    bool prints = false;
    const compiler::KernelCode* for_cpu = nullptr; // set on the CPU
};

class BufferState;
class DevicePoint;
class DeviceQueue;
class QueueState;

// The device is at fault, not what it was given.
class DeviceFailure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// What differs from device to device. Devices live as long as the process.
class DeviceState : public ObjectState {
public:
    explicit DeviceState(DeviceFacts facts) : facts_(std::move(facts)) {}
    const char* class_name() const override { return "MTL::Device"; }
    const DeviceFacts& facts() const { return facts_; }

    // Zeroed memory, for kernels and, unless it is private, for the host; null when there is not enough.
    virtual std::byte* allocate(std::size_t length, MTL::StorageMode storage) = 0;
    // The same with whatever was there, where that is cheaper.
    virtual std::byte* allocate_undefined(std::size_t length, MTL::StorageMode storage) { return allocate(length, storage); }
    virtual void deallocate(std::byte* address, std::size_t length, MTL::StorageMode storage) = 0;
    // Whole pages of the caller's. False: the device cannot reach them.
    virtual bool add_host_memory(void* address, std::size_t length) = 0;
    virtual void remove_host_memory(void* address) = 0;
    // Memory of a GPU and streams of others, for code that shares them. Whether the device is such a GPU.
    virtual bool knows_address(std::uint64_t) { return false; }
    virtual std::shared_ptr<DevicePoint> mark_stream(std::uint64_t) { return nullptr; }
    virtual void let_stream_wait(std::uint64_t, const DevicePoint&) {}
    // To be told of private buffers: those that a fault takes are marked as lost.
    virtual void track(BufferState&) {}
    virtual void forget(BufferState&) {}

    // Throws CompileError, SpecializationError, DeviceFailure or std::runtime_error.
    virtual std::shared_ptr<const DeviceCode> make_code(const std::shared_ptr<const compiler::Library>& library,
                                                        const std::string& function,
                                                        std::span<const compiler::ConstantValue> constants) = 0;
    // What runs the commands of a queue; null: the scheduler's threads do.
    virtual std::unique_ptr<DeviceQueue> make_queue(QueueState& queue) = 0;

    std::atomic<std::uint64_t> allocated{0}; // bytes of buffers

private:
    const DeviceFacts facts_;
};

// The CPU first, then the GPUs.
std::span<DeviceState* const> all_devices();
DeviceState& cpu_device();
// Counts host memory before it is had. False: the machine would not have it once it is touched.
bool promise_host_memory(std::uint64_t length);
void give_back_host_memory(std::uint64_t length);
// Of the machine, or of the container it is limited to.
std::uint64_t physical_memory();
inline DeviceState& device_of(const MTL::Device* device) {
    return state_of<DeviceState>(device);
}

// What buffers and textures have in common.
class ResourceState : public ObjectState {
public:
    explicit ResourceState(DeviceState& device) : device(device) {}
    MTL::StorageMode storage() const { return static_cast<MTL::StorageMode>(options >> 4 & 15); }

    DeviceState& device;
    std::size_t length = 0;           // bytes
    std::atomic<bool> is_lost{false}; // a fault of the device took the contents
    MTL::ResourceOptions options = 0;
    Reference<StringState> label;
    // Number of the command buffer that retained this resource last: spares it retaining once per bind.
    mutable std::atomic<std::uint64_t> last_holder{0};
};

class BufferState final : public ResourceState {
public:
    using ResourceState::ResourceState;
    const char* class_name() const override { return "MTL::Buffer"; }
    ~BufferState() override;

    std::byte* address = nullptr;                    // for kernels, and for the host unless the storage is private
    bool owns_memory = true, is_host_memory = false; // the latter: pages of the caller, which the device was told of
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
    explicit LibraryState(DeviceState& device) : device(device) {}
    const char* class_name() const override { return "MTL::Library"; }
    DeviceState& device;
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
    std::shared_ptr<const DeviceCode> code; // set when constants were given
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
    explicit PipelineState(DeviceState& device) : device(device) {}
    const char* class_name() const override { return "MTL::ComputePipelineState"; }
    DeviceState& device;
    std::shared_ptr<const DeviceCode> code;
    std::vector<ArgumentPlan> plan;
    NS::UInteger max_threads = 0;
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
