#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
[[max_total_threads_per_threadgroup(64)]] kernel void gemm(device float* c, device const half* a, device const half* b, constant uint3& mnk,
                                                         uint2 tile [[threadgroup_position_in_grid]]) {
    simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint k = 0; k < mnk.z; k += 8) {
        simdgroup_half8x8 x, y;
        simdgroup_load(x, a + tile.y * 8 * mnk.z + k, mnk.z);
        simdgroup_load(y, b + k * mnk.y + tile.x * 8, mnk.y, ulong2(0, 0), false);
        simdgroup_multiply_accumulate(acc, x, y, acc);
    }
    simdgroup_store(acc, c + tile.y * 8 * mnk.y + tile.x * 8, mnk.y);
}
