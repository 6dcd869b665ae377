#include <metal_stdlib>
using namespace metal;
template <int... I, typename F> void unrolled(F f, integer_sequence<int, I...>) { (f(I), ...); }
template <typename T, int N> struct Tile {
    T v[N];
    thread T& operator[](int i) thread { return v[i]; }
    T operator[](int i) const device { return v[i]; }
};
kernel void lambdas(device Tile<float, 4>* tiles, uint i [[thread_position_in_grid]]) {
    Tile<float, 4> t = tiles[i];
    auto twice = [&](int n) { t[n] = t[n] * 2.0f; };
    unrolled(twice, make_integer_sequence<int, 4>());
    using C = conditional_t<(sizeof(t) > 8), float4, float2>;
    if constexpr (is_same_v<C, float4>) tiles[i] = t;
}
