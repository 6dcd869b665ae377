// The CPU as a device: memory of the process, and the executor's kernels.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "commands.hpp"
#include "device_queue.hpp"
#include "memory.hpp"

namespace metalki::api {

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

namespace {

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

struct CpuCode final : DeviceCode {
    std::shared_ptr<const compiler::KernelCode> code;
};

class CpuDevice final : public DeviceState {
public:
    CpuDevice()
        : DeviceState({.name = processor_name(),
                       .registry_id = 1,
                       .max_buffer_length = physical_memory() / 4 * 3,
                       .working_set = physical_memory() / 4 * 3,
                       .max_threads_per_threadgroup = cpu::max_threads_per_threadgroup,
                       .max_threadgroup_memory = cpu::max_threadgroup_memory,
                       .cores = cpu::usable_cores(),
                       .has_unified_memory = true}) {}

    std::byte* allocate(std::size_t length, MTL::StorageMode) override { return allocate_memory(length, Contents::zero); }
    std::byte* allocate_undefined(std::size_t length, MTL::StorageMode) override {
        return allocate_memory(length, Contents::undefined);
    }
    void deallocate(std::byte* address, std::size_t length, MTL::StorageMode) override { deallocate_memory(address, length); }
    bool add_host_memory(void*, std::size_t) override { return true; }
    void remove_host_memory(void*) override {}

    std::shared_ptr<const DeviceCode> make_code(const std::shared_ptr<const compiler::Library>& library,
                                                const std::string& function,
                                                std::span<const compiler::ConstantValue> constants) override {
        auto made = std::make_shared<CpuCode>();
        made->code = library->make_kernel(function, constants, cpu::runtime_symbols());
        made->function = made->code->function;
        made->static_threadgroup_memory = made->code->static_threadgroup_memory;
        made->max_threads = cpu::max_threads_per_threadgroup;
        made->group_work = made->code->group_work;
        made->prints = made->code->prints;
        made->for_cpu = made->code.get();
        return made;
    }
    std::unique_ptr<DeviceQueue> make_queue(QueueState&) override { return nullptr; }
};

std::atomic<std::uint64_t> promised{0};

} // namespace

bool promise_host_memory(std::uint64_t length) {
    // Reading what is available takes longer than allocating little.
    constexpr std::uint64_t between_looks = 64 << 20;
    const std::uint64_t before = promised.fetch_add(length, std::memory_order_relaxed), after = before + length;
    const bool looks = before / between_looks != after / between_looks;
    const std::uint64_t physical = physical_memory(), reserve = physical / 20;
    if (length <= physical && after <= physical - reserve && (!looks || length + reserve <= available_memory()))
        return true;
    give_back_host_memory(length);
    return false;
}

void give_back_host_memory(std::uint64_t length) {
    promised.fetch_sub(length, std::memory_order_relaxed);
}

DeviceState& cpu_device() {
    static DeviceState* const device = [] {
        auto* state = new CpuDevice;
        state->make_immortal();
        return state;
    }();
    return *device;
}

} // namespace metalki::api
