#include <metal_stdlib>
using namespace metal;
template <typename T> void add(volatile device atomic<T>* at, T v) { atomic_fetch_add_explicit(at, v, memory_order_relaxed); }
kernel void histogram(device atomic_uint* bins, device atomic<float>* sum, const device uchar4* in, uint i [[thread_position_in_grid]],
                      uint l [[thread_index_in_threadgroup]]) {
    threadgroup atomic_int local[256];
    atomic_store_explicit(&local[l], 0, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    uchar4 v = in[i];
    for (short c = 0; c < 4; ++c) atomic_fetch_add_explicit(&local[v[c]], 1, memory_order_relaxed);
    add(sum, float(v.x) / 255.0f);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(bins + l, (uint)atomic_load_explicit(&local[l], memory_order_relaxed), memory_order_relaxed);
}
