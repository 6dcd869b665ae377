// Asks for what later iterations of a loop read, while this one computes.
#pragma once

#include <cstdint>

#include "llvm/IR/Function.h"
#include "llvm/IR/PassManager.h"

namespace metalki::compiler::vectorize {

// Levels of the caches, as llvm.prefetch counts them; and bytes ahead in a stream, which a processor follows to the end of its
// page only: what is asked for a page ahead has not come yet.
inline constexpr unsigned into_first_level = 3, into_second_level = 2;
inline constexpr std::int64_t pages_on = 8192;

// On a prepared kernel, before it is widened: adds llvm.prefetch, for each lane.
void prefetch_later_iterations(llvm::Function& kernel, llvm::FunctionAnalysisManager& analyses);

} // namespace metalki::compiler::vectorize
