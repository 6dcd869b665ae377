#include <metal_stdlib>
using namespace metal;
constexpr sampler nearest(coord::pixel, address::clamp_to_zero, filter::nearest);
kernel void blur(texture2d<float, access::sample> in [[texture(0)]], texture2d<half, access::write> out [[texture(1)]],
                 texture3d<uint, access::read> volume [[texture(2)]], sampler s [[sampler(0)]], ushort2 p [[thread_position_in_grid]]) {
    if (p.x >= out.get_width() || p.y >= out.get_height()) return;
    float4 sum = 0;
    for (int y = -1; y <= 1; y++)
        for (int x = -1; x <= 1; x++) sum += in.sample(nearest, float2(p) + float2(x, y));
    out.write(half4(sum / 9 + in.sample(s, float2(0.5), level(0)) + float4(volume.read(uint3(uint2(p), 0)))), p);
}
