"""MSL as PyTorch's compiler generates it: headers of helpers behind include names, kernels that loop and reduce."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import metalki as mk

UTILS = """
#pragma once
#include <metal_stdlib>
namespace c10 { namespace metal {
namespace detail {
template <typename T> struct vectypes {};
template <> struct vectypes<float> { using type4 = float4; using type2 = float2; };
template <> struct vectypes<half> { using type4 = half4; using type2 = half2; };
template <> struct vectypes<bfloat> { using type4 = bfloat4; using type2 = bfloat2; };
template <> struct vectypes<int> { using type4 = int4; using type2 = int2; };
template <typename T> struct OpMathType { using type = T; };
template <> struct OpMathType<half> { using type = float; };
template <> struct OpMathType<bfloat> { using type = float; };
template <typename T> struct Int64ToInt { using type = T; };
template <> struct Int64ToInt<long> { using type = int2; };
} // namespace detail

template <typename T> using opmath_t = typename detail::OpMathType<T>::type;
template <typename T> using vec4type_t = typename detail::vectypes<T>::type4;
template <typename T> constexpr constant bool is_complex_v = ::metal::is_same_v<T, float2> || ::metal::is_same_v<T, half2>;
template <typename T> constexpr constant bool is_scalar_floating_point_v =
    ::metal::is_floating_point_v<T> && ::metal::is_scalar_v<T>;

template <typename T> ::metal::enable_if_t<::metal::is_floating_point_v<T>, T> max(T a, T b) {
  return ::metal::isunordered(a, b) ? NAN : ::metal::max(a, b);
}
template <typename T, typename U>
::metal::enable_if_t<::metal::is_integral_v<T> && ::metal::is_integral_v<U>, T> max(T a, U b) {
  return ::metal::max(a, static_cast<T>(b));
}
template <typename T> ::metal::enable_if_t<::metal::is_floating_point_v<T>, T> min(T a, T b) {
  return ::metal::isunordered(a, b) ? NAN : ::metal::min(a, b);
}
template <> inline bfloat min(bfloat a, bfloat b) {
  return bfloat(::metal::isunordered(a, b) ? NAN : ::metal::min(float(a), float(b)));
}

template <typename T, typename F> inline T cast_to(const F from) {
  if constexpr (is_complex_v<T> && !is_complex_v<F>) return T(from, 0);
  else if constexpr (!is_complex_v<T> && is_complex_v<F>) return static_cast<T>(from.x);
  else return static_cast<T>(from);
}
template <typename T, typename U, ::metal::enable_if_t<::metal::is_integral_v<T> && ::metal::is_integral_v<U>, bool> = true>
inline decltype(T() + U()) floor_divide(T x, U y) {
  const auto quotient = x / y;
  return (x < 0) == (y < 0) ? quotient : (x % y != 0) ? quotient - 1 : quotient;
}
template <typename T> struct pair { T first; ushort second; };
struct sixteen_bits {
  bool first;
  template <typename T> T pick(device const half* a, device const bfloat* b) const thread {
    half other = cast_to<half>(first ? b[1] : b[0]);
    return cast_to<T>(first ? cast_to<bfloat>(a[0]) : cast_to<bfloat>(other));
  }
};
}} // namespace c10::metal
"""

REDUCTIONS = """
#pragma once
#include <c10/metal/utils.h>
namespace c10 { namespace metal {
constant constexpr ushort simdgroup_size = 32;
template <typename T> inline ::metal::enable_if_t<!::metal::is_same_v<T, long>, T> simd_sum(T v) {
  return ::metal::simd_sum(v);
}
template <typename T> inline ::metal::enable_if_t<::metal::is_same_v<T, long>, T> simd_sum(T v) {
  for (ushort i = simdgroup_size / 2; i > 0; i /= 2) {
    v += as_type<T>(::metal::simd_shuffle_and_fill_down(as_type<int2>(v), int2(0), i));
  }
  return as_type<T>(::metal::simd_broadcast_first(as_type<int2>(v)));
}
template <typename T, typename R = opmath_t<T>>
inline R threadgroup_sum(threadgroup R* data, T value, unsigned index, unsigned size) {
  auto total = simd_sum(static_cast<R>(value));
  if (index % simdgroup_size == 0) data[index / simdgroup_size] = total;
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  if (index < simdgroup_size) {
    auto mine = index < (size + simdgroup_size - 1) / simdgroup_size ? data[index] : R(0);
    auto all = simd_sum(mine);
    if (index == 0) data[0] = all;
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return data[0];
}
template <typename T> pair<T> simd_argmax(T value) {
  const auto best = ::metal::simd_max(value);
  const auto vote = ::metal::simd_ballot(value == best || ::metal::isnan(value));
  return {best, static_cast<ushort>(::metal::ctz(static_cast<ulong>(vote)))};
}
template <typename T>
inline int threadgroup_argmax(threadgroup T* values, threadgroup int* places, T value, int place, unsigned index,
                              unsigned size) {
  const auto rc = simd_argmax(value);
  const auto from = ::metal::simd_shuffle(place, rc.second);
  if (index % simdgroup_size == 0) { values[index / simdgroup_size] = rc.first; places[index / simdgroup_size] = from; }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  int best = 0;
  for (unsigned n = 1; n < (size + simdgroup_size - 1) / simdgroup_size; ++n) {
    if (values[n] > values[best] || (values[n] == values[best] && places[n] < places[best])) best = n;
  }
  return places[best];
}
template <typename T> float3 welford_combine(T a, T b) {
  const float count = a.z + b.z, delta = b.x - a.x;
  return count == 0 ? float3(0) : float3(a.x + delta * b.z / count, a.y + b.y + delta * delta * a.z * b.z / count, count);
}
template <typename T> float3 threadgroup_welford(threadgroup T* data, float3 mine, unsigned index, unsigned size) {
  data[index] = mine;
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  auto total = data[0];
  for (unsigned n = 1; n < size; ++n) total = welford_combine(total, data[n]);
  return total;
}
}} // namespace c10::metal
"""

RANDOM = """
#pragma once
#include <metal_stdlib>
namespace c10 { namespace metal {
namespace philox4 {
inline uint2 mulhilo(uint a, uint b) {
  auto r = static_cast<ulong>(a) * b;
  return uint2(static_cast<uint>(r), static_cast<uint>(r >> 32));
}
inline uint4 round(uint4 c, uint2 k) {
  const auto p0 = mulhilo(0xD2511F53u, c.x), p1 = mulhilo(0xCD9E8D57u, c.z);
  return {p1.y ^ c.y ^ k.x, p1.x, p0.y ^ c.w ^ k.y, p0.x};
}
inline uint4 multiple_rounds(uint4 c, uint2 k, int rounds) {
  for (int n = 0; n < rounds - 1; ++n) { c = round(c, k); k += uint2(0x9E3779B9u, 0xBB67AE85u); }
  return round(c, k);
}
inline uint4 rand(long seed, long index) {
  uint4 counter = {0, 0, uint(index), uint(index >> 32)};
  return multiple_rounds(counter, uint2(uint(seed), uint(seed >> 32)), 10);
}
} // namespace philox4
inline float rand(long seed, long index) { return float(philox4::rand(seed, index).x >> 8) * 0x1p-24f; }
}} // namespace c10::metal
"""

ATOMICS = """
#pragma once
#include <metal_atomic>
#include <metal_stdlib>
namespace c10 { namespace metal {
template <typename T> struct AtomicType {};
template <> struct AtomicType<float> {
  using type = ::metal::atomic<float>;
  static inline void atomic_add(device type* data, long offset, float value) {
    ::metal::atomic_fetch_add_explicit(data + offset, value, ::metal::memory_order_relaxed);
  }
};
template <typename T> struct AtomicSmall {
  using type = ::metal::atomic<uint>;
  static inline void atomic_add(device type* data, long offset, T value) {
    constexpr auto elements = sizeof(uint) / sizeof(T);
    union { uint i; T t[elements]; } val;
    device type* word = data + offset / elements;
    const auto at = offset % elements;
    val.i = ::metal::atomic_load_explicit(word, ::metal::memory_order_relaxed);
    uint old;
    do {
      old = val.i;
      val.t[at] += value;
    } while (!::metal::atomic_compare_exchange_weak_explicit(word, &old, val.i, ::metal::memory_order_relaxed,
                                                            ::metal::memory_order_relaxed)
             && (val.i = old, true));
  }
};
template <> struct AtomicType<half> : AtomicSmall<half> {};
}} // namespace c10::metal
"""

HEADERS = {
    "c10/metal/utils.h": UTILS,
    "c10/metal/reduction_utils.h": REDUCTIONS,
    "c10/metal/random.h": RANDOM,
    "c10/metal/atomic.h": ATOMICS,
}


def compiled(source: str) -> mk.Kernel:
    return mk.Kernel(source, options={"headers": HEADERS})


POINTWISE = """
#include <c10/metal/utils.h>
kernel void generated_kernel(
    device TYPE* out_ptr0,
    device long* out_ptr1,
    constant TYPE* in_ptr0,
    constant long* in_ptr1,
    constant long& ks0,
    uint xindex [[thread_position_in_grid]]
) {
    int x0 = (xindex) % (ks0);
    int x1 = c10::metal::floor_divide(xindex, ks0);
    auto tmp0 = static_cast<float>(in_ptr0[x0 + ks0*x1]);
    auto tmp1 = 0.5;
    auto tmp2 = tmp0 * tmp1;
    auto tmp3 = 0.7071067811865476;
    auto tmp4 = tmp0 * tmp3;
    auto tmp5 = metal::precise::tanh(tmp4);
    auto tmp6 = 1.0;
    auto tmp7 = tmp5 + tmp6;
    auto tmp8 = tmp2 * tmp7;
    auto tmp9 = in_ptr1[x0];
    auto tmp10 = tmp9 < 0;
    auto tmp11 = tmp10 ? tmp9 + ks0 : tmp9;
    auto tmp12 = c10::metal::max(c10::metal::cast_to<float>(tmp8), static_cast<float>(0));
    out_ptr0[xindex] = static_cast<TYPE>(tmp12);
    out_ptr1[xindex] = static_cast<long>(c10::metal::floor_divide(tmp11, static_cast<long>(3)));
}
"""


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [("float", np.float32, 1e-6), ("half", np.float16, 1e-3), ("bfloat", ml_dtypes.bfloat16, 8e-3)],
)
def test_pointwise(name: str, dtype: type, tolerance: float) -> None:
    rows, n = 5, 33
    x = np.random.default_rng(0).standard_normal((rows, n)).astype(dtype)
    index = np.random.default_rng(1).integers(-n, n, n)
    out, divided = mk.zeros((rows, n), dtype), mk.zeros((rows, n), np.int64)
    compiled(POINTWISE.replace("TYPE", name))(out, divided, mk.array(x), mk.array(index), n, ndrange=rows * n)
    wide = x.astype(np.float64)
    wanted = np.maximum(wide * 0.5 * (1 + np.tanh(wide * 0.5**0.5)), 0)
    np.testing.assert_allclose(out.numpy().astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(
        divided.numpy(), np.broadcast_to(np.where(index < 0, index + n, index) // 3, (rows, n))
    )


REDUCTION = """
#include <c10/metal/utils.h>
#include <c10/metal/reduction_utils.h>
[[max_total_threads_per_threadgroup(SIZE)]]
kernel void generated_kernel(
    device float* out_ptr0,
    device long* out_ptr1,
    device float* out_ptr2,
    device long* out_ptr3,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    threadgroup float tmp_acc_1[32];
    threadgroup int tmp_acc_2[32];
    threadgroup long tmp_acc_3[32];
    threadgroup float3 tmp_acc_4[SIZE];
    float tmp_sum = 0;
    float tmp_best = -HUGE_VALF;
    int tmp_place = 0;
    long tmp_count = 0;
    float3 tmp_moments = 0.0;
    for (auto r0_0_cnt = 0; r0_0_cnt < LOOPS; ++r0_0_cnt) {
        int r0_0 = LOOPS * r0_index + r0_0_cnt;
        if (r0_0 >= N) break;
        auto tmp0 = in_ptr0[r0_0 + N*x0];
        tmp_sum += tmp0;
        tmp_count += tmp0 > 0 ? 1 : 0;
        if (tmp0 > tmp_best) { tmp_best = tmp0; tmp_place = r0_0; }
        tmp_moments = c10::metal::welford_combine(tmp_moments, float3(tmp0, 0.0, 1.0));
    }
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp_sum, r0_index, SIZE);
    auto tmp2 = c10::metal::threadgroup_argmax(tmp_acc_1, tmp_acc_2, tmp_best, tmp_place, r0_index, SIZE);
    auto tmp3 = c10::metal::threadgroup_sum(tmp_acc_3, tmp_count, r0_index, SIZE);
    auto tmp4 = c10::metal::threadgroup_welford(tmp_acc_4, tmp_moments, r0_index, SIZE);
    if (r0_index == 0) {
        out_ptr0[x0] = static_cast<float>(tmp1);
        out_ptr1[x0] = static_cast<long>(tmp2);
        out_ptr2[x0] = static_cast<float>(tmp4.y / tmp4.z);
        out_ptr3[x0] = static_cast<long>(tmp3);
    }
}
"""


@pytest.mark.parametrize(("n", "size"), [(1, 1), (50, 50), (700, 256), (4096, 1024)])
def test_reduction(n: int, size: int) -> None:
    rows = 4
    x = np.random.default_rng(n).standard_normal((rows, n)).astype(np.float32)
    out, place, variance, positive = mk.zeros(rows), mk.zeros(rows, np.int64), mk.zeros(rows), mk.zeros(rows, np.int64)
    source = REDUCTION.replace("SIZE", str(size)).replace("LOOPS", str(-(-n // size))).replace("N*x0", f"{n}*x0")
    kernel = compiled(source.replace(">= N)", f">= {n})"))
    kernel(out, place, variance, positive, mk.array(x), ndrange=(rows, size), workgroupsize=(1, size))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out.numpy(), wide.sum(1), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(place.numpy(), wide.argmax(1))
    np.testing.assert_allclose(variance.numpy(), wide.var(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(positive.numpy(), (wide > 0).sum(1))


NARROW = """
#include <c10/metal/utils.h>
kernel void generated_kernel(device half* out_ptr0, device const half* in_ptr0, device const bfloat* in_ptr1,
                             uint xindex [[thread_position_in_grid]]) {
    out_ptr0[xindex] = c10::metal::sixteen_bits{xindex == 0}.pick<half>(in_ptr0, in_ptr1);
}
"""


def test_half_and_bfloat_in_a_namespace_called_metal() -> None:
    out = mk.zeros(2, np.float16)
    values = np.array([1.5, 2.5])
    compiled(NARROW)(
        out, mk.array(values.astype(np.float16)), mk.array((values * 4).astype(ml_dtypes.bfloat16)), ndrange=2
    )
    assert out.numpy().tolist() == [1.5, 6.0]


SCATTER = """
#include <c10/metal/atomic.h>
#include <c10/metal/random.h>
kernel void generated_kernel(
    device c10::metal::AtomicType<float>::type* out_ptr0,
    device c10::metal::AtomicType<half>::type* out_ptr1,
    device float* out_ptr2,
    constant long* in_ptr0,
    uint xindex [[thread_position_in_grid]]
) {
    auto tmp0 = in_ptr0[xindex];
    c10::metal::AtomicType<float>::atomic_add(out_ptr0, tmp0, static_cast<float>(1.5));
    c10::metal::AtomicType<half>::atomic_add(out_ptr1, tmp0, static_cast<half>(1.0));
    out_ptr2[xindex] = c10::metal::rand(17, xindex);
}
"""


def philox(seed: int, index: int) -> float:
    """The first number of Philox 4x32-10, by Python's integers."""
    counter, key, most = [0, 0, index, 0], [seed, 0], 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & most, (a >> 32) ^ counter[3] ^ key[1], a & most]
        key = [(key[0] + 0x9E3779B9) & most, (key[1] + 0xBB67AE85) & most]
    return (counter[0] >> 8) * 2.0**-24


def test_scatter_and_random_numbers() -> None:
    index = np.random.default_rng(0).integers(0, 7, 300)
    sums, counts, numbers = mk.zeros(7), mk.zeros(8, np.float16), mk.zeros(300)
    compiled(SCATTER)(sums, counts.view(np.uint32), numbers, mk.array(index), ndrange=300)
    np.testing.assert_array_equal(sums.numpy(), 1.5 * np.bincount(index, minlength=7))
    np.testing.assert_array_equal(counts.numpy()[:7], np.bincount(index, minlength=7))
    np.testing.assert_array_equal(numbers.numpy(), np.array([philox(17, n) for n in range(300)], np.float32))
