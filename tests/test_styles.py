"""MSL as other tools write it: a tensor compiler's renderer, a wrapper around a kernel body, a hand-written shader library."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import metalki as mk

# In the style of tinygrad's Metal renderer: gid and lid, unrolled scalars, numbered values, casts everywhere.

RENDERED_SUM = """
#include <metal_stdlib>
using namespace metal;
kernel void r_4_16_8(device float* data0, device float* data1, uint3 gid [[threadgroup_position_in_grid]],
                     uint3 lid [[thread_position_in_threadgroup]]) {
  threadgroup __attribute__((aligned(16))) float temp0[16];
  float acc0[1];
  int gidx0 = gid.x; /* 4 */
  int lidx0 = lid.x; /* 16 */
  *(acc0+0) = 0.0f;
  for (int ridx0 = 0; ridx0 < 8; ridx0++) {
    float val0 = (*(data1+((gidx0<<7)+(lidx0<<3)+ridx0)));
    *(acc0+0) = ((*(acc0+0))+val0);
  }
  *(temp0+lidx0) = (*(acc0+0));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (((bool)(lidx0))!=1) {
    float acc1 = 0.0f;
    for (int ridx1 = 0; ridx1 < 16; ridx1++) {
      acc1 = (acc1+(*(temp0+ridx1)));
    }
    *(data0+gidx0) = acc1;
  }
}
"""


def test_rendered_grouped_sum() -> None:
    x = np.random.default_rng(0).standard_normal((4, 128)).astype(np.float32)
    out = mk.zeros(4)
    mk.Kernel(RENDERED_SUM)(out, mk.array(x), numworkgroups=4, workgroupsize=16)
    np.testing.assert_allclose(out.numpy(), x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)


RENDERED_MATMUL = """
#include <metal_stdlib>
using namespace metal;
float2 __WMMA_8_8_8_float_float(float2 a, float2 b, float2 c){
  simdgroup_float8x8 mat_a, mat_b; simdgroup_float8x8 mat_c;
  mat_a.thread_elements()[0] = a[0]; mat_b.thread_elements()[0] = b[0]; mat_c.thread_elements()[0] = c[0];
  mat_a.thread_elements()[1] = a[1]; mat_b.thread_elements()[1] = b[1]; mat_c.thread_elements()[1] = c[1];
  simdgroup_multiply_accumulate(mat_c, mat_a, mat_b, mat_c);
  return float2(mat_c.thread_elements()[0], mat_c.thread_elements()[1]);
}
kernel void r_8_8_8(device float* data0_64, const device float* data1_64, const device float* data2_64,
                    uint3 gid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]) {
  int lidx0 = lid.x; /* 32 */
  int alu0 = ((lidx0&1)<<1)+(((lidx0>>3)&1)<<2);
  int alu1 = ((lidx0>>1)&3)+(((lidx0>>4)&1)<<2);
  float2 val0 = *((device float2*)((data1_64+(alu1<<3)+alu0)));
  float2 val1 = *((device float2*)((data2_64+(alu1<<3)+alu0)));
  float2 wmma0 = __WMMA_8_8_8_float_float(val0, val1, float2(0.0f,0.0f));
  *((device float2*)(data0_64+(alu1<<3)+alu0)) = float2(wmma0.x,wmma0.y);
}
"""


def test_rendered_simdgroup_matrix_by_thread_elements() -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 8, 8)).astype(np.float32)
    out = mk.zeros((8, 8))
    mk.Kernel(RENDERED_MATMUL)(out, mk.array(a), mk.array(b), numworkgroups=1, workgroupsize=32)
    np.testing.assert_allclose(out.numpy(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


RENDERED_ELEMENTWISE = """
#include <metal_stdlib>
using namespace metal;
kernel void E_8_4n1(device half* data0, device half* data1, constant int& start_pos, device bfloat* data2,
                    uint3 gid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]) {
  int gidx0 = gid.x; /* 8 */
  int alu0 = (gidx0<<2);
  half4 val0 = *((device half4*)((data1+alu0)));
  bool alu1 = ((gidx0<start_pos)!=1);
  half cast0 = ((half)((data2[gidx0])));
  *((device half4*)((data0+alu0))) = half4((alu1?(half)(exp2((val0.x*((half)(1.4426950408889634f))))):cast0),
    (alu1?sqrt(val0.y):cast0),(alu1?(half)(1/val0.z):cast0),(alu1?(half)(((float)(val0.w))*as_type<float>(0x40000000u)):cast0));
}
"""


def test_rendered_elementwise_with_half_and_bfloat() -> None:
    x = np.random.default_rng(2).uniform(0.5, 2, (8, 4)).astype(np.float16)
    fill = np.arange(8).astype(ml_dtypes.bfloat16)
    out = mk.zeros((8, 4), np.float16)
    mk.Kernel(RENDERED_ELEMENTWISE)(out, mk.array(x), 3, mk.array(fill), numworkgroups=8, workgroupsize=1)
    wide = x.astype(np.float64)
    wanted = np.stack([np.exp(wide[:, 0]), np.sqrt(wide[:, 1]), 1 / wide[:, 2], 2 * wide[:, 3]], 1)
    wanted[:3] = np.arange(3)[:, None]
    np.testing.assert_allclose(out.numpy().astype(np.float64), wanted, rtol=3e-3)


# In the style of MLX's mx.fast.metal_kernel: a header, a generated signature with shapes and strides, the caller's body.

WRAPPED = """
#include <metal_stdlib>
using namespace metal;
template <typename IdxT = int64_t, typename StrideT = constant const int64_t*>
METAL_FUNC IdxT elem_to_loc(IdxT elem, constant const int* shape, StrideT strides, int ndim) {
  IdxT loc = 0;
  for (int i = ndim - 1; i >= 0 && elem > 0; --i) {
    loc += (elem % shape[i]) * IdxT(strides[i]);
    elem /= shape[i];
  }
  return loc;
}
template <typename T, int N, bool Double>
[[kernel]] void custom_kernel_myexp(
  const device T* inp [[buffer(0)]],
  const constant int* inp_shape [[buffer(1)]],
  const constant int64_t* inp_strides [[buffer(2)]],
  const constant int& inp_ndim [[buffer(3)]],
  device T* out [[buffer(4)]],
  uint3 thread_position_in_grid [[thread_position_in_grid]],
  uint3 threads_per_threadgroup [[threads_per_threadgroup]]) {
  uint elem = thread_position_in_grid.x;
  uint loc = elem_to_loc(elem, inp_shape, inp_strides, inp_ndim);
  T tmp = inp[loc];
  T result = metal::exp(tmp);
  for (int i = 1; i < N; ++i) result += T(1);
  out[elem] = Double ? T(2) * result : result;
}
template [[host_name("custom_kernel_myexp_float_2_1")]] [[kernel]]
decltype(custom_kernel_myexp<float, 2, true>) custom_kernel_myexp<float, 2, true>;
typedef decltype(custom_kernel_myexp<half, 1, false>) custom_t;
template [[host_name("custom_kernel_myexp_half_1_0")]] kernel custom_t custom_kernel_myexp<half, 1, false>;
typedef decltype(custom_kernel_myexp<bfloat, 1, false>) custom_b;
template [[host_name("custom_kernel_myexp_bfloat_1_0")]] kernel custom_b custom_kernel_myexp<bfloat, 1, false>;
"""


@pytest.mark.parametrize(
    ("name", "dtype", "n", "twice", "tolerance"),
    [
        ("float_2_1", np.float32, 2, 2, 1e-6),
        ("half_1_0", np.float16, 1, 1, 2e-3),
        ("bfloat_1_0", ml_dtypes.bfloat16, 1, 1, 1e-2),
    ],
)
def test_wrapped_body_with_strides(name: str, dtype: type, n: int, twice: int, tolerance: float) -> None:
    x = np.random.default_rng(3).standard_normal((6, 4)).astype(dtype)
    out = mk.zeros((4, 6), dtype)
    kernel = mk.compile(WRAPPED)[f"custom_kernel_myexp_{name}"]
    kernel(mk.array(x), np.array([4, 6], np.int32), np.array([1, 4], np.int64), 2, out, ndrange=24)
    wanted = twice * (np.exp(x.astype(np.float64)).T + n - 1)
    np.testing.assert_allclose(out.numpy().astype(np.float64), wanted, rtol=tolerance)


ATOMIC_BODY = """
#include <metal_stdlib>
using namespace metal;
[[kernel]] void custom_kernel_grid_sample_grad(
  const device float* x [[buffer(0)]],
  const constant int* x_shape [[buffer(1)]],
  device atomic<float>* x_grad [[buffer(2)]],
  uint3 thread_position_in_grid [[thread_position_in_grid]],
  uint thread_index_in_simdgroup [[thread_index_in_simdgroup]],
  uint threads_per_simdgroup [[threads_per_simdgroup]]) {
  uint elem = thread_position_in_grid.x;
  int C = x_shape[1];
  int gC = ceildiv(C, threads_per_simdgroup) * threads_per_simdgroup;
  float value = elem % gC < uint(C) ? x[elem / gC * C + elem % gC] : 0;
  value = simd_sum(value);
  if (thread_index_in_simdgroup == 0) {
    atomic_fetch_add_explicit(&x_grad[elem / gC], value, memory_order_relaxed);
  }
}
"""
CEILDIV = "#define ceildiv(a, b) (((a) + int(b) - 1) / int(b))\n"


def test_wrapped_body_with_atomic_outputs() -> None:
    x = np.random.default_rng(4).standard_normal((5, 70)).astype(np.float32)
    out = mk.zeros(5)
    kernel = mk.Kernel(CEILDIV + ATOMIC_BODY)
    kernel(mk.array(x), np.array([5, 70], np.int32), out, ndrange=5 * 96, workgroupsize=96)
    np.testing.assert_allclose(out.numpy(), x.astype(np.float64).sum(1), rtol=1e-4, atol=1e-5)


# In the style of libraries for torch.mps.compile_shader: several kernels and helpers, templates, host names, c10-like names.

SHADER_LIBRARY = """
#include <metal_stdlib>
using namespace metal;
namespace c10 { namespace metal {
template <typename T> struct op_math { using type = T; };
template <> struct op_math<half> { using type = float; };
template <> struct op_math<bfloat> { using type = float; };
template <typename T> using opmath_t = typename op_math<T>::type;
template <typename T> inline opmath_t<T> hardswish(opmath_t<T> x) {
  return x * min(max(x + opmath_t<T>(3), opmath_t<T>(0)), opmath_t<T>(6)) / opmath_t<T>(6);
}
} }
template <typename T>
kernel void hardswish(device T* out [[buffer(0)]], constant T* in [[buffer(1)]], uint idx [[thread_position_in_grid]]) {
  using namespace c10::metal;
  out[idx] = static_cast<T>(c10::metal::hardswish<T>(static_cast<opmath_t<T>>(in[idx])));
}
#define REGISTER(T) \\
  template [[host_name("hardswish_" #T)]] kernel void hardswish<T>(device T*, constant T*, uint)
REGISTER(float);
REGISTER(half);
REGISTER(bfloat);

kernel void full(device float* t [[buffer(0)]], constant float& value [[buffer(1)]], constant long2& strides [[buffer(2)]],
                 uint2 idx [[thread_position_in_grid]]) {
  t[idx.x * strides.x + idx.y * strides.y] = value + float(idx.x) + 100 * idx.y;
}

kernel void gcd_and_clamp(device long* out, constant long* a, constant long* b, constant int4& bounds,
                          uint i [[thread_position_in_grid]]) {
  long x = abs(a[i]), y = abs(b[i]);
  while (y != 0) {
    const auto rest = x % y;
    x = y;
    y = rest;
  }
  out[i] = clamp(x, long(bounds.x), long(bounds.w));
}

struct pair { int count; float mean; };
template <typename T>
inline pair welford(pair a, T x) {
  const float delta = float(x) - a.mean;
  ++a.count;
  return {a.count, a.mean + delta / a.count};
}
[[kernel, max_total_threads_per_threadgroup(64)]]
void means(device pair* out, constant float* in, constant uint2& shape, uint row [[threadgroup_position_in_grid]],
           uint lane [[thread_index_in_simdgroup]], uint warp [[simdgroup_index_in_threadgroup]],
           uint tid [[thread_index_in_threadgroup]], uint width [[threads_per_threadgroup]]) {
  threadgroup pair partial[2];
  pair mine = {0, 0};
  for (uint i = tid; i < shape.y; i += width) mine = welford(mine, in[row * shape.y + i]);
  for (ushort step = 16; step > 0; step >>= 1) {
    pair other = {simd_shuffle_down(mine.count, step), simd_shuffle_down(mine.mean, step)};
    if (lane + step < 32 && other.count > 0) {
      int count = mine.count + other.count;
      mine = {count, mine.mean + (other.mean - mine.mean) * other.count / count};
    }
  }
  if (lane == 0) partial[warp] = mine;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) {
    pair a = partial[0], b = partial[1];
    int count = a.count + b.count;
    out[row] = {count, a.mean + (b.mean - a.mean) * b.count / max(count, 1)};
  }
}
"""


@pytest.fixture(scope="module")
def library() -> mk.Library:
    return mk.compile(SHADER_LIBRARY)


def test_library_lists_its_kernels(library: mk.Library) -> None:
    names = {"hardswish_float", "hardswish_half", "hardswish_bfloat", "full", "gcd_and_clamp", "means"}
    assert set(library.function_names) == names


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [("float", np.float32, 1e-6), ("half", np.float16, 1e-3), ("bfloat", ml_dtypes.bfloat16, 8e-3)],
)
def test_library_template(library: mk.Library, name: str, dtype: type, tolerance: float) -> None:
    x = np.linspace(-5, 5, 33).astype(dtype)
    out = mk.zeros(33, dtype)
    library[f"hardswish_{name}"](out, mk.array(x), ndrange=33)
    wide = x.astype(np.float64)
    wanted = wide * np.clip(wide + 3, 0, 6) / 6
    np.testing.assert_allclose(out.numpy().astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def test_library_strides(library: mk.Library) -> None:
    out = mk.zeros((3, 5))
    library["full"](out, 0.5, (1, 5), ndrange=(5, 3))
    assert (out.numpy() == 0.5 + np.arange(5)[None] + 100 * np.arange(3)[:, None]).all()


def test_library_integers(library: mk.Library) -> None:
    a, b = np.array([12, -18, 7, 0, 1000], np.int64), np.array([18, 12, 13, 9, 250], np.int64)
    out = mk.zeros(5, np.int64)
    library["gcd_and_clamp"](out, mk.array(a), mk.array(b), (2, 0, 0, 100), ndrange=5)
    assert out.numpy().tolist() == [6, 6, 2, 9, 100]


@pytest.mark.parametrize("n", [1, 31, 64, 300])
def test_library_reduction_of_structs(library: mk.Library, n: int) -> None:
    x = np.random.default_rng(5).standard_normal((3, n)).astype(np.float32)
    kind = np.dtype([("count", np.int32), ("mean", np.float32)])
    out = mk.zeros(3, kind)
    library["means"](out, mk.array(x), (3, n), numworkgroups=3, workgroupsize=64)
    assert out.numpy()["count"].tolist() == [n] * 3
    np.testing.assert_allclose(out.numpy()["mean"], x.astype(np.float64).mean(1), rtol=1e-4, atol=1e-6)
