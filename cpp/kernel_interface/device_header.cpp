// The text of the header. Plain MSL only: Apple's compiler reads it as it stands.
#include "kernel_interface/device_header.hpp"

namespace metalki::detail {
namespace {

constexpr std::string_view text = R"msl(
#ifndef METALKI_KERNEL_INTERFACE
#define METALKI_KERNEL_INTERFACE
#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#include <metal_logging>
#endif

namespace ki {

#if __METAL_VERSION__ >= 320
constant metal::os_log print_log("metalki", "print");
#endif

// Where the running thread is. Indices count from 0, sizes are those of this launch; x varies fastest.
struct thread_place {
    metal::uint3 global_id, global_size, local_id, local_size, group_id, num_groups;
    uint max_sub_group_size, num_sub_groups, sub_group_id, sub_group_local_id;

    metal::uint3 get_global_id() const thread { return global_id; }
    metal::uint3 get_global_size() const thread { return global_size; }
    metal::uint3 get_local_id() const thread { return local_id; }
    metal::uint3 get_local_size() const thread { return local_size; }
    metal::uint3 get_group_id() const thread { return group_id; }
    metal::uint3 get_num_groups() const thread { return num_groups; }
    uint get_max_sub_group_size() const thread { return max_sub_group_size; }
    uint get_num_sub_groups() const thread { return num_sub_groups; }
    uint get_sub_group_id() const thread { return sub_group_id; }
    uint get_sub_group_local_id() const thread { return sub_group_local_id; }

    // Threads of this sub-group: the last one of a group may be partial.
    uint get_sub_group_size() const thread {
        uint rest = local_size.x * local_size.y * local_size.z - sub_group_id * max_sub_group_size;
        return metal::min(rest, max_sub_group_size);
    }

    void barrier() const thread { metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup | metal::mem_flags::mem_device); }
    void sub_group_barrier() const thread { metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup | metal::mem_flags::mem_device); }

    // print("i = %d\n", i): formatted as by printf. What the format leaves over follows: print("i = ", i, "\n").
#if defined(__METALKI_PORTABLE__)
    template <typename... T> void print(T... values) const thread { metal::__print_values(values...); }
#elif __METAL_VERSION__ >= 320
    template <typename... T> void print(constant char* format, T... values) const thread { print_log.log(format, values...); }
#endif

    // The value of the thread `offset` places further in the sub-group.
    template <typename T> T shfl_down(T value, uint offset) const thread { return metal::simd_shuffle_down(value, (ushort)offset); }
};

// Position `linear` of an array of this shape, x fastest. 32-bit arithmetic: the shape must hold fewer than 2^32 elements.
template <int N> struct cartesian_index;
template <> struct cartesian_index<1> {
    typedef uint type;
    static uint of(uint linear, uint) { return linear; }
};
template <> struct cartesian_index<2> {
    typedef metal::uint2 type;
    static metal::uint2 of(uint linear, metal::uint2 shape) { return metal::uint2(linear % shape.x, linear / shape.x); }
};
template <> struct cartesian_index<3> {
    typedef metal::uint3 type;
    static metal::uint3 of(uint linear, metal::uint3 shape) {
        uint row = linear / shape.x;
        return metal::uint3(linear - row * shape.x, row % shape.y, row / shape.y);
    }
};
template <int N> typename cartesian_index<N>::type cartesian(uint linear, typename cartesian_index<N>::type shape) {
    return cartesian_index<N>::of(linear, shape);
}

// The inverse: where a position lies in memory, x fastest.
inline uint linear(metal::uint2 position, metal::uint2 shape) { return position.x + shape.x * position.y; }
inline uint linear(metal::uint3 position, metal::uint3 shape) { return position.x + shape.x * (position.y + shape.y * position.z); }

} // namespace ki

// The last parameters of a kernel that uses KI.
#define KI_ARGS                                                                                                                \
    metal::uint3 ki_global_id [[thread_position_in_grid]], metal::uint3 ki_global_size [[threads_per_grid]],                   \
    metal::uint3 ki_local_id [[thread_position_in_threadgroup]], metal::uint3 ki_local_size [[threads_per_threadgroup]],       \
    metal::uint3 ki_group_id [[threadgroup_position_in_grid]], metal::uint3 ki_num_groups [[threadgroups_per_grid]],           \
    uint ki_max_sub_group_size [[threads_per_simdgroup]], uint ki_num_sub_groups [[simdgroups_per_threadgroup]],               \
    uint ki_sub_group_id [[simdgroup_index_in_threadgroup]], uint ki_sub_group_local_id [[thread_index_in_simdgroup]]

#define KI                                                                                                                     \
    (ki::thread_place{ki_global_id, ki_global_size, ki_local_id, ki_local_size, ki_group_id, ki_num_groups,                    \
                      ki_max_sub_group_size, ki_num_sub_groups, ki_sub_group_id, ki_sub_group_local_id})

// KI_LOCALMEM(float, tile, 16, 16): memory shared by the work-group, in the body of a kernel; one to three sizes.
#define KI_LOCALMEM_1(type, name, a) threadgroup type name[a]
#define KI_LOCALMEM_2(type, name, a, b) threadgroup type name[a][b]
#define KI_LOCALMEM_3(type, name, a, b, c) threadgroup type name[a][b][c]
#define KI_LOCALMEM_PICK(a, b, c, chosen, ...) chosen
#define KI_LOCALMEM(type, name, ...)                                                                                           \
    KI_LOCALMEM_PICK(__VA_ARGS__, KI_LOCALMEM_3, KI_LOCALMEM_2, KI_LOCALMEM_1, )(type, name, __VA_ARGS__)

#endif
)msl";

} // namespace

std::string_view device_header() {
    return text;
}

bool includes_device_header(std::string_view source) {
    for (std::size_t at = source.find(device_header_name); at != std::string_view::npos;
         at = source.find(device_header_name, at + 1)) {
        std::string_view before = source.substr(0, at);
        before.remove_suffix(before.empty() || (before.back() != '<' && before.back() != '"') ? 0 : 1);
        while (!before.empty() && (before.back() == ' ' || before.back() == '\t')) {
            before.remove_suffix(1);
        }
        if (before.ends_with("include")) {
            return true;
        }
    }
    return false;
}

} // namespace metalki::detail
