// See the header: division, shifts, alignment.
#include "codegen/defined_behaviour.hpp"

#include <vector>

#include "llvm/IR/AttributeMask.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PatternMatch.h"

namespace metalki::compiler {
namespace {

bool is_safe_divisor(const llvm::Value* divisor) {
    const llvm::APInt* number = nullptr;
    return llvm::PatternMatch::match(divisor, llvm::PatternMatch::m_APInt(number)) && !number->isZero() && !number->isAllOnes();
}

// x / 0 becomes x / 1, and so does the one signed quotient that overflows: MSL leaves both values open.
void guard_division(llvm::BinaryOperator& division) {
    llvm::Value* divisor = division.getOperand(1);
    if (is_safe_divisor(divisor)) {
        return;
    }
    llvm::IRBuilder<> builder(&division);
    llvm::Type* type = divisor->getType();
    llvm::Value* bad = builder.CreateICmpEQ(divisor, llvm::Constant::getNullValue(type));
    bool is_signed = division.getOpcode() == llvm::Instruction::SDiv || division.getOpcode() == llvm::Instruction::SRem;
    if (is_signed) {
        auto lowest = llvm::APInt::getSignedMinValue(type->getScalarSizeInBits());
        llvm::Value* overflows =
            builder.CreateAnd(builder.CreateICmpEQ(divisor, llvm::Constant::getAllOnesValue(type)),
                              builder.CreateICmpEQ(division.getOperand(0), llvm::ConstantInt::get(type, lowest)));
        bad = builder.CreateOr(bad, overflows);
    }
    division.setOperand(1, builder.CreateSelect(bad, llvm::ConstantInt::get(type, 1), divisor));
    division.setIsExact(false);
}

void mask_shift(llvm::BinaryOperator& shift) {
    llvm::Value* amount = shift.getOperand(1);
    unsigned width = amount->getType()->getScalarSizeInBits();
    if (width < 8 || (width & (width - 1)) != 0) {
        return;
    }
    llvm::IRBuilder<> builder(&shift);
    shift.setOperand(1, builder.CreateAnd(amount, llvm::ConstantInt::get(amount->getType(), width - 1)));
}

// The array in a thread's own memory that `address` steps into, or null.
bool is_in_own_array(const llvm::GetElementPtrInst& address) {
    const llvm::Value* base = address.getPointerOperand();
    while (const auto* outer = llvm::dyn_cast<llvm::GEPOperator>(base)) {
        base = outer->getPointerOperand();
    }
    return llvm::isa<llvm::AllocaInst>(base);
}

// x[i] beyond the end of a thread's own array becomes x[0]: on a GPU it does no harm to others, here it would overwrite the
// stack. Kernels in use do it: they fill up rows with a loop that starts below zero.
void keep_inside_array(llvm::GetElementPtrInst& address) {
    llvm::Type* type = address.getSourceElementType();
    for (unsigned i = 2; i < address.getNumOperands(); ++i) {
        llvm::Value* index = address.getOperand(i);
        if (auto* structure = llvm::dyn_cast<llvm::StructType>(type)) {
            type = structure->getElementType(static_cast<unsigned>(llvm::cast<llvm::ConstantInt>(index)->getZExtValue()));
            continue;
        }
        auto* array = llvm::dyn_cast<llvm::ArrayType>(type);
        if (!array) {
            return;
        }
        if (!llvm::isa<llvm::Constant>(index) && array->getNumElements() > 0) {
            llvm::IRBuilder<> builder(&address);
            llvm::Value* inside =
                builder.CreateICmpULT(index, llvm::ConstantInt::get(index->getType(), array->getNumElements()));
            address.setOperand(i, builder.CreateSelect(inside, index, llvm::Constant::getNullValue(index->getType())));
        }
        type = array->getElementType();
    }
}

llvm::Align element_alignment(llvm::Type* type, const llvm::DataLayout& layout) {
    return llvm::Align(
        std::max<std::uint64_t>(1, llvm::PowerOf2Ceil(layout.getTypeStoreSize(type->getScalarType()).getFixedValue())));
}

// Of an access to a vector, or of a copy of which only the alignment tells what is copied: a vector of four, at most.
llvm::Align relaxed(llvm::Align declared, llvm::Align of_element, Alignment alignment) {
    constexpr std::uint64_t wide = 8;
    return alignment == Alignment::of_elements_if_wide && declared.value() < wide ? declared : std::min(declared, of_element);
}
llvm::Align of_copied_elements(llvm::MaybeAlign declared, Alignment alignment) {
    const llvm::Align known = declared.valueOrOne();
    return alignment == Alignment::of_elements
               ? llvm::Align(1)
               : relaxed(known, llvm::Align(std::max<std::uint64_t>(1, known.value() / 4)), alignment);
}

void relax_alignment(llvm::Instruction& instruction, const llvm::DataLayout& layout, Alignment alignment) {
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction); load && load->getType()->isVectorTy()) {
        load->setAlignment(relaxed(load->getAlign(), element_alignment(load->getType(), layout), alignment));
    } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
               store && store->getValueOperand()->getType()->isVectorTy()) {
        store->setAlignment(
            relaxed(store->getAlign(), element_alignment(store->getValueOperand()->getType(), layout), alignment));
    } else if (auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(&instruction)) {
        copy->setDestAlignment(of_copied_elements(copy->getDestAlign(), alignment));
        copy->setSourceAlignment(of_copied_elements(copy->getSourceAlign(), alignment));
    } else if (auto* fill = llvm::dyn_cast<llvm::MemSetInst>(&instruction)) {
        fill->setDestAlignment(of_copied_elements(fill->getDestAlign(), alignment));
    }
}

void drop_pointer_promises(llvm::Function& function) {
    llvm::AttributeMask promises;
    promises.addAttribute(llvm::Attribute::Alignment);
    promises.addAttribute(llvm::Attribute::Dereferenceable);
    promises.addAttribute(llvm::Attribute::NonNull);
    for (llvm::Argument& argument : function.args()) {
        if (!argument.hasByValAttr() && !argument.hasStructRetAttr()) {
            function.removeParamAttrs(argument.getArgNo(), promises);
        }
    }
    function.removeRetAttrs(promises);
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
        auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
        if (!call || llvm::isa<llvm::IntrinsicInst>(call)) {
            continue;
        }
        call->removeRetAttrs(promises);
        for (unsigned i = 0; i < call->arg_size(); ++i) {
            if (!call->isByValArgument(i) && !call->paramHasAttr(i, llvm::Attribute::StructRet)) {
                call->removeParamAttrs(i, promises);
            }
        }
    }
}

} // namespace

void define_behaviour(llvm::Module& module, Alignment alignment) {
    for (llvm::Function& function : module) {
        if (function.isDeclaration()) {
            continue;
        }
        std::vector<llvm::BinaryOperator*> divisions, shifts;
        std::vector<llvm::GetElementPtrInst*> addresses;
        for (llvm::Instruction& instruction : llvm::instructions(function)) {
            relax_alignment(instruction, module.getDataLayout(), alignment);
            if (auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction); address && is_in_own_array(*address)) {
                addresses.push_back(address);
            }
            auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(&instruction);
            if (operation && operation->isIntDivRem()) {
                divisions.push_back(operation);
            } else if (operation && operation->isShift() && !llvm::isa<llvm::Constant>(operation->getOperand(1))) {
                shifts.push_back(operation);
            }
        }
        for (llvm::GetElementPtrInst* address : addresses) {
            keep_inside_array(*address);
        }
        for (llvm::BinaryOperator* division : divisions) {
            guard_division(*division);
        }
        for (llvm::BinaryOperator* shift : shifts) {
            mask_shift(*shift);
        }
        drop_pointer_promises(function);
    }
}

} // namespace metalki::compiler
