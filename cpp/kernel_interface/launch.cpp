// Checks of a launch: geometry, then arguments. What passes here is handed to the queue.
#include "metalki/launch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernel_interface/backend.hpp"
#include "kernel_interface/process.hpp"
#include "kernel_interface/work_group.hpp"

namespace metalki {

namespace {

using detail::KernelImpl;

[[noreturn]] void refuse(const KernelImpl& kernel, const std::string& why) {
    throw ArgumentError("launch of \"" + kernel.name + "\": " + why);
}

[[noreturn]] void refuse(const KernelImpl& kernel, std::size_t position, const std::string& why) {
    const ArgumentInfo& info = kernel.arguments[position];
    refuse(kernel, "argument " + std::to_string(position) + " (\"" + info.name + "\", " + info.type_name + "): " + why);
}

std::string text_of(const Extents& e) {
    return "(" + std::to_string(e.x()) + ", " + std::to_string(e.y()) + ", " + std::to_string(e.z()) + ")";
}

std::uint64_t groups_of(std::uint64_t threads, std::uint64_t group) {
    return threads / group + (threads % group != 0);
}

void check_group(const KernelImpl& kernel, const Extents& group, std::uint64_t cap) {
    if (group.empty())
        refuse(kernel, "workgroupsize " + text_of(group) + " has a size of zero");
    const std::uint64_t limit = cap == 0 ? kernel.max_total_threads : std::min(cap, kernel.max_total_threads);
    if (detail::volume(group) > limit)
        refuse(kernel, "workgroupsize " + text_of(group) + " is more than the " + std::to_string(limit) +
                           " threads that the kernel and max_work_group_size allow");
}

struct Geometry {
    Extents grid, group;
    bool counts_threads;
};

Geometry check_geometry(const KernelImpl& kernel, const LaunchOptions& options) {
    const bool threads = options.ndrange.given();
    if (threads == options.numworkgroups.given())
        refuse(kernel, threads ? "ndrange and numworkgroups are both given; give one"
                               : "neither ndrange nor numworkgroups is given; give one");
    Geometry result{threads ? options.ndrange : options.numworkgroups, options.workgroupsize, threads};
    if (options.workgroupsize.given())
        check_group(kernel, result.group, options.max_work_group_size);
    else if (threads)
        result.group =
            detail::choose_work_group(kernel, result.grid.empty() ? Extents(1) : result.grid, options.max_work_group_size);
    else
        result.group =
            Extents(options.max_work_group_size == 0 ? std::min<std::uint64_t>(256, kernel.max_total_threads)
                                                     : std::min(options.max_work_group_size, kernel.max_total_threads));
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t axis = 0; axis < 3; ++axis) {
        const std::uint64_t count = result.grid.size[axis], per = threads ? 1 : result.group.size[axis];
        if (count > most / per)
            refuse(kernel, std::string(threads ? "ndrange " : "numworkgroups ") + text_of(result.grid) +
                               " gives more than 4294967295 threads along an axis");
    }
    return result;
}

void check_buffer(const KernelImpl& kernel, std::size_t position, const ArgumentValue& value) {
    const ArgumentInfo& info = kernel.arguments[position];
    if (info.kind != ArgumentKind::buffer)
        refuse(kernel, position, "a buffer was given, but it does not take one");
    const detail::BufferImpl& buffer = *value.buffer;
    if (buffer.freed.load(std::memory_order_relaxed))
        refuse(kernel, position, "the buffer" + (buffer.label.empty() ? "" : " \"" + buffer.label + "\"") + " has been freed");
    if (buffer.device != kernel.device)
        refuse(kernel, position,
               "the buffer is on device " + buffer.device->info.title() + ", the kernel on " + kernel.device->info.title());
    if (value.offset > buffer.bytes || value.length > buffer.bytes - value.offset)
        refuse(kernel, position, "the range is not inside its buffer");
    if (value.length < std::max<std::size_t>(1, info.nbytes))
        refuse(kernel, position,
               "at least " + std::to_string(std::max<std::size_t>(1, info.nbytes)) + " bytes are expected, the buffer has " +
                   std::to_string(value.length));
    if (info.alignment > 1 && value.offset % info.alignment != 0)
        refuse(kernel, position,
               "it starts at byte " + std::to_string(value.offset) + " of its allocation, which is not a multiple of " +
                   std::to_string(info.alignment));
}

void check_bytes(const KernelImpl& kernel, std::size_t position, const ArgumentValue& value) {
    const ArgumentInfo& info = kernel.arguments[position];
    if (info.kind != ArgumentKind::buffer)
        refuse(kernel, position, "a value was given, but it does not take one");
    if (info.access != Access::read)
        refuse(kernel, position, "the kernel writes it, so it needs a buffer; a value was given");
    const std::size_t size = std::max<std::size_t>(1, info.nbytes); // a pointee that the source only declares has none
    const bool fits = info.is_reference ? value.length == size : value.length % size == 0;
    if (value.length == 0 || !fits)
        refuse(kernel, position,
               std::to_string(value.length) + " bytes were given; its type has " + std::to_string(info.nbytes));
}

// What the kernel's values are to the pixel format: floating point, signed or unsigned integers.
enum class Component { real, signed_integer, unsigned_integer };

Component component_of(ScalarType type) {
    if (type == ScalarType::uint16 || type == ScalarType::uint32)
        return Component::unsigned_integer;
    return type == ScalarType::int16 || type == ScalarType::int32 ? Component::signed_integer : Component::real;
}

Component component_of(const PixelFormat& format) {
    return format.name.ends_with("uint")   ? Component::unsigned_integer
           : format.name.ends_with("sint") ? Component::signed_integer
                                           : Component::real;
}

const char* name_of(TextureType type) {
    static const char* const names[] = {"1d", "1d_array", "2d", "2d_array", "2d_ms", "cube", "cube_array", "3d"};
    return static_cast<std::size_t>(type) < std::size(names) ? names[static_cast<std::size_t>(type)] : "other";
}

void check_texture(const KernelImpl& kernel, std::size_t position, const ArgumentValue& value) {
    const ArgumentInfo& info = kernel.arguments[position];
    if (info.kind != ArgumentKind::texture)
        refuse(kernel, position, "a texture was given, but it does not take one");
    const auto& texture = *static_cast<const detail::TextureImpl*>(value.data);
    if (texture.device != kernel.device)
        refuse(kernel, position,
               "the texture is on device " + texture.device->info.title() + ", the kernel on " + kernel.device->info.title());
    const TextureOptions& options = texture.options;
    if (options.type != info.texture_type)
        refuse(kernel, position,
               std::string("a texture of type ") + name_of(info.texture_type) + " is expected, one of type " +
                   name_of(options.type) + " was given");
    if (options.access != Access::read_write && options.access != info.access)
        refuse(kernel, position,
               std::string("the kernel ") +
                   (info.access == Access::read    ? "reads"
                    : info.access == Access::write ? "writes"
                                                   : "reads and writes") +
                   " the texture, which was made for " + (options.access == Access::read ? "reading" : "writing") + " only");
    if (component_of(info.scalar) != component_of(*texture.format))
        refuse(kernel, position,
               "the kernel declares values of type " + std::string(name_of(info.scalar)) + ", pixel format " + options.format +
                   " has others");
    if (info.is_depth_texture && !options.format.starts_with("depth"))
        refuse(kernel, position, "a depth format is expected, a texture of pixel format " + options.format + " was given");
}

void check_sampler(const KernelImpl& kernel, std::size_t position, const ArgumentValue& value) {
    if (kernel.arguments[position].kind != ArgumentKind::sampler)
        refuse(kernel, position, "a sampler was given, but it does not take one");
    if (static_cast<const detail::SamplerImpl*>(value.data)->device != kernel.device)
        refuse(kernel, position, "the sampler is of another device than the kernel");
}

// Whether the arguments are common ones with nothing at all wrong. The checks above have the last word, and the messages.
// Sums up what is wrong rather than branching at each: nothing hardly ever is.
bool are_plainly_right(const KernelImpl& kernel, std::span<const ArgumentValue> arguments) {
    const detail::DeviceImpl* const device = kernel.device.get();
    const detail::ArgumentCheck* check = kernel.checks.data();
    bool wrong = kernel.static_threadgroup_memory > device->info.threadgroup_memory_length;
    for (const ArgumentValue& value : arguments) {
        const detail::ArgumentCheck& c = *check++;
        if (value.kind == ArgumentValue::Kind::buffer) {
            const detail::BufferImpl& buffer = *value.buffer;
            wrong |= !c.takes_buffer | buffer.freed.load(std::memory_order_relaxed) | (buffer.device.get() != device) |
                     (value.offset > buffer.bytes) | (value.length > buffer.bytes - value.offset) | (value.length < c.least) |
                     ((value.offset & c.offset_mask) != 0);
        } else if (value.kind == ArgumentValue::Kind::bytes) {
            wrong |= value.length != c.exactly;
        } else {
            wrong |= c.active;
        }
    }
    return !wrong;
}

void check_arguments(const KernelImpl& kernel, std::span<const ArgumentValue> arguments, bool launches_nothing) {
    if (are_plainly_right(kernel, arguments)) [[likely]]
        return;
    std::uint64_t threadgroup_memory = kernel.static_threadgroup_memory;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const ArgumentInfo& info = kernel.arguments[i];
        if (!info.active)
            continue;
        switch (arguments[i].kind) {
        case ArgumentValue::Kind::buffer:
            // What launches nothing may come with empty buffers, as sizes of zero do.
            if (!launches_nothing || arguments[i].length != 0)
                check_buffer(kernel, i, arguments[i]);
            break;
        case ArgumentValue::Kind::bytes:
            check_bytes(kernel, i, arguments[i]);
            break;
        case ArgumentValue::Kind::threadgroup:
            if (info.kind != ArgumentKind::threadgroup)
                refuse(kernel, i, "threadgroup memory was given, but it is not a threadgroup pointer");
            if (arguments[i].length == 0)
                refuse(kernel, i, "its threadgroup memory has 0 bytes");
            if (arguments[i].length > kernel.device->info.threadgroup_memory_length)
                refuse(kernel, i,
                       std::to_string(arguments[i].length) + " bytes of threadgroup memory were given; the device has " +
                           std::to_string(kernel.device->info.threadgroup_memory_length));
            threadgroup_memory += (arguments[i].length + 15) / 16 * 16;
            break;
        case ArgumentValue::Kind::texture:
            check_texture(kernel, i, arguments[i]);
            break;
        case ArgumentValue::Kind::sampler:
            check_sampler(kernel, i, arguments[i]);
            break;
        case ArgumentValue::Kind::none:
            refuse(kernel, i,
                   info.kind == ArgumentKind::threadgroup ? "nothing was given; it needs threadgroup memory"
                                                          : "nothing was given, and no function constant switches it off");
        }
    }
    if (threadgroup_memory > kernel.device->info.threadgroup_memory_length)
        refuse(kernel, std::to_string(threadgroup_memory) + " bytes of threadgroup memory are asked for (" +
                           std::to_string(kernel.static_threadgroup_memory) +
                           " of them by the kernel itself); the device has " +
                           std::to_string(kernel.device->info.threadgroup_memory_length));
}

void check_uses(const KernelImpl& kernel, std::span<const Buffer> uses) {
    for (const Buffer& buffer : uses) {
        if (buffer.is_freed())
            refuse(kernel, "a buffer of uses has been freed");
        if (buffer.impl()->device != kernel.device)
            refuse(kernel, "a buffer of uses is on device " + buffer.device().info().title() + ", the kernel on " +
                               kernel.device->info.title());
    }
}

} // namespace

void launch(const Kernel& kernel, std::span<const ArgumentValue> arguments, const LaunchOptions& options) {
    const KernelImpl& impl = *kernel.impl();
    const Geometry geometry = check_geometry(impl, options);
    detail::check_argument_count(kernel, arguments.size());
    check_arguments(impl, arguments, geometry.grid.empty());
    check_uses(impl, options.uses);
    const Queue& queue = options.queue ? *options.queue : global_queue(kernel.device());
    if (queue.impl()->device != impl.device)
        refuse(impl,
               "the queue is on device " + queue.device().info().title() + ", the kernel on " + impl.device->info.title());
    if (geometry.grid.empty())
        return;
    detail::use_device();
    if (!queue.impl()->has_room()) [[unlikely]]
        queue.impl()->wait_for_room(std::nullopt);
    queue.impl()->launch({kernel.impl(), arguments, geometry.grid, geometry.group, geometry.counts_threads, options.uses});
}

LaunchConfiguration launch_configuration(const Kernel& kernel, const Extents& ndrange, std::uint64_t max_work_group_size) {
    const KernelImpl& impl = *kernel.impl();
    if (!ndrange.given())
        refuse(impl, "launch_configuration needs an ndrange");
    LaunchConfiguration result;
    result.workgroupsize = detail::choose_work_group(impl, ndrange.empty() ? Extents(1) : ndrange, max_work_group_size);
    result.workgroupsize.rank = ndrange.rank;
    result.numworkgroups = ndrange;
    for (std::size_t axis = 0; axis < 3; ++axis)
        result.numworkgroups.size[axis] = groups_of(ndrange.size[axis], result.workgroupsize.size[axis]);
    return result;
}

namespace detail {

namespace {

template <class T> std::size_t store(T number, ScalarSlot& slot) {
    std::memcpy(slot.bytes, &number, sizeof number);
    return sizeof number;
}

// The numbers that launches are made of, where they fit. 0: encode_scalar() does it, or says what is wrong.
std::size_t encode_plainly(ScalarType type, const ScalarValue& value, ScalarSlot& slot) {
    if (type == ScalarType::float32) {
        const double* number = std::get_if<double>(&value);
        return number && std::fabs(*number) <= std::numeric_limits<float>::max() ? store(static_cast<float>(*number), slot) : 0;
    }
    return std::visit(
        [&](auto number) -> std::size_t {
            if constexpr (std::is_same_v<decltype(number), std::int64_t> || std::is_same_v<decltype(number), std::uint64_t>) {
                if (type == ScalarType::uint32 && std::in_range<std::uint32_t>(number))
                    return store(static_cast<std::uint32_t>(number), slot);
                if (type == ScalarType::int32 && std::in_range<std::int32_t>(number))
                    return store(static_cast<std::int32_t>(number), slot);
            }
            return 0;
        },
        value);
}

} // namespace

void check_argument_count(const Kernel& kernel, std::size_t given) {
    const std::vector<ArgumentInfo>& arguments = kernel.impl()->arguments;
    if (given == arguments.size())
        return;
    std::string names;
    for (const ArgumentInfo& info : arguments)
        names += (names.empty() ? "" : ", ") + info.name;
    refuse(*kernel.impl(), "it takes " + std::to_string(arguments.size()) + " arguments (" + names + "), " +
                               std::to_string(given) + " were given");
}

ArgumentValue encode_number(const Kernel& kernel, std::size_t position, const ScalarValue& value, ScalarSlot& slot) {
    const KernelImpl& impl = *kernel.impl();
    const ArgumentInfo& info = impl.arguments[position];
    if (!info.active)
        return ArgumentValue::none();
    if (info.kind != ArgumentKind::buffer || info.access != Access::read)
        refuse(impl, position,
               "a number was given, but it needs " +
                   std::string(info.kind == ArgumentKind::buffer ? "a buffer" : "something else"));
    if (info.scalar == ScalarType::none || info.rows != 1 || info.columns != 1)
        refuse(impl, position, "a number was given, but it needs " + std::to_string(info.nbytes) + " bytes");
    if (const std::size_t length = encode_plainly(info.scalar, value, slot); length != 0) [[likely]]
        return ArgumentValue::bytes(slot.bytes, length);
    try {
        return ArgumentValue::bytes(slot.bytes, encode_scalar(info.scalar, value, slot.bytes, {}));
    } catch (const ArgumentError&) {
        // Once more, with the text that only a refusal needs.
        encode_scalar(info.scalar, value, slot.bytes, "launch of \"" + impl.name + "\": argument \"" + info.name + "\"");
        throw;
    }
}

ArgumentValue encode_object(const Kernel& kernel, std::size_t position, const void* data, std::size_t size, std::size_t count) {
    const KernelImpl& impl = *kernel.impl();
    const ArgumentInfo& info = impl.arguments[position];
    if (!info.active)
        return ArgumentValue::none();
    if (count == 1 && info.nbytes != 0 && size != info.nbytes)
        refuse(impl, position,
               "its type has " + std::to_string(info.nbytes) + " bytes, the value given " + std::to_string(size));
    return ArgumentValue::bytes(data, size * count);
}

} // namespace detail
} // namespace metalki
