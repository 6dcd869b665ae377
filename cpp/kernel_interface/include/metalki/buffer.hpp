// Device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "metalki/device.hpp"

namespace metalki {

namespace detail {
class BufferImpl;
}
class Queue;

/// A range of bytes in device memory: a whole allocation or a slice of it. Cheap to copy; copies and slices name the same
/// memory, which lives until the last of them and the last launch that uses it are gone.
class METALKI_API Buffer {
public:
    explicit Buffer(std::shared_ptr<detail::BufferImpl> impl);
    Buffer(std::shared_ptr<detail::BufferImpl> impl, std::size_t offset, std::size_t size)
        : impl_(std::move(impl)), offset_(offset), size_(size) {}

    /// Bytes in this range.
    std::size_t size() const { return size_; }
    /// Where the range starts in its allocation.
    std::size_t offset() const { return offset_; }
    Storage storage() const;
    Device device() const;
    const std::string& label() const;

    /// Host address of the first byte; nullptr for private storage. Does not wait for the device. Throws ArgumentError once
    /// the buffer is freed.
    void* contents() const;
    /// Device address of the first byte, for pointers inside structs. Throws ArgumentError once the buffer is freed.
    std::uint64_t gpu_address() const;

    /// `bytes` bytes from `offset` of this range. Throws ArgumentError when they are not inside it.
    Buffer slice(std::size_t offset, std::size_t bytes) const;

    /// Gives the memory back before the last handle goes. Launches under way still finish; any later use of this
    /// allocation is an ArgumentError. Freeing twice does nothing.
    void free() const;
    bool is_freed() const;

    const std::shared_ptr<detail::BufferImpl>& impl() const { return impl_; }

private:
    std::shared_ptr<detail::BufferImpl> impl_;
    std::size_t offset_ = 0;
    std::size_t size_ = 0;
};

/// Copies, ordered on `queue`, without waiting. Sizes must be equal, the devices must be the queue's: else ArgumentError.
METALKI_API void copy(const Buffer& destination, const Buffer& source, const Queue& queue);
/// Copies `bytes` bytes of host memory; they are read before the call returns.
METALKI_API void copy(const Buffer& destination, const void* source, std::size_t bytes, const Queue& queue);
/// Copies to host memory, which is written when the queue gets there: keep it until the queue is synchronised.
/// `keep_alive` is released after the write, possibly on another thread.
METALKI_API void copy(void* destination, const Buffer& source, std::size_t bytes, const Queue& queue,
                      std::shared_ptr<void> keep_alive = nullptr);
/// Sets every byte, ordered on `queue`.
METALKI_API void fill(const Buffer& destination, std::uint8_t value, const Queue& queue);

} // namespace metalki
