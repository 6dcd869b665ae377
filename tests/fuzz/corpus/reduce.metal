#include <metal_stdlib>
using namespace metal;
kernel void reduce(device float* out, const device float* in, constant uint& n, threadgroup float* part [[threadgroup(0)]],
                   uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                   uint group [[simdgroup_index_in_threadgroup]], uint size [[threads_per_threadgroup]]) {
    float sum = 0.0f;
    for (uint j = i; j < n; j += size) sum += in[j];
    sum = simd_sum(sum);
    if (lane == 0) part[group] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i == 0) {
        float total = 0;
        for (uint g = 0; g < (size + 31) / 32; g++) total += part[g];
        out[0] = total;
    }
}
