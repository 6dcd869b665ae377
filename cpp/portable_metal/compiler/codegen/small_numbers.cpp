// See small_numbers.hpp.
#include "codegen/small_numbers.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/MC/MCSubtargetInfo.h"

namespace metalki::compiler {
namespace {

namespace match = llvm::PatternMatch;

constexpr unsigned in_register = 16; // words
constexpr unsigned byte_bits = 8;

bool is_of_registers(const llvm::Value& value, unsigned bits) {
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value.getType());
    return type && type->getScalarType()->isIntegerTy(bits) && type->getNumElements() % in_register == 0;
}

// Applies `operation` to each register of a vector of words.
template <typename Operation> llvm::Value* by_registers(llvm::IRBuilder<>& builder, llvm::Value* words, Operation operation) {
    std::vector<llvm::Value*> out;
    for (unsigned first = 0; first < llvm::cast<llvm::FixedVectorType>(words->getType())->getNumElements();
         first += in_register) {
        std::vector<int> order(in_register);
        std::iota(order.begin(), order.end(), static_cast<int>(first));
        out.push_back(operation(builder.CreateShuffleVector(words, order)));
    }
    return llvm::concatenateVectors(builder, out);
}

// Words of which a cast takes up to four bits, the lowest ones; null: it does something else.
llvm::Value* words_of_four_bits(const llvm::Instruction& cast, std::uint64_t& mask) {
    const llvm::APInt* bits = nullptr;
    llvm::Value* number = nullptr;
    bool known = match::match(cast.getOperand(0), match::m_And(match::m_Value(number), match::m_APInt(bits))) &&
                 bits->getActiveBits() <= 4;
    if (!known) {
        return nullptr;
    }
    mask = bits->getZExtValue();
    llvm::Value* wide = nullptr;
    if (match::match(number, match::m_Trunc(match::m_Value(wide)))) {
        number = wide;
    }
    return is_of_registers(*number, 32) ? number : nullptr;
}

llvm::Value* look_up(llvm::IRBuilder<>& builder, llvm::Value* words, std::uint64_t mask) {
    std::vector<float> floats(in_register);
    for (std::uint64_t i = 0; i < in_register; ++i) {
        floats[i] = static_cast<float>(i & mask);
    }
    llvm::Constant* table = llvm::ConstantDataVector::get(builder.getContext(), floats);
    return by_registers(builder, words, [&](llvm::Value* places) {
        return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {table, places});
    });
}

// Words of which a cast takes a byte, one of the lower three, with its sign; null: it does something else.
llvm::Value* words_of_byte(const llvm::Instruction& cast, std::uint64_t& which) {
    llvm::Value *number = nullptr, *shifted = nullptr;
    if (!is_of_registers(*cast.getOperand(0), byte_bits) ||
        !match::match(cast.getOperand(0), match::m_Trunc(match::m_Value(number))) || !is_of_registers(*number, 32)) {
        return nullptr;
    }
    std::uint64_t shift = 0;
    const llvm::APInt* by = nullptr;
    if (match::match(number, match::m_Shr(match::m_Value(shifted), match::m_APInt(by)))) {
        shift = by->getZExtValue();
        number = shifted;
    }
    which = shift / byte_bits;
    return shift % byte_bits == 0 && which < 3 ? number : nullptr;
}

llvm::Value* take_byte(llvm::IRBuilder<>& builder, llvm::Value* words, std::uint64_t which) {
    llvm::Constant* one =
        llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(in_register), builder.getInt32(1U << (which * byte_bits)));
    return by_registers(builder, words, [&](llvm::Value* bytes) {
        return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                                       {llvm::Constant::getNullValue(bytes->getType()), one, bytes});
    });
}

} // namespace

ConvertSmallNumbers::ConvertSmallNumbers(llvm::TargetMachine& machine) {
    const llvm::MCSubtargetInfo& processor = *machine.getMCSubtargetInfo();
    bool x86 = machine.getTargetTriple().isX86();
    looks_up_ = x86 && processor.checkFeatures("+avx512f");
    multiplies_bytes_ = looks_up_ && processor.checkFeatures("+avx512vnni");
}

llvm::PreservedAnalyses ConvertSmallNumbers::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    std::vector<llvm::Instruction*> casts;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
        if (looks_up_ && llvm::isa<llvm::UIToFPInst, llvm::SIToFPInst, llvm::SExtInst>(instruction)) {
            casts.push_back(&instruction);
        }
    }
    for (llvm::Instruction* cast : casts) {
        llvm::IRBuilder<> builder(cast);
        std::uint64_t detail = 0;
        llvm::Type* type = cast->getType()->getScalarType();
        llvm::Value* out = nullptr;
        if (llvm::isa<llvm::UIToFPInst>(cast) && type->isFloatTy()) {
            llvm::Value* words = words_of_four_bits(*cast, detail);
            out = words ? look_up(builder, words, detail) : nullptr;
        } else if (!llvm::isa<llvm::UIToFPInst>(cast) && multiplies_bytes_ && (type->isFloatTy() || type->isIntegerTy(32))) {
            llvm::Value* words = words_of_byte(*cast, detail);
            out = words ? take_byte(builder, words, detail) : nullptr;
            out = out && type->isFloatTy() ? builder.CreateSIToFP(out, cast->getType()) : out;
        }
        if (out) {
            cast->replaceAllUsesWith(out);
        }
    }
    return casts.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

} // namespace metalki::compiler
