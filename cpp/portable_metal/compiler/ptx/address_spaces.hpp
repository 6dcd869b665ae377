// Which memory a pointer points at: loads and stores that know it are faster than those that have to find out.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler::ptx {

// Infers spaces from parameters and variables on. A pointer that lies in a buffer points at device memory, because kernels
// cannot keep pointers to their own or to threadgroup memory there.
void infer_address_spaces(llvm::Module& module, llvm::TargetMachine& machine);

} // namespace metalki::compiler::ptx
