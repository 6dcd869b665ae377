#include <metal_stdlib>
using namespace metal;
struct Inner { packed_float3 p; bool on; };
struct Params { float4 color; Inner inner[2]; uint2 size; half2x2 m; enum class Kind : ushort { a, b = 3 } kind; };
struct Arguments { device float* data [[id(0)]]; constant Params* params [[id(1)]]; };
static_assert(sizeof(packed_float3) == 12, "twelve bytes");
kernel void structs(device Params* p, constant Arguments& a, uint2 at [[thread_position_in_grid]]) {
    Params q = p[at.x];
    q.color.xy = q.color.wz + float2(q.inner[1].p.x);
    q.size = select(q.size, uint2(1), q.size > 3u);
    q.kind = Params::Kind::b;
    q.m = q.m * half2x2(2.0h);
    a.data[at.y] = q.color.x;
    p[at.x] = q;
}
