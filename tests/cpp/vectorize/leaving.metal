// Masks, conversions and a loop that lanes leave at different times.
#include <metal_stdlib>
using namespace metal;
kernel void leaving(device uint* o [[buffer(0)]], device const float* a [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    float s = a[i];
    for (uint k = 0; k < uint(a[i]); ++k) {
        if (s > 3.0f)
            s = fma(s, a[i], 1.0f);
    }
    if (s > 1.0f)
        o[i] = uint(s);
}
