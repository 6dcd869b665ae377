// What only vertex, fragment, mesh and tile functions use. Such functions parse, so that the kernels beside them compile;
// they never run here.
#ifndef METALKI_GRAPHICS_H
#define METALKI_GRAPHICS_H
#pragma clang system_header
#include <metal_texture>

namespace metal {

#define __MSL_DERIVATIVE(name)                                                   \
    __fi float name(float) { return 0.0f; }                                      \
    __fi half name(half) { return (half)0.0f; }                                  \
    template <class T, int N> __fi vec<T, N> name(vec<T, N>) { return vec<T, N>((T)0.0f); }
__MSL_DERIVATIVE(dfdx) __MSL_DERIVATIVE(dfdy) __MSL_DERIVATIVE(fwidth)
#undef __MSL_DERIVATIVE
__fi void discard_fragment() {}
__fi uint get_num_samples() { return 1; }
__fi float2 get_sample_position(uint) { return float2(0.5f); }

// Multisampled textures.
#define __MSL_MULTISAMPLED(name, value, ...)                                                                    \
    template <class T, access A = access::read> struct name : __texture<T, A, __shape::plain> {                 \
        uint get_height(uint lod = 0) const { return __mip_size(this->__d->height, lod); }                      \
        uint get_num_samples() const { return 1; }                                                              \
        template <class I> value read(vec<I, 2> at __VA_ARGS__, uint) const { return value(this->__read(at.x, at.y, 0, 0).x); } \
        template <class I> void write(value, vec<I, 2> __VA_ARGS__, uint) const {}                              \
    };
template <class T> using __vec4 = vec<T, 4>;
__MSL_MULTISAMPLED(texture2d_ms, __vec4<T>)
__MSL_MULTISAMPLED(texture2d_ms_array, __vec4<T>, , uint)
__MSL_MULTISAMPLED(depth2d_ms, T)
__MSL_MULTISAMPLED(depth2d_ms_array, T, , uint)
#undef __MSL_MULTISAMPLED

// Stage inputs.
enum class interpolation { perspective, no_perspective };
template <class T, interpolation I = interpolation::perspective> struct interpolant {
    T __value;
    T interpolate_at_center() const { return __value; }
    T interpolate_at_centroid() const { return __value; }
    T interpolate_at_sample(uint) const { return __value; }
    T interpolate_at_offset(float2) const { return __value; }
};
template <class T> struct patch_control_point {
    T __value;
    uint size() const { return 0; }
    T operator[](uint) const { return __value; }
};

// Image blocks of tile functions.
enum class imageblock_layout { implicit_, explicit_ };
struct imageblock_layout_implicit {};
struct imageblock_layout_explicit {};
template <class T, class L = imageblock_layout_implicit> struct imageblock {
    T __value;
    T read(ushort2) const { return __value; }
    void write(T, ushort2) const {}
    T *data(ushort2) { return &__value; }
    ushort get_width() const { return 0; }
    ushort get_height() const { return 0; }
    ushort get_num_samples() const { return 1; }
    ushort get_num_colors(ushort2) const { return 1; }
};

// Mesh functions.
enum class topology { point, line, triangle };
template <class V, class P, uint NV, uint NP, topology T> struct mesh {
    void set_primitive_count(uint) const {}
    void set_vertex(uint, V) const {}
    template <class Q = P> void set_primitive(uint, Q) const {} // P may be void
    template <class I> void set_index(uint, I) const {}
    template <class I> void set_indices(uint, I) const {}
};
struct mesh_grid_properties {
    void set_threadgroups_per_grid(uint3) const {}
};

// Commands that a kernel encodes.
enum class primitive_type { point, line, line_strip, triangle, triangle_strip };
struct render_pipeline_state {};
struct compute_pipeline_state {};
struct depth_stencil_state {};
struct command_buffer {};
struct __command {
    constexpr explicit __command(command_buffer, uint) {}
    template <class... A> void set_render_pipeline_state(A...) const {}
    template <class... A> void set_compute_pipeline_state(A...) const {}
    template <class... A> void set_vertex_buffer(A...) const {}
    template <class... A> void set_fragment_buffer(A...) const {}
    template <class... A> void set_kernel_buffer(A...) const {}
    template <class... A> void draw_primitives(A...) const {}
    template <class... A> void draw_indexed_primitives(A...) const {}
    template <class... A> void concurrent_dispatch_threads(A...) const {}
    template <class... A> void concurrent_dispatch_threadgroups(A...) const {}
    void set_barrier() const {}
    void reset() const {}
};
struct render_command : __command { using __command::__command; };
struct compute_command : __command { using __command::__command; };

// Tables of functions, which need linking.
template <class F> struct visible_function_table {
    uint size() const { return 0; }
    F *operator[](uint) const { return nullptr; }
};

} // namespace metal

struct MTLQuadTessellationFactorsHalf { half edgeTessellationFactor[4], insideTessellationFactor[2]; };
struct MTLTriangleTessellationFactorsHalf { half edgeTessellationFactor[3], insideTessellationFactor; };

#endif
