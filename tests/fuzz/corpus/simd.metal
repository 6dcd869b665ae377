#include <metal_stdlib>
using namespace metal;
kernel void shuffles(device half4* out, device const bfloat4* in, uint i [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]],
                     ushort quad [[thread_index_in_quadgroup]]) {
    half4 v = half4(float4(in[i]));
    v += simd_shuffle_xor(v, 1) + simd_shuffle_down(v, ushort(2));
    v.x = simd_prefix_inclusive_sum(v.x);
    v.yz = quad_broadcast(v.yz, quad);
    simd_vote vote = simd_ballot(lane > 3);
    if (vote.any() && simd_is_first()) v.w = popcount(uint((simd_vote::vote_t)vote));
    switch (lane & 3) {
    case 0: v = fast::exp(v); break;
    case 1: v = half4(precise::sin(float4(v))); [[fallthrough]];
    default: v = fma(v, v, -v); break;
    }
    out[i] = v;
}
