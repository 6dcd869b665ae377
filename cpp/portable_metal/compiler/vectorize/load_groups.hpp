// Loads of a block that read neighbouring memory in every lane, so that one wider load can serve them.
#pragma once

#include <unordered_map>
#include <vector>

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

#include "vectorize/divergence.hpp"

namespace metalki::compiler::vectorize {

struct LoadGroup {
    const llvm::LoadInst* leader = nullptr;   // the first to run; it can stand for all
    std::vector<const llvm::LoadInst*> loads; // by address, without gaps
    std::int64_t start = 0;                   // bytes from the leader's address to the lowest one
    llvm::Type* element = nullptr;            // of all of them; vectors count as their components
    unsigned count = 0;                       // elements in all
};

class LoadGroups {
public:
    LoadGroups(llvm::Function& kernel, const Divergence& divergence, llvm::AAResults& aliases);

    // Null for a load that stays alone.
    const LoadGroup* group_of(const llvm::LoadInst& load) const;

private:
    std::vector<LoadGroup> groups_;
    std::unordered_map<const llvm::LoadInst*, std::size_t> of_load_;
};

} // namespace metalki::compiler::vectorize
