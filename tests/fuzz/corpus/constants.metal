#include <metal_stdlib>
using namespace metal;
constant int size [[function_constant(0)]];
constant bool flag [[function_constant(1)]];
constant bool has_bias = is_function_constant_defined(flag) ? flag : false;
constant float table[4] = {1.0f, 0.5, 2e-1f, 0x1p-3f};
constant constexpr uint count = sizeof(table) / sizeof(table[0]);
kernel void constants(device float* out [[buffer(0)]], device const float* bias [[buffer(1), function_constant(has_bias)]],
                      uint i [[thread_position_in_grid]]) {
    float x = table[i % count];
    if (has_bias) x += bias[i];
    if (is_function_constant_defined(size)) x *= size;
    out[i] = x;
}
