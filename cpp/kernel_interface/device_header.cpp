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

// Position `linear` of an array of this shape, x fastest. 32-bit arithmetic: the shape holds fewer than 2^32 elements.
template <int N> struct cartesian_index;
template <> struct cartesian_index<1> {
    typedef uint type;
    static uint of(uint linear, uint) { return linear; }
};
template <> struct cartesian_index<2> {
    typedef metal::uint2 type;
    typedef metal::ulong2 wide;
    static metal::uint2 of(uint linear, metal::uint2 shape) {
        uint row = linear / shape.x;
        return metal::uint2(linear - row * shape.x, row);
    }
    static wide of_wide(ulong linear, wide shape) { return wide(linear % shape.x, linear / shape.x); }
};
template <> struct cartesian_index<3> {
    typedef metal::uint3 type;
    typedef metal::ulong3 wide;
    static metal::uint3 of(uint linear, metal::uint3 shape) {
        uint row = linear / shape.x, plane = row / shape.y;
        return metal::uint3(linear - row * shape.x, row - plane * shape.y, plane);
    }
    static wide of_wide(ulong linear, wide shape) {
        ulong row = linear / shape.x;
        return wide(linear % shape.x, row % shape.y, row / shape.y);
    }
};
template <> struct cartesian_index<4> {
    typedef metal::uint4 type;
    typedef metal::ulong4 wide;
    static metal::uint4 of(uint linear, metal::uint4 shape) {
        uint row = linear / shape.x, plane = row / shape.y, volume = plane / shape.z;
        return metal::uint4(linear - row * shape.x, row - plane * shape.y, plane - volume * shape.z, volume);
    }
    static wide of_wide(ulong linear, wide shape) {
        ulong row = linear / shape.x, plane = row / shape.y;
        return wide(linear % shape.x, row % shape.y, plane % shape.z, plane / shape.z);
    }
};
template <int N> typename cartesian_index<N>::type cartesian(uint linear, typename cartesian_index<N>::type shape) {
    return cartesian_index<N>::of(linear, shape);
}
// For shapes of 64-bit sizes: 32-bit arithmetic all the same where the numbers allow.
template <int N> typename cartesian_index<N>::wide cartesian(ulong linear, typename cartesian_index<N>::wide shape) {
    typedef typename cartesian_index<N>::wide wide;
    typedef typename cartesian_index<N>::type narrow;
    if (linear <= 0xffffffffUL && metal::all(shape <= wide(0xffffffffUL)))
        return wide(cartesian_index<N>::of(uint(linear), narrow(shape)));
    return cartesian_index<N>::of_wide(linear, shape);
}

// Where thread `local` of group `group` is in the whole, for groups of `size` threads.
inline uint expand(uint group, uint local, uint size) { return group * size + local; }
inline metal::uint2 expand(metal::uint2 group, metal::uint2 local, metal::uint2 size) { return group * size + local; }
inline metal::uint3 expand(metal::uint3 group, metal::uint3 local, metal::uint3 size) { return group * size + local; }

// The inverse: where a position lies in memory, x fastest.
inline uint linear(metal::uint2 position, metal::uint2 shape) { return position.x + shape.x * position.y; }
inline uint linear(metal::uint3 position, metal::uint3 shape) { return position.x + shape.x * (position.y + shape.y * position.z); }

// Functions that MSL does not have, to a few units in the last place of float.
// erf where |x| < 1.
inline float erf_near(float x) {
    float s = x * x, p = -9.7282064e-06f;
    p = p * s + 0.00011288109f;
    p = p * s - 0.00084872596f;
    p = p * s + 0.0052212612f;
    p = p * s - 0.026865518f;
    p = p * s + 0.11283784f;
    p = p * s - 0.37612638f;
    return x * (p * s + 1.1283792f);
}
// erfc where a >= 1.
inline float erfc_far(float a) {
    if (a > 10.5f)
        return 0;
    float t = 1 / (1 + a / 2), p = -0.068398416f;
    p = p * t + 0.21435137f;
    p = p * t - 0.18497863f;
    p = p * t - 0.03511551f;
    p = p * t + 0.01095128f;
    p = p * t + 0.073012285f;
    p = p * t + 0.17945366f;
    p = p * t + 0.24632768f;
    p = p * t + 0.28213823f;
    p = p * t + 0.28209323f;
    // exp(-a * a), with the square in two parts: its rounding error would be magnified.
    float high = as_type<float>(as_type<uint>(a) & 0xfffff000u);
    return p * t * metal::precise::exp(-high * high) * metal::precise::exp((high - a) * (high + a));
}
inline float erf(float x) {
    float a = metal::fabs(x);
    return a < 1 ? erf_near(x) : metal::copysign(1 - erfc_far(a), x);
}
inline float erfc(float x) {
    float a = metal::fabs(x);
    return a < 1 ? 1 - erf_near(x) : x > 0 ? erfc_far(a) : 2 - erfc_far(a);
}

inline float gamma_positive(float x) {
    if (x > 35.05f)
        return INFINITY;
    float product = 1;
    for (; x > 2; x -= 1)
        product *= x - 1;
    if (x < 1) {
        product /= x;
        x += 1;
    }
    float u = x - 1.5f, p = 0.016346352f;
    p = p * u - 0.023750538f;
    p = p * u + 0.024380984f;
    p = p * u - 0.03625736f;
    p = p * u + 0.058805957f;
    p = p * u - 0.077720344f;
    p = p * u + 0.14463365f;
    p = p * u - 0.10728582f;
    p = p * u + 0.4148137f;
    p = p * u + 0.032338284f;
    return product * (p * u + 0.88622695f);
}
inline float gamma(float x) {
    if (x >= 0.5f)
        return gamma_positive(x);
    if (x == metal::floor(x))
        return x == 0 ? 1 / x : NAN;
    return x < -41 ? 0 : M_PI_F / (metal::precise::sinpi(x) * gamma_positive(1 - x));
}

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
