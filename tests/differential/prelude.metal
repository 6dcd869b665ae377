// What all kernels of a differential run have before them.
#include <metal_stdlib>
using namespace metal;
struct Record {
    uint a;
    int b;
    short c;
    uchar d;
    float f;
    uint4 v;
    ushort t[4];
};
constant uint many_times [[function_constant(0)]];
constant bool chosen [[function_constant(1)]];
struct Pair {
    uint x;
    short y;
    ulong z;
};
inline uint bits(float f) {
    return isnan(f) ? 0x7fc00000u : as_type<uint>(f);
}
inline uint bits(half f) {
    return bits(float(f));
}
inline uint bits(bfloat f) {
    return bits(float(f));
}
inline uint bits(uint u) {
    return u;
}
inline uint bits(int u) {
    return uint(u);
}
inline uint bits(ushort u) {
    return u;
}
inline uint bits(short u) {
    return uint(int(u));
}
inline uint bits(uchar u) {
    return u;
}
inline uint bits(char u) {
    return uint(int(u));
}
inline uint bits(ulong u) {
    return uint(u) ^ uint(u >> 32);
}
inline uint bits(long u) {
    return bits(ulong(u));
}
inline uint bits(bool u) {
    return u ? 3u : 5u;
}
inline uint bits(uint4 v) {
    return v.x ^ v.y * 3u ^ v.z * 5u ^ v.w * 7u;
}
inline uint bits(int2 v) {
    return uint(v.x) ^ uint(v.y) * 3u;
}
inline uint bits(short3 v) {
    return bits(v.x) ^ bits(v.y) * 3u ^ bits(v.z) * 5u;
}
inline uint bits(float4 v) {
    return bits(v.x) ^ bits(v.y) * 3u ^ bits(v.z) * 5u ^ bits(v.w) * 7u;
}
inline uint bits(half4 v) {
    return bits(float4(v));
}
inline uint bits(half3 v) {
    return bits(v.x) ^ bits(v.y) * 3u ^ bits(v.z) * 5u;
}
inline uint bits(bfloat2 v) {
    return bits(v.x) ^ bits(v.y) * 3u;
}
inline uint bits(char4 v) {
    return bits(v.x) ^ bits(v.y) * 3u ^ bits(v.z) * 5u ^ bits(v.w) * 7u;
}
inline uint bits(long2 v) {
    return bits(v.x) ^ bits(v.y) * 3u;
}
inline uint whole(float f) {
    return f >= 0.0f && f < 4.0e9f ? uint(f) : f < 0.0f && f > -2.0e9f ? uint(int(f)) : 77u;
}
inline uint steps(uint n) {
    uint c = 0;
    while (n != 0u && c < 40u) {
        n = (n & 1u) ? n * 3u + 1u : n >> 1;
        ++c;
    }
    return c;
}
inline uint early(uint a, uint b) {
    if (a > b)
        return a - b;
    for (uint k = 0; k < 6u; ++k) {
        if ((b >> k) == a)
            return k;
        b ^= k;
    }
    return b;
}
__attribute__((noinline)) uint apart(uint a, uint b) {
    uint r = a ^ (b << 3);
    for (uint k = 0; k < (a & 7u); ++k)
        r = r * 5u + k;
    return r;
}
inline uint through(thread uint* p, uint k) {
    p[k & 3u] += k;
    return p[(k + 1u) & 3u];
}
inline uint walk(device const uint* p, uint n) {
    uint s = 0;
    device const uint* e = p + (n & 15u);
    for (; p != e; ++p)
        s = s * 3u + *p;
    return s;
}
inline void split(uint a, thread uint& low, thread uint& high) {
    low = a & 0xffffu;
    high = a >> 16;
    if (low == 0u)
        return;
    high += low;
}
template <typename T> inline T twice(T a) {
    return a + a;
}
inline void at_or(device atomic_uint* at, uint k, uint v) {
    if ((k & 3u) != 0u)
        atomic_fetch_or_explicit(&at[16u + (k & 15u)], v, memory_order_relaxed);
}
// Threads leave two loops at once, in different rounds of the outer one, and bring values along.
inline uint nested(device const uint* p, uint a, uint rounds) {
    uint sum = a;
    for (uint k = 0; k < (rounds & 7u); ++k) {
        for (uint j = 0; j < 3u; ++j) {
            uint value = p[(a * 5u + k * 67u + j * 7u) & 1023u];
            if ((value & 7u) == 3u)
                return sum * 3u + k;
            if ((value & 31u) == j)
                break;
            sum += value;
        }
        sum ^= k;
    }
    return sum + 1u;
}
// Structs by value, and one early return.
inline Pair changed(Pair p, Record r) {
    if (r.d > 50)
        return Pair{r.v.x, short(r.c + p.y), ulong(p.x)};
    r.t[p.x & 3u] = ushort(p.z);
    p.z += r.t[1] + r.t[p.x & 1u];
    p.y = short(r.b);
    return p;
}
// One group of lanes after the other.
inline uint served(uint key, uint value) {
    for (uint k = 0;; ++k) {
        uint mine[2] = {key & 3u, value};
        if (simd_broadcast_first(mine[0]) == (key & 3u)) {
            value = simd_sum(mine[1]) + k;
            break;
        }
        if (k > 7u)
            return k;
    }
    return value ^ simd_max(value);
}
// Lanes that are done early, from inside of two loops.
inline uint halved(uint a, uint b) {
    uint sum = simd_prefix_exclusive_sum(a);
    for (uint k = 0; k < 3u; ++k) {
        if ((b >> k & 3u) == 2u)
            continue;
        uint step = (a >> k) & 3u;
        while (step != 0u) {
            if (((b + step) & 15u) == 7u)
                return sum + simd_sum(step);
            sum += simd_shuffle_xor(sum, ushort(step));
            --step;
        }
        if (simd_any((b & 255u) == k))
            break;
    }
    return sum + quad_sum(b);
}
