#include <metal_stdlib>
using namespace metal;
struct Vertex { float4 position [[position]]; float2 uv [[user(locn0)]]; };
vertex Vertex shade(uint id [[vertex_id]], const device packed_float3* p [[buffer(0)]]) {
    Vertex v;
    v.position = float4(float3(p[id]), 1);
    v.uv = v.position.xy * 0.5 + 0.5;
    return v;
}
fragment half4 paint(Vertex in [[stage_in]], texture2d<half> t [[texture(0)]]) {
    constexpr sampler s(filter::linear, address::repeat);
    return t.sample(s, in.uv);
}
kernel void compute(device uint* out, uint i [[thread_position_in_grid]]) { out[i] = i; }
