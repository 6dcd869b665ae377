// Definitions of the geometric functions, included twice like those of metal_math.
#pragma clang system_header
// Sums are kept in float, so that half vectors lose no accuracy on the way.
template <class T, int N> __fi float __dot(vec<T, N> a, vec<T, N> b) {
    static_assert(__floating<T>, "geometric functions take vectors of float, half or bfloat");
    float sum = (float)a[0] * (float)b[0];
    for (int i = 1; i < N; i++) sum += (float)a[i] * (float)b[i];
    return sum;
}
template <class T, int N> __fi T dot(vec<T, N> a, __same_t<vec<T, N>> b) { return (T)(__dot)(a, b); }
template <class T, int N> __fi T length_squared(vec<T, N> a) { return (T)(__dot)(a, a); }
template <class T, int N> __fi T length(vec<T, N> a) { return (T)__builtin_sqrtf((__dot)(a, a)); }
template <class T, int N> __fi T distance_squared(vec<T, N> a, __same_t<vec<T, N>> b) { return (length_squared)(a - b); }
template <class T, int N> __fi T distance(vec<T, N> a, __same_t<vec<T, N>> b) { return (length)(a - b); }
template <class T, int N> __fi vec<T, N> normalize(vec<T, N> a) {
    const float scale = 1.0f / __builtin_sqrtf((__dot)(a, a));
    for (int i = 0; i < N; i++) a[i] = (T)((float)a[i] * scale);
    return a;
}
template <class T> __fi vec<T, 3> cross(vec<T, 3> a, __same_t<vec<T, 3>> b) {
    return vec<T, 3>((T)((float)a.y * (float)b.z - (float)a.z * (float)b.y), (T)((float)a.z * (float)b.x - (float)a.x * (float)b.z),
                     (T)((float)a.x * (float)b.y - (float)a.y * (float)b.x));
}
template <class T, int N> __fi vec<T, N> faceforward(vec<T, N> n, __same_t<vec<T, N>> i, __same_t<vec<T, N>> reference) {
    return (__dot)(reference, i) < 0.0f ? n : -n;
}
template <class T, int N> __fi vec<T, N> reflect(vec<T, N> i, __same_t<vec<T, N>> n) {
    const float twice = 2.0f * (__dot)(n, i);
    for (int k = 0; k < N; k++) i[k] = (T)((float)i[k] - twice * (float)n[k]);
    return i;
}
template <class T, int N> __fi vec<T, N> refract(vec<T, N> i, __same_t<vec<T, N>> n, __same_t<T> eta) {
    const float e = eta, d = (__dot)(n, i), k = 1.0f - e * e * (1.0f - d * d);
    if (k < 0.0f) return vec<T, N>((T)0.0f);
    const float along = e * d + __builtin_sqrtf(k);
    for (int j = 0; j < N; j++) i[j] = (T)(e * (float)i[j] - along * (float)n[j]);
    return i;
}

// Packed vectors as first operand; behind it they convert.
#define __MSL_PACKED1(name) template <class T, int N> __fi auto name(packed_vec<T, N> a) { return (name)(vec<T, N>(a)); }
#define __MSL_PACKED2(name) \
    template <class T, int N> __fi auto name(packed_vec<T, N> a, __same_t<vec<T, N>> b) { return (name)(vec<T, N>(a), b); }
__MSL_PACKED1(length) __MSL_PACKED1(length_squared) __MSL_PACKED1(normalize)
__MSL_PACKED2(dot) __MSL_PACKED2(distance) __MSL_PACKED2(distance_squared) __MSL_PACKED2(cross) __MSL_PACKED2(reflect)
#undef __MSL_PACKED1
#undef __MSL_PACKED2
