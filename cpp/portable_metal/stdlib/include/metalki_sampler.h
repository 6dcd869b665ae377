// Samplers: their state in 64 bits as in compiler/texture_abi.hpp, and how coordinates outside of a texture are treated.
#ifndef METALKI_SAMPLER_H
#define METALKI_SAMPLER_H
#pragma clang system_header
#include <metal_common>

namespace metal {

enum class access { sample, read, write, read_write };
enum class coord { normalized, pixel };
// Values of the enumerations of the Metal API.
enum class filter { nearest = 0, linear = 1, bicubic = 2 };
enum class min_filter { nearest = 0, linear = 1 };
enum class mag_filter { nearest = 0, linear = 1 };
enum class mip_filter { none = 0, nearest = 1, linear = 2 };
#define __MSL_MODES { clamp_to_edge = 0, mirrored_repeat_once = 1, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 }
enum class address __MSL_MODES;
enum class s_address __MSL_MODES;
enum class t_address __MSL_MODES;
enum class r_address __MSL_MODES;
#undef __MSL_MODES
enum class compare_func { none = 0, never = 0, less = 1, equal = 2, less_equal = 3, greater = 4, not_equal = 5, greater_equal = 6, always = 7 };
enum class border_color { transparent_black = 0, opaque_black = 1, opaque_white = 2 };
enum class component { x, y, z, w };

struct max_anisotropy {
    int __value;
    constexpr explicit max_anisotropy(int v) : __value(v) {}
};
struct lod_clamp {
    float __low, __high;
    constexpr lod_clamp(float low, float high) : __low(low), __high(high) {}
};

// Which level of detail to sample.
struct level {
    float __value;
    constexpr explicit level(float v) : __value(v) {}
};
struct bias {
    float __value;
    constexpr explicit bias(float v) : __value(v) {}
};
struct min_lod_clamp {
    float __value;
    constexpr explicit min_lod_clamp(float v) : __value(v) {}
};
#define __MSL_GRADIENT(name, V)                      \
    struct name {                                    \
        V __dx, __dy;                                \
        name(V dx, V dy) : __dx(dx), __dy(dy) {}     \
    };
__MSL_GRADIENT(gradient2d, float2)
__MSL_GRADIENT(gradient3d, float3)
__MSL_GRADIENT(gradientcube, float3)
#undef __MSL_GRADIENT

struct sampler {
    ulong __bits = 0xffff000000000000ul;

    constexpr sampler() = default;
    template <class... A> constexpr explicit sampler(A... options) { (__apply(options), ...); }

    constexpr uint __get(uint at, uint bits) const { return (uint)(__bits >> at) & ((1u << bits) - 1u); }
    constexpr void __put(uint at, uint bits, ulong v) { __bits = (__bits & ~(((1ul << bits) - 1) << at)) | v << at; }
    static constexpr ulong __fixed(float lod) { return lod <= 0.0f ? 0 : lod >= 255.0f ? 0xffff : (ulong)(lod * 256.0f); }

    constexpr void __apply(min_filter v) { __put(0, 1, (ulong)v); }
    constexpr void __apply(mag_filter v) { __put(1, 1, (ulong)v); }
    constexpr void __apply(filter v) {
        __put(0, 1, v == filter::nearest ? 0 : 1);
        __put(1, 1, v == filter::nearest ? 0 : 1);
    }
    constexpr void __apply(mip_filter v) { __put(2, 2, (ulong)v); }
    constexpr void __apply(s_address v) { __put(4, 3, (ulong)v); }
    constexpr void __apply(t_address v) { __put(7, 3, (ulong)v); }
    constexpr void __apply(r_address v) { __put(10, 3, (ulong)v); }
    constexpr void __apply(address v) {
        __put(4, 3, (ulong)v);
        __put(7, 3, (ulong)v);
        __put(10, 3, (ulong)v);
    }
    constexpr void __apply(coord v) { __put(13, 1, (ulong)v); }
    constexpr void __apply(compare_func v) { __put(14, 3, (ulong)v); }
    constexpr void __apply(border_color v) { __put(17, 2, (ulong)v); }
    constexpr void __apply(max_anisotropy v) { __put(19, 4, (ulong)(v.__value - 1)); }
    constexpr void __apply(lod_clamp v) {
        __put(32, 16, __fixed(v.__low));
        __put(48, 16, __fixed(v.__high));
    }

    bool __linear(bool magnified) const { return __get(magnified ? 1 : 0, 1) != 0; }
    uint __mip() const { return __get(2, 2); }
    uint __address(uint axis) const { return __get(4 + 3 * axis, 3); }
    bool __normalized() const { return __get(13, 1) == 0; }
    float4 __border() const {
        const uint color = __get(17, 2);
        return color == 0 ? float4(0.0f) : color == 1 ? float4(0.0f, 0.0f, 0.0f, 1.0f) : float4(1.0f);
    }
    float __limit_level(float lod) const {
        lod = __builtin_fmaxf(lod, (float)__get(32, 16) / 256.0f);
        return __get(48, 16) == 0xffff ? lod : __builtin_fminf(lod, (float)__get(48, 16) / 256.0f);
    }
    bool __compare(float reference, float stored) const {
        switch (__get(14, 3)) {
        case 1: return reference < stored;
        case 2: return reference == stored;
        case 3: return reference <= stored;
        case 4: return reference > stored;
        case 5: return reference != stored;
        case 6: return reference >= stored;
        case 7: return true;
        default: return false;
        }
    }
};

// The texel index that stands for `i` along an axis of n texels; -1: the border.
inline int __wrap(int i, int n, uint mode) {
    switch (mode) {
    case 0: return i < 0 ? 0 : i >= n ? n - 1 : i;
    case 1: i = i < 0 ? ~i : i; return i >= n ? n - 1 : i;
    case 2: i %= n; return i < 0 ? i + n : i;
    case 3: i %= 2 * n; i = i < 0 ? i + 2 * n : i; return i < n ? i : 2 * n - 1 - i;
    default: return i < 0 || i >= n ? -1 : i;
    }
}

} // namespace metal

#endif
