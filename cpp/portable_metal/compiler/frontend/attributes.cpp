// Tables of MSL's attributes (Metal Shading Language Specification, chapter 5 "Function and variable declarations").
#include "frontend/attributes.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace metalki::compiler {
namespace {

constexpr std::array position_inputs = {
    std::string_view("thread_position_in_grid"),
    std::string_view("thread_position_in_threadgroup"),
    std::string_view("thread_index_in_threadgroup"),
    std::string_view("threadgroup_position_in_grid"),
    std::string_view("threads_per_grid"),
    std::string_view("grid_size"),
    std::string_view("grid_origin"),
    std::string_view("threads_per_threadgroup"),
    std::string_view("dispatch_threads_per_threadgroup"),
    std::string_view("threadgroups_per_grid"),
    std::string_view("thread_index_in_simdgroup"),
    std::string_view("simdgroup_index_in_threadgroup"),
    std::string_view("simdgroups_per_threadgroup"),
    std::string_view("dispatch_simdgroups_per_threadgroup"),
    std::string_view("threads_per_simdgroup"),
    std::string_view("thread_execution_width"),
    std::string_view("thread_index_in_quadgroup"),
    std::string_view("quadgroup_index_in_threadgroup"),
    std::string_view("quadgroups_per_threadgroup"),
    std::string_view("dispatch_quadgroups_per_threadgroup"),
};

constexpr std::array msl_attributes = {
    std::string_view("kernel"),
    std::string_view("vertex"),
    std::string_view("fragment"),
    std::string_view("mesh"),
    std::string_view("object"),
    std::string_view("visible"),
    std::string_view("stitchable"),
    std::string_view("intersection"),
    std::string_view("host_name"),
    std::string_view("user_annotation"),
    std::string_view("user_instance_id"),
    std::string_view("opaque"),
    std::string_view("curve_parameter"),
    std::string_view("time"),
    std::string_view("motion_start_time"),
    std::string_view("motion_end_time"),
    std::string_view("key_frame_count"),
    std::string_view("object_to_world_transform"),
    std::string_view("world_to_object_transform"),
    std::string_view("primitive_culled"),
    std::string_view("function_constant"),
    std::string_view("buffer"),
    std::string_view("texture"),
    std::string_view("sampler"),
    std::string_view("threadgroup"),
    std::string_view("id"),
    std::string_view("max_total_threads_per_threadgroup"),
    std::string_view("required_threads_per_threadgroup"),
    std::string_view("max_total_threadgroups_per_mesh_grid"),
    std::string_view("stage_in"),
    std::string_view("position"),
    std::string_view("attribute"),
    std::string_view("user"),
    std::string_view("color"),
    std::string_view("depth"),
    std::string_view("stencil"),
    std::string_view("sample_mask"),
    std::string_view("sample_id"),
    std::string_view("vertex_id"),
    std::string_view("instance_id"),
    std::string_view("base_vertex"),
    std::string_view("base_instance"),
    std::string_view("primitive_id"),
    std::string_view("point_size"),
    std::string_view("point_coord"),
    std::string_view("front_facing"),
    std::string_view("clip_distance"),
    std::string_view("render_target_array_index"),
    std::string_view("viewport_array_index"),
    std::string_view("barycentric_coord"),
    std::string_view("patch"),
    std::string_view("patch_id"),
    std::string_view("position_in_patch"),
    std::string_view("flat"),
    std::string_view("center_perspective"),
    std::string_view("center_no_perspective"),
    std::string_view("centroid_perspective"),
    std::string_view("centroid_no_perspective"),
    std::string_view("sample_perspective"),
    std::string_view("sample_no_perspective"),
    std::string_view("shared"),
    std::string_view("early_fragment_tests"),
    std::string_view("raster_order_group"),
    std::string_view("imageblock_data"),
    std::string_view("imageblock"),
    std::string_view("payload"),
    std::string_view("index"),
    std::string_view("amplification_id"),
    std::string_view("amplification_count"),
    std::string_view("invariant"),
    std::string_view("primitive_data"),
    std::string_view("origin"),
    std::string_view("direction"),
    std::string_view("min_distance"),
    std::string_view("max_distance"),
    std::string_view("distance"),
    std::string_view("accept_intersection"),
    std::string_view("continue_search"),
    std::string_view("geometry_id"),
    std::string_view("world_space_origin"),
    std::string_view("world_space_direction"),
    std::string_view("threads_per_object_threadgroup"),
    std::string_view("extern_visibility"),
    std::string_view("alternate"),
    std::string_view("export"),
};

constexpr std::array standard_attributes = {
    std::string_view("maybe_unused"),
    std::string_view("fallthrough"),
    std::string_view("nodiscard"),
    std::string_view("noreturn"),
    std::string_view("deprecated"),
    std::string_view("likely"),
    std::string_view("unlikely"),
    std::string_view("clang"),
    std::string_view("gnu"),
    std::string_view("unroll"),
    std::string_view("carries_dependency"),
    std::string_view("no_unique_address"),
};

template <class Names> bool contains(const Names& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) {
        row[j] = j;
    }
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
        }
    }
    return row.back();
}

} // namespace

std::string nearest(std::string_view name, const std::vector<std::string_view>& candidates) {
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(name.size() / 3, 2) + 1;
    for (std::string_view candidate : candidates) {
        if (auto distance = edit_distance(name, candidate); distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return std::string(best);
}

AttributeClass classify_attribute(std::string_view name) {
    if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) {
        name = name.substr(2, name.size() - 4);
    }
    if (contains(position_inputs, name)) {
        return AttributeClass::position_input;
    }
    if (contains(msl_attributes, name)) {
        return AttributeClass::msl;
    }
    return contains(standard_attributes, name) ? AttributeClass::standard : AttributeClass::unknown;
}

std::string nearest_attribute(std::string_view name) {
    std::vector<std::string_view> known(position_inputs.begin(), position_inputs.end());
    known.insert(known.end(), msl_attributes.begin(), msl_attributes.end());
    return nearest(name, known);
}

std::string nearest_scalar_type(std::string_view name) {
    static const std::vector<std::string_view> scalars = {"bool", "char",  "uchar", "short", "ushort", "int",   "uint",
                                                          "long", "ulong", "half",  "float", "bfloat", "size_t"};
    return nearest(name, scalars);
}

} // namespace metalki::compiler
