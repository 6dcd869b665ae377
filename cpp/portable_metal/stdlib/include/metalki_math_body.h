// Definitions of the floating-point functions: metal_math includes them three times, in namespace metal, in metal::fast
// and in metal::precise.
#pragma clang system_header


// Multiples of pi are reduced exactly, then evaluated in double: libm has no sinpi everywhere.
__fi float __sinpi(float x) {
    double r = x - 2.0 * __builtin_rint(0.5 * (double)x);
    return r == __builtin_rint(r) ? __builtin_copysignf(0.0f, x) : (float)__builtin_sin(3.14159265358979323846 * r);
}
__fi float __cospi(float x) {
    double r = __builtin_fabs(x - 2.0 * __builtin_rint(0.5 * (double)x));
    return r == 0.5 ? 0.0f : (float)__builtin_cos(3.14159265358979323846 * r);
}
__fi float __tanpi(float x) {
    double r = x - __builtin_rint((double)x);
    return r == 0.0 ? __builtin_copysignf(0.0f, x) : (float)__builtin_tan(3.14159265358979323846 * r);
}
__fi float __exp10(float x) { return (float)__builtin_exp2(3.32192809488736234787 * (double)x); }
__fi float __fract(float x) {
    if (__builtin_isinf(x)) return __builtin_copysignf(0.0f, x);
    return __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f);
}
__fi float __powr(float x, float y) { return x < 0.0f ? __builtin_nanf("") : __builtin_powf(x, y); }

#define __MSL_UNARY(X)                                                                          \
    X(sin, __builtin_sinf(x)) X(cos, __builtin_cosf(x)) X(tan, __builtin_tanf(x))               \
    X(asin, __builtin_asinf(x)) X(acos, __builtin_acosf(x)) X(atan, __builtin_atanf(x))         \
    X(sinh, __builtin_sinhf(x)) X(cosh, __builtin_coshf(x)) X(tanh, __builtin_tanhf(x))         \
    X(asinh, __builtin_asinhf(x)) X(acosh, __builtin_acoshf(x)) X(atanh, __builtin_atanhf(x))   \
    X(exp, __builtin_expf(x)) X(exp2, __builtin_exp2f(x)) X(exp10, __exp10(x))                  \
    X(log, __builtin_logf(x)) X(log2, __builtin_log2f(x)) X(log10, __builtin_log10f(x))         \
    X(sinpi, __sinpi(x)) X(cospi, __cospi(x)) X(tanpi, __tanpi(x))                              \
    X(sqrt, __builtin_sqrtf(x)) X(rsqrt, 1.0f / __builtin_sqrtf(x)) X(fabs, __builtin_fabsf(x)) \
    X(ceil, __builtin_ceilf(x)) X(floor, __builtin_floorf(x)) X(trunc, __builtin_truncf(x))     \
    X(rint, __builtin_rintf(x)) X(round, __builtin_roundf(x)) X(fract, __fract(x))
#define __MSL_BINARY(X)                                                                         \
    X(pow, __builtin_powf(x, y)) X(powr, __powr(x, y)) X(atan2, __builtin_atan2f(x, y))         \
    X(fmod, __builtin_fmodf(x, y)) X(copysign, __builtin_copysignf(x, y)) X(divide, x / y)      \
    X(fmin, __builtin_fminf(x, y)) X(fmax, __builtin_fmaxf(x, y))                               \
    X(fdim, (x != x || y != y) ? __builtin_nanf("") : (x > y ? x - y : 0.0f))
#define __MSL_TERNARY(X)                                                                        \
    X(fma, __builtin_fmaf(x, y, z))                                                             \
    X(fmin3, __builtin_fminf(x, __builtin_fminf(y, z)))                                         \
    X(fmax3, __builtin_fmaxf(x, __builtin_fmaxf(y, z)))                                         \
    X(fmedian3, __builtin_fmaxf(__builtin_fminf(x, y), __builtin_fminf(__builtin_fmaxf(x, y), z)))
__MSL_UNARY(__MSL_FLOAT1)
__MSL_BINARY(__MSL_FLOAT2)
__MSL_TERNARY(__MSL_FLOAT3)
#undef __MSL_UNARY
#undef __MSL_BINARY
#undef __MSL_TERNARY

// The neighbour of x within its own type: one step of its bit pattern.
template <class T, class I> __fi T __next(T x, T y) {
    if (x != x || y != y) return (T)__builtin_nanf("");
    if (x == y) return y;
    I bits = __builtin_bit_cast(I, x);
    const I sign = (I)1 << (8 * sizeof(I) - 1);
    if (x == (T)0) bits = (I)((y < (T)0 ? sign : (I)0) | (I)1);
    else bits = (I)(((x < y) == (x > (T)0)) ? bits + 1 : bits - 1);
    return __builtin_bit_cast(T, bits);
}
__fi float nextafter(float x, float y) { return __next<float, uint>(x, y); }
__fi half nextafter(half x, half y) { return __next<half, ushort>(x, y); }
__MSL_BFLOAT B nextafter(B x, B y) { return __next<bfloat, ushort>(x, y); }
__MSL_LIFT2(nextafter)

// Functions with an integer or a second result.
__fi int ilogb(float x) {
    if (x == 0.0f || x != x) return FP_ILOGB0;
    return __builtin_isinf(x) ? INT_MAX : __builtin_ilogbf(x);
}
__fi int ilogb(half x) { return ilogb((float)x); }
__MSL_BFLOAT int ilogb(B x) { return ilogb((float)x); }
__MSL_LIFT1(ilogb)

__fi float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }
__fi half ldexp(half x, int k) { return (half)__builtin_ldexpf((float)x, k); }
__MSL_BFLOAT B ldexp(B x, int k) { return (bfloat)__builtin_ldexpf((float)x, k); }
template <class T, int N> __fi vec<T, N> ldexp(vec<T, N> x, vec<int, N> k) {
    for (int i = 0; i < N; i++) x[i] = ldexp((T)x[i], (int)k[i]);
    return x;
}

__fi float frexp(float x, int &exponent) {
    int e = 0;
    float m = __builtin_frexpf(x, &e);
    exponent = e;
    return m;
}
__fi half frexp(half x, int &exponent) { return (half)frexp((float)x, exponent); }
__MSL_BFLOAT B frexp(B x, int &exponent) { return (bfloat)frexp((float)x, exponent); }
template <class T, int N> __fi vec<T, N> frexp(vec<T, N> x, vec<int, N> &exponent) {
    for (int i = 0; i < N; i++) x[i] = frexp((T)x[i], exponent[i]);
    return x;
}

template <class T, class = enable_if_t<__floating<T>>> __fi T modf(T x, T &whole) {
    whole = trunc(x);
    return copysign(__builtin_isinf((float)x) ? (T)0.0f : (T)(x - whole), x);
}
template <class T, int N> __fi vec<T, N> modf(vec<T, N> x, vec<T, N> &whole) {
    for (int i = 0; i < N; i++) x[i] = modf((T)x[i], whole[i]);
    return x;
}
template <class T> __fi T sincos(T x, T &cosine) {
    T sine = (sin)(x); // in parentheses: only functions of this namespace
    cosine = (cos)(x);
    return sine;
}
