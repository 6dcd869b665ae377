// See the header.
#include "vectorize/exchanges.hpp"

#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::vectorize {
namespace {

using llvm::Instruction;

using Steps = llvm::SmallSetVector<Instruction*, 8>;

// The steps from an exclusive or to the address; none: there is no such address.
Steps steps_of(llvm::Value* address) {
    Steps out;
    std::vector<llvm::Value*> open{address};
    bool found = false;
    while (!open.empty()) {
        auto* step = llvm::dyn_cast<Instruction>(open.back());
        open.pop_back();
        if (!step) {
            continue;
        }
        switch (step->getOpcode()) {
        case Instruction::Xor:
            found = true;
            out.insert(step);
            break;
        case Instruction::GetElementPtr:
        case Instruction::ZExt:
        case Instruction::SExt:
        case Instruction::Add:
            if (out.insert(step)) {
                open.insert(open.end(), step->op_begin(), step->op_end());
            }
            break;
        default:
            break;
        }
    }
    return found ? out : Steps();
}

void compute_again(Instruction& access, unsigned operand) {
    const Steps steps = steps_of(access.getOperand(operand));
    if (llvm::all_of(steps, [&](const Instruction* step) { return step->getParent() == access.getParent(); })) {
        return;
    }
    llvm::DenseMap<llvm::Value*, Instruction*> copies; // numbers are added up in many ways: each step is cloned once
    auto clone = [&](auto& self, llvm::Value* value) -> llvm::Value* {
        auto* step = llvm::dyn_cast<Instruction>(value);
        if (!step || !steps.contains(step)) {
            return value;
        }
        if (Instruction* known = copies.lookup(step)) {
            return known;
        }
        Instruction* copy = step->clone();
        if (step->getOpcode() != Instruction::Xor) {
            for (llvm::Use& use : copy->operands()) {
                use.set(self(self, use.get()));
            }
        }
        copy->setName(step->getName());
        copy->insertBefore(&access);
        return copies[step] = copy;
    };
    access.setOperand(operand, clone(clone, access.getOperand(operand)));
}

} // namespace

void bring_exchanges_near(llvm::Function& kernel) {
    std::vector<Instruction*> accesses;
    for (Instruction& instruction : llvm::instructions(kernel)) {
        if (llvm::isa<llvm::LoadInst, llvm::StoreInst>(instruction)) {
            accesses.push_back(&instruction);
        }
    }
    for (Instruction* access : accesses) {
        compute_again(*access, llvm::isa<llvm::LoadInst>(access) ? llvm::LoadInst::getPointerOperandIndex()
                                                                 : llvm::StoreInst::getPointerOperandIndex());
    }
}

} // namespace metalki::compiler::vectorize
