// See the header.
#include "codegen/mask_values.hpp"

#include <map>
#include <vector>

#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/PatternMatch.h"

namespace metalki::compiler {
namespace {

class Masks {
public:
    Masks(llvm::Function& function, unsigned longest) : function_(function), builder_(function.getContext()) {
        for (llvm::Instruction& instruction : llvm::instructions(function)) {
            auto* type = llvm::dyn_cast<llvm::FixedVectorType>(instruction.getType());
            if (type && type->getElementType()->isIntegerTy(1) && type->getNumElements() > longest) {
                masks_.push_back(&instruction);
            }
        }
    }

    void find_bits_once() {
        for (llvm::Instruction* mask : masks_) {
            std::vector<llvm::Instruction*> known;
            for (llvm::User* user : mask->users()) {
                if (llvm::isa<llvm::BitCastInst>(user) && user->getType()->isIntegerTy()) {
                    known.push_back(llvm::cast<llvm::Instruction>(user));
                }
            }
            if (known.empty()) {
                continue;
            }
            place_behind(*mask);
            llvm::Value* bits = builder_.CreateBitCast(mask, known.front()->getType());
            for (llvm::Instruction* again : known) {
                again->replaceAllUsesWith(bits);
                again->eraseFromParent();
            }
        }
    }

    void pass_as_numbers() {
        for (llvm::Instruction* mask : masks_) {
            if (auto* phi = llvm::dyn_cast<llvm::PHINode>(mask)) {
                builder_.SetInsertPoint(phi);
                numbers_[phi] = builder_.CreatePHI(number_type(*phi), phi->getNumIncomingValues());
            }
        }
        for (llvm::Instruction* mask : masks_) {
            if (!llvm::isa<llvm::PHINode>(mask) && leaves_block(*mask)) {
                place_behind(*mask);
                numbers_[mask] = builder_.CreateSExt(mask, number_type(*mask));
            }
        }
        for (llvm::Instruction* mask : masks_) {
            if (auto* phi = llvm::dyn_cast<llvm::PHINode>(mask)) {
                fill(*phi);
            }
        }
        for (auto& [mask, number] : numbers_) {
            replace_uses(*mask, *number);
        }
        for (llvm::Instruction* mask : masks_) {
            if (llvm::isa<llvm::PHINode>(mask)) {
                mask->replaceAllUsesWith(llvm::PoisonValue::get(mask->getType())); // phis that are gone too
                mask->eraseFromParent();
            }
        }
    }

private:
    llvm::Type* number_type(const llvm::Value& mask) {
        return llvm::FixedVectorType::get(builder_.getInt32Ty(),
                                          llvm::cast<llvm::FixedVectorType>(mask.getType())->getNumElements());
    }

    void place_behind(llvm::Instruction& instruction) {
        if (llvm::isa<llvm::PHINode>(instruction)) {
            builder_.SetInsertPoint(instruction.getParent(), instruction.getParent()->getFirstInsertionPt());
        } else {
            builder_.SetInsertPoint(instruction.getNextNode());
        }
    }

    static bool leaves_block(const llvm::Instruction& mask) {
        for (const llvm::Use& use : mask.uses()) {
            const auto* user = llvm::cast<llvm::Instruction>(use.getUser());
            if (llvm::isa<llvm::PHINode>(user) || user->getParent() != mask.getParent()) {
                return true;
            }
        }
        return false;
    }

    void fill(llvm::PHINode& phi) {
        auto* number = llvm::cast<llvm::PHINode>(numbers_.at(&phi));
        for (unsigned i = 0; i < phi.getNumIncomingValues(); ++i) {
            llvm::Value* mask = phi.getIncomingValue(i);
            auto* made_by = llvm::dyn_cast<llvm::Instruction>(mask);
            auto found = made_by ? numbers_.find(made_by) : numbers_.end();
            if (found == numbers_.end()) {
                builder_.SetInsertPoint(phi.getIncomingBlock(i)->getTerminator());
                number->addIncoming(builder_.CreateSExt(mask, number_type(phi)), phi.getIncomingBlock(i));
            } else {
                number->addIncoming(found->second, phi.getIncomingBlock(i));
            }
        }
    }

    // In other blocks, and in its own if it is a phi: the mask is read from the number, once a block.
    void replace_uses(llvm::Instruction& mask, llvm::Value& number) {
        std::map<llvm::BasicBlock*, llvm::Value*> read;
        for (llvm::Use& use : llvm::make_early_inc_range(mask.uses())) {
            auto* user = llvm::cast<llvm::Instruction>(use.getUser());
            llvm::BasicBlock* block = user->getParent();
            bool own = block == mask.getParent() && !llvm::isa<llvm::PHINode>(mask);
            if (&number == user || own || llvm::isa<llvm::PHINode>(user)) {
                continue;
            }
            llvm::Value*& again = read[block];
            if (!again) {
                builder_.SetInsertPoint(block, block->getFirstInsertionPt());
                again = builder_.CreateICmpSLT(&number, llvm::Constant::getNullValue(number.getType()));
            }
            use.set(again);
        }
    }

    llvm::Function& function_;
    llvm::IRBuilder<> builder_;
    std::vector<llvm::Instruction*> masks_;
    std::map<llvm::Instruction*, llvm::Value*> numbers_;
};

// Whether any or all lanes are on: a maximum or minimum of numbers, where bits have to be collected one by one.
void ask_numbers(llvm::Function& function, unsigned longest) {
    using namespace llvm::PatternMatch;
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
        auto* question = llvm::dyn_cast<llvm::ICmpInst>(&instruction);
        llvm::Value* mask = nullptr;
        if (!question || !question->isEquality() || !match(question->getOperand(0), m_BitCast(m_Value(mask)))) {
            continue;
        }
        auto* type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
        bool any = match(question->getOperand(1), m_Zero()), all = match(question->getOperand(1), m_AllOnes());
        if (!type || !type->getElementType()->isIntegerTy(1) || type->getNumElements() <= longest || !(any || all)) {
            continue;
        }
        llvm::IRBuilder<> builder(question);
        llvm::Value* numbers =
            builder.CreateSExt(mask, llvm::FixedVectorType::get(builder.getInt32Ty(), type->getNumElements()));
        llvm::Value* found = any ? builder.CreateIntMaxReduce(numbers) : builder.CreateIntMinReduce(numbers);
        llvm::Value* expected = any ? builder.getInt32(0) : builder.getInt32(-1);
        question->replaceAllUsesWith(builder.CreateICmp(question->getPredicate(), found, expected));
        question->eraseFromParent();
    }
}

} // namespace

void keep_masks_as_numbers(llvm::Function& function, llvm::TargetMachine& machine) {
    llvm::TargetTransformInfo target = machine.getTargetTransformInfo(function);
    constexpr unsigned bits_a_lane = 8;
    const unsigned longest = static_cast<unsigned>(
        target.getRegisterBitWidth(llvm::TargetTransformInfo::RGK_FixedWidthVector).getFixedValue() / bits_a_lane);
    Masks masks(function, longest);
    masks.find_bits_once();
    if (machine.getTargetTriple().isAArch64()) {
        ask_numbers(function, longest);
    }
    masks.pass_as_numbers();
}

} // namespace metalki::compiler
