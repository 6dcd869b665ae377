// The same matrix in two layouts: as MSL's lanes hold it, and as the tensor cores take it.
//
// Lane l of a SIMD-group holds two neighbours of a row (kernel_abi.hpp). Written in the bits of the lane's number,
// l = (b4 b3 b2 b1 b0), their row is (b4 b2 b1) and their pair of columns (b3 b0). In the tensor cores' fragments the row is
// (b4 b3 b2) and the pair (b1 b0): the same elements, in other lanes.
//
// A matrix that only goes from one product to the next, around loops as well, never changes its layout.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "llvm/IR/Instructions.h"
#include "llvm/IR/ValueHandle.h"

#include "ptx/builder.hpp"
#include "ptx/convergent_places.hpp"

namespace metalki::compiler::ptx {

using Pair = std::array<llvm::Value*, 2>;

class MatrixFragments {
public:
    MatrixFragments(llvm::Function& function, llvm::ArrayRef<llvm::CallInst*> products);

    // Two halfs or bfloats in one word: as A wants them, and as B does. All lanes come to `user` together.
    llvm::Value* row_fragment(const Pair& elements, const llvm::Instruction& user);
    llvm::Value* column_fragment(const Pair& elements, const llvm::Instruction& user);
    // Two floats.
    Pair accumulator(const Pair& elements, const llvm::Instruction& user);

    // `fragment` is the result of the product `call`, whose arguments are not needed any more.
    void set_result(llvm::CallInst& call, const Pair& fragment);
    // After all products: lets go of the old calls; what else uses their results gets them in MSL's layout.
    void finish();

    llvm::Value* lane() const { return lane_; }

private:
    Pair of_vector(llvm::Value* vector, const llvm::Instruction& user);
    Pair of_phis(llvm::PHINode& first, llvm::PHINode& second);
    Pair of_vector_phi(llvm::PHINode& phi);
    Pair shuffled(const Pair& elements, const llvm::Instruction& user);
    llvm::Value* packed(WarpBuilder& builder, const Pair& elements);
    llvm::Instruction* place_for(const Pair& elements, const llvm::Instruction& user) const;
    bool reach(llvm::ArrayRef<llvm::Value*> known, const llvm::Instruction& user) const;
    llvm::Value* lane_of_bits(WarpBuilder& builder, std::array<unsigned, 5> sources);
    llvm::Value* bit(WarpBuilder& builder, unsigned from, unsigned to);
    void convert_phis_of_results();
    void fill_phis();
    llvm::Value* in_lanes(WarpBuilder& builder, const Pair& fragment, int element, llvm::Type& type);
    void replace_other_uses(llvm::Value& old, const Pair& fragment, int element);

    const ConvergentPlaces places_;
    llvm::Value* lane_ = nullptr;
    llvm::Value *holder_ = nullptr, *fragment_lane_ = nullptr;
    std::map<Pair, llvm::Value*> rows_, columns_;
    std::map<Pair, Pair> accumulators_;
    std::map<llvm::Value*, Pair> vectors_;
    struct Converted {
        bool is_vector;
        std::array<llvm::WeakVH, 2> old; // one for a vector
        std::array<llvm::PHINode*, 2> made;
    };
    std::vector<Converted> phis_;
    std::size_t filled_ = 0;
    std::vector<std::pair<llvm::WeakVH, Pair>> results_; // of the old calls
};

} // namespace metalki::compiler::ptx
