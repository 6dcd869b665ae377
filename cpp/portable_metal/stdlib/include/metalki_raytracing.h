// Ray tracing: functions that trace rays parse, so that the kernels beside them compile; they never run here.
#ifndef METALKI_RAYTRACING_H
#define METALKI_RAYTRACING_H
#pragma clang system_header
#include <metalki_graphics.h>

namespace metal { namespace raytracing {

struct triangle_data {};
struct curve_data {};
struct instancing {};
struct world_space_data {};
struct primitive_motion {};
struct instance_motion {};
struct extended_limits {};
struct user_data {};
struct intersection_function_buffer {};
template <int N> struct max_levels {};

enum class intersection_type { none, triangle, bounding_box, curve };
enum class geometry_type { none = 0, triangle = 1, bounding_box = 2, curve = 4, all = 7 };
enum class opacity { opaque, non_opaque };
enum class forced_opacity { none, opaque, non_opaque };
enum class triangle_cull_mode { none, front, back };
enum class triangle_front_facing_winding { clockwise, counterclockwise };
enum class opacity_cull_mode { none, opaque, non_opaque };
enum class geometry_cull_mode { none, triangle, bounding_box, curve };
enum class curve_type { all, round, flat };
enum class curve_basis { bspline, catmull_rom, linear, bezier, all };

struct ray {
    float3 origin, direction;
    float min_distance = 0.0f, max_distance = __builtin_inff();
    ray() = default;
    ray(float3 o, float3 d, float low = 0.0f, float high = __builtin_inff()) : origin(o), direction(d), min_distance(low), max_distance(high) {}
};

template <class... Tags> struct acceleration_structure {};
typedef acceleration_structure<> primitive_acceleration_structure;
typedef acceleration_structure<instancing> instance_acceleration_structure;
template <class... Tags> struct intersection_function_table {
    uint size() const { return 0; }
    template <class T> void set_buffer(T *, uint) const {}
    template <class F> visible_function_table<F> get_visible_function_table(uint) const { return {}; }
};
template <class... Tags> struct intersection_result {
    intersection_type type = intersection_type::none;
    float distance = 0.0f, curve_parameter = 0.0f;
    uint primitive_id = 0, geometry_id = 0, instance_id[1] = {}, user_instance_id = 0, instance_count = 0;
    const void *primitive_data = nullptr;
    float2 triangle_barycentric_coord = float2(0.0f);
    bool triangle_front_facing = false;
    float4x3 world_to_object_transform, object_to_world_transform;
};
struct intersection_params {
#define __MSL_SETTERS                                                               \
    void assume_geometry_type(geometry_type) {}                                     \
    void assume_identity_transforms(bool) {}                                        \
    void force_opacity(forced_opacity) {}                                           \
    void accept_any_intersection(bool) {}                                           \
    void set_triangle_cull_mode(triangle_cull_mode) {}                              \
    void set_triangle_front_facing_winding(triangle_front_facing_winding) {}        \
    void set_opacity_cull_mode(opacity_cull_mode) {}                                \
    void set_geometry_cull_mode(geometry_cull_mode) {}                              \
    void set_max_levels(uint) {}                                                    \
    void assume_curve_type(curve_type) {}                                           \
    void assume_curve_basis(curve_basis) {}                                         \
    void assume_curve_control_point_count(uint) {}
    __MSL_SETTERS
};
template <class... Tags> struct intersector {
    typedef intersection_result<Tags...> result_type;
    __MSL_SETTERS
    template <class... A> result_type intersect(ray, A &&...) const { return {}; }
};
template <class... Tags> struct intersection_query : intersection_result<Tags...> {
    intersection_query() = default;
    template <class... A> explicit intersection_query(ray, A &&...) {}
    template <class... A> void reset(ray, A &&...) {}
    __MSL_SETTERS
#undef __MSL_SETTERS
    bool next() { return false; }
    void abort() {}
    void commit_triangle_intersection() {}
    void commit_bounding_box_intersection(float) {}
    intersection_type get_candidate_intersection_type() const { return intersection_type::none; }
    intersection_type get_committed_intersection_type() const { return intersection_type::none; }
#define __MSL_GETTERS(which)                                                        \
    float get_##which##_triangle_distance() const { return 0.0f; }                  \
    float get_##which##_distance() const { return 0.0f; }                           \
    uint get_##which##_primitive_id() const { return 0; }                           \
    uint get_##which##_geometry_id() const { return 0; }                            \
    uint get_##which##_instance_id() const { return 0; }                            \
    uint get_##which##_user_instance_id() const { return 0; }                       \
    float2 get_##which##_triangle_barycentric_coord() const { return float2(0.0f); }\
    bool is_##which##_triangle_front_facing() const { return false; }               \
    float3 get_##which##_ray_origin() const { return float3(0.0f); }                \
    float3 get_##which##_ray_direction() const { return float3(0.0f); }
    __MSL_GETTERS(candidate)
    __MSL_GETTERS(committed)
#undef __MSL_GETTERS
};

}} // namespace metal::raytracing

#endif
