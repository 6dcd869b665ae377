// See the header.
#include "vectorize/exchanges.hpp"

#include <vector>

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::vectorize {
namespace {

using llvm::Instruction;

// The steps from an exclusive or to the address, the last one first; none: there is no such address.
std::vector<Instruction*> steps_of(llvm::Value* address) {
    std::vector<Instruction*> out;
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
            out.push_back(step);
            break;
        case Instruction::GetElementPtr:
        case Instruction::ZExt:
        case Instruction::SExt:
        case Instruction::Add:
            out.push_back(step);
            open.insert(open.end(), step->op_begin(), step->op_end());
            break;
        default:
            break;
        }
    }
    return found ? out : std::vector<Instruction*>();
}

void compute_again(Instruction& access, unsigned operand) {
    std::vector<Instruction*> steps = steps_of(access.getOperand(operand));
    bool all_here = true;
    for (const Instruction* step : steps) {
        all_here &= step->getParent() == access.getParent();
    }
    if (all_here) {
        return;
    }
    // A step that several others take is cloned once for each of them.
    auto clone = [&](auto& self, llvm::Value* value) -> llvm::Value* {
        auto* step = llvm::dyn_cast<Instruction>(value);
        if (!step || std::find(steps.begin(), steps.end(), step) == steps.end()) {
            return value;
        }
        Instruction* copy = step->clone();
        if (step->getOpcode() != Instruction::Xor) {
            for (llvm::Use& use : copy->operands()) {
                use.set(self(self, use.get()));
            }
        }
        copy->setName(step->getName());
        copy->insertBefore(&access);
        return copy;
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
