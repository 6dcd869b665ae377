#include <metal_stdlib>
using namespace metal;
template <typename T> struct Scale { T by; T operator()(T x) const thread { return x * by; } };
template <typename T, typename Op> kernel void apply(device T* out [[buffer(0)]], const device T* in [[buffer(1)]],
                                                    constant T& by [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    Op op{by};
    out[i] = op(in[i]);
}
template [[host_name("apply_float")]] kernel void apply<float, Scale<float>>(device float*, const device float*, constant float&, uint);
template [[host_name("apply_half")]] kernel void apply<half, Scale<half>>(device half*, const device half*, constant half&, uint);
