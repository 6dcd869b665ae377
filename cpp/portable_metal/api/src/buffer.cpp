// MTL::Buffer, and the newBuffer functions of MTL::Device.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "device.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

// Small blocks come from the heap, large ones as fresh pages that the kernel zeroes on first touch.
constexpr std::size_t page_threshold = 64 * 1024;
constexpr std::size_t small_alignment = 256;
constexpr std::size_t huge_page = 2 << 20;

std::size_t rounded(std::size_t length) {
    return (length + small_alignment - 1) / small_alignment * small_alignment;
}

// Memory in huge pages where the system has them: a sixth of the time for first touches, and fewer translations to look up.
std::byte* huge_pages(std::size_t length) {
    const std::size_t whole = (length + 4095) / 4096 * 4096;
    void* mapped = mmap(nullptr, whole + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return nullptr;
    auto* start = static_cast<std::byte*>(mapped);
    const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(start) % huge_page) % huge_page;
    if (before)
        munmap(start, before);
    if (before != huge_page)
        munmap(start + before + whole, huge_page - before);
#ifdef MADV_HUGEPAGE
    madvise(start + before, whole, MADV_HUGEPAGE);
#endif
    return start + before;
}

std::byte* memory_of(std::size_t length) {
    if (length < page_threshold) {
        void* memory = std::aligned_alloc(small_alignment, rounded(length));
        return static_cast<std::byte*>(memory ? std::memset(memory, 0, rounded(length)) : nullptr);
    }
    if (length >= huge_page)
        return huge_pages(length);
    void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// Null when memory is short. Pages are had when they are touched, which is too late to say no: so what is promised counts.
std::byte* allocate(std::size_t length) {
    if (!cpu_device().promise(length))
        return nullptr;
    std::byte* memory = memory_of(length);
    if (!memory)
        cpu_device().give_back(length);
    return memory;
}

void deallocate(std::byte* memory, std::size_t length) {
    cpu_device().give_back(length);
    if (length < page_threshold)
        std::free(memory);
    else
        munmap(memory, length);
}

bool valid_request(NS::UInteger length, MTL::ResourceOptions options) {
    constexpr const char* call = "MTL::Device::newBuffer";
    const NS::UInteger limit = device_pointer()->maxBufferLength();
    return require(length > 0, call, "length is 0") &&
           require(length <= limit, call,
                   [&] { return "length " + std::to_string(length) + " is over maxBufferLength " + std::to_string(limit); }) &&
           require((options >> 4 & 15) <= MTL::StorageModePrivate, call, "buffers cannot have memoryless storage") &&
           require((options & ~NS::UInteger{0x331}) == 0, call, "unknown resource options");
}

BufferState* new_state(std::byte* address, NS::UInteger length, MTL::ResourceOptions options) {
    auto* state = new BufferState;
    state->address = address;
    state->length = length;
    state->options = options;
    cpu_device().allocated.fetch_add(length, std::memory_order_relaxed);
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
    cpu_device().allocated.fetch_sub(length, std::memory_order_relaxed);
    if (owns_memory) {
        deallocate(address, length);
    } else if (deallocator) {
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

Buffer* Device::newBuffer(NS::UInteger length, ResourceOptions options) {
    if (!valid_request(length, options))
        return nullptr;
    std::byte* memory = allocate(length);
    return memory ? public_of<Buffer>(new_state(memory, length, options)) : nullptr;
}

Buffer* Device::newBuffer(const void* pointer, NS::UInteger length, ResourceOptions options) {
    constexpr const char* call = "MTL::Device::newBuffer";
    if (!valid_request(length, options) || !require(pointer, call, "pointer is null") ||
        !require((options >> 4 & 15) != StorageModePrivate, call, "a buffer with initial bytes cannot have private storage"))
        return nullptr;
    Buffer* result = newBuffer(length, options);
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
    if (!valid_request(length, options) || !require(pointer, call, "pointer is null") ||
        !require((options >> 4 & 15) != StorageModePrivate, call, "memory of the host cannot have private storage") ||
        !aligned("pointer", reinterpret_cast<NS::UInteger>(pointer)) || !aligned("length", length))
        return nullptr;
    BufferState* state = new_state(static_cast<std::byte*>(const_cast<void*>(pointer)), length, options);
    state->owns_memory = false;
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
    return device_pointer();
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
