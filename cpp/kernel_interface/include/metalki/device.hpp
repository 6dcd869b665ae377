// Devices: where buffers live and kernels run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "metalki/export.hpp"

namespace metalki {

namespace detail {
class DeviceImpl;
}
class Buffer;
class Library;
struct CompileOptions;

/// Where a buffer's memory is.
enum class Storage : std::uint8_t {
    shared,   ///< seen by host and device
    private_, ///< seen by the device only
};

/// What a new buffer holds.
enum class Contents : std::uint8_t {
    zero,
    undefined, ///< whatever was in that memory; cheaper
};

/// What is known of a device.
struct DeviceInfo {
    std::string name;                               ///< for people: "Apple M3 Max"
    int index = 0;                                  ///< position in devices()
    std::string kind;                               ///< "metal", "cpu" or "cuda"
    std::string id;                                 ///< for find_device(): "metal", "cpu", "cuda:0"
    std::uint64_t max_threads_per_threadgroup = 0;  ///< upper bound; a kernel may allow less
    std::uint64_t threadgroup_memory_length = 0;    ///< bytes
    std::uint64_t thread_execution_width = 0;       ///< threads in a SIMD-group
    bool unified_memory = false;                    ///< host and device share one memory
    std::uint64_t recommended_working_set_size = 0; ///< bytes
    std::uint64_t max_buffer_length = 0;            ///< bytes
    unsigned multiprocessor_count = 0;              ///< cores; a guess where the device does not tell
    bool supports_float64 = false;
    bool supports_atomics = true;

    /// What messages call it: "cuda:0 (NVIDIA H200)".
    std::string title() const { return id + " (" + name + ")"; }
};

/// A device. Cheap to copy; copies are equal.
class METALKI_API Device {
public:
    explicit Device(std::shared_ptr<detail::DeviceImpl> impl) : impl_(std::move(impl)) {}

    const DeviceInfo& info() const;
    const std::string& name() const { return info().name; }
    const std::string& kind() const { return info().kind; }
    int index() const { return info().index; }

    /// Allocates `bytes` bytes of memory; 0 gives a valid empty buffer. `label` appears in messages.
    /// Throws OutOfMemoryError.
    Buffer allocate(std::size_t bytes, Storage storage = Storage::shared, std::string_view label = {},
                    Contents contents = Contents::zero) const;

    /// Memory of this device that other code has allocated, as a private buffer without a copy; `owner` is released with it.
    /// Throws ArgumentError where the device is no GPU of CUDA, or its driver does not know the address.
    Buffer adopt(std::uint64_t address, std::size_t bytes, std::shared_ptr<void> owner) const;

    /// Compiles MSL source text; the same source and options give the same library again.
    /// Throws CompileError, ArgumentError for options that make no sense.
    Library compile(std::string_view source, const CompileOptions& options) const;
    Library compile(std::string_view source) const;

    /// Waits until all queues of this device are idle. Throws DeviceError when the device reported a fault.
    void synchronize() const;
    /// The same with a time limit: false when work is still running.
    bool synchronize_for(std::chrono::nanoseconds timeout) const;

    /// Queue::cancel for all queues of this device.
    void cancel() const;

    const std::shared_ptr<detail::DeviceImpl>& impl() const { return impl_; }
    friend bool operator==(const Device& a, const Device& b) { return a.impl_ == b.impl_; }

private:
    std::shared_ptr<detail::DeviceImpl> impl_;
};

/// All devices there are, in the order of their indices.
METALKI_API std::vector<Device> devices();

/// The device that METALKI_DEVICE named at the first call, else the first. Throws DeviceError when there is none and
/// ArgumentError, listing those there are, when the variable names none of them.
METALKI_API const Device& default_device();

/// A device by id ("cpu", "metal", "cuda:0"), kind, name or index ("0"). Throws ArgumentError listing those there are.
METALKI_API Device find_device(std::string_view name);

} // namespace metalki
