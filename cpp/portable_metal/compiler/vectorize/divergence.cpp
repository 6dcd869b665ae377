// An optimistic fixed point: everything is uniform until a reason to the contrary is found.
#include "vectorize/divergence.hpp"

#include <algorithm>

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MathExtras.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "vectorize/private_arrays.hpp"

namespace metalki::compiler::vectorize {
namespace {

std::uint64_t number_argument(const llvm::CallInst& call, unsigned index) {
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(index));
    return number ? number->getZExtValue() : ~std::uint64_t{0};
}

Shape shape_of_thread_input(const llvm::CallInst& call, const Geometry& geometry) {
    auto which = static_cast<unsigned>(number_argument(call, 0));
    if (which < unsigned(ThreadInput::index_in_threadgroup)) {
        return shape_of_input(static_cast<ThreadInput>(which / 3 * 3), which % 3, geometry);
    }
    return shape_of_input(static_cast<ThreadInput>(which), 0, geometry);
}

// Same for all active lanes?
bool is_uniform_operation(const llvm::CallInst& call, bool uniform_lane) {
    if (number_argument(call, 2) != simd_width) {
        return false;
    }
    switch (static_cast<SimdOp>(number_argument(call, 0))) {
    case SimdOp::shuffle:
        return uniform_lane;
    case SimdOp::broadcast_first:
    case SimdOp::sum:
    case SimdOp::product:
    case SimdOp::min:
    case SimdOp::max:
    case SimdOp::bit_and:
    case SimdOp::bit_or:
    case SimdOp::bit_xor:
    case SimdOp::ballot:
    case SimdOp::barrier:
        return true;
    default:
        return false;
    }
}

} // namespace

std::uint64_t lane_stride(const llvm::AllocaInst& array, const llvm::DataLayout& layout) {
    std::uint64_t size = array.getAllocationSize(layout)->getFixedValue();
    return llvm::alignTo(std::max<std::uint64_t>(size, 1), array.getAlign().value());
}

Divergence::Divergence(llvm::Function& kernel, llvm::LoopInfo& loops, const Geometry& geometry)
    : kernel_(kernel), layout_(kernel.getParent()->getDataLayout()), geometry_(geometry), regions_(kernel, loops) {
    for (const llvm::Instruction& instruction : kernel.getEntryBlock()) {
        if (const auto* array = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
            interleaving_[array] = interleaving_of(*array, layout_);
        }
    }
    run();
}

unsigned Divergence::interleaving(const llvm::AllocaInst* array) const {
    auto found = interleaving_.find(array);
    return found == interleaving_.end() ? 0 : found->second;
}

const llvm::AllocaInst* Divergence::interleaved_base(const llvm::Value* address) const {
    while (const auto* step = llvm::dyn_cast<llvm::GetElementPtrInst>(address)) {
        address = step->getPointerOperand();
    }
    const auto* array = llvm::dyn_cast<llvm::AllocaInst>(address);
    return array && interleaving(array) ? array : nullptr;
}

Shape Divergence::shape_of(const llvm::Value* value) const {
    if (const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value)) {
        auto found = shapes_.find(instruction);
        return found == shapes_.end() ? Shape() : found->second;
    }
    if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(value)) {
        return Shape::uniform(std::min(number->getValue().countr_zero(), 63u));
    }
    return Shape::uniform();
}

void Divergence::run() {
    llvm::ReversePostOrderTraversal<llvm::Function*> order(&kernel_);
    auto is_divergent = [&](const llvm::BasicBlock* block) {
        const auto* branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
        return branch && branch->isConditional() && !shape_of(branch->getCondition()).is_uniform() &&
               shape_of(branch->getCondition()).kind != Shape::Kind::unknown;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (const llvm::BasicBlock* block : order) {
            for (const llvm::Instruction& instruction : *block) {
                changed |= update(instruction);
            }
        }
        if (!changed) {
            auto count = [&] {
                std::size_t total = 0;
                for (const llvm::BasicBlock& block : kernel_) {
                    total += regions_.is_join(&block) + regions_.is_divergent_exit(&block);
                }
                return total;
            };
            std::size_t before = count();
            regions_.update(is_divergent);
            std::size_t after = count();
            changed = before != after;
        }
    }
    regions_.find_full_loops(is_divergent);
}

bool Divergence::update(const llvm::Instruction& instruction) {
    Shape& known = shapes_[&instruction];
    if (known.is_varying()) {
        return false;
    }
    Shape found = compute(instruction);
    if (found == known || found.kind == Shape::Kind::unknown) {
        return false;
    }
    known = found;
    return true;
}

Shape Divergence::compute(const llvm::Instruction& instruction) const {
    auto lookup = [&](const llvm::Value* value) { return shape_of(value); };
    if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(&instruction)) {
        return shape_of_phi(*phi);
    }
    if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction)) {
        return shape_of_call(*call);
    }
    if (const auto* array = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
        return shape_of_array(*array);
    }
    if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst, llvm::VAArgInst>(instruction)) {
        return Shape::varying();
    }
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
        return shape_of_load(*load);
    }
    if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction); address && interleaved_base(address)) {
        return shape_of_interleaved_address(*address);
    }
    return shape_of_operation(instruction, lookup, layout_);
}

// Numbers that lead to other memory are loaded once for all lanes of a part; values that are computed with are wanted by each.
Shape Divergence::shape_of_load(const llvm::LoadInst& load) const {
    Shape address = shape_of(load.getPointerOperand());
    if (address.is_uniform() || !address.is_compact()) {
        return address.is_uniform() ? Shape::uniform() : address;
    }
    bool leads_on = load.isSimple() && (load.getType()->isIntegerTy() || load.getType()->isPointerTy()) && only_addresses(load);
    return leads_on ? constant_in_parts({address}) : Shape::varying();
}

Shape Divergence::shape_of_array(const llvm::AllocaInst& array) const {
    if (unsigned element = interleaving(&array)) {
        return Shape::linear(element);
    }
    return Shape::linear(static_cast<std::int64_t>(lane_stride(array, layout_)));
}

// A step of one element passes the copies of all lanes.
Shape Divergence::shape_of_interleaved_address(const llvm::GetElementPtrInst& address) const {
    Shape start = shape_of(address.getPointerOperand());
    auto only_steps = [&](const llvm::Value* value) {
        return value == address.getPointerOperand() ? Shape::uniform() : shape_of(value);
    };
    Shape steps = shape_of_operation(address, only_steps, layout_);
    if (!start.has_scalar() || !steps.has_scalar()) {
        return start.kind == Shape::Kind::unknown || steps.kind == Shape::Kind::unknown ? Shape() : Shape::varying();
    }
    Shape out = start;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        out.offsets[lane] += steps.offsets[lane] * lanes;
    }
    return out;
}

Shape Divergence::shape_of_phi(const llvm::PHINode& phi) const {
    const llvm::BasicBlock* block = phi.getParent();
    if (regions_.is_divergent_exit(block)) {
        return Shape::varying();
    }
    bool same_value = true;
    Shape out;
    for (const llvm::Value* incoming : phi.incoming_values()) {
        same_value &= incoming == phi.getIncomingValue(0);
        Shape shape = llvm::isa<llvm::UndefValue>(incoming) ? Shape() : shape_of(incoming);
        if (shape.kind == Shape::Kind::unknown) {
            continue;
        }
        if (out.kind == Shape::Kind::unknown) {
            out = shape;
        } else if (out = join(out, shape); out.is_varying()) {
            return out;
        }
    }
    if (regions_.is_join(block) && !same_value) {
        return Shape::varying();
    }
    return out;
}

Shape Divergence::shape_of_call(const llvm::CallInst& call) const {
    llvm::StringRef name = callee_name(call);
    if (name == runtime::input) {
        return shape_of_thread_input(call, geometry_);
    }
    if (name == runtime::simd_lane) {
        return shape_of_input(ThreadInput::index_in_simdgroup, 0, geometry_);
    }
    if (name == runtime::threadgroup_memory || call.getType()->isVoidTy()) {
        return Shape::uniform();
    }
    if (name == runtime::simd) {
        Shape lane = shape_of(call.getArgOperand(5));
        if (lane.kind == Shape::Kind::unknown) {
            return Shape();
        }
        return is_uniform_operation(call, lane.is_uniform()) ? Shape::uniform() : Shape::varying();
    }
    bool pure = call.doesNotAccessMemory() && !call.isConvergent();
    std::vector<Shape> arguments;
    for (const llvm::Use& argument : call.args()) {
        arguments.push_back(shape_of(argument.get()));
        if (arguments.back().kind == Shape::Kind::unknown) {
            return Shape();
        }
    }
    Shape out = pure ? constant_in_parts(arguments) : Shape::varying();
    return out.is_parts() && !llvm::isa<llvm::MinMaxIntrinsic>(call) ? Shape::varying() : out;
}

} // namespace metalki::compiler::vectorize
