// See the header.
#include "ptx/small_arrays.hpp"

#include <vector>

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PatternMatch.h"

namespace metalki::compiler::ptx {
namespace {

constexpr std::uint64_t most_elements = 16;
constexpr std::uint64_t most_selections = 1024; // of one array

// A load or store, and where in the array it is: `offset` bytes, or a sum of variables that is not known.
struct Access {
    llvm::Instruction* instruction;
    std::int64_t offset = 0;
    llvm::MapVector<llvm::Value*, llvm::APInt> variables; // and their factors
};

class SmallArray {
public:
    explicit SmallArray(llvm::AllocaInst& array) : array_(array), layout_(array.getModule()->getDataLayout()) {}

    bool spread() {
        const auto size = array_.getAllocationSize(layout_);
        if (!size || size->isScalable() || array_.isUsedWithInAlloca() || !collect(array_, {}) ||
            !find_granule(size->getFixedValue())) {
            return false;
        }
        make_elements();
        for (const Access& access : accesses_) {
            rewrite(access);
        }
        for (llvm::Instruction* dead : llvm::reverse(addresses_)) {
            dead->eraseFromParent();
        }
        array_.eraseFromParent();
        return true;
    }

private:
    // All that is done with `address`, which lies at `place` in the array; false when something else than access is.
    bool collect(llvm::Value& address, const Access& place) {
        for (llvm::User* user : address.users()) {
            auto* instruction = llvm::cast<llvm::Instruction>(user);
            if (auto* step = llvm::dyn_cast<llvm::GetElementPtrInst>(instruction)) {
                Access next = place;
                llvm::APInt constant(64, 0);
                llvm::MapVector<llvm::Value*, llvm::APInt> variables;
                if (!step->collectOffset(layout_, 64, variables, constant)) {
                    return false;
                }
                next.offset += constant.getSExtValue();
                for (auto& [variable, factor] : variables) {
                    if (auto [known, is_new] = next.variables.insert({variable, factor}); !is_new) {
                        known->second += factor;
                    }
                }
                addresses_.push_back(step);
                if (!collect(*step, next)) {
                    return false;
                }
                continue;
            }
            auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction);
            auto* store = llvm::dyn_cast<llvm::StoreInst>(instruction);
            if ((load && load->isSimple()) || (store && store->isSimple() && store->getValueOperand() != &address)) {
                Access access = place;
                access.instruction = instruction;
                accesses_.push_back(std::move(access));
            } else if (llvm::isa<llvm::LifetimeIntrinsic>(instruction)) {
                addresses_.push_back(instruction);
            } else {
                return false;
            }
        }
        return true;
    }

    static llvm::Type* scalar_of(const Access& access) { return llvm::getLoadStoreType(access.instruction)->getScalarType(); }
    std::uint64_t bytes_of(const Access& access) const {
        return layout_.getTypeStoreSize(llvm::getLoadStoreType(access.instruction)).getFixedValue();
    }

    // All accesses must be to whole elements of one size; those at variable places to one or several in a row.
    bool find_granule(std::uint64_t size) {
        for (const Access& access : accesses_) {
            const std::uint64_t bytes = layout_.getTypeStoreSize(scalar_of(access)).getFixedValue();
            if (scalar_of(access)->isPointerTy() || layout_.getTypeSizeInBits(scalar_of(access)).getFixedValue() != 8 * bytes) {
                return false;
            }
            granule_ = granule_ == 0 ? bytes : std::min(granule_, bytes);
        }
        if (granule_ == 0 || granule_ > 8 || size % granule_ != 0 || size / granule_ > most_elements) {
            return false;
        }
        count_ = size / granule_;
        std::uint64_t selections = 0;
        for (const Access& access : accesses_) {
            const std::uint64_t bytes = bytes_of(access);
            const auto offset = static_cast<std::uint64_t>(access.offset);
            const bool fits = bytes % granule_ == 0 && offset % granule_ == 0 && bytes <= size &&
                              (!access.variables.empty() || (offset <= size && bytes <= size - offset));
            if (!fits) {
                return false;
            }
            for (const auto& [variable, factor] : access.variables) {
                if (factor.srem(static_cast<std::int64_t>(granule_)) != 0) {
                    return false;
                }
            }
            selections += access.variables.empty() ? 0 : count_ * (bytes / granule_);
        }
        return selections <= most_selections;
    }

    void make_elements() {
        llvm::IRBuilder<> builder(&array_);
        element_ = builder.getIntNTy(static_cast<unsigned>(granule_ * 8));
        for (std::uint64_t i = 0; i < count_; ++i) {
            elements_.push_back(builder.CreateAlloca(element_));
        }
    }

    // Number of the first element that an access at a variable place means.
    llvm::Value* place_of(llvm::IRBuilder<>& builder, const Access& access) {
        llvm::Value* place = builder.getInt32(static_cast<unsigned>(access.offset / static_cast<std::int64_t>(granule_)));
        for (const auto& [variable, factor] : access.variables) {
            const auto step = static_cast<unsigned>(factor.sdiv(static_cast<std::int64_t>(granule_)).getSExtValue());
            llvm::Value* number = builder.CreateZExtOrTrunc(variable, builder.getInt32Ty());
            place = builder.CreateAdd(place, builder.CreateMul(number, builder.getInt32(step)));
        }
        return place;
    }

    llvm::Value* load_element(llvm::IRBuilder<>& builder, llvm::Value* place, std::uint64_t step) {
        if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(place)) {
            return builder.CreateLoad(element_, elements_[known->getZExtValue() + step]);
        }
        llvm::Value* out = builder.CreateLoad(element_, elements_[0]);
        for (std::uint64_t i = 1; i < count_; ++i) {
            llvm::Value* is_it = builder.CreateICmpEQ(place, builder.getInt32(static_cast<unsigned>(i - step)));
            out = builder.CreateSelect(is_it, builder.CreateLoad(element_, elements_[i]), out);
        }
        return out;
    }
    void store_element(llvm::IRBuilder<>& builder, llvm::Value* place, std::uint64_t step, llvm::Value* value) {
        if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(place)) {
            builder.CreateStore(value, elements_[known->getZExtValue() + step]);
            return;
        }
        for (std::uint64_t i = 0; i < count_; ++i) {
            llvm::Value* is_it = builder.CreateICmpEQ(place, builder.getInt32(static_cast<unsigned>(i - step)));
            builder.CreateStore(builder.CreateSelect(is_it, value, builder.CreateLoad(element_, elements_[i])), elements_[i]);
        }
    }

    // The value as a row of elements, and back.
    void rewrite(const Access& access) {
        llvm::IRBuilder<> builder(access.instruction);
        llvm::Type* type = llvm::getLoadStoreType(access.instruction);
        const auto count = static_cast<unsigned>(bytes_of(access) / granule_);
        auto* row = llvm::FixedVectorType::get(element_, count);
        llvm::Value* place = place_of(builder, access);
        if (auto* store = llvm::dyn_cast<llvm::StoreInst>(access.instruction)) {
            llvm::Value* parts = builder.CreateBitCast(store->getValueOperand(), row);
            for (unsigned i = 0; i < count; ++i) {
                store_element(builder, place, i, builder.CreateExtractElement(parts, builder.getInt64(i)));
            }
        } else {
            llvm::Value* parts = llvm::PoisonValue::get(row);
            for (unsigned i = 0; i < count; ++i) {
                parts = builder.CreateInsertElement(parts, load_element(builder, place, i), builder.getInt64(i));
            }
            access.instruction->replaceAllUsesWith(builder.CreateBitCast(parts, type));
        }
        access.instruction->eraseFromParent();
    }

    llvm::AllocaInst& array_;
    const llvm::DataLayout& layout_;
    std::vector<Access> accesses_;
    std::vector<llvm::Instruction*> addresses_;
    std::uint64_t granule_ = 0, count_ = 0;
    llvm::Type* element_ = nullptr;
    std::vector<llvm::AllocaInst*> elements_;
};

template <class Instruction> std::vector<Instruction*> all_of(llvm::Function& function) {
    std::vector<Instruction*> out;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
        if (auto* found = llvm::dyn_cast<Instruction>(&instruction)) {
            out.push_back(found);
        }
    }
    return out;
}

// A bit of a number that is looked at as a row of bits.
llvm::Value* bit_of(llvm::ExtractElementInst& extract) {
    auto* cast = llvm::dyn_cast<llvm::BitCastInst>(extract.getVectorOperand());
    const auto* index = llvm::dyn_cast<llvm::ConstantInt>(extract.getIndexOperand());
    if (!cast || !index || !extract.getType()->isIntegerTy(1)) {
        return nullptr;
    }
    llvm::IRBuilder<> builder(&extract);
    llvm::Type* number = builder.getIntNTy(static_cast<unsigned>(cast->getSrcTy()->getPrimitiveSizeInBits().getFixedValue()));
    llvm::Value* whole = builder.CreateBitCast(cast->getOperand(0), number);
    return builder.CreateTrunc(builder.CreateLShr(whole, index->getZExtValue()), builder.getInt1Ty());
}

// One element of a vector, calculated by itself: LLVM goes through memory for some rows of bits and bytes.
llvm::Value* element_of(llvm::IRBuilder<>& builder, llvm::Value* vector, std::uint64_t index) {
    auto* constant = llvm::dyn_cast<llvm::Constant>(vector);
    if (llvm::Value* element = constant ? constant->getAggregateElement(static_cast<unsigned>(index)) : nullptr) {
        return element;
    }
    if (auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(vector)) {
        if (auto* place = llvm::dyn_cast<llvm::ConstantInt>(insert->getOperand(2))) {
            return place->getZExtValue() == index ? insert->getOperand(1) : element_of(builder, insert->getOperand(0), index);
        }
    }
    auto* instruction = llvm::dyn_cast<llvm::Instruction>(vector);
    const bool is_cast = instruction && (llvm::isa<llvm::ZExtInst>(vector) || llvm::isa<llvm::SExtInst>(vector) ||
                                         llvm::isa<llvm::TruncInst>(vector));
    if (is_cast) {
        llvm::Value* inner = element_of(builder, instruction->getOperand(0), index);
        return builder.CreateCast(llvm::cast<llvm::CastInst>(vector)->getOpcode(), inner, vector->getType()->getScalarType());
    }
    if (auto* comparison = llvm::dyn_cast<llvm::CmpInst>(vector)) {
        return builder.CreateCmp(comparison->getPredicate(), element_of(builder, comparison->getOperand(0), index),
                                 element_of(builder, comparison->getOperand(1), index));
    }
    if (auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(vector); operation && operation->isBitwiseLogicOp()) {
        return builder.CreateBinOp(operation->getOpcode(), element_of(builder, operation->getOperand(0), index),
                                   element_of(builder, operation->getOperand(1), index));
    }
    return builder.CreateExtractElement(vector, builder.getInt64(index));
}

llvm::Value* small_element(llvm::ExtractElementInst& extract) {
    const auto* index = llvm::dyn_cast<llvm::ConstantInt>(extract.getIndexOperand());
    if (!index || extract.getType()->getPrimitiveSizeInBits() > 8 ||
        index->getZExtValue() >= extract.getVectorOperandType()->getElementCount().getFixedValue()) {
        return nullptr;
    }
    llvm::IRBuilder<> builder(&extract);
    return element_of(builder, extract.getVectorOperand(), index->getZExtValue());
}

bool is_row_of_bytes(llvm::Type* type) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector && vector->getElementType()->isIntegerTy(8) && vector->getNumElements() <= 8;
}

// Bytes that become a number, or the other way round: by shifts, where LLVM would go through memory.
llvm::Value* converted_bytes(llvm::BitCastInst& cast) {
    llvm::IRBuilder<> builder(&cast);
    llvm::Type* number = builder.getIntNTy(static_cast<unsigned>(cast.getType()->getPrimitiveSizeInBits().getFixedValue()));
    auto* load = llvm::dyn_cast<llvm::LoadInst>(cast.getOperand(0));
    if (load && load->isSimple() && is_row_of_bytes(cast.getSrcTy()) && !cast.getDestTy()->isVectorTy()) {
        builder.SetInsertPoint(load);
        return builder.CreateAlignedLoad(cast.getType(), load->getPointerOperand(), load->getAlign());
    }
    if (is_row_of_bytes(cast.getSrcTy()) && !cast.getDestTy()->isVectorTy()) {
        llvm::Value* out = llvm::ConstantInt::get(number, 0);
        for (unsigned i = 0; i < llvm::cast<llvm::FixedVectorType>(cast.getSrcTy())->getNumElements(); ++i) {
            llvm::Value* byte =
                builder.CreateZExt(builder.CreateExtractElement(cast.getOperand(0), builder.getInt64(i)), number);
            out = builder.CreateOr(out, builder.CreateShl(byte, 8 * i));
        }
        return builder.CreateBitCast(out, cast.getType());
    }
    if (is_row_of_bytes(cast.getDestTy()) && !cast.getSrcTy()->isVectorTy()) {
        llvm::Value* bits = builder.CreateBitCast(cast.getOperand(0), number);
        llvm::Value* out = llvm::PoisonValue::get(cast.getType());
        for (unsigned i = 0; i < llvm::cast<llvm::FixedVectorType>(cast.getDestTy())->getNumElements(); ++i) {
            llvm::Value* byte = builder.CreateTrunc(builder.CreateLShr(bits, 8 * i), builder.getInt8Ty());
            out = builder.CreateInsertElement(out, byte, builder.getInt64(i));
        }
        return out;
    }
    return nullptr;
}

// Halves of a number of 64 bits that two words of a vector were put together to: positions in a grid are passed so.
void take_words(llvm::ExtractElementInst& extract) {
    auto* cast = llvm::dyn_cast<llvm::BitCastInst>(extract.getVectorOperand());
    const auto* index = llvm::dyn_cast<llvm::ConstantInt>(extract.getIndexOperand());
    const auto* words = cast ? llvm::dyn_cast<llvm::FixedVectorType>(cast->getSrcTy()) : nullptr;
    if (!index || !words || !words->getElementType()->isIntegerTy(32) || !extract.getType()->isIntegerTy(64)) {
        return;
    }
    const std::uint64_t low = 2 * index->getZExtValue();
    for (llvm::User* user : llvm::make_early_inc_range(extract.users())) {
        auto* instruction = llvm::cast<llvm::Instruction>(user);
        llvm::IRBuilder<> builder(instruction);
        llvm::Value* half = nullptr;
        if (llvm::isa<llvm::TruncInst>(instruction) && instruction->getType()->isIntegerTy(32)) {
            half = element_of(builder, cast->getOperand(0), low);
        } else if (match(instruction,
                         llvm::PatternMatch::m_LShr(llvm::PatternMatch::m_Value(), llvm::PatternMatch::m_SpecificInt(32)))) {
            half = builder.CreateZExt(element_of(builder, cast->getOperand(0), low + 1), builder.getInt64Ty());
        }
        if (half) {
            instruction->replaceAllUsesWith(half);
            instruction->eraseFromParent();
        }
    }
}

unsigned spreadable_elements(llvm::Type* type, const llvm::Value* index) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    const bool is_chosen = vector && !llvm::isa<llvm::Constant>(index) && vector->getNumElements() <= most_elements;
    return is_chosen ? vector->getNumElements() : 0;
}

} // namespace

void spread_small_arrays(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::AllocaInst* array : all_of<llvm::AllocaInst>(function)) {
            SmallArray(*array).spread();
        }
    }
}

void spread_vector_indices(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (auto* extract : all_of<llvm::ExtractElementInst>(function)) {
            take_words(*extract);
        }
        for (auto* extract : all_of<llvm::ExtractElementInst>(function)) {
            if (llvm::Value* bit = bit_of(*extract)) {
                extract->replaceAllUsesWith(bit);
                extract->eraseFromParent();
                continue;
            }
            llvm::Value* vector = extract->getVectorOperand();
            llvm::Value* index = extract->getIndexOperand();
            const unsigned count = spreadable_elements(vector->getType(), index);
            if (count == 0) {
                continue;
            }
            llvm::IRBuilder<> builder(extract);
            llvm::Value* out = builder.CreateExtractElement(vector, builder.getInt64(0));
            for (unsigned i = 1; i < count; ++i) {
                llvm::Value* is_it = builder.CreateICmpEQ(index, llvm::ConstantInt::get(index->getType(), i));
                out = builder.CreateSelect(is_it, builder.CreateExtractElement(vector, builder.getInt64(i)), out);
            }
            extract->replaceAllUsesWith(out);
            extract->eraseFromParent();
        }
        for (auto* insert : all_of<llvm::InsertElementInst>(function)) {
            llvm::Value* index = insert->getOperand(2);
            const unsigned count = spreadable_elements(insert->getType(), index);
            if (count == 0) {
                continue;
            }
            llvm::IRBuilder<> builder(insert);
            llvm::Value* out = insert->getOperand(0);
            for (unsigned i = 0; i < count; ++i) {
                llvm::Value* is_it = builder.CreateICmpEQ(index, llvm::ConstantInt::get(index->getType(), i));
                llvm::Value* kept = builder.CreateExtractElement(insert->getOperand(0), builder.getInt64(i));
                out = builder.CreateInsertElement(out, builder.CreateSelect(is_it, insert->getOperand(1), kept),
                                                  builder.getInt64(i));
            }
            insert->replaceAllUsesWith(out);
            insert->eraseFromParent();
        }
        for (auto* cast : all_of<llvm::BitCastInst>(function)) {
            if (llvm::Value* converted = converted_bytes(*cast)) {
                cast->replaceAllUsesWith(converted);
                cast->eraseFromParent();
            }
        }
        for (auto* extract : all_of<llvm::ExtractElementInst>(function)) {
            if (llvm::Value* element = small_element(*extract)) {
                extract->replaceAllUsesWith(element);
                extract->eraseFromParent();
            }
        }
    }
}

} // namespace metalki::compiler::ptx
