// What a back end provides. kernel_interface checks and caches; the classes derived from these talk to the device.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "metalki/metalki.hpp"

namespace metalki::detail {

// One compile or specialisation per key, however many threads ask at once. Failures are not kept.
template <class T> class OnceCache {
public:
    template <class Make> std::shared_ptr<T> get(const std::string& key, Make make) {
        std::promise<std::shared_ptr<T>> promise;
        std::shared_future<std::shared_ptr<T>> found;
        {
            std::lock_guard lock(mutex_);
            auto [entry, inserted] = entries_.try_emplace(key);
            if (inserted)
                entry->second = promise.get_future().share();
            else
                found = entry->second;
        }
        if (found.valid())
            return found.get();
        try {
            std::shared_ptr<T> made = make();
            promise.set_value(made);
            return made;
        } catch (...) {
            {
                std::lock_guard lock(mutex_);
                entries_.erase(key);
            }
            promise.set_exception(std::current_exception());
            throw;
        }
    }

private:
    std::mutex mutex_;
    std::unordered_map<std::string, std::shared_future<std::shared_ptr<T>>> entries_;
};

class BufferImpl {
public:
    virtual ~BufferImpl() = default;
    virtual void release() = 0; // gives the memory back; called once

    // What every launch reads comes first.
    std::shared_ptr<DeviceImpl> device;
    std::size_t bytes = 0;
    std::uint64_t gpu_address = 0;
    std::atomic<std::uint64_t> holder{0}; // for the back end: what keeps the memory for the device already
    std::atomic<bool> freed{false};
    Storage storage = Storage::shared;
    std::string label;
    void* contents = nullptr;
};

class TextureImpl {
public:
    virtual ~TextureImpl() = default;
    // A whole level, tightly packed; the device does not use the texture meanwhile.
    virtual void write(const std::byte* pixels, std::size_t level) = 0;
    virtual void read(std::byte* pixels, std::size_t level) const = 0;

    std::shared_ptr<DeviceImpl> device;
    TextureOptions options;
    const PixelFormat* format = nullptr;
};

class SamplerImpl {
public:
    virtual ~SamplerImpl() = default;

    std::shared_ptr<DeviceImpl> device;
    SamplerOptions options;
};

// What a launch compares for one argument: the part of an ArgumentInfo that it reads every time.
struct ArgumentCheck {
    bool active;
    bool takes_buffer;
    std::uint64_t offset_mask; // bits that no offset may have
    std::uint64_t least;       // bytes that a buffer has at least
    std::uint64_t exactly;     // bytes of a value that are always right; none are where this is the largest number
};

// What a work-group of a kernel costs, in one unit of time: of use only as a ratio.
struct GroupWork {
    double of_group = 0;        // however many threads it has; 0: not known
    double of_simdgroup = 0;    // more for each SIMD-group
    double growth = 0;          // of that, as a part of it, with each doubling of 256 threads
    double row_accesses = 0;    // of a SIMD-group to device memory, where threads along x have neighbours in memory
    double column_accesses = 0; // the same where threads along y have
    bool halves = false;        // its threads wait for each other again and again, the more often the more they are
    bool loops = false;         // as often as its arguments say: the time of a launch does not follow
    bool one_way_ahead = false; // the processor looks far ahead along one way in memory rather than along several
    friend bool operator==(const GroupWork&, const GroupWork&) = default;
};

class KernelImpl {
public:
    virtual ~KernelImpl() = default;
    virtual std::string disassemble(std::string_view form) const = 0;

    // To be called when the members below are set.
    void prepare();

    std::shared_ptr<DeviceImpl> device;
    std::string name;
    std::vector<ArgumentInfo> arguments;
    std::uint64_t max_total_threads = 0;
    std::uint64_t execution_width = 1;
    std::uint64_t preferred_threads = 0; // of a work-group, where the device knows; 0: it does not
    std::uint64_t static_threadgroup_memory = 0;
    bool uses_threadgroup_memory = false; // its own or an argument's
    GroupWork group_work;
    std::vector<ArgumentCheck> checks; // one per argument
};

// A function constant as the source declares it.
struct ConstantInfo {
    std::string name;
    unsigned index = 0;
    ScalarType type = ScalarType::none;
    unsigned width = 1;
    bool required = true;
};

struct ConstantBytes {
    const ConstantInfo* info;
    std::array<std::byte, 32> bytes{}; // components, tightly packed
};

class LibraryImpl {
public:
    virtual ~LibraryImpl() = default;
    // Those that `function` uses.
    virtual std::vector<ConstantInfo> constants_of(const std::string& function) = 0;
    // Those of the whole source. May take long.
    virtual std::vector<ConstantInfo> declared_constants() = 0;
    virtual std::shared_ptr<const KernelImpl> make_kernel(const std::string& function,
                                                          std::span<const ConstantBytes> constants) = 0;

    std::shared_ptr<DeviceImpl> device;
    std::string source;
    std::vector<std::string> function_names;
    std::vector<Diagnostic> warnings;
    OnceCache<const KernelImpl> kernels;
};

class EventImpl {
public:
    virtual ~EventImpl() = default;
    virtual bool reached(std::uint64_t value) const = 0;

    std::shared_ptr<DeviceImpl> device;
};

// A checked launch.
struct Launch {
    const std::shared_ptr<const KernelImpl>& kernel;
    std::span<const ArgumentValue> arguments;
    Extents grid;  // threads, or work-groups when !counts_threads
    Extents group; // threads
    bool counts_threads;
    std::span<const Buffer> uses;
};

// None: for ever.
using Timeout = std::optional<std::chrono::nanoseconds>;

// Safe to use from several threads. Calls that encode throw LaunchError when the device refuses.
class QueueImpl {
public:
    virtual ~QueueImpl() = default;
    virtual void launch(const Launch& launch) = 0;
    virtual void copy(BufferImpl& destination, std::size_t destination_offset, BufferImpl& source, std::size_t source_offset,
                      std::size_t bytes) = 0;
    virtual void fill(BufferImpl& destination, std::size_t offset, std::size_t bytes, std::uint8_t value) = 0;
    virtual void flush() = 0;
    // False when the time passed first. Throws what the device reported.
    virtual bool synchronize(Timeout timeout) = 0;
    // True: synchronize() has nothing to wait for and nothing to report.
    virtual bool idle() const noexcept = 0;
    // False while so much is given to the device that launching had better wait for some of it. wait_for_room() does, false
    // when the time passed first; it does not wait on threads that the device's completion depends on.
    virtual bool has_room() const noexcept = 0;
    virtual bool wait_for_room(Timeout timeout) = 0;
    virtual Event record_event() = 0;
    virtual void wait_event(const Event& event) = 0;
    // See Queue. False: the device has no streams.
    virtual bool wait_stream(std::uint64_t stream) = 0;
    virtual bool let_stream_wait(std::uint64_t stream) = 0;
    virtual void on_complete(std::function<void()> function) = 0;
    virtual void set_priority(Priority priority) = 0;
    // False: the device cannot stop kernels.
    virtual bool set_time_limit(std::chrono::nanoseconds limit) = 0;
    virtual void cancel() = 0;

    std::shared_ptr<DeviceImpl> device;
    std::string label;
    std::atomic<Priority> priority{Priority::normal};
    std::atomic<std::int64_t> time_limit{0}; // nanoseconds

protected:
    // Once idle() is false for new work. True: the device is to be told, by add_busy().
    bool becomes_busy() noexcept { return !known_busy_.exchange(true, std::memory_order_acq_rel); }

private:
    friend class DeviceImpl;
    std::atomic<bool> known_busy_{false}; // the device has it among its busy queues
};

// A source with what it includes.
struct Program {
    std::string source;  // as given
    std::string inlined; // with the user's own includes in place
};

class DeviceImpl : public std::enable_shared_from_this<DeviceImpl> {
public:
    virtual ~DeviceImpl() = default;
    // `bytes` may be 0. Null when memory is short.
    virtual std::shared_ptr<BufferImpl> allocate(std::size_t bytes, Storage storage, std::string_view label,
                                                 Contents contents) = 0;
    // The host's memory as a buffer, for copies; null where the device cannot. The memory must outlive it.
    virtual std::shared_ptr<BufferImpl> borrow(const void* memory, std::size_t bytes) = 0;
    // Memory of the device that other code has allocated; null where the device cannot. `owner` goes with the buffer.
    virtual std::shared_ptr<BufferImpl> adopt(std::uint64_t address, std::size_t bytes, std::shared_ptr<void> owner) = 0;
    // Null when memory is short.
    virtual std::shared_ptr<TextureImpl> make_texture(const TextureOptions& options, const PixelFormat& format) = 0;
    virtual std::shared_ptr<SamplerImpl> make_sampler(const SamplerOptions& options) = 0;
    virtual std::shared_ptr<LibraryImpl> compile(const Program& program, const CompileOptions& options) = 0;
    virtual std::shared_ptr<QueueImpl> make_queue(std::string_view label) = 0;

    std::shared_ptr<QueueImpl> new_queue(std::string_view label);
    void add_busy(std::weak_ptr<QueueImpl> queue);
    // Those that are not idle: a wait for the device costs nothing for the others.
    std::vector<std::shared_ptr<QueueImpl>> busy_queues();
    // What a queue that is gone had to report; the first such error is kept for synchronize().
    void keep_error(std::string error);
    std::string take_error();

    DeviceInfo info;
    OnceCache<LibraryImpl> libraries;

private:
    std::mutex queues_mutex_;
    std::vector<std::weak_ptr<QueueImpl>> busy_;
    std::string kept_error_;
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual std::vector<std::shared_ptr<DeviceImpl>> devices() = 0;
    virtual std::string provider() const = 0; // "Apple Metal" or "metalki portable Metal"
    virtual std::string compiler() const = 0;
};

// The back end over the Metal API; made once.
std::shared_ptr<Backend> metal_backend();

// Replaces `#include`s that options.headers and options.include_dirs can serve by their text, with #line marks.
std::string inline_includes(std::string_view source, const CompileOptions& options);

// Changes with the files of options.include_dirs where `inlined`, the result of inline_includes, may depend on more of them
// than it holds; empty otherwise.
std::string include_state(std::string_view inlined, const CompileOptions& options);

} // namespace metalki::detail
