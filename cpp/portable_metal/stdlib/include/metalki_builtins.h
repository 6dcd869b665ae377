// Names that are not in the specification but in use: the __metal_* functions below the standard library's own.
#ifndef METALKI_BUILTINS_H
#define METALKI_BUILTINS_H
#pragma clang system_header
#include <metal_math>
#include <metal_simdgroup>

namespace metal {

// The last argument of the mathematical ones chooses precise, fast or default arithmetic; all three are accurate here.
#define __MSL_UNARY(name) \
    template <class T> __fi T __metal_##name(T x, int = 0) { return name(x); }
#define __MSL_BINARY(name) \
    template <class T> __fi T __metal_##name(T x, T y, int = 0) { return name(x, y); }
#define __MSL_TERNARY(name) \
    template <class T> __fi T __metal_##name(T x, T y, T z, int = 0) { return name(x, y, z); }
__MSL_UNARY(sin) __MSL_UNARY(cos) __MSL_UNARY(tan) __MSL_UNARY(asin) __MSL_UNARY(acos) __MSL_UNARY(atan)
__MSL_UNARY(sinh) __MSL_UNARY(cosh) __MSL_UNARY(tanh) __MSL_UNARY(asinh) __MSL_UNARY(acosh) __MSL_UNARY(atanh)
__MSL_UNARY(sinpi) __MSL_UNARY(cospi) __MSL_UNARY(tanpi) __MSL_UNARY(exp) __MSL_UNARY(exp2) __MSL_UNARY(exp10)
__MSL_UNARY(log) __MSL_UNARY(log2) __MSL_UNARY(log10) __MSL_UNARY(sqrt) __MSL_UNARY(rsqrt) __MSL_UNARY(fabs)
__MSL_UNARY(ceil) __MSL_UNARY(floor) __MSL_UNARY(trunc) __MSL_UNARY(rint) __MSL_UNARY(round) __MSL_UNARY(fract)
__MSL_UNARY(sign) __MSL_UNARY(saturate)
__MSL_BINARY(atan2) __MSL_BINARY(pow) __MSL_BINARY(powr) __MSL_BINARY(fmod) __MSL_BINARY(divide) __MSL_BINARY(fmin)
__MSL_BINARY(fmax) __MSL_BINARY(fdim) __MSL_BINARY(copysign) __MSL_BINARY(nextafter)
__MSL_TERNARY(fma) __MSL_TERNARY(fmin3) __MSL_TERNARY(fmax3) __MSL_TERNARY(fmedian3)
template <class T, class I> __fi T __metal_ldexp(T x, I k, int = 0) { return ldexp(x, k); }
template <class T, class I> __fi T __metal_frexp(T x, I *exponent, int = 0) { return frexp(x, *exponent); }
#undef __MSL_UNARY
#undef __MSL_BINARY
#undef __MSL_TERNARY

#define __MSL_LANE(name) \
    template <class T> __fi T __metal_##name(T v, ushort lane) { return name(v, lane); }
#define __MSL_FILL(name) \
    template <class T> __fi T __metal_##name(T v, T fill, ushort delta, ushort modulo) { return name(v, fill, delta, modulo); }
#define __MSL_REDUCE(name) \
    template <class T> __fi T __metal_##name(T v) { return name(v); }
#define __MSL_GROUP(group)                                                                                           \
    __MSL_LANE(group##_broadcast) __MSL_LANE(group##_shuffle) __MSL_LANE(group##_shuffle_up)                         \
    __MSL_LANE(group##_shuffle_down) __MSL_LANE(group##_shuffle_xor) __MSL_LANE(group##_shuffle_rotate_up)           \
    __MSL_LANE(group##_shuffle_rotate_down) __MSL_FILL(group##_shuffle_and_fill_up)                                  \
    __MSL_FILL(group##_shuffle_and_fill_down) __MSL_REDUCE(group##_broadcast_first) __MSL_REDUCE(group##_sum)        \
    __MSL_REDUCE(group##_product) __MSL_REDUCE(group##_min) __MSL_REDUCE(group##_max) __MSL_REDUCE(group##_and)      \
    __MSL_REDUCE(group##_or) __MSL_REDUCE(group##_xor) __MSL_REDUCE(group##_prefix_inclusive_sum)                    \
    __MSL_REDUCE(group##_prefix_exclusive_sum) __MSL_REDUCE(group##_prefix_inclusive_product)                        \
    __MSL_REDUCE(group##_prefix_exclusive_product)
__MSL_GROUP(simd)
__MSL_GROUP(quad)
#undef __MSL_GROUP
#undef __MSL_REDUCE
#undef __MSL_FILL
#undef __MSL_LANE

template <class T> __fi T __metal_get_thread_index_in_simdgroup(T) { return (T)__metalki_simd_lane(); }
template <class T> __fi T __metal_get_simdgroup_size(T) { return (T)32; }

} // namespace metal

#endif
