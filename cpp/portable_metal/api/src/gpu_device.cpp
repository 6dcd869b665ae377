// NVIDIA GPUs as devices of the Metal API.
#include "gpu_device.hpp"

#include <unordered_set>

#include "cuda/libdevice.hpp"
#include "gpu_queue.hpp"

namespace metalki::api {
namespace {

// A version of PTX that the driver reads.
unsigned ptx_version(int cuda_version) {
    if (cuda_version >= 12050)
        return 85;
    return cuda_version >= 12000 ? 80 : 78;
}

DeviceFacts facts_of(const cuda::DeviceFacts& gpu) {
    // Drivers name some without their maker, by which callers tell what kind of a device it is.
    const bool has_maker = gpu.name.find("NVIDIA") != std::string::npos;
    return {.name = has_maker ? gpu.name : "NVIDIA " + gpu.name,
            .registry_id = 0x10de00000000 | gpu.pci,
            .max_buffer_length = gpu.memory,
            .working_set = gpu.memory / 10 * 9,
            .max_threads_per_threadgroup = gpu.max_threads_per_threadgroup,
            .max_threadgroup_memory = static_cast<std::uint32_t>(gpu.max_threadgroup_memory),
            .cores = gpu.multiprocessors,
            .has_unified_memory = false};
}

std::byte* pointer_to(cuda::Address address) {
    return reinterpret_cast<std::byte*>(address);
}

// Shared memory of a device that has gone must not be touched, so devices stay; calls after a fork are refused elsewhere.
class GpuDevice final : public DeviceState {
public:
    explicit GpuDevice(cuda::Device& device) : DeviceState(facts_of(device.facts())), gpu_(*new cuda::Gpu(device)) {
        device.on_renewal([this] { lose_private_memory(); });
        make_immortal();
    }

    std::byte* allocate(std::size_t length, MTL::StorageMode storage) override {
        return allocate_memory(length, storage, true);
    }
    std::byte* allocate_undefined(std::size_t length, MTL::StorageMode storage) override {
        return allocate_memory(length, storage, false);
    }
    void deallocate(std::byte* address, std::size_t length, MTL::StorageMode storage) override {
        if (storage == MTL::StorageModePrivate)
            return gpu_.memory.free_on_device(cuda::address_of(address), length, gpu_.device.generation());
        give_back_host_memory(length);
        gpu_.memory.free_on_host(address, length);
    }
    bool add_host_memory(void* address, std::size_t length) override { return gpu_.memory.add_host_range(address, length); }
    void remove_host_memory(void* address) override { gpu_.memory.remove_host_range(address); }

    void track(BufferState& buffer) override {
        const std::lock_guard lock(private_mutex_);
        private_.insert(&buffer);
    }
    void forget(BufferState& buffer) override {
        const std::lock_guard lock(private_mutex_);
        private_.erase(&buffer);
    }

    std::shared_ptr<const DeviceCode> make_code(const std::shared_ptr<const compiler::Library>& library,
                                                const std::string& function,
                                                std::span<const compiler::ConstantValue> constants) override {
        compiler::GpuTarget target;
        target.architecture = gpu_.device.facts().architecture;
        target.ptx_version = ptx_version(cuda::driver().version);
        target.libdevice = cuda::find_libdevice();
        try {
            return std::make_shared<GpuCode>(gpu_.device, library, function, constants, std::move(target));
        } catch (const cuda::Lost& lost) {
            throw DeviceFailure(lost.what());
        }
    }
    std::unique_ptr<DeviceQueue> make_queue(QueueState& queue) override { return std::make_unique<GpuQueue>(gpu_, queue); }

    bool knows_address(std::uint64_t address) override {
        constexpr unsigned device_memory = 2; // host memory is everybody's
        unsigned memory_type = 0;
        int owner = 0;
        const cuda::Use use(gpu_.device);
        const auto ask = [&](void* result, cuda::PointerAttribute what) {
            return cuda::driver().pointer_get_attribute(result, what, address) == cuda::Result::success;
        };
        return ask(&memory_type, cuda::PointerAttribute::memory_type) &&
               (memory_type != device_memory || !ask(&owner, cuda::PointerAttribute::device_ordinal) ||
                owner == gpu_.device.facts().number);
    }
    std::shared_ptr<DevicePoint> mark_stream(std::uint64_t stream) override {
        return std::make_shared<GpuPoint>(gpu_.mark_foreign(stream));
    }
    void let_stream_wait(std::uint64_t stream, const DevicePoint& point) override {
        gpu_.let_foreign_wait(stream, *static_cast<const GpuPoint&>(point).point);
    }

private:
    std::byte* allocate_memory(std::size_t length, MTL::StorageMode storage, bool zeroed) {
        if (storage == MTL::StorageModePrivate)
            return pointer_to(gpu_.memory.allocate_on_device(length, zeroed));
        if (!promise_host_memory(length))
            return nullptr;
        std::byte* memory = gpu_.memory.allocate_on_host(length, zeroed);
        if (!memory)
            give_back_host_memory(length);
        return memory;
    }
    void lose_private_memory() {
        const std::lock_guard lock(private_mutex_);
        for (BufferState* buffer : private_)
            buffer->is_lost.store(true, std::memory_order_relaxed);
    }

    cuda::Gpu& gpu_;
    std::mutex private_mutex_;
    std::unordered_set<BufferState*> private_;
};

} // namespace

std::vector<DeviceState*> find_gpus() {
    std::vector<DeviceState*> found;
    for (cuda::Device* device : cuda::devices())
        found.push_back(new GpuDevice(*device));
    return found;
}

} // namespace metalki::api
