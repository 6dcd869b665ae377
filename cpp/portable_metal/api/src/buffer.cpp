// MTL::Buffer, and the newBuffer functions of MTL::Device.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "Metal/MetalkiExtensions.hpp"
#include "device.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

bool valid_request(const DeviceState& device, NS::UInteger length, MTL::ResourceOptions options) {
    constexpr const char* call = "MTL::Device::newBuffer";
    const NS::UInteger limit = device.facts().max_buffer_length;
    return require(length > 0, call, "length is 0") &&
           require(length <= limit, call,
                   [&] { return "length " + std::to_string(length) + " is over maxBufferLength " + std::to_string(limit); }) &&
           require((options >> 4 & 15) <= MTL::StorageModePrivate, call, "buffers cannot have memoryless storage") &&
           require((options & ~NS::UInteger{0x331}) == 0, call, "unknown resource options");
}

BufferState* new_state(DeviceState& device, std::byte* address, NS::UInteger length, MTL::ResourceOptions options) {
    auto* state = new BufferState(device);
    state->address = address;
    state->length = length;
    state->options = options;
    device.allocated.fetch_add(length, std::memory_order_relaxed);
    return state;
}

const BufferState& buffer(const MTL::Buffer* buffer) {
    return state_of<BufferState>(buffer);
}
const ResourceState& state(const MTL::Resource* resource) {
    return state_of<ResourceState>(resource);
}

} // namespace

BufferState::~BufferState() {
    device.allocated.fetch_sub(length, std::memory_order_relaxed);
    if (owns_memory) {
        if (storage() == MTL::StorageModePrivate)
            device.forget(*this);
        if (!is_lost.load(std::memory_order_relaxed))
            device.deallocate(address, length, storage());
        return;
    }
    if (is_host_memory)
        device.remove_host_memory(address);
    if (deallocator) {
        try {
            deallocator(address, length);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "metalki: the deallocator of a buffer threw: %s\n", error.what());
        } catch (...) {
            std::fprintf(stderr, "metalki: the deallocator of a buffer threw\n");
        }
    }
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

namespace {

Buffer* new_buffer(DeviceState& device, NS::UInteger length, ResourceOptions options, bool is_undefined) {
    if (!valid_request(device, length, options))
        return nullptr;
    const auto storage = static_cast<StorageMode>(options >> 4 & 15);
    std::byte* memory = is_undefined ? device.allocate_undefined(length, storage) : device.allocate(length, storage);
    if (!memory)
        return nullptr;
    BufferState* state = new_state(device, memory, length, options);
    if (state->storage() == StorageModePrivate)
        device.track(*state);
    return public_of<Buffer>(state);
}

} // namespace

Buffer* Device::newBuffer(NS::UInteger length, ResourceOptions options) {
    return new_buffer(device_of(this), length, options, false);
}

Buffer* Portable::newUndefinedBuffer(Device* device, NS::UInteger length, ResourceOptions options) {
    return new_buffer(device_of(device), length, options, true);
}

Buffer* Portable::newBufferAtAddress(Device* device, std::uint64_t address, NS::UInteger length,
                                     const std::function<void()>& deallocator) {
    DeviceState& owner = device_of(device);
    if (!require(address && length, "MTL::Portable::newBufferAtAddress", "address or length is 0") ||
        !owner.knows_address(address))
        return nullptr;
    BufferState* state = new_state(owner, reinterpret_cast<std::byte*>(address), length, MTL::ResourceStorageModePrivate);
    state->owns_memory = false;
    if (deallocator)
        state->deallocator = [deallocator](void*, NS::UInteger) { deallocator(); };
    return public_of<Buffer>(state);
}

Buffer* Device::newBuffer(const void* pointer, NS::UInteger length, ResourceOptions options) {
    constexpr const char* call = "MTL::Device::newBuffer";
    if (!valid_request(device_of(this), length, options) || !require(pointer, call, "pointer is null") ||
        !require((options >> 4 & 15) != StorageModePrivate, call, "a buffer with initial bytes cannot have private storage"))
        return nullptr;
    Buffer* result = new_buffer(device_of(this), length, options, true);
    if (result)
        std::memcpy(state_of<BufferState>(result).address, pointer, length);
    return result;
}

Buffer* Device::newBuffer(const void* pointer, NS::UInteger length, ResourceOptions options,
                          const std::function<void(void*, NS::UInteger)>& deallocator) {
    constexpr const char* call = "MTL::Device::newBuffer";
    static const auto page = static_cast<NS::UInteger>(sysconf(_SC_PAGESIZE));
    const auto aligned = [&](const char* what, NS::UInteger value) {
        return require(value % page == 0, call, [&] {
            return std::string(what) + " " + std::to_string(value) + " is not a multiple of the page size " +
                   std::to_string(page);
        });
    };
    if (!valid_request(device_of(this), length, options) || !require(pointer, call, "pointer is null") ||
        !require((options >> 4 & 15) != StorageModePrivate, call, "memory of the host cannot have private storage") ||
        !aligned("pointer", reinterpret_cast<NS::UInteger>(pointer)) || !aligned("length", length))
        return nullptr;
    DeviceState& device = device_of(this);
    if (!device.add_host_memory(const_cast<void*>(pointer), length))
        return nullptr;
    BufferState* state = new_state(device, static_cast<std::byte*>(const_cast<void*>(pointer)), length, options);
    state->owns_memory = false;
    state->is_host_memory = true;
    state->deallocator = deallocator;
    return public_of<Buffer>(state);
}

NS::UInteger Allocation::allocatedSize() const {
    const auto* state = dynamic_cast<const ResourceState*>(&state_of<ObjectState>(this));
    return state ? state->length : 0;
}
NS::UInteger Resource::allocatedSize() const {
    return state(this).length;
}
CPUCacheMode Resource::cpuCacheMode() const {
    return static_cast<CPUCacheMode>(state(this).options & 15);
}
Device* Resource::device() const {
    return public_of<Device>(&state(this).device);
}
HazardTrackingMode Resource::hazardTrackingMode() const {
    const auto mode = state(this).options >> 8 & 3;
    return mode == HazardTrackingModeDefault ? HazardTrackingModeTracked : static_cast<HazardTrackingMode>(mode);
}
Heap* Resource::heap() const {
    return nullptr;
}
NS::UInteger Resource::heapOffset() const {
    return 0;
}
bool Resource::isAliasable() {
    return false;
}
NS::String* Resource::label() const {
    return autoreleased<NS::String>(state(this).label);
}
ResourceOptions Resource::resourceOptions() const {
    return state(this).options;
}
void Resource::setLabel(const NS::String* label) {
    state_of<ResourceState>(this).label = label_of(label);
}
PurgeableState Resource::setPurgeableState(PurgeableState) {
    return PurgeableStateNonVolatile;
}
StorageMode Resource::storageMode() const {
    return state(this).storage();
}

void Buffer::addDebugMarker(const NS::String* marker, NS::Range range) {
    require(range.location <= length() && range.length <= length() - range.location, "MTL::Buffer::addDebugMarker",
            "the range is beyond the buffer");
}
void Buffer::removeAllDebugMarkers() {}
void* Buffer::contents() {
    return storageMode() == StorageModePrivate ? nullptr : buffer(this).address;
}
void Buffer::didModifyRange(NS::Range range) {
    constexpr const char* call = "MTL::Buffer::didModifyRange";
    if (require(storageMode() == StorageModeManaged, call, "the buffer does not have managed storage"))
        require(range.location <= length() && range.length <= length() - range.location, call,
                "the range is beyond the buffer");
}
GPUAddress Buffer::gpuAddress() const {
    return reinterpret_cast<GPUAddress>(buffer(this).address);
}
NS::UInteger Buffer::length() const {
    return buffer(this).length;
}

} // namespace MTL
