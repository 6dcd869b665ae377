// What GPUs have no instruction for: mathematics in float, with intermediate results in double where that is simplest, and the
// writer of messages. Compiled apart from programs; linked to kernels that call it.
#ifndef METALKI_GPU_H
#define METALKI_GPU_H
#pragma clang system_header
#include <metalki_gpu_trigonometry.h>
#include <metalki_gpu_log.h>

#define __gpu extern "C" __attribute__((always_inline))

namespace metal {

__fi double __gpu_power_of_two(int k) { return __builtin_bit_cast(double, (ulong)(k + 1023) << 52); }

// e to the x, for |x| below 700.
__fi double __gpu_exp(double x) {
    const double k = __builtin_rint(x * 1.4426950408889634);
    double r = __builtin_fma(k, -6.93147180369123816490e-01, x);
    r = __builtin_fma(k, -1.90821492927058770002e-10, r);
    double sum = 1.0 / 39916800.0;
    const double factorials[] = {3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0};
#pragma clang loop unroll(full)
    for (int i = 0; i < 11; i++) sum = __builtin_fma(sum, r, 1.0 / factorials[i]);
    return sum * __gpu_power_of_two((int)k);
}
__fi float __gpu_exp_clamped(double x) {
    if (x != x) return (float)x;
    return (float)__gpu_exp(__builtin_fmax(__builtin_fmin(x, 200.0), -200.0));
}

// Natural logarithm of a positive, finite number that is normal as a double.
__fi double __gpu_log(double x) {
    const ulong bits = __builtin_bit_cast(ulong, x);
    int exponent = (int)(bits >> 52) - 1023;
    double m = __builtin_bit_cast(double, (bits & 0xffffffffffffful) | 0x3ff0000000000000ul);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent += 1;
    }
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double sum = 1.0 / 21.0;
#pragma clang loop unroll(full)
    for (int i = 19; i > 0; i -= 2) sum = __builtin_fma(sum, z, 1.0 / i);
    return __builtin_fma((double)exponent, 0.69314718055994530942, 2.0 * s * sum);
}
// The cases that have no logarithm; `scale` is 1 over the logarithm of the base.
__fi float __gpu_log_to(float x, double scale) {
    if (x == 0.0f) return -__builtin_inff();
    if (!(x > 0.0f)) return __builtin_nanf("");
    return x == __builtin_inff() ? x : (float)(__gpu_log(x) * scale);
}

// Arc tangent of y / x in the quadrant of (x, y); not both zero, not both infinite.
__fi double __gpu_angle(double y, double x) {
    const double a = __builtin_fabs(x), b = __builtin_fabs(y);
    const double ratio = a < b ? a / b : b / a;
    const bool is_high = ratio > 0.4142135623730950;
    const double t = is_high ? (ratio - 1.0) / (ratio + 1.0) : ratio, z = t * t;
    double sum = 1.0 / 33.0;
#pragma clang loop unroll(full)
    for (int i = 31; i > 0; i -= 2) sum = __builtin_fma(sum, -z, 1.0 / i);
    double angle = __builtin_fma(t, sum, is_high ? 0.78539816339744830962 : 0.0);
    angle = a < b ? 1.57079632679489661923 - angle : angle;
    angle = x < 0.0 ? 3.14159265358979323846 - angle : angle;
    return __builtin_copysign(angle, y);
}

} // namespace metal

// Where the program allows approximations: 3 ulp, mostly of the hardware's power of two. x / log 2 is n + f: rounding down
// beside a large number leaves n, limited to what an exponent can be, in the lowest bits.
extern "C" float __metalki_gpu_ex2_approx(float) __attribute__((const));
extern "C" float __metalki_gpu_saturate(float) __attribute__((const));
extern "C" float __metalki_gpu_fma_down(float, float, float) __attribute__((const));
__gpu float __metalki_gpu_exp_approxf(float x) {
    constexpr float per_unit = 1.442695041f, rest = 1.925963033e-8f, range = 252.0f, large = 12582912.0f;
    const float share = __metalki_gpu_saturate(__builtin_fmaf(x, per_unit / range, 0.5f));
    const float biased = __metalki_gpu_fma_down(share, range, large + 1.0f);
    const float n = biased - (large + 127.0f);
    const float f = __builtin_fmaf(x, rest, __builtin_fmaf(x, per_unit, -n));
    return __metalki_gpu_ex2_approx(f) * __builtin_bit_cast(float, __builtin_bit_cast(uint, biased) << 23);
}
__gpu float __metalki_gpu_expf(float x) { return metal::__gpu_exp_clamped(x); }
__gpu float __metalki_gpu_exp2f(float x) { return metal::__gpu_exp_clamped((double)x * 0.69314718055994530942); }
__gpu float __metalki_gpu_exp10f(float x) { return metal::__gpu_exp_clamped((double)x * 2.30258509299404568402); }
// For results that become floats.
__gpu double __metalki_gpu_exp2(double x) { return metal::__gpu_exp_clamped(x * 0.69314718055994530942); }
__gpu double __metalki_gpu_exp(double x) { return metal::__gpu_exp_clamped(x); }
__gpu float __metalki_gpu_logf(float x) { return metal::__gpu_log_to(x, 1.0); }
__gpu float __metalki_gpu_log2f(float x) { return metal::__gpu_log_to(x, 1.44269504088896340736); }
__gpu float __metalki_gpu_log10f(float x) { return metal::__gpu_log_to(x, 0.43429448190325182765); }

__gpu float __metalki_gpu_atan2f(float y, float x) {
    if (x != x || y != y) return __builtin_nanf("");
    double a = x, b = y;
    if (a == 0.0 && b == 0.0) return __builtin_copysignf(__builtin_signbitf(x) ? 3.14159265358979323846f : 0.0f, y);
    if (__builtin_isinf(x) && __builtin_isinf(y)) {
        a = __builtin_copysign(1.0, a);
        b = __builtin_copysign(1.0, b);
    }
    if (b == 0.0 && !__builtin_signbitf(x)) return y;
    return (float)metal::__gpu_angle(b, a);
}
__gpu float __metalki_gpu_atanf(float x) {
    return x != x || x == 0.0f ? x : (float)metal::__gpu_angle(x, 1.0);
}
__gpu float __metalki_gpu_asinf(float x) {
    const double a = x;
    if (!(__builtin_fabs(a) <= 1.0)) return __builtin_nanf("");
    return x == 0.0f ? x : (float)metal::__gpu_angle(a, __builtin_sqrt((1.0 - a) * (1.0 + a)));
}
__gpu float __metalki_gpu_acosf(float x) {
    const double a = x;
    if (!(__builtin_fabs(a) <= 1.0)) return __builtin_nanf("");
    return x == 1.0f ? 0.0f : (float)metal::__gpu_angle(__builtin_sqrt((1.0 - a) * (1.0 + a)), a);
}

__gpu float __metalki_gpu_sinhf(float x) {
    const double a = x;
    if (__builtin_fabs(a) < 0.01) return (float)(a + a * a * a * (1.0 / 6.0 + a * a / 120.0));
    const double e = metal::__gpu_exp(__builtin_fmax(__builtin_fmin(a, 200.0), -200.0));
    return x != x ? x : (float)(0.5 * (e - 1.0 / e));
}
__gpu float __metalki_gpu_coshf(float x) {
    const double e = metal::__gpu_exp(__builtin_fmin(__builtin_fabs((double)x), 200.0));
    return x != x ? x : (float)(0.5 * (e + 1.0 / e));
}
__gpu float __metalki_gpu_tanhf(float x) {
    const double a = x;
    if (x != x || x == 0.0f) return x;
    if (__builtin_fabs(a) < 0.01) return (float)(a - a * a * a * (1.0 / 3.0 - a * a * (2.0 / 15.0)));
    const double e = metal::__gpu_exp(2.0 * __builtin_fmax(__builtin_fmin(a, 20.0), -20.0));
    return (float)((e - 1.0) / (e + 1.0));
}
__gpu float __metalki_gpu_asinhf(float x) {
    const double a = __builtin_fabs((double)x);
    if (x != x || x == 0.0f || __builtin_isinf(x)) return x;
    if (a < 0.01) return (float)(x - (double)x * a * a * (1.0 / 6.0 - a * a * (3.0 / 40.0)));
    return (float)__builtin_copysign(metal::__gpu_log(a + __builtin_sqrt(a * a + 1.0)), (double)x);
}
__gpu float __metalki_gpu_acoshf(float x) {
    const double a = x;
    if (!(a >= 1.0)) return __builtin_nanf("");
    return __builtin_isinf(x) ? x : (float)metal::__gpu_log(a + __builtin_sqrt((a - 1.0) * (a + 1.0)));
}
__gpu float __metalki_gpu_atanhf(float x) {
    const double a = x;
    if (!(__builtin_fabs(a) <= 1.0)) return __builtin_nanf("");
    if (__builtin_fabs(a) == 1.0) return __builtin_copysignf(__builtin_inff(), x);
    if (__builtin_fabs(a) < 0.01) return (float)(a + a * a * a * (1.0 / 3.0 + a * a * 0.2));
    return (float)(0.5 * metal::__gpu_log((1.0 + a) / (1.0 - a)));
}

__gpu float __metalki_gpu_powf(float x, float y) {
    if (y == 0.0f || x == 1.0f) return 1.0f;
    if (x != x || y != y) return __builtin_nanf("");
    const float whole = __builtin_truncf(y), half_of = 0.5f * y;
    const bool is_integer = whole == y, is_odd = is_integer && __builtin_truncf(half_of) != half_of;
    const float magnitude = __builtin_fabsf(x);
    if (magnitude == 1.0f && __builtin_isinf(y)) return 1.0f;
    if (x < 0.0f && !is_integer && !__builtin_isinf(y) && magnitude != __builtin_inff()) return __builtin_nanf("");
    float result = 0.0f;
    if (magnitude == 0.0f || magnitude == __builtin_inff()) result = (magnitude == 0.0f) == (y < 0.0f) ? __builtin_inff() : 0.0f;
    else if (__builtin_isinf(y)) result = (magnitude > 1.0f) == (y > 0.0f) ? __builtin_inff() : 0.0f;
    else result = metal::__gpu_exp_clamped((double)y * metal::__gpu_log(magnitude));
    return __builtin_signbitf(x) && is_odd ? -result : result;
}
__gpu float __metalki_gpu_powif(float x, int n) {
    float result = 1.0f;
    for (uint left = n < 0 ? 0u - (uint)n : (uint)n; left > 0; left /= 2) {
        result = left % 2 ? result * x : result;
        x *= x;
    }
    return n < 0 ? 1.0f / result : result;
}

namespace metal {
// A positive, finite number is mantissa * 2^exponent; the mantissa has up to 24 bits, the highest set unless it is subnormal.
struct __gpu_parts {
    uint mantissa;
    int exponent;
};
__fi __gpu_parts __gpu_split(float magnitude) {
    const uint bits = __builtin_bit_cast(uint, magnitude), field = bits >> 23;
    return field ? __gpu_parts{(bits & 0x7fffff) | 0x800000, (int)field - 150} : __gpu_parts{bits, -149};
}
} // namespace metal

__gpu float __metalki_gpu_ldexpf(float x, int k) {
    k = k < -300 ? -300 : k > 300 ? 300 : k;
    return (float)((double)x * metal::__gpu_power_of_two(k));
}
__gpu int __metalki_gpu_frexp_exponentf(float x) {
    if (x == 0.0f || x != x || __builtin_isinf(x)) return 0;
    const metal::__gpu_parts parts = metal::__gpu_split(__builtin_fabsf(x));
    return parts.exponent + 32 - __builtin_clz(parts.mantissa);
}
__gpu float __metalki_gpu_frexp_mantissaf(float x) {
    if (x == 0.0f || x != x || __builtin_isinf(x)) return x;
    return __metalki_gpu_ldexpf(x, -__metalki_gpu_frexp_exponentf(x));
}
__gpu int __metalki_gpu_ilogbf(float x) { return __metalki_gpu_frexp_exponentf(x) - 1; }

// Exact: the mantissas are divided bit by bit, 32 bits a step.
__gpu float __metalki_gpu_fmodf(float x, float y) {
    const float a = __builtin_fabsf(x), b = __builtin_fabsf(y);
    if (x != x || y != y || __builtin_isinf(x) || b == 0.0f) return __builtin_nanf("");
    if (a < b) return x;
    const metal::__gpu_parts p = metal::__gpu_split(a), q = metal::__gpu_split(b);
    ulong rest = p.mantissa % q.mantissa;
    for (int left = p.exponent - q.exponent; left > 0; left -= 32) rest = (rest << (left < 32 ? left : 32)) % q.mantissa;
    return __builtin_copysignf((float)((double)rest * metal::__gpu_power_of_two(q.exponent)), x);
}

#undef __gpu
#endif
