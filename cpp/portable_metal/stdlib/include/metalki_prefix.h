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
#include <metal_logging>
#include <metalki_builtins.h>
#include <metalki_entry.h>
#endif
