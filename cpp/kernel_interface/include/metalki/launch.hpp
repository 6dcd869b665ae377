// Launching kernels.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "metalki/buffer.hpp"
#include "metalki/error.hpp"
#include "metalki/kernel.hpp"
#include "metalki/library.hpp"
#include "metalki/queue.hpp"
#include "metalki/texture.hpp"

namespace metalki {

/// Sizes in up to three dimensions, x first. Rank 0 means "not given". Missing dimensions are 1.
struct Extents {
    std::array<std::uint64_t, 3> size{1, 1, 1};
    std::uint8_t rank = 0;

    constexpr Extents() = default;
    /// Throws ArgumentError for a negative size.
    template <std::integral... Sizes>
        requires(sizeof...(Sizes) >= 1 && sizeof...(Sizes) <= 3)
    constexpr Extents(Sizes... sizes) : rank(sizeof...(Sizes)) {
        std::size_t i = 0;
        ((size[i++] = checked(sizes)), ...);
    }

    constexpr bool given() const { return rank != 0; }
    constexpr bool empty() const { return size[0] == 0 || size[1] == 0 || size[2] == 0; }
    constexpr std::uint64_t x() const { return size[0]; }
    constexpr std::uint64_t y() const { return size[1]; }
    constexpr std::uint64_t z() const { return size[2]; }
    friend constexpr bool operator==(const Extents& a, const Extents& b) { return a.size == b.size; }

private:
    template <std::integral T> static constexpr std::uint64_t checked(T value) {
        if constexpr (std::is_signed_v<T>)
            if (value < 0)
                throw ArgumentError("launch: a size may not be negative: " + std::to_string(value));
        return static_cast<std::uint64_t>(value);
    }
};

/// One argument of a launch, ready to encode. Names memory of the caller that need only live until launch() returns.
struct ArgumentValue {
    enum class Kind : std::uint8_t { none, buffer, bytes, threadgroup, texture, sampler };

    Kind kind = Kind::none;
    /// bytes: owned by the caller until launch() returns; texture: its detail::TextureImpl; sampler: its detail::SamplerImpl
    const void* data = nullptr;
    /// buffer: its allocation
    detail::BufferImpl* buffer = nullptr;
    /// buffer: first byte in the allocation
    std::size_t offset = 0;
    /// bytes: their count; buffer: bytes in the range; threadgroup: bytes of threadgroup memory
    std::size_t length = 0;

    static ArgumentValue none() { return {}; }
    static ArgumentValue of(const Buffer& b) { return {Kind::buffer, nullptr, b.impl().get(), b.offset(), b.size()}; }
    static ArgumentValue of(const Texture& t) { return {Kind::texture, t.impl().get(), nullptr, 0, 0}; }
    static ArgumentValue of(const Sampler& s) { return {Kind::sampler, s.impl().get(), nullptr, 0, 0}; }
    static ArgumentValue bytes(const void* data, std::size_t length) { return {Kind::bytes, data, nullptr, 0, length}; }
    static ArgumentValue threadgroup(std::size_t length) { return {Kind::threadgroup, nullptr, nullptr, 0, length}; }
};
static_assert(std::is_trivially_copyable_v<ArgumentValue> && sizeof(ArgumentValue) <= 40);

/// How to launch. Exactly one of `ndrange` and `numworkgroups` is given.
struct LaunchOptions {
    Extents ndrange{};                     ///< threads in all; need not be a multiple of the work-group
    Extents numworkgroups{};               ///< work-groups; needs no ndrange
    Extents workgroupsize{};               ///< threads of a work-group; chosen when not given
    std::uint64_t max_work_group_size = 0; ///< caps the choice; 0: the kernel's own limit
    const Queue* queue = nullptr;          ///< nullptr: the calling thread's queue
    std::span<const Buffer> uses{};        ///< buffers that the kernel reaches only through addresses in other buffers
};

/// Puts a launch on the queue and returns without waiting. `arguments` are those of kernel.arguments(), in that order.
/// An empty ndrange launches nothing. Everything is checked before anything is encoded: what throws has changed nothing.
/// Throws ArgumentError (geometry, arguments) and LaunchError.
METALKI_API void launch(const Kernel& kernel, std::span<const ArgumentValue> arguments, const LaunchOptions& options);

/// Work-groups and their size.
struct LaunchConfiguration {
    Extents numworkgroups;
    Extents workgroupsize;
};

/// The work-group that a launch over `ndrange` chooses: not larger than the work or the kernel's limit, small enough that every
/// core gets a group, and of the sizes left the one that should cost least: large, little of it beyond the ends of the ndrange,
/// and no SIMD-groups that run over the ends of rows. `max_work_group_size` caps it (0: no cap).
METALKI_API LaunchConfiguration launch_configuration(const Kernel& kernel, const Extents& ndrange,
                                                     std::uint64_t max_work_group_size = 0);

/// Memory for a `threadgroup` pointer argument.
struct ThreadgroupMemory {
    std::size_t length; ///< bytes
};
/// For the argument tuple of launch(): `nbytes` bytes of threadgroup memory.
inline ThreadgroupMemory threadgroup(std::size_t nbytes) {
    return {nbytes};
}

namespace detail {

// Storage for one converted scalar while launch() runs.
struct ScalarSlot {
    alignas(8) std::byte bytes[8];
};

/// Converts a number by the type that the kernel declares.
METALKI_API ArgumentValue encode_number(const Kernel& kernel, std::size_t position, const ScalarValue& value, ScalarSlot& slot);
/// A struct or an array; `count` elements of `size` bytes.
METALKI_API ArgumentValue encode_object(const Kernel& kernel, std::size_t position, const void* data, std::size_t size,
                                        std::size_t count);
METALKI_API void check_argument_count(const Kernel& kernel, std::size_t given);

template <class T> inline constexpr bool is_std_array = false;
template <class T, std::size_t N> inline constexpr bool is_std_array<std::array<T, N>> = true;

template <class T> ArgumentValue encode(const Kernel& kernel, std::size_t position, const T& value, ScalarSlot& slot) {
    if constexpr (std::is_same_v<T, Buffer> || std::is_same_v<T, Texture> || std::is_same_v<T, Sampler>)
        return ArgumentValue::of(value);
    else if constexpr (std::is_same_v<T, ArgumentValue>)
        return value;
    else if constexpr (std::is_same_v<T, ThreadgroupMemory>)
        return ArgumentValue::threadgroup(value.length);
    else if constexpr (std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, std::nullptr_t>)
        return ArgumentValue::none();
    else if constexpr (std::is_same_v<T, bool>)
        return encode_number(kernel, position, ScalarValue(value), slot);
    else if constexpr (std::is_floating_point_v<T>)
        return encode_number(kernel, position, ScalarValue(static_cast<double>(value)), slot);
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
        return encode_number(kernel, position, ScalarValue(static_cast<std::int64_t>(value)), slot);
    else if constexpr (std::is_integral_v<T>)
        return encode_number(kernel, position, ScalarValue(static_cast<std::uint64_t>(value)), slot);
    else if constexpr (is_std_array<T>)
        return encode_object(kernel, position, value.data(), sizeof(typename T::value_type), value.size());
    else {
        static_assert(
            std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
            "a kernel argument is a metalki::Buffer, Texture or Sampler, a number, a trivially copyable struct, a std::array, "
            "metalki::threadgroup(nbytes) or std::nullopt");
        return encode_object(kernel, position, &value, sizeof(T), 1);
    }
}

} // namespace detail

/// Launches with a tuple of C++ values: Buffers, Textures, Samplers, numbers (converted to the declared MSL type, refused when
/// they do not fit), trivially copyable structs of the declared size, std::arrays, threadgroup(nbytes), and std::nullopt for
/// what a function constant switches off. Throws as the other launch() does.
template <class... Arguments>
void launch(const Kernel& kernel, const std::tuple<Arguments...>& arguments, const LaunchOptions& options) {
    constexpr std::size_t count = sizeof...(Arguments);
    detail::check_argument_count(kernel, count);
    std::array<detail::ScalarSlot, count == 0 ? 1 : count> slots;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        const std::array<ArgumentValue, count> values{detail::encode(kernel, I, std::get<I>(arguments), slots[I])...};
        launch(kernel, std::span<const ArgumentValue>(values.data(), count), options);
    }(std::make_index_sequence<count>{});
}

} // namespace metalki
