// Sine, cosine and tangent for GPUs, without memory of a thread's own.
#ifndef METALKI_GPU_TRIGONOMETRY_H
#define METALKI_GPU_TRIGONOMETRY_H
#pragma clang system_header

namespace metal {

// 2 / pi in binary: the bits after the point, 32 a word.
inline constexpr uint __gpu_two_over_pi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0};

struct __gpu_reduced {
    float rest;    // in -pi/4 to pi/4
    uint quadrant; // the two lowest bits count
};

// x * 2 / pi modulo 8 for large x, in fixed point: the mantissa times the 96 bits of 2 / pi that matter.
__fi __gpu_reduced __gpu_reduce_large(float x) {
    const uint bits = __builtin_bit_cast(uint, x);
    const uint exponent = (bits >> 23 & 0xff) - 127;
    const uint mantissa = ((bits & 0x7fffff) | 0x800000) << 6; // x is mantissa * 2^(exponent - 29)
    // The first `exponent - 32` bits of 2 / pi only add multiples of eight.
    const uint word = exponent >> 5, shift = exponent & 31;
    const uint w0 = word > 0 ? __gpu_two_over_pi[word - 1] : 0, w1 = __gpu_two_over_pi[word],
               w2 = __gpu_two_over_pi[word + 1], w3 = __gpu_two_over_pi[word + 2];
    const uint high = shift ? (w0 << shift) | (w1 >> (32 - shift)) : w0;
    const uint middle = shift ? (w1 << shift) | (w2 >> (32 - shift)) : w1;
    const uint low = shift ? (w2 << shift) | (w3 >> (32 - shift)) : w2;
    const ulong product = ((ulong)mantissa * low >> 32) + (ulong)mantissa * middle + ((ulong)(mantissa * high) << 32);
    const long fraction = (long)(product << 3); // in 2^-64 of a quadrant, from -1/2 to 1/2
    const uint quadrant = (uint)(product >> 61) + (uint)((ulong)fraction >> 63);
    const float rest = (float)((double)fraction * (1.57079632679489661923 / 18446744073709551616.0));
    return (int)bits < 0 ? __gpu_reduced{-rest, 0u - quadrant} : __gpu_reduced{rest, quadrant};
}

__fi __gpu_reduced __gpu_reduce(float x) {
    if (__builtin_fabsf(x) > 48039.0f) return __gpu_reduce_large(x);
    const float k = __builtin_rintf(x * 0.636619747f);
    float r = __builtin_fmaf(k, -0x1.921fb60000000p+0f, x);
    r = __builtin_fmaf(k, 0x1.777a5c0000000p-25f, r);
    r = __builtin_fmaf(k, 0x1.ee59da0000000p-50f, r);
    return {r, (uint)(int)k};
}

// In -pi/4 to pi/4.
__fi float __gpu_sine(float r) {
    const float z = r * r;
    float p = __builtin_fmaf(z, 2.86567956e-6f, -1.98559923e-4f);
    p = __builtin_fmaf(p, z, 8.33338592e-3f);
    p = __builtin_fmaf(p, z, -1.66666672e-1f);
    return __builtin_fmaf(p * z, r, r);
}
__fi float __gpu_cosine(float r) {
    const float z = r * r;
    float p = __builtin_fmaf(z, 2.44677067e-5f, -1.38877297e-3f);
    p = __builtin_fmaf(p, z, 4.16666567e-2f);
    p = __builtin_fmaf(p, z, -0.5f);
    return __builtin_fmaf(p, z, 1.0f);
}
__fi float __gpu_sine_in(__gpu_reduced at) {
    const float value = at.quadrant & 1 ? __gpu_cosine(at.rest) : __gpu_sine(at.rest);
    return at.quadrant & 2 ? -value : value;
}

} // namespace metal

extern "C" {
__attribute__((always_inline)) float __metalki_gpu_sinf(float x) {
    if (!(__builtin_fabsf(x) < __builtin_inff())) return __builtin_nanf("");
    return x == 0.0f ? x : metal::__gpu_sine_in(metal::__gpu_reduce(x));
}
__attribute__((always_inline)) float __metalki_gpu_cosf(float x) {
    if (!(__builtin_fabsf(x) < __builtin_inff())) return __builtin_nanf("");
    metal::__gpu_reduced at = metal::__gpu_reduce(x);
    at.quadrant += 1;
    return metal::__gpu_sine_in(at);
}
__attribute__((always_inline)) float __metalki_gpu_tanf(float x) {
    if (!(__builtin_fabsf(x) < __builtin_inff())) return __builtin_nanf("");
    const metal::__gpu_reduced at = metal::__gpu_reduce(x);
    const float s = metal::__gpu_sine(at.rest), c = metal::__gpu_cosine(at.rest);
    return x == 0.0f ? x : at.quadrant & 1 ? -c / s : s / c;
}

// Of sinpi, cospi and tanpi: |x| is at most pi.
__attribute__((always_inline)) double __metalki_gpu_sin(double x) {
    const double k = __builtin_rint(x * 0.31830988618379067154);
    const double r = __builtin_fma(k, -3.14159265358979311600, x), z = r * r;
    double p = -1.0 / 1307674368000.0 + z / 355687428096000.0;
    p = __builtin_fma(p, z, 1.0 / 6227020800.0);
    p = __builtin_fma(p, z, -1.0 / 39916800.0);
    p = __builtin_fma(p, z, 1.0 / 362880.0);
    p = __builtin_fma(p, z, -1.0 / 5040.0);
    p = __builtin_fma(p, z, 1.0 / 120.0);
    p = __builtin_fma(p, z, -1.0 / 6.0);
    p = __builtin_fma(p * z, r, r);
    return (int)k & 1 ? -p : p;
}
__attribute__((always_inline)) double __metalki_gpu_cos(double x) {
    return __metalki_gpu_sin(1.57079632679489661923 - __builtin_fabs(x));
}
__attribute__((always_inline)) double __metalki_gpu_tan(double x) { return __metalki_gpu_sin(x) / __metalki_gpu_cos(x); }
}

#endif
