// Loops as they stand in the source.
#pragma once

#include <vector>

#include "llvm/IR/Module.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/IR/ValueMap.h"

namespace metalki::compiler {

// The loops of a module, and when each of its blocks was written.
struct SourceLoops {
    struct Loop {
        llvm::WeakTrackingVH header;
        unsigned end; // number of this loop's end: its blocks were written before
    };
    std::vector<Loop> loops;                                   // inner ones before those around them
    llvm::ValueMap<const llvm::BasicBlock*, unsigned> written; // the first end of a loop that came after the block
};

// `if (c) { r = simd_sum(x); break; }`: to LLVM this does not lie in the loop, as no way leads from there into the next
// iteration, and the lanes of all iterations would come to the sum together. Where a SIMD-group function stands so, lanes leave
// by way of the end of their iteration.
void keep_loops_whole(llvm::Module& module, SourceLoops& loops);

} // namespace metalki::compiler
