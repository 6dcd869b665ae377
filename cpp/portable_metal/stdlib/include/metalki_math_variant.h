// What metal::fast and metal::precise consist of.
#pragma clang system_header

using metal::abs; using metal::min; using metal::max; using metal::min3; using metal::max3; using metal::median3;
using metal::clamp; using metal::saturate; using metal::sign; using metal::step;
#include <metalki_math_body.h>
__MSL_FLOAT3(mix, x + (y - x) * z)
__fi float __smoothstep(float low, float high, float x) {
    const float t = __builtin_fminf(__builtin_fmaxf((x - low) / (high - low), 0.0f), 1.0f);
    return t * t * (3.0f - 2.0f * t);
}
__MSL_FLOAT3(smoothstep, __smoothstep(x, y, z))
template <class T, int N> __fi vec<T, N> smoothstep(T low, T high, vec<T, N> x) {
    for (int i = 0; i < N; i++) x[i] = __smoothstep((float)low, (float)high, (float)x[i]);
    return x;
}
