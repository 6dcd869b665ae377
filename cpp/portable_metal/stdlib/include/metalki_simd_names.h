// The names that headers shared with C and C++ take from <simd/simd.h>.
#ifndef METALKI_SIMD_NAMES_H
#define METALKI_SIMD_NAMES_H
#pragma clang system_header
#include <metal_matrix>

#define __MSL_NAMES(T)                                                                                   \
    typedef metal::vec<T, 2> simd_##T##2, vector_##T##2;                                                 \
    typedef metal::vec<T, 3> simd_##T##3, vector_##T##3;                                                 \
    typedef metal::vec<T, 4> simd_##T##4, vector_##T##4;                                                 \
    namespace simd { using ::metal::T##2; using ::metal::T##3; using ::metal::T##4; }                    \
    __fi constexpr metal::vec<T, 2> simd_make_##T##2(T x, T y) { return metal::vec<T, 2>(x, y); }        \
    __fi constexpr metal::vec<T, 3> simd_make_##T##3(T x, T y, T z) { return metal::vec<T, 3>(x, y, z); } \
    __fi constexpr metal::vec<T, 4> simd_make_##T##4(T x, T y, T z, T w) { return metal::vec<T, 4>(x, y, z, w); }
__MSL_INTEGERS(__MSL_NAMES) __MSL_NAMES(half) __MSL_NAMES(float)
#undef __MSL_NAMES
#define __MSL_MATRIX(T, C, R)                                      \
    typedef metal::matrix<T, C, R> simd_##T##C##x##R, matrix_##T##C##x##R; \
    namespace simd { using ::metal::T##C##x##R; }
#define __MSL_MATRICES(T)                                          \
    __MSL_MATRIX(T, 2, 2) __MSL_MATRIX(T, 2, 3) __MSL_MATRIX(T, 2, 4) \
    __MSL_MATRIX(T, 3, 2) __MSL_MATRIX(T, 3, 3) __MSL_MATRIX(T, 3, 4) \
    __MSL_MATRIX(T, 4, 2) __MSL_MATRIX(T, 4, 3) __MSL_MATRIX(T, 4, 4)
__MSL_MATRICES(half) __MSL_MATRICES(float)
#undef __MSL_MATRICES
#undef __MSL_MATRIX

#endif
