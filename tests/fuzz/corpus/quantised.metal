#include <metal_stdlib>
using namespace metal;
#define QK 32
#define FOR_UNROLL(x) _Pragma("clang loop unroll(full)") for (x)
typedef struct { half d; uint8_t qs[QK / 2]; } block_q;
void dequantize(device const block_q* b, short il, thread float4x4& reg) {
    device const uint16_t* qs = ((device const uint16_t*)b + 1);
    const float d = il ? (b->d / 16.f) : b->d;
    const ushort mask = il ? 0x00F0 : 0x000F;
    FOR_UNROLL (int i = 0; i < 8; i++) {
        reg[i / 2][2 * (i % 2) + 0] = d * (qs[i] & mask) - 8.f * d;
        reg[i / 2][2 * (i % 2) + 1] = d * ((qs[i] >> 8) & mask) - 8.f * d;
    }
}
template <typename block, void (*deq)(device const block*, short, thread float4x4&)>
kernel void get_rows(device const block* in, device float4* out, constant int64_t& n, uint3 p [[thread_position_in_grid]]) {
    float4x4 t;
    deq(in + p.y * n + p.x / 2, p.x % 2, t);
    *((device float4x4*)out + p.x) = t;
}
typedef decltype(get_rows<block_q, dequantize>) get_rows_t;
template [[host_name("get_rows_q")]] kernel get_rows_t get_rows<block_q, dequantize>;
