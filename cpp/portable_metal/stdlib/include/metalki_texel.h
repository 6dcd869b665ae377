// Texture descriptors (mirrors of compiler/texture_abi.hpp) and the pixel formats: memory to vectors and back.
#ifndef METALKI_TEXEL_H
#define METALKI_TEXEL_H
#pragma clang system_header
#include <metal_pack>

namespace metal {

struct __texture_level {
    uchar *base;
    ulong bytes_per_row;
    ulong bytes_per_image;
};
struct __texture_descriptor {
    uint format;
    uint width, height, depth;
    uint array_length;
    uint mip_count;
    uint sample_count, reserved;
    __texture_level levels[15];
};
static_assert(sizeof(__texture_descriptor) == 8 * 4 + 15 * 24, "texture_abi.hpp differs");

// A pixel format taken apart: its number in tens gives channels and width, its last digit the kind of number.
enum class __channel_kind : uint { unorm, srgb, snorm, unsigned_integer, signed_integer, floating };
struct __pixel_format {
    uint group;
    __channel_kind kind;
    uint bytes;
    uint channels;
};
inline __pixel_format __take_apart(uint format) {
    format = format == 250 ? 20 : format == 252 ? 55 : format; // Depth16Unorm, Depth32Float
    const uint group = format / 10;
    const bool four = group == 5 || group == 10 || group == 12, two = group == 2 || group == 6 || group == 11;
    const bool pair = group == 3 || group == 6 || group == 10, all = group == 7 || group == 8 || group >= 11;
    return {group, (__channel_kind)(format % 10), four ? 4u : two ? 2u : 1u, pair ? 2u : all ? 4u : 1u};
}

__fi uint __load_channel(const uchar *p, uint bytes) { return bytes == 1 ? *p : bytes == 2 ? *(const ushort *)p : *(const uint *)p; }
__fi void __store_channel(uchar *p, uint bytes, uint v) {
    if (bytes == 1) *p = (uchar)v;
    else if (bytes == 2) *(ushort *)p = (ushort)v;
    else *(uint *)p = v;
}
// Alpha is linear in the sRGB formats, too.
__fi __pixel_format __of_channel(__pixel_format f, uint c) {
    if (c == 3 && f.kind == __channel_kind::srgb) f.kind = __channel_kind::unorm;
    return f;
}
__fi int __sign_extend(uint raw, uint bytes) { return (int)(raw << (32 - 8 * bytes)) >> (32 - 8 * bytes); }

inline float __channel_to_float(uint raw, __pixel_format f) {
#pragma clang fp reciprocal(off) reassociate(off)
    switch (f.kind) {
    case __channel_kind::unorm: return (float)raw / (f.bytes == 1 ? 255.0f : 65535.0f);
    case __channel_kind::srgb: return __from_srgb((float)raw / 255.0f);
    case __channel_kind::snorm: return __builtin_fmaxf((float)__sign_extend(raw, f.bytes) / (f.bytes == 1 ? 127.0f : 32767.0f), -1.0f);
    case __channel_kind::unsigned_integer: return (float)raw;
    case __channel_kind::signed_integer: return (float)__sign_extend(raw, f.bytes);
    default: return f.bytes == 2 ? (float)__builtin_bit_cast(half, (ushort)raw) : __builtin_bit_cast(float, raw);
    }
}
inline uint __float_to_channel(float v, __pixel_format f) {
    switch (f.kind) {
    case __channel_kind::unorm: return __to_normalized(v, 0.0f, f.bytes == 1 ? 255.0f : 65535.0f, 8 * f.bytes);
    case __channel_kind::srgb: return __to_normalized(__to_srgb(v), 0.0f, 255.0f, 8);
    case __channel_kind::snorm: return __to_normalized(v, -1.0f, f.bytes == 1 ? 127.0f : 32767.0f, 8 * f.bytes);
    case __channel_kind::unsigned_integer: return (uint)v;
    case __channel_kind::signed_integer: return (uint)(int)v;
    default: return f.bytes == 2 ? (uint)__builtin_bit_cast(ushort, (half)v) : __builtin_bit_cast(uint, v);
    }
}

// The formats whose channels share a 32-bit word.
inline float4 __unpack_word(uint p, uint format) {
    if (format == 92) {
        return float4((float)__builtin_bit_cast(half, (ushort)((p & 0x7ff) << 4)), (float)__builtin_bit_cast(half, (ushort)((p >> 11 & 0x7ff) << 4)),
                      (float)__builtin_bit_cast(half, (ushort)((p >> 22) << 5)), 1.0f);
    }
    if (format == 91) return float4((float)(p & 0x3ff), (float)(p >> 10 & 0x3ff), (float)(p >> 20 & 0x3ff), (float)(p >> 30));
    const float4 v = unpack_unorm10a2_to_float(p);
    return format == 94 ? float4(v.z, v.y, v.x, v.w) : v;
}
__fi uint __small_float(float v, uint dropped) {
    if (!(v > 0.0f)) return v != v ? 0x7fffu >> dropped : 0u;
    return ((uint)__builtin_bit_cast(ushort, (half)v) + (1u << (dropped - 1))) >> dropped;
}
inline uint __pack_word(float4 v, uint format) {
    if (format == 92) return __small_float(v.x, 4) | __small_float(v.y, 4) << 11 | __small_float(v.z, 5) << 22;
    if (format == 91) {
        return min((uint)v.x, 0x3ffu) | min((uint)v.y, 0x3ffu) << 10 | min((uint)v.z, 0x3ffu) << 20 | min((uint)v.w, 3u) << 30;
    }
    return pack_float_to_unorm10a2(format == 94 ? float4(v.z, v.y, v.x, v.w) : v);
}

// Missing channels read as 0, alpha as 1.
inline float4 __decode_float(const uchar *p, uint format) {
    if (format == 1) return float4(0.0f, 0.0f, 0.0f, (float)*p / 255.0f);
    if (format == 125) return *(const float4 *)p;
    const __pixel_format f = __take_apart(format);
    if (f.group == 9) return __unpack_word(*(const uint *)p, format);
    float4 v(0.0f, 0.0f, 0.0f, 1.0f);
    for (uint c = 0; c < f.channels; c++) v[c] = __channel_to_float(__load_channel(p + c * f.bytes, f.bytes), __of_channel(f, c));
    return f.group == 8 ? float4(v.z, v.y, v.x, v.w) : v;
}
inline void __encode_float(uchar *p, uint format, float4 v) {
    if (format == 1) { *p = (uchar)__to_normalized(v.w, 0.0f, 255.0f, 8); return; }
    if (format == 125) { *(float4 *)p = v; return; }
    const __pixel_format f = __take_apart(format);
    if (f.group == 9) { *(uint *)p = __pack_word(v, format); return; }
    if (f.group == 8) v = float4(v.z, v.y, v.x, v.w);
    for (uint c = 0; c < f.channels; c++) __store_channel(p + c * f.bytes, f.bytes, __float_to_channel(v[c], __of_channel(f, c)));
}

// Integer formats; signed ones travel as the bits of int.
inline uint4 __decode_integer(const uchar *p, uint format) {
    if (format == 91) { const float4 v = __unpack_word(*(const uint *)p, format); return uint4((uint)v.x, (uint)v.y, (uint)v.z, (uint)v.w); }
    const __pixel_format f = __take_apart(format);
    uint4 v(0, 0, 0, 1);
    for (uint c = 0; c < f.channels; c++) {
        const uint raw = __load_channel(p + c * f.bytes, f.bytes);
        v[c] = f.kind == __channel_kind::signed_integer ? (uint)__sign_extend(raw, f.bytes) : raw;
    }
    return v;
}
// Values that the channel cannot hold are clamped to its range.
inline void __encode_integer(uchar *p, uint format, uint4 v) {
    if (format == 91) { *(uint *)p = __pack_word(float4((float)v.x, (float)v.y, (float)v.z, (float)v.w), format); return; }
    const __pixel_format f = __take_apart(format);
    const uint top = f.bytes == 1 ? 0xff : f.bytes == 2 ? 0xffff : ~0u;
    for (uint c = 0; c < f.channels; c++) {
        uint raw = v[c];
        if (f.kind == __channel_kind::signed_integer) raw = (uint)clamp((int)raw, -(int)(top >> 1) - 1, (int)(top >> 1));
        else raw = min(raw, top);
        __store_channel(p + c * f.bytes, f.bytes, raw);
    }
}

} // namespace metal

#endif
