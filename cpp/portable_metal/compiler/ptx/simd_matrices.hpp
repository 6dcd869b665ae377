// 8x8 matrix products of a SIMD-group.
#pragma once

#include "llvm/IR/Function.h"
#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// Before optimisation: the products' results are pairs of floats, whatever the C++ calling convention of the host makes of
// them.
void declare_matrix_products(llvm::Module& module);

// Replaces the calls that multiply and accumulate. Products of halfs and of bfloats go to the tensor cores, which add up in
// float as exactly as they do; all others are fused multiply-adds in float. All lanes have to be active, as MSL demands.
void lower_simd_matrices(llvm::Function& thread, unsigned architecture);

} // namespace metalki::compiler::ptx
