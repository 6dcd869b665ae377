// MTL::Device: facts about this machine.
#include "device.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "collections.hpp"

namespace metalki::api {
namespace {

std::uint64_t physical_memory() {
    static const std::uint64_t bytes = [] {
        std::uint64_t total =
            static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
            std::uint64_t limit = 0;
            if (std::ifstream(path) >> limit && limit > 0)
                total = std::min(total, limit);
        }
        return total;
    }();
    return bytes;
}

// What programs can still get without swapping; everything where the system does not tell.
std::uint64_t available_memory() {
    std::ifstream info("/proc/meminfo");
    for (std::string line; std::getline(info, line);)
        if (line.rfind("MemAvailable:", 0) == 0)
            return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
    return physical_memory();
}

std::string processor_name() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.rfind("model name", 0) == 0 && line.find(':') != std::string::npos)
            return line.substr(line.find(':') + 2);
    return "CPU";
}

} // namespace

bool DeviceState::promise(std::uint64_t length) {
    // Reading what is available takes longer than allocating little.
    constexpr std::uint64_t between_looks = 64 << 20;
    const std::uint64_t before = promised.fetch_add(length, std::memory_order_relaxed), after = before + length;
    const bool looks = before / between_looks != after / between_looks;
    const std::uint64_t physical = physical_memory(), reserve = physical / 20;
    if (length <= physical && after <= physical - reserve && (!looks || length + reserve <= available_memory()))
        return true;
    give_back(length);
    return false;
}

DeviceState& cpu_device() {
    static DeviceState* const device = [] {
        auto* state = new DeviceState;
        state->make_immortal();
        return state;
    }();
    return *device;
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

Device* CreateSystemDefaultDevice() {
    return device_pointer();
}

NS::Array* CopyAllDevices() {
    return make_array({Reference<ObjectState>::share(&cpu_device())});
}

ArgumentBuffersTier Device::argumentBuffersSupport() const {
    return ArgumentBuffersTier2;
}
NS::UInteger Device::currentAllocatedSize() const {
    return cpu_device().allocated.load(std::memory_order_relaxed);
}
bool Device::hasUnifiedMemory() const {
    return true;
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
    return physical_memory() / 4 * 3;
}
NS::UInteger Device::maxThreadgroupMemoryLength() const {
    return metalki::cpu::max_threadgroup_memory;
}
Size Device::maxThreadsPerThreadgroup() const {
    const NS::UInteger limit = metalki::cpu::max_threads_per_threadgroup;
    return Size(limit, limit, limit);
}
NS::String* Device::name() const {
    static const std::string name = processor_name();
    return autoreleased_string(name);
}
ReadWriteTextureTier Device::readWriteTextureSupport() const {
    return ReadWriteTextureTier2;
}
std::uint64_t Device::recommendedMaxWorkingSetSize() const {
    return physical_memory() / 4 * 3;
}
std::uint64_t Device::registryID() const {
    return 1;
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
