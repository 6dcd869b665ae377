// Device memory, slices of it, and ordered copies.
#include "metalki/buffer.hpp"

#include <cstring>

#include "kernel_interface/backend.hpp"
#include "kernel_interface/process.hpp"

namespace metalki {

namespace {

std::string describe(const Buffer& buffer) {
    const std::string& label = buffer.impl()->label;
    return label.empty() ? "the buffer" : "buffer \"" + label + "\"";
}

void need_live(const char* call, const Buffer& buffer) {
    if (buffer.is_freed())
        throw ArgumentError(std::string(call) + ": " + describe(buffer) + " has been freed");
}

void need_device(const char* call, const Buffer& buffer, const Queue& queue) {
    need_live(call, buffer);
    if (!(buffer.device() == queue.device()))
        throw ArgumentError(std::string(call) + ": " + describe(buffer) + " is on device " + buffer.device().info().title() +
                            ", the queue on " + queue.device().info().title());
    detail::use_device();
}

void need_size(const char* call, std::size_t destination, std::size_t source) {
    if (destination != source)
        throw ArgumentError(std::string(call) + ": the destination holds " + std::to_string(destination) +
                            " bytes, the source " + std::to_string(source));
}

Buffer staging(const Queue& queue, std::size_t bytes) {
    return queue.device().allocate(bytes, Storage::shared, "staging", Contents::undefined);
}

// The host's memory, for a copy that is waited for: nothing else runs on the queue, and a small one would gain nothing.
std::shared_ptr<detail::BufferImpl> borrowed(const void* memory, std::size_t bytes, const Buffer& other, const Queue& queue) {
    constexpr std::size_t worth_while = 64 * 1024;
    const auto start = reinterpret_cast<std::uintptr_t>(memory);
    const auto there = reinterpret_cast<std::uintptr_t>(other.contents());
    const bool apart = !there || start + bytes <= there || there + bytes <= start;
    if (bytes < worth_while || !apart || !queue.device().info().unified_memory || !queue.impl()->idle())
        return nullptr;
    return queue.device().impl()->borrow(memory, bytes);
}

} // namespace

Buffer::Buffer(std::shared_ptr<detail::BufferImpl> impl) : impl_(std::move(impl)), size_(impl_->bytes) {}

Storage Buffer::storage() const {
    return impl_->storage;
}
Device Buffer::device() const {
    return Device(impl_->device);
}
const std::string& Buffer::label() const {
    return impl_->label;
}

void* Buffer::contents() const {
    need_live("contents", *this);
    return impl_->contents ? static_cast<std::byte*>(impl_->contents) + offset_ : nullptr;
}

std::uint64_t Buffer::gpu_address() const {
    need_live("gpu_address", *this);
    return impl_->gpu_address + offset_;
}

Buffer Buffer::slice(std::size_t offset, std::size_t bytes) const {
    need_live("slice", *this);
    if (offset > size_ || bytes > size_ - offset)
        throw ArgumentError("slice: " + std::to_string(bytes) + " bytes from offset " + std::to_string(offset) +
                            " are not inside the " + std::to_string(size_) + " bytes of " + describe(*this));
    return Buffer(impl_, offset_ + offset, bytes);
}

void Buffer::free() const {
    if (!impl_->freed.exchange(true))
        impl_->release();
}

bool Buffer::is_freed() const {
    return impl_->freed.load(std::memory_order_relaxed);
}

void copy(const Buffer& destination, const Buffer& source, const Queue& queue) {
    need_device("copy", destination, queue);
    need_device("copy", source, queue);
    need_size("copy", destination.size(), source.size());
    if (source.size() != 0)
        queue.impl()->copy(*destination.impl(), destination.offset(), *source.impl(), source.offset(), source.size());
}

void copy(const Buffer& destination, const void* source, std::size_t bytes, const Queue& queue) {
    need_device("copy", destination, queue);
    need_size("copy", destination.size(), bytes);
    if (bytes == 0)
        return;
    if (const auto host = borrowed(source, bytes, destination, queue)) {
        queue.impl()->copy(*destination.impl(), destination.offset(), *host, 0, bytes);
        return queue.synchronize();
    }
    Buffer stage = staging(queue, bytes);
    std::memcpy(stage.contents(), source, bytes);
    queue.impl()->copy(*destination.impl(), destination.offset(), *stage.impl(), 0, bytes);
}

void copy(void* destination, const Buffer& source, std::size_t bytes, const Queue& queue, std::shared_ptr<void> keep_alive) {
    need_device("copy", source, queue);
    need_size("copy", bytes, source.size());
    if (bytes == 0)
        return;
    if (const auto host = borrowed(destination, bytes, source, queue)) {
        queue.impl()->copy(*host, 0, *source.impl(), source.offset(), bytes);
        return queue.synchronize();
    }
    // Through memory of our own: what follows on the queue may change the source before the host is told.
    Buffer stage = staging(queue, bytes);
    queue.impl()->copy(*stage.impl(), 0, *source.impl(), source.offset(), bytes);
    queue.on_complete(
        [destination, stage, bytes, keep_alive = std::move(keep_alive)] { std::memcpy(destination, stage.contents(), bytes); });
}

void fill(const Buffer& destination, std::uint8_t value, const Queue& queue) {
    need_device("fill", destination, queue);
    if (destination.size() != 0)
        queue.impl()->fill(*destination.impl(), destination.offset(), destination.size(), value);
}

} // namespace metalki
