// Everything of the MSL standard library: the compiler precompiles this file once per process.
#ifndef METALKI_PREFIX_H
#define METALKI_PREFIX_H
#pragma clang system_header
#include <metal_config>
#include <metal_type_traits>
#include <metal_limits>
#include <metal_types>
#include <metal_common>
#include <metal_math>
#include <metal_integer>
#include <metal_relational>
#include <metal_geometric>
#include <metal_matrix>
#include <metal_pack>
#include <metal_compute>
#include <metal_atomic>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
#include <metal_array>
#include <metal_texture>
#include <metalki_graphics.h>
#include <metalki_raytracing.h>
#include <metalki_simd_names.h>
#include <metal_logging>
#include <metalki_builtins.h>
#include <metalki_entry.h>

// Names of the machine and of the language mode that Clang is in are no part of MSL.
#undef __linux__
#undef __linux
#undef linux
#undef __gnu_linux__
#undef __unix__
#undef __unix
#undef unix
#undef __ELF__
#undef __x86_64__
#undef __x86_64
#undef __amd64__
#undef __amd64
#undef __aarch64__
#undef __SYCL_DEVICE_ONLY__
#undef SYCL_LANGUAGE_VERSION
#endif
