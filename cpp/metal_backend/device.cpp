// Devices and memory of the Metal API.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "metal_backend/queue.hpp"

namespace metalki::metal {

namespace {

constexpr std::size_t empty_buffer_bytes = 256; // Metal has no empty buffers; room for one element of any type

constexpr const char* byte_kernels = R"(#include <metal_stdlib>
using namespace metal;
kernel void metalki_copy_bytes(device uchar* to [[buffer(0)]], device const uchar* from [[buffer(1)]],
                               uint i [[thread_position_in_grid]]) { to[i] = from[i]; }
kernel void metalki_fill_bytes(device uchar* to [[buffer(0)]], constant uchar& value [[buffer(1)]],
                               uint i [[thread_position_in_grid]]) { to[i] = value; }
)";

#if defined(__APPLE__)
constexpr const char* provider_name = "Apple Metal";
#else
constexpr const char* provider_name = "metalki portable Metal";
#endif

std::string kind_of(const std::string& name) {
#if defined(__APPLE__)
    return "metal";
#else
    return name.find("NVIDIA") != std::string::npos ? "cuda" : "cpu";
#endif
}

MTL::Buffer* new_buffer(MTL::Device& device, std::size_t bytes, MTL::ResourceOptions options,
                        [[maybe_unused]] Contents contents) {
#if METALKI_EXTENDED_METAL
    if (contents == Contents::undefined)
        return MTL::Portable::newUndefinedBuffer(&device, bytes, options);
#endif
    return device.newBuffer(bytes, options);
}

class MetalBackend final : public detail::Backend {
public:
    std::vector<std::shared_ptr<detail::DeviceImpl>> devices() override {
        AutoreleaseScope scope;
        std::vector<std::shared_ptr<detail::DeviceImpl>> result;
        auto all = NS::TransferPtr(MTL::CopyAllDevices());
        std::map<std::string, int> of_kind;
        for (NS::UInteger i = 0; all && i < all->count(); ++i) {
            auto device = std::make_shared<MetalDevice>(NS::RetainPtr(all->object<MTL::Device>(i)));
            const int number = of_kind[device->info.kind]++;
            const bool numbered = number > 0 || device->info.kind == "cuda";
            device->info.id = device->info.kind + (numbered ? ":" + std::to_string(number) : "");
            result.push_back(std::move(device));
        }
        return result;
    }
    std::string provider() const override { return provider_name; }
    std::string compiler() const override {
#if METALKI_EXTENDED_METAL
        return MTL::Portable::compilerVersion();
#else
        return "the system's Metal compiler";
#endif
    }
};

} // namespace

NS::SharedPtr<NS::String> make_string(std::string_view text) {
    return NS::TransferPtr(NS::String::alloc()->init(std::string(text).c_str(), NS::UTF8StringEncoding));
}

std::string to_string(const NS::String* text) {
    const char* bytes = text ? text->utf8String() : nullptr;
    return bytes ? bytes : "";
}

MetalDevice::MetalDevice(NS::SharedPtr<MTL::Device> metal) : device(std::move(metal)) {
    info.name = to_string(device->name());
    info.kind = kind_of(info.name);
    info.max_threads_per_threadgroup = device->maxThreadsPerThreadgroup().width;
    info.threadgroup_memory_length = device->maxThreadgroupMemoryLength();
    info.thread_execution_width = 32; // known per pipeline only; every device in reach has this
    info.unified_memory = device->hasUnifiedMemory();
    info.recommended_working_set_size = device->recommendedMaxWorkingSetSize();
    info.max_buffer_length = device->maxBufferLength();
#if METALKI_EXTENDED_METAL
    info.multiprocessor_count = MTL::Portable::usableCores(device.get());
#else
    // Metal does not tell the cores of a GPU; those of the processor grow with them.
    info.multiprocessor_count = std::max(1u, std::thread::hardware_concurrency());
#endif
}

std::shared_ptr<detail::BufferImpl> MetalDevice::allocate(std::size_t bytes, Storage storage, std::string_view label,
                                                          Contents contents) {
    AutoreleaseScope scope;
    const MTL::ResourceOptions options =
        storage == Storage::private_ ? MTL::ResourceStorageModePrivate : MTL::ResourceStorageModeShared;
    auto buffer = NS::TransferPtr(new_buffer(*device.get(), std::max(bytes, empty_buffer_bytes), options, contents));
    if (!buffer)
        return nullptr;
    auto made = std::make_shared<MetalBuffer>(buffer);
    made->device = shared_from_this();
    made->bytes = bytes;
    made->storage = storage;
    made->label = label;
    made->contents = storage == Storage::shared ? buffer->contents() : nullptr;
    made->gpu_address = buffer->gpuAddress();
    if (!label.empty())
        buffer->setLabel(make_string(label).get());
    return made;
}

std::shared_ptr<detail::BufferImpl> MetalDevice::borrow(const void* memory, std::size_t bytes) {
    AutoreleaseScope scope;
    static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    // Metal takes whole pages only; what lies beside the memory in its first and last one is not touched.
    const std::size_t before = reinterpret_cast<std::uintptr_t>(memory) % page;
    const std::size_t whole = (before + bytes + page - 1) / page * page;
    if (whole > info.max_buffer_length)
        return nullptr;
    const auto* start = static_cast<const std::byte*>(memory) - before;
    auto buffer = NS::TransferPtr(device->newBuffer(start, whole, MTL::ResourceStorageModeShared, {}));
    if (!buffer)
        return nullptr;
    auto made = std::make_shared<MetalBuffer>(buffer);
    made->device = shared_from_this();
    made->bytes = bytes;
    made->gpu_address = buffer->gpuAddress();
    made->origin = before;
    return made;
}

std::shared_ptr<detail::BufferImpl> MetalDevice::adopt([[maybe_unused]] std::uint64_t address,
                                                       [[maybe_unused]] std::size_t bytes,
                                                       [[maybe_unused]] std::shared_ptr<void> owner) {
#if METALKI_EXTENDED_METAL
    AutoreleaseScope scope;
    auto buffer =
        NS::TransferPtr(MTL::Portable::newBufferAtAddress(device.get(), address, bytes, [owner = std::move(owner)] {}));
    if (!buffer)
        return nullptr;
    auto made = std::make_shared<MetalBuffer>(buffer);
    made->device = shared_from_this();
    made->bytes = bytes;
    made->storage = Storage::private_;
    made->gpu_address = address;
    return made;
#else
    return nullptr;
#endif
}

std::shared_ptr<detail::QueueImpl> MetalDevice::make_queue(std::string_view label) {
    return std::make_shared<MetalQueue>(*this, label);
}

std::shared_ptr<const detail::KernelImpl> MetalDevice::byte_kernel(const char* name) {
    const std::string key = std::string("\0metalki bytes", 14);
    auto library = libraries.get(key, [this] { return compile({byte_kernels, byte_kernels}, {}); });
    return library->kernels.get(name, [&] { return library->make_kernel(name, {}); });
}

} // namespace metalki::metal

namespace metalki::detail {

std::shared_ptr<Backend> metal_backend() {
    static std::shared_ptr<Backend>* backend = new std::shared_ptr<Backend>(std::make_shared<metal::MetalBackend>());
    return *backend;
}

} // namespace metalki::detail
