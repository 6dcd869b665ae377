// Names that compiled code and the standard headers use for what the compiler lowers or the executor provides.
#pragma once

namespace metalki::compiler::runtime {

// Called by the standard headers; lowered by the passes of this folder.
inline constexpr const char* barrier = "__metalki_barrier";
inline constexpr const char* simd = "__metalki_simd";
inline constexpr const char* simd_mma = "__metalki_simd_mma";
inline constexpr const char* simd_lane = "__metalki_simd_lane";
inline constexpr const char* input = "__metalki_input";
inline constexpr const char* is_defined = "__metalki_is_defined";
inline constexpr const char* threadgroup_memory = "__metalki_threadgroup_memory";

// Put in and taken out again while a kernel is optimised for the vectoriser.
inline constexpr const char* meeting_point = "__metalki_meeting_point";

// Provided by the executor; see kernel_abi.hpp.
inline constexpr const char* rt_barrier = "__metalki_rt_barrier";
inline constexpr const char* rt_simd = "__metalki_rt_simd";
inline constexpr const char* rt_simd_mma = "__metalki_rt_simd_mma";
inline constexpr const char* rt_converge = "__metalki_rt_converge";
inline constexpr const char* rt_log = "__metalki_rt_log"; // called by the standard headers directly

} // namespace metalki::compiler::runtime
