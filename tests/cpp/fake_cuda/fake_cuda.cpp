// The functions of the driver, over threads and host memory.
#include "fake_cuda.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace {

using fake_cuda::Launch;

constexpr int invalid_value = 1, out_of_memory = 2, not_ready = 600;
constexpr std::size_t total_memory = std::size_t{256} << 20;

struct Event {
    std::uint64_t recorded = 0, done = 0; // counts of records
    std::chrono::steady_clock::time_point time;
};

struct Stream {
    std::deque<std::function<void()>> work;
    bool busy = false;
    std::thread thread;
};

struct Kernel {
    std::string entry;
    std::size_t dynamic_limit = 48 << 10;
};

// One device with one context.
struct State final : fake_cuda::Control {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> calls;
    std::multimap<std::string, std::pair<int, int>> failures; // function: calls left, code
    fake_cuda::Kernel kernel;
    int broken = 0; // what every call gives since a fault
    int resets = 0; // of the context: what was given to the ones before is dropped
    std::map<std::uintptr_t, std::size_t> memory, ranges;
    int memory_owner = 0;
    std::size_t used = 0;
    std::set<Stream*> streams;
    std::map<std::string, std::unique_ptr<Kernel>> kernels;
    std::string linked;

    void on_launch(fake_cuda::Kernel function) override {
        const std::lock_guard lock(mutex);
        kernel = std::move(function);
    }
    void fail(const std::string& function, int nth, int code) override {
        const std::lock_guard lock(mutex);
        failures.emplace(function, std::pair(nth, code));
    }
    void forget_failures() override {
        const std::lock_guard lock(mutex);
        failures.clear();
    }
    std::vector<std::string> take_calls() override {
        const std::lock_guard lock(mutex);
        return std::exchange(calls, {});
    }
    void memory_is_of(int device) override {
        const std::lock_guard lock(mutex);
        memory_owner = device;
    }
    std::size_t device_bytes() const override { return used; }
    std::size_t registered_ranges() const override { return ranges.size(); }
};

State& state() {
    static State* const instance = new State;
    return *instance;
}

// The lock, and what the call has to give before it does anything.
struct Call {
    Call(const char* name, std::size_t number = 0) : lock(state().mutex) {
        State& s = state();
        s.calls.push_back(number ? name + (" " + std::to_string(number)) : name);
        result = s.broken;
        const auto [first, last] = s.failures.equal_range(name);
        for (auto it = first; it != last;) {
            if (--it->second.first > 0) {
                ++it;
                continue;
            }
            result = it->second.second;
            it = s.failures.erase(it);
        }
    }
    std::unique_lock<std::mutex> lock;
    int result = 0;
};

void run_stream(Stream* stream) {
    State& s = state();
    std::unique_lock lock(s.mutex);
    for (;;) {
        s.changed.wait(lock, [&] { return !stream->work.empty(); });
        const auto work = std::move(stream->work.front());
        stream->work.pop_front();
        stream->busy = true;
        lock.unlock();
        work();
        lock.lock();
        stream->busy = false;
        s.changed.notify_all();
    }
}

// The null stream is one like the others.
Stream* stream_of(Stream* stream) {
    static Stream* null_stream = nullptr;
    if (stream)
        return stream;
    if (!null_stream) {
        null_stream = new Stream;
        null_stream->thread = std::thread(run_stream, null_stream);
    }
    return null_stream;
}

// With the lock held. After a fault, what waits in streams is dropped.
void enqueue(Stream* stream, std::function<void()> work) {
    stream_of(stream)->work.push_back([work = std::move(work), context = state().resets] {
        {
            const std::lock_guard lock(state().mutex);
            if (state().broken || state().resets != context)
                return;
        }
        work();
    });
    state().changed.notify_all();
}

} // namespace

#define DRIVER extern "C" __attribute__((visibility("default"))) int
#define BEGIN(...)                                                                                                             \
    Call call(__VA_ARGS__);                                                                                                    \
    if (call.result)                                                                                                           \
    return call.result

extern "C" __attribute__((visibility("default"))) fake_cuda::Control* fake_cuda_control() {
    return &state();
}

DRIVER cuInit(unsigned) {
    BEGIN("cuInit");
    return 0;
}
DRIVER cuDriverGetVersion(int* version) {
    *version = 12040;
    return 0;
}
DRIVER cuGetErrorName(int code, const char** text) {
    static const std::map<int, const char*> names{{1, "CUDA_ERROR_INVALID_VALUE"},
                                                  {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                  {600, "CUDA_ERROR_NOT_READY"},
                                                  {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                  {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                  {719, "CUDA_ERROR_LAUNCH_FAILED"}};
    const auto found = names.find(code);
    *text = found == names.end() ? nullptr : found->second;
    return found == names.end() ? invalid_value : 0;
}
DRIVER cuGetErrorString(int code, const char** text) {
    *text = code == 700 ? "an illegal memory access was encountered" : code == 2 ? "out of memory" : nullptr;
    return *text ? 0 : invalid_value;
}
DRIVER cuDeviceGetCount(int* count) {
    *count = 1;
    return 0;
}
DRIVER cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return 0;
}
DRIVER cuDeviceGetName(char* name, int length, int) {
    std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
    return 0;
}
DRIVER cuDeviceGetAttribute(int* value, int attribute, int) {
    static const std::map<int, int> values{{1, 1024}, {10, 32}, {16, 4}, {39, 2048}, {41, 1},         {33, 1},
                                           {34, 2},   {75, 9},  {76, 0}, {91, 1},    {97, 227 << 10}, {122, 1}};
    const auto found = values.find(attribute);
    *value = found == values.end() ? 0 : found->second;
    return 0;
}
DRIVER cuDeviceTotalMem_v2(std::size_t* bytes, int) {
    *bytes = total_memory;
    return 0;
}
DRIVER cuDevicePrimaryCtxRetain(void** context, int) {
    BEGIN("cuDevicePrimaryCtxRetain");
    *context = &state();
    return 0;
}
DRIVER cuDevicePrimaryCtxReset_v2(int) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.calls.emplace_back("cuDevicePrimaryCtxReset");
    s.broken = 0;
    ++s.resets;
    for (const auto& [address, bytes] : s.memory)
        std::free(reinterpret_cast<void*>(address));
    s.memory.clear();
    s.ranges.clear();
    s.used = 0;
    return 0;
}
DRIVER cuCtxPushCurrent_v2(void*) {
    return 0;
}
DRIVER cuCtxPopCurrent_v2(void** context) {
    *context = &state();
    return 0;
}
DRIVER cuCtxSynchronize() {
    BEGIN("cuCtxSynchronize");
    return 0;
}
DRIVER cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
    *lowest = 0;
    *highest = -5;
    return 0;
}
DRIVER cuMemAlloc_v2(std::uintptr_t* address, std::size_t bytes) {
    BEGIN("cuMemAlloc", bytes);
    State& s = state();
    if (s.used + bytes > total_memory)
        return out_of_memory;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0xcd, bytes); // memory of the device is not zero
    *address = reinterpret_cast<std::uintptr_t>(memory);
    s.memory[*address] = bytes;
    s.used += bytes;
    return 0;
}
DRIVER cuMemFree_v2(std::uintptr_t address) {
    BEGIN("cuMemFree");
    State& s = state();
    const auto found = s.memory.find(address);
    if (found == s.memory.end())
        return invalid_value;
    s.used -= found->second;
    s.memory.erase(found);
    std::free(reinterpret_cast<void*>(address));
    return 0;
}
DRIVER cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned) {
    BEGIN("cuMemHostRegister", bytes);
    return state().ranges.emplace(reinterpret_cast<std::uintptr_t>(address), bytes).second ? 0 : 712;
}
DRIVER cuMemHostUnregister(void* address) {
    BEGIN("cuMemHostUnregister");
    return state().ranges.erase(reinterpret_cast<std::uintptr_t>(address)) ? 0 : 713;
}
DRIVER cuMemcpyAsync(std::uintptr_t destination, std::uintptr_t source, std::size_t bytes, Stream* stream) {
    BEGIN("cuMemcpyAsync", bytes);
    enqueue(stream, [=] { std::memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), bytes); });
    return 0;
}
DRIVER cuMemsetD8Async(std::uintptr_t destination, unsigned char value, std::size_t bytes, Stream* stream) {
    BEGIN("cuMemsetD8Async", bytes);
    enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(destination), value, bytes); });
    return 0;
}
DRIVER cuPointerGetAttribute(void* result, int attribute, std::uintptr_t address) {
    const std::lock_guard lock(state().mutex);
    for (const auto& [start, bytes] : state().memory)
        if (address >= start && address < start + bytes) {
            *static_cast<int*>(result) = attribute == 2 ? 2 : state().memory_owner; // device memory, of a device
            return 0;
        }
    return invalid_value;
}
DRIVER cuStreamCreateWithPriority(Stream** stream, unsigned, int) {
    BEGIN("cuStreamCreate");
    *stream = new Stream;
    (*stream)->thread = std::thread(run_stream, *stream);
    state().streams.insert(*stream);
    return 0;
}
DRIVER cuStreamDestroy_v2(Stream* stream) {
    BEGIN("cuStreamDestroy");
    state().streams.erase(stream); // its thread stays: what it has to do may still be under way
    stream->thread.detach();
    return 0;
}
DRIVER cuStreamSynchronize(Stream* handle) {
    BEGIN("cuStreamSynchronize");
    Stream* stream = stream_of(handle);
    state().changed.wait(call.lock, [&] { return state().broken || (stream->work.empty() && !stream->busy); });
    return state().broken;
}
DRIVER cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    BEGIN("cuStreamWaitEvent");
    const std::uint64_t count = event->recorded;
    enqueue(stream, [event, count] {
        std::unique_lock lock(state().mutex);
        state().changed.wait(lock, [&] { return event->done >= count || state().broken; });
    });
    return 0;
}
DRIVER cuStreamWriteValue64_v2(Stream* stream, std::uintptr_t address, std::uint64_t value, unsigned) {
    BEGIN("cuStreamWriteValue64");
    enqueue(stream, [=] { __atomic_store_n(reinterpret_cast<std::uint64_t*>(address), value, __ATOMIC_RELEASE); });
    return 0;
}
DRIVER cuEventCreate(Event** event, unsigned) {
    BEGIN("cuEventCreate");
    *event = new Event;
    return 0;
}
DRIVER cuEventRecord(Event* event, Stream* stream) {
    BEGIN("cuEventRecord");
    const std::uint64_t count = ++event->recorded;
    enqueue(stream, [event, count] {
        const std::lock_guard lock(state().mutex);
        event->done = count;
        event->time = std::chrono::steady_clock::now();
        state().changed.notify_all();
    });
    return 0;
}
DRIVER cuEventQuery(Event* event) {
    BEGIN("cuEventQuery");
    return event->done == event->recorded ? 0 : not_ready;
}
DRIVER cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
    BEGIN("cuEventElapsedTime");
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return 0;
}
// The image is the text of the PTX: link and load only look for the entry.
DRIVER cuLinkCreate_v2(unsigned, const int*, void**, void** link) {
    BEGIN("cuLinkCreate");
    *link = &state();
    return 0;
}
DRIVER cuLinkAddData_v2(void*, int, const void* text, std::size_t bytes, const char*, unsigned, const int*, void**) {
    BEGIN("cuLinkAddData");
    state().linked.assign(static_cast<const char*>(text), bytes);
    return 0;
}
DRIVER cuLinkComplete(void*, void** image, std::size_t* bytes) {
    BEGIN("cuLinkComplete");
    *image = state().linked.data();
    *bytes = state().linked.size();
    return 0;
}
DRIVER cuLinkDestroy(void*) {
    return 0;
}
DRIVER cuModuleLoadDataEx(void** module, const void*, unsigned, const int*, void**) {
    BEGIN("cuModuleLoadDataEx");
    *module = &state();
    return 0;
}
DRIVER cuModuleUnload(void*) {
    BEGIN("cuModuleUnload");
    return 0;
}
DRIVER cuModuleGetFunction(Kernel** function, void*, const char* name) {
    BEGIN("cuModuleGetFunction");
    auto& kernel = state().kernels[name];
    if (!kernel)
        kernel = std::make_unique<Kernel>();
    kernel->entry = name;
    *function = kernel.get();
    return 0;
}
DRIVER cuFuncGetAttribute(int* value, int attribute, Kernel*) {
    *value = attribute == 0 ? 1024 : 0;
    return 0;
}
DRIVER cuFuncSetAttribute(Kernel* function, int attribute, int value) {
    BEGIN("cuFuncSetAttribute", static_cast<std::size_t>(value));
    if (attribute == 8)
        function->dynamic_limit = static_cast<std::size_t>(value);
    return 0;
}
DRIVER cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int threads, std::size_t) {
    *blocks = 2048 / threads;
    return 0;
}
DRIVER cuLaunchKernel(Kernel* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, Stream* stream, void**, void** extra) {
    BEGIN("cuLaunchKernel");
    const bool fits = gx && gy && gz && gy <= 65535 && gz <= 65535 && bx * by * bz <= 1024 && bz <= 64;
    if (!fits || shared > function->dynamic_limit)
        return invalid_value;
    const auto* bytes = static_cast<const std::byte*>(extra[1]);
    auto launch = std::make_shared<Launch>(Launch{
        function->entry, {gx, gy, gz}, {bx, by, bz}, shared, {bytes, bytes + *static_cast<const std::size_t*>(extra[3])}});
    enqueue(stream, [launch] {
        fake_cuda::Kernel kernel;
        {
            const std::lock_guard lock(state().mutex);
            kernel = state().kernel;
        }
        const int code = kernel ? kernel(*launch) : 0;
        const std::lock_guard lock(state().mutex);
        if (code)
            state().broken = code;
        state().changed.notify_all();
    });
    return 0;
}
