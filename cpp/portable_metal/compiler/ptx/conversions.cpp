// See the header.
#include "ptx/conversions.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/Local.h"

#include "ptx/builder.hpp"

namespace metalki::compiler::ptx {
namespace {

using namespace llvm::PatternMatch;

constexpr unsigned word_bits = 32;

std::uint64_t ones(unsigned bits) {
    return (std::uint64_t{1} << bits) - 1;
}

bool is_narrow(const llvm::Type& type) {
    return type.isIntegerTy(8) || type.isIntegerTy(16);
}

class Widener {
public:
    explicit Widener(llvm::Function& function) : function_(function), word_(llvm::Type::getInt32Ty(function.getContext())) {}

    // A narrow number in a word whose other bits are zero.
    llvm::Value* zero_extended(llvm::Value* number) {
        if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(number)) {
            return llvm::ConstantInt::get(word_, constant->getZExtValue());
        }
        auto known = words_.find(number);
        if (known != words_.end()) {
            return known->second;
        }
        llvm::Value* word = make(number);
        words_[number] = word;
        return word;
    }

private:
    llvm::Value* make(llvm::Value* number) {
        const unsigned bits = number->getType()->getIntegerBitWidth();
        auto* instruction = llvm::dyn_cast<llvm::Instruction>(number);
        if (!instruction) {
            llvm::BasicBlock& entry = function_.getEntryBlock();
            return llvm::IRBuilder<>(&entry, entry.getFirstInsertionPt()).CreateZExt(number, word_);
        }
        WarpBuilder builder(instruction);
        llvm::Value *a = nullptr, *b = nullptr;
        const llvm::APInt* constant = nullptr;
        if (match(number, m_And(m_Value(a), m_APInt(constant)))) {
            return masked(builder, zero_extended(a), constant->getZExtValue());
        }
        if (match(number, m_And(m_Value(a), m_Value(b)))) {
            return builder.CreateAnd(zero_extended(a), zero_extended(b));
        }
        if (match(number, m_Or(m_Value(a), m_Value(b)))) {
            return builder.CreateOr(zero_extended(a), zero_extended(b));
        }
        if (match(number, m_Xor(m_Value(a), m_Value(b)))) {
            return builder.CreateXor(zero_extended(a), zero_extended(b));
        }
        if (match(number, m_LShr(m_Value(a), m_APInt(constant))) && constant->ult(bits)) {
            if (constant->urem(8) == 0) {
                const auto first = static_cast<unsigned>(constant->getZExtValue() / 8);
                return bytes(builder, zero_extended(a), first, bits / 8 - first);
            }
            return builder.CreateLShr(zero_extended(a), constant->getZExtValue());
        }
        if (match(number, m_Shl(m_Value(a), m_APInt(constant))) && constant->ult(bits)) {
            return masked(builder, builder.CreateShl(zero_extended(a), constant->getZExtValue()), ones(bits));
        }
        if (match(number, m_ZExt(m_Value(a))) && is_narrow(*a->getType())) {
            return zero_extended(a);
        }
        if (match(number, m_Trunc(m_LShr(m_Value(a), m_APInt(constant)))) && a->getType()->isIntegerTy(word_bits) &&
            constant->urem(8) == 0 && constant->ult(word_bits)) {
            return bytes(builder, a, constant->getZExtValue() / 8, bits / 8);
        }
        if (match(number, m_Trunc(m_Value(a)))) {
            const unsigned from = a->getType()->getIntegerBitWidth();
            return masked(builder, from < word_bits ? zero_extended(a) : builder.CreateTrunc(a, word_), ones(bits));
        }
        builder.SetInsertPoint(after(*instruction));
        return builder.CreateZExt(number, word_);
    }

    static llvm::Instruction* after(llvm::Instruction& instruction) {
        return llvm::isa<llvm::PHINode>(instruction) ? &*instruction.getParent()->getFirstInsertionPt()
                                                     : instruction.getNextNode();
    }

    // As one instruction, also where LLVM would take a mask behind it for a bit field, which is two.
    static llvm::Value* bytes(WarpBuilder& builder, llvm::Value* word, std::uint64_t first, unsigned count) {
        constexpr std::uint64_t zero = 4; // the first byte of the second operand
        std::uint64_t selector = 0;
        for (unsigned i = 0; i < 4; ++i) {
            selector |= (i < count && first + i < 4 ? first + i : zero) << (4 * i);
        }
        return builder.call(llvm::Intrinsic::nvvm_prmt,
                            {word, builder.getInt32(0), builder.getInt32(static_cast<std::uint32_t>(selector))});
    }

    static llvm::Value* masked(llvm::IRBuilder<>& builder, llvm::Value* word, std::uint64_t mask) {
        llvm::Value* whole = nullptr;
        const llvm::APInt* other = nullptr;
        if (match(word, m_And(m_Value(whole), m_APInt(other)))) {
            return masked(builder, whole, mask & other->getZExtValue());
        }
        if (match(word, m_LShr(m_Value(), m_APInt(other))) && (ones(word_bits) >> other->getZExtValue() & ~mask) == 0) {
            return word;
        }
        return builder.CreateAnd(word, mask);
    }

    llvm::Function& function_;
    llvm::Type* word_;
    llvm::DenseMap<llvm::Value*, llvm::Value*> words_;
};

constexpr unsigned mantissa_bits = 23;

// Bits of `whole` chosen by a constant, few enough for a mantissa and none of them a sign.
bool is_masked(llvm::Value* number, llvm::Value*& whole, const llvm::APInt*& mask) {
    return match(number, m_And(m_Value(whole), m_APInt(mask))) && mask->isNonNegative() &&
           mask->getActiveBits() <= mantissa_bits;
}
bool is_masked(llvm::Value* number) {
    llvm::Value* whole = nullptr;
    const llvm::APInt* mask = nullptr;
    return is_masked(number, whole, mask);
}

// By how many bits a word has been shifted right so that those of `mask` lie where they do, and what it was before.
std::pair<llvm::Value*, unsigned> before_shift(llvm::Value* word, const llvm::APInt& mask) {
    llvm::Value* whole = nullptr;
    const llvm::APInt *distance = nullptr, *selector = nullptr;
    if (match(word, m_LShr(m_Value(whole), m_APInt(distance)))) {
        return {whole, static_cast<unsigned>(distance->getZExtValue())};
    }
    if (match(word, m_Intrinsic<llvm::Intrinsic::nvvm_prmt>(m_Value(whole), m_Zero(), m_APInt(selector)))) {
        const auto first = static_cast<unsigned>(selector->getZExtValue() & 3);
        for (unsigned i = 0; 8 * i < mask.getActiveBits(); ++i) {
            if ((selector->getZExtValue() >> (4 * i) & 7) != first + i) {
                return {word, 0};
            }
        }
        return {whole, 8 * first};
    }
    return {word, 0};
}

// Conversions share a unit with logic, of half the speed that additions have. With the bits of 2^23 above it a number is the
// last bits of a float's mantissa; one instruction chooses the number and puts them there. With those of 2^(23 - n) it may be n
// bits further up.
llvm::Value* to_float(WarpBuilder& builder, llvm::Value* word) {
    constexpr std::uint32_t bits_of_2_23 = 0x4b000000;
    unsigned shift = 0;
    llvm::Value *whole = nullptr, *raised = nullptr;
    const llvm::APInt *mask = nullptr, *selector = nullptr;
    if (is_masked(word, whole, mask)) {
        llvm::APInt bits = *mask;
        const auto [before, distance] = before_shift(whole, bits);
        if (bits.getActiveBits() + distance <= mantissa_bits) {
            whole = before;
            bits <<= shift = distance;
        }
        raised = builder.choose_or(whole, bits, builder.getInt32(bits_of_2_23 - (shift << mantissa_bits)));
    } else if (match(word, m_Intrinsic<llvm::Intrinsic::nvvm_prmt>(m_Value(whole), m_Zero(), m_APInt(selector)))) {
        constexpr std::uint64_t last_of_second = 0x7000;
        raised = builder.call(llvm::Intrinsic::nvvm_prmt,
                              {whole, builder.getInt32(bits_of_2_23),
                               builder.getInt32(static_cast<std::uint32_t>(selector->getZExtValue() | last_of_second))});
    } else {
        return builder.CreateUIToFP(word, builder.getFloatTy());
    }
    return builder.CreateFAdd(
        builder.CreateBitCast(raised, builder.getFloatTy()),
        llvm::ConstantFP::get(builder.getFloatTy(), -std::ldexp(1.0, static_cast<int>(mantissa_bits - shift))));
}

bool is_conversion(const llvm::Instruction& instruction) {
    return llvm::isa<llvm::UIToFPInst, llvm::SIToFPInst>(instruction) && instruction.getType()->getScalarType()->isFloatTy();
}

// LLVM takes vectors apart later than this, but then in narrow registers.
void take_apart(llvm::CastInst& conversion) {
    llvm::IRBuilder<> builder(&conversion);
    auto* type = llvm::cast<llvm::FixedVectorType>(conversion.getType());
    llvm::Value* result = llvm::PoisonValue::get(type);
    for (unsigned i = 0; i < type->getNumElements(); ++i) {
        llvm::Value* number = builder.CreateExtractElement(conversion.getOperand(0), i);
        llvm::Value* converted = builder.CreateCast(conversion.getOpcode(), number, type->getElementType());
        result = builder.CreateInsertElement(result, converted, i);
    }
    conversion.replaceAllUsesWith(result);
    conversion.eraseFromParent();
}

// A vector of narrow numbers is loaded as the words it fills, and its elements are taken from those.
void load_words(llvm::LoadInst& load) {
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(load.getType());
    const unsigned bits = type ? type->getScalarSizeInBits() : 0;
    if (!load.isSimple() || !type || !is_narrow(*type->getElementType()) || bits * type->getNumElements() % word_bits != 0 ||
        load.getAlign().value() * 8 < word_bits) {
        return;
    }
    llvm::IRBuilder<> builder(&load);
    llvm::Type* words_type = llvm::FixedVectorType::get(builder.getInt32Ty(), bits * type->getNumElements() / word_bits);
    llvm::LoadInst* words = builder.CreateAlignedLoad(words_type, load.getPointerOperand(), load.getAlign());
    words->copyMetadata(load, {llvm::LLVMContext::MD_invariant_load});
    for (llvm::User* user : llvm::make_early_inc_range(load.users())) {
        auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(user);
        auto* index = extract ? llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand()) : nullptr;
        if (index && index->getValue().ult(type->getNumElements())) {
            builder.SetInsertPoint(extract);
            const std::uint64_t first = index->getZExtValue() * bits, shift = first % word_bits;
            llvm::Value* word = builder.CreateExtractElement(words, first / word_bits);
            word = builder.CreateTrunc(shift ? builder.CreateLShr(word, shift) : word, type->getElementType());
            extract->replaceAllUsesWith(word);
            extract->eraseFromParent();
        }
    }
    if (!load.use_empty()) {
        builder.SetInsertPoint(&load);
        load.replaceAllUsesWith(builder.CreateBitCast(words, type));
    }
    load.eraseFromParent();
}

template <class Instruction> std::vector<Instruction*> all(llvm::Function& function) {
    std::vector<Instruction*> out;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
        if (auto* found = llvm::dyn_cast<Instruction>(&instruction)) {
            out.push_back(found);
        }
    }
    return out;
}

// Null: the instruction stays.
llvm::Value* widened(llvm::CastInst& cast, Widener& widener) {
    WarpBuilder builder(&cast);
    llvm::Value* number = cast.getOperand(0);
    const bool is_unsigned = llvm::isa<llvm::UIToFPInst>(cast) || (llvm::isa<llvm::SIToFPInst>(cast) && is_masked(number));
    if (is_unsigned && cast.getType()->isFloatTy() && number->getType() == builder.getInt32Ty() && is_masked(number)) {
        return to_float(builder, number);
    }
    if (!is_narrow(*number->getType())) {
        return nullptr;
    }
    if (llvm::isa<llvm::ZExtInst>(cast) && cast.getType() == builder.getInt32Ty()) {
        return widener.zero_extended(number);
    }
    if (!cast.getType()->isFloatTy()) {
        return nullptr;
    }
    if (is_unsigned) {
        return to_float(builder, widener.zero_extended(number));
    }
    return llvm::isa<llvm::SIToFPInst>(cast)
               ? builder.CreateSIToFP(builder.CreateSExt(number, builder.getInt32Ty()), cast.getType())
               : nullptr;
}

} // namespace

void widen_numbers(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::CastInst* cast : all<llvm::CastInst>(function)) {
            if (llvm::isa<llvm::FixedVectorType>(cast->getType()) && is_conversion(*cast) &&
                is_narrow(*cast->getSrcTy()->getScalarType())) {
                take_apart(*cast);
            }
        }
        for (llvm::LoadInst* load : all<llvm::LoadInst>(function)) {
            load_words(*load);
        }
        Widener widener(function);
        llvm::SmallVector<llvm::WeakTrackingVH> replaced;
        for (llvm::CastInst* cast : all<llvm::CastInst>(function)) {
            if (llvm::Value* word = widened(*cast, widener)) {
                cast->replaceAllUsesWith(word);
                replaced.emplace_back(cast);
            }
        }
        llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(replaced);
    }
}

} // namespace metalki::compiler::ptx
