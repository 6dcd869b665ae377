// Reading, writing and filtering of textures of any dimension; metal_texture gives them MSL's classes.
#ifndef METALKI_SAMPLE_H
#define METALKI_SAMPLE_H
#pragma clang system_header
#include <metal_geometric>
#include <metalki_sampler.h>
#include <metalki_texel.h>

namespace metal {

struct __texture_base {
    const __texture_descriptor *__d = nullptr;
};

__fi uint __mip_size(uint size, uint level) { return max(size >> min(level, 31u), 1u); }

// Texels of one level; `images` is what the third coordinate counts: slices, layers or faces.
struct __mip {
    const __texture_descriptor *d;
    uint level;
    uint width, height, images;

    __fi uchar *address(uint x, uint y, uint image, uint bytes) const {
        const __texture_level &l = d->levels[level];
        return l.base + image * l.bytes_per_image + y * l.bytes_per_row + (ulong)x * bytes;
    }
    __fi bool holds(uint x, uint y, uint image) const { return x < width && y < height && image < images; }
};
inline uint __pixel_bytes(uint format) {
    if (format == 1) return 1;
    if (format >= 90 && format <= 94) return 4;
    const __pixel_format f = __take_apart(format);
    return f.bytes * f.channels;
}

// Outside of the texture reads give zero and writes have no effect.
template <class T> __fi vec<T, 4> __read_texel(__mip m, uint x, uint y, uint image) {
    if (!m.holds(x, y, image)) return vec<T, 4>((T)0);
    const uchar *p = m.address(x, y, image, __pixel_bytes(m.d->format));
    if constexpr (__floating<T>) return vec<T, 4>(__decode_float(p, m.d->format));
    else return vec<T, 4>(__decode_integer(p, m.d->format));
}
template <class T> __fi void __write_texel(__mip m, uint x, uint y, uint image, vec<T, 4> v) {
    if (!m.holds(x, y, image)) return;
    uchar *p = m.address(x, y, image, __pixel_bytes(m.d->format));
    if constexpr (__floating<T>) __encode_float(p, m.d->format, float4(v));
    else if constexpr (__is_signed(T)) __encode_integer(p, m.d->format, uint4(int4(v)));
    else __encode_integer(p, m.d->format, uint4(v));
}

// What the caller of sample() asks for besides the coordinates.
struct __sample_options {
    float lod = 0.0f;
    int3 offset = int3(0);
    float size[3];

    __fi void operator()(level v) { lod = v.__value; }
    __fi void operator()(bias v) { lod += v.__value; }
    __fi void operator()(min_lod_clamp v) { lod = __builtin_fmaxf(lod, v.__value); }
    __fi void operator()(int v) { offset.x = v; }
    __fi void operator()(int2 v) { offset.x = v.x, offset.y = v.y; }
    __fi void operator()(int3 v) { offset = v; }
    __fi void operator()(gradient2d g) { __footprint(float3(g.__dx, 0.0f), float3(g.__dy, 0.0f)); }
    __fi void operator()(gradient3d g) { __footprint(g.__dx, g.__dy); }
    __fi void operator()(gradientcube g) { __footprint(g.__dx, g.__dy); } // `size` is that of a face as the direction sees it
    void __footprint(float3 dx, float3 dy) {
        const float3 s(size[0], size[1], size[2]);
        lod = 0.5f * __builtin_log2f(__builtin_fmaxf(__builtin_fmaxf(dot(dx * s, dx * s), dot(dy * s, dy * s)), 0x1p-60f));
    }
};

// A sampled value of a colour texture, or the outcome of a comparison.
struct __no_compare {
    template <class V> __fi V operator()(sampler, V v) const { return v; }
};
struct __compare_with {
    float reference;
    template <class T> __fi vec<T, 4> operator()(sampler s, vec<T, 4> v) const {
        return vec<T, 4>((T)(s.__compare(reference, (float)v.x) ? 1.0f : 0.0f));
    }
};

// Axes: how many coordinates the sampler's address modes apply to. Others (layer, face) are given as `image`.
template <class T, int Axes> struct __footprint_reader {
    __mip m;
    sampler s;
    uint image;

    __fi int size(int axis) const { return (int)(axis == 0 ? m.width : axis == 1 ? m.height : m.images); }
    __fi vec<T, 4> operator()(const int *at) const {
        int i[3] = {0, 0, (int)image};
        for (int a = 0; a < Axes; a++) {
            const uint mode = s.__address(a);
            i[a] = __wrap(at[a], size(a), mode);
            if (i[a] < 0) return mode == 5 ? vec<T, 4>(s.__border()) : vec<T, 4>((T)0);
        }
        return __read_texel<T>(m, (uint)i[0], (uint)i[1], (uint)i[2]);
    }
};

template <class T, int Axes, class Compare>
inline vec<T, 4> __sample_level(__mip m, sampler s, float3 at, uint image, bool linear, int3 offset, Compare compare) {
    const __footprint_reader<T, Axes> texel{m, s, image};
    int i[3] = {0, 0, 0};
    float part[3];
    for (int a = 0; a < Axes; a++) {
        float u = s.__normalized() ? at[a] * (float)texel.size(a) : (float)at[a];
        u += (float)offset[a] - (linear ? 0.5f : 0.0f);
        i[a] = (int)__builtin_floorf(u);
        part[a] = u - __builtin_floorf(u);
    }
    if constexpr (!__floating<T>) {
        return compare(s, texel(i)); // integers cannot be blended
    } else {
        if (!linear) return compare(s, texel(i));
        float4 sum(0.0f);
        for (int corner = 0; corner < (1 << Axes); corner++) {
            float weight = 1.0f;
            int k[3] = {i[0], i[1], i[2]};
            for (int a = 0; a < Axes; a++) {
                const bool upper = (corner >> a & 1) != 0;
                k[a] += upper ? 1 : 0;
                weight *= upper ? part[a] : 1.0f - part[a];
            }
            if (weight != 0.0f) sum += float4(compare(s, texel(k))) * weight;
        }
        return vec<T, 4>(sum);
    }
}

// `mip` gives the texels of a level.
template <class T, int Axes, class Mip, class Compare>
inline vec<T, 4> __sample(Mip mip, uint levels, sampler s, float3 at, uint image, __sample_options o, Compare compare) {
    const float lod = s.__limit_level(o.lod);
    const bool linear = s.__linear(lod <= 0.0f);
    const float top = (float)(levels - 1);
    const float l = s.__mip() == 0 ? 0.0f : __builtin_fminf(__builtin_fmaxf(lod, 0.0f), top);
    if (s.__mip() < 2) return __sample_level<T, Axes>(mip((uint)(l + 0.5f)), s, at, image, linear, o.offset, compare);
    const float lower = __builtin_floorf(l), blend = l - lower;
    vec<T, 4> v = __sample_level<T, Axes>(mip((uint)lower), s, at, image, linear, o.offset, compare);
    if (blend > 0.0f && __floating<T>) {
        const vec<T, 4> next = __sample_level<T, Axes>(mip((uint)lower + 1), s, at, image, linear, o.offset, compare);
        v = vec<T, 4>(float4(v) + (float4(next) - float4(v)) * blend);
    }
    return v;
}

// The four texels that linear filtering would blend, anticlockwise from the lower left.
template <class T, class Compare>
inline vec<T, 4> __gather(__mip m, sampler s, float2 at, uint image, int2 offset, int channel, Compare compare) {
    const __footprint_reader<T, 2> texel{m, s, image};
    int i[2];
    for (int a = 0; a < 2; a++) {
        const float u = s.__normalized() ? at[a] * (float)texel.size(a) : (float)at[a];
        i[a] = (int)__builtin_floorf(u + (float)offset[a] - 0.5f);
    }
    vec<T, 4> r;
    for (int k = 0; k < 4; k++) {
        const int j[2] = {i[0] + (k == 1 || k == 2 ? 1 : 0), i[1] + (k < 2 ? 1 : 0)};
        r[k] = (T)compare(s, texel(j))[channel];
    }
    return r;
}

// A direction as face and coordinates upon it.
__fi float3 __on_face(float3 d, uint &face, float &major) {
    const float3 m(__builtin_fabsf(d.x), __builtin_fabsf(d.y), __builtin_fabsf(d.z));
    float u, v;
    if (m.x >= m.y && m.x >= m.z) {
        face = d.x < 0.0f ? 1 : 0, major = m.x, u = d.x < 0.0f ? d.z : -d.z, v = -d.y;
    } else if (m.y >= m.z) {
        face = d.y < 0.0f ? 3 : 2, major = m.y, u = d.x, v = d.y < 0.0f ? -d.z : d.z;
    } else {
        face = d.z < 0.0f ? 5 : 4, major = m.z, u = d.z < 0.0f ? -d.x : d.x, v = -d.y;
    }
    return float3(0.5f * (u / major + 1.0f), 0.5f * (v / major + 1.0f), 0.0f);
}

} // namespace metal

#endif
