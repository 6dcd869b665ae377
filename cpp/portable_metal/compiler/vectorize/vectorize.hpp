// The vectoriser: a kernel for one thread in, entries that run whole SIMD-groups out.
#pragma once

#include <string>

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include "vectorize/shape.hpp"

namespace metalki::compiler::vectorize {

// What a kernel asks about its place decides how it may be run.
struct Demands {
    bool barriers = false;
    bool threadgroups = false; // asks for anything that belongs to a threadgroup or SIMD-group
};
Demands demands_of(const llvm::Function& kernel);

// Takes apart a copy of nothing: `kernel` must be in the form that prepare() makes and is left as it is. Adds the entry `name`
// to its module and returns it. Throws Unsupported when the kernel has to run thread by thread.
llvm::Function& vectorize(llvm::Function& kernel, const Geometry& geometry, const std::string& name,
                          llvm::TargetMachine& machine);

} // namespace metalki::compiler::vectorize
