// MTL::Device: which there are, and facts about them.
#include "device.hpp"

#include <chrono>

#include "collections.hpp"
#include "gpu_device.hpp"

namespace metalki::api {
namespace {

const DeviceFacts& facts(const MTL::Device* device) {
    return device_of(device).facts();
}

} // namespace

std::span<DeviceState* const> all_devices() {
    static const auto* const all = [] {
        auto* made = new std::vector<DeviceState*>{&cpu_device()};
        for (DeviceState* gpu : find_gpus())
            made->push_back(gpu);
        return made;
    }();
    return *all;
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

Device* CreateSystemDefaultDevice() {
    return public_of<Device>(&cpu_device());
}

NS::Array* CopyAllDevices() {
    std::vector<Reference<ObjectState>> all;
    for (DeviceState* device : all_devices())
        all.push_back(Reference<ObjectState>::share(device));
    return make_array(std::move(all));
}

ArgumentBuffersTier Device::argumentBuffersSupport() const {
    return ArgumentBuffersTier2;
}
NS::UInteger Device::currentAllocatedSize() const {
    return device_of(this).allocated.load(std::memory_order_relaxed);
}
bool Device::hasUnifiedMemory() const {
    return facts(this).has_unified_memory;
}
bool Device::isHeadless() const {
    return true;
}
bool Device::isLowPower() const {
    return false;
}
bool Device::isRemovable() const {
    return false;
}
DeviceLocation Device::location() const {
    return DeviceLocationBuiltIn;
}
NS::UInteger Device::maxBufferLength() const {
    return facts(this).max_buffer_length;
}
NS::UInteger Device::maxThreadgroupMemoryLength() const {
    return facts(this).max_threadgroup_memory;
}
Size Device::maxThreadsPerThreadgroup() const {
    const NS::UInteger limit = facts(this).max_threads_per_threadgroup;
    return Size(limit, limit, limit);
}
NS::String* Device::name() const {
    return autoreleased_string(facts(this).name);
}
ReadWriteTextureTier Device::readWriteTextureSupport() const {
    return ReadWriteTextureTier2;
}
std::uint64_t Device::recommendedMaxWorkingSetSize() const {
    return facts(this).working_set;
}
std::uint64_t Device::registryID() const {
    return facts(this).registry_id;
}
void Device::sampleTimestamps(Timestamp* cpuTimestamp, Timestamp* gpuTimestamp) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    *cpuTimestamp = *gpuTimestamp = static_cast<Timestamp>(std::chrono::nanoseconds(now).count());
}
bool Device::supportsDynamicLibraries() const {
    return false;
}
bool Device::supportsFamily(GPUFamily gpuFamily) {
    return (gpuFamily >= GPUFamilyApple1 && gpuFamily <= GPUFamilyApple7) ||
           (gpuFamily >= GPUFamilyCommon1 && gpuFamily <= GPUFamilyCommon3) || gpuFamily == GPUFamilyMac2 ||
           gpuFamily == GPUFamilyMetal3;
}
bool Device::supportsFunctionPointers() const {
    return false;
}
bool Device::supportsRaytracing() const {
    return false;
}

} // namespace MTL
