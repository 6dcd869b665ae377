// Shapes of all values of a kernel and the masks its control flow needs: both are found together, as each depends on the other.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

#include "vectorize/regions.hpp"
#include "vectorize/shape.hpp"

namespace metalki::compiler::vectorize {

class Divergence {
public:
    Divergence(llvm::Function& kernel, llvm::LoopInfo& loops, const Geometry& geometry);

    Shape shape_of(const llvm::Value* value) const;
    const Regions& regions() const { return regions_; }
    const Geometry& geometry() const { return geometry_; }

    // Element size of a private array whose lanes are interleaved ([index][lane]), 0 for one that lies lane after lane.
    unsigned interleaving(const llvm::AllocaInst* array) const;
    // The interleaved array that an address points into, or null.
    const llvm::AllocaInst* interleaved_base(const llvm::Value* address) const;

private:
    void run();
    bool update(const llvm::Instruction& instruction);
    Shape compute(const llvm::Instruction& instruction) const;
    Shape shape_of_phi(const llvm::PHINode& phi) const;
    Shape shape_of_call(const llvm::CallInst& call) const;
    Shape shape_of_load(const llvm::LoadInst& load) const;
    Shape shape_of_array(const llvm::AllocaInst& array) const;
    Shape shape_of_interleaved_address(const llvm::GetElementPtrInst& address) const;

    llvm::Function& kernel_;
    const llvm::DataLayout& layout_;
    Geometry geometry_;
    Regions regions_;
    std::unordered_map<const llvm::Value*, Shape> shapes_;
    std::map<const llvm::AllocaInst*, unsigned> interleaving_;
};

// Bytes between the lanes' copies of a private array that lies lane after lane.
std::uint64_t lane_stride(const llvm::AllocaInst& array, const llvm::DataLayout& layout);

} // namespace metalki::compiler::vectorize
