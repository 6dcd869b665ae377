// Contexts of GPUs.
#include "cuda/device.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace metalki::cuda {
namespace {

int attribute(DeviceAttribute which, DeviceNumber device) {
    int value = 0;
    check(driver().device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
}

unsigned number(DeviceAttribute which, DeviceNumber device) {
    return static_cast<unsigned>(attribute(which, device));
}

DeviceFacts read_facts(DeviceNumber device) {
    DeviceFacts facts;
    char name[256] = {};
    check(driver().device_get_name(name, sizeof name - 1, device), "cuDeviceGetName");
    facts.name = name;
    facts.number = device;
    facts.architecture =
        number(DeviceAttribute::capability_major, device) * 10 + number(DeviceAttribute::capability_minor, device);
    facts.multiprocessors = number(DeviceAttribute::multiprocessor_count, device);
    facts.max_threads_per_threadgroup = number(DeviceAttribute::max_threads_per_block, device);
    facts.max_threadgroup_memory = number(DeviceAttribute::max_shared_memory_per_block_optin, device);
    facts.writes_from_streams = attribute(DeviceAttribute::can_write_64_bits_in_streams, device) != 0;
    facts.pci = std::uint64_t{number(DeviceAttribute::pci_bus, device)} << 8 | number(DeviceAttribute::pci_device, device);
    check(driver().device_total_memory(&facts.memory, device), "cuDeviceTotalMem");
    return facts;
}

// What the compiler and this room rely on.
bool is_usable(DeviceNumber device) {
    return number(DeviceAttribute::capability_major, device) >= 7 && number(DeviceAttribute::warp_size, device) == 32 &&
           attribute(DeviceAttribute::unified_addressing, device) != 0 &&
           attribute(DeviceAttribute::can_use_host_pointer_for_registered_memory, device) != 0;
}

bool is_asked_for() {
    const char* wanted = std::getenv("METALKI_DEVICE");
    return wanted && std::string_view(wanted).starts_with("cuda");
}

thread_local Device* used_here = nullptr;

bool close_all() {
    return std::ranges::all_of(devices(), [](Device* device) { return device->close(); });
}

// The driver's parts end in the reverse order of their start, and the compiler of PTX starts when a thread first needs it,
// perhaps just now. What belongs to the main thread goes before all of that.
struct EndOfMainThread {
    ~EndOfMainThread() {
        if (getpid() == static_cast<pid_t>(syscall(SYS_gettid)))
            close_all();
    }
};

// A thread that the device keeps waiting in the driver cannot be called back, and the driver must not end under it: the process
// ends with its status, and without what else was to be done at its end.
void end_process(int status, void*) {
    if (close_all())
        return;
    std::fflush(nullptr);
    std::_Exit(status);
}

// Where the main thread never used a device, it has to suffice that this comes after the making of a context.
void close_at_exit() {
    [[maybe_unused]] static const int once = on_exit(end_process, nullptr);
}

} // namespace

Use::Use(Device& device) : outer_(used_here) {
    if (outer_ == &device)
        return;
    [[maybe_unused]] static thread_local const EndOfMainThread end;
    device.enter();
    used_here = device_ = &device;
}

Use::~Use() {
    if (!device_)
        return;
    device_->leave();
    used_here = outer_;
}

Device::Device(DeviceNumber number) : facts_(read_facts(number)) {}

bool Device::close() {
    constexpr int patience = 1000; // milliseconds
    closed_.store(true);
    for (int waited = 0; !is_shut_ && waited < patience; ++waited) {
        is_shut_ = mutex_.try_lock();
        if (!is_shut_)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return is_shut_;
}

void Device::enter() {
    const auto check_open = [this] {
        if (closed_.load())
            throw Lost("the process ends");
    };
    check_open();
    while (!mutex_.try_lock_shared()) { // closing keeps the lock
        check_open();
        std::this_thread::yield();
    }
    while (!context_ || broken_.load(std::memory_order_relaxed)) {
        mutex_.unlock_shared();
        renew(); // throws when the device is lost
        mutex_.lock_shared();
    }
    if (const Result code = driver().context_push(context_); code != Result::success) {
        mutex_.unlock_shared();
        throw Error(code, "cuCtxPushCurrent");
    }
}

void Device::leave() {
    Context popped = nullptr;
    driver().context_pop(&popped);
    mutex_.unlock_shared();
}

// Makes the context, or makes it anew after a fault.
void Device::renew() {
    const std::unique_lock lock(mutex_);
    const std::lock_guard state(state_mutex_);
    if (!lost_.empty())
        throw Lost(lost_);
    if (context_ && !broken_.load(std::memory_order_relaxed))
        return;
    const bool again = context_ != nullptr;
    const auto fail = [&](const Error& error) {
        if (again)
            lost_ = "device \"" + facts_.name + "\" is lost: after a fault it could not be made ready again: " + error.what() +
                    ". Start the process anew";
        throw Lost(again ? lost_ : std::string(error.what()));
    };
    try {
        if (again)
            check(driver().primary_context_reset(facts_.number), "cuDevicePrimaryCtxReset");
        check(driver().primary_context_retain(&context_, facts_.number), "cuDevicePrimaryCtxRetain");
        check(driver().context_push(context_), "cuCtxPushCurrent");
        const Result works = driver().context_synchronize();
        Context popped = nullptr;
        if (works != Result::success) {
            driver().context_pop(&popped);
            throw Error(works, "cuCtxSynchronize");
        }
        close_at_exit();
        generation_.fetch_add(1, std::memory_order_release);
        broken_.store(false, std::memory_order_release);
        for (const auto& renewal : renewals_)
            renewal();
        driver().context_pop(&popped);
    } catch (const Error& error) {
        fail(error);
    }
}

std::string Device::note(const Error& error) {
    if (error.is_sticky())
        broken_.store(true, std::memory_order_release);
    return error.what();
}

void Device::give_up(const std::string& reason) {
    const std::lock_guard state(state_mutex_);
    if (lost_.empty())
        lost_ = "device \"" + facts_.name + "\" is lost: " + reason + ". Start the process anew";
    broken_.store(true, std::memory_order_release);
}

void Device::on_renewal(std::function<void()> function) {
    const std::lock_guard state(state_mutex_);
    renewals_.push_back(std::move(function));
}

const std::vector<Device*>& devices() {
    static const std::vector<Device*>* const all = [] {
        auto* made = new std::vector<Device*>;
        const Driver* there = find_driver();
        int count = 0;
        if (!there && is_asked_for())
            std::fprintf(stderr, "metalki: no NVIDIA GPU can be used: %s\n", missing_driver_reason().c_str());
        if (!there || there->device_get_count(&count) != Result::success)
            return made;
        for (int ordinal = 0; ordinal < count; ++ordinal) {
            try {
                DeviceNumber number = 0;
                check(there->device_get(&number, ordinal), "cuDeviceGet");
                if (is_usable(number))
                    made->push_back(new Device(number));
            } catch (const Error& error) {
                std::fprintf(stderr, "metalki: GPU %d is left out: %s\n", ordinal, error.what());
            }
        }
        return made;
    }();
    return *all;
}

} // namespace metalki::cuda
