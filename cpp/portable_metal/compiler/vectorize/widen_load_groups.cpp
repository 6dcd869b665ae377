// One load for neighbours: small numbers come in words, numbers of whole words in one stretch for all lanes.
#include <algorithm>

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr unsigned word_bits = 32;

} // namespace

// True when the load's value is there, or will be, thanks to its group.
bool Widener::emit_in_group(const llvm::LoadInst& load, Mask mask) {
    const LoadGroup* group = load_groups_.group_of(load);
    if (!group) {
        return false;
    }
    bool small = layout_.getTypeSizeInBits(group->element) < word_bits;
    std::vector<llvm::Value*> elements;
    if (group->leader == &load) {
        elements = small ? load_small(*group, mask) : load_stretch(*group, mask);
        if (elements.empty()) {
            return false;
        }
        define_group(*group, elements);
    }
    return local_values_.contains(&load);
}

void Widener::define_group(const LoadGroup& group, const std::vector<llvm::Value*>& elements) {
    auto next = elements.begin();
    for (const llvm::LoadInst* load : group.loads) {
        auto* type = llvm::dyn_cast<llvm::FixedVectorType>(load->getType());
        if (!type) {
            define(*load, *next++);
            continue;
        }
        llvm::Value* out = llvm::PoisonValue::get(widened(type));
        for (unsigned i = 0; i < type->getNumElements(); ++i) {
            out = builder_.CreateInsertValue(out, *next++, i);
        }
        define(*load, out);
    }
}

// Words of 32 bits, two of them where as much is wanted, taken apart by shifts.
std::vector<llvm::Value*> Widener::load_small(const LoadGroup& group, Mask mask) {
    auto bits = static_cast<unsigned>(layout_.getTypeSizeInBits(group.element).getFixedValue());
    unsigned in_word = word_bits / bits;
    const llvm::Value* pointer = group.leader->getPointerOperand();
    llvm::Type* integer = vector_of(builder_.getIntNTy(bits));
    llvm::Type* type = vector_of(group.element);
    llvm::Align align = llvm::commonAlignment(group.leader->getAlign(), bits / 8);
    std::vector<llvm::Value*> out;
    auto take_apart = [&](llvm::Value* word) {
        for (unsigned i = 0; i < in_word; ++i) {
            llvm::Value* low = builder_.CreateLShr(word, std::uint64_t{i} * bits);
            out.push_back(builder_.CreateBitCast(builder_.CreateTrunc(low, integer), type));
        }
    };
    for (unsigned done = 0; done < group.count;) {
        std::int64_t at = group.start + static_cast<std::int64_t>(done * bits / 8);
        if (group.count - done >= 2 * in_word) {
            llvm::Value* pair = load_lanes(pointer, builder_.getInt64Ty(), at, align, mask);
            llvm::Value* words = builder_.CreateBitCast(pair, llvm::FixedVectorType::get(builder_.getInt32Ty(), 2 * lanes));
            for (llvm::Value* word : separate(words, 2)) {
                take_apart(word);
            }
        } else if (group.count - done >= in_word) {
            take_apart(load_lanes(pointer, builder_.getInt32Ty(), at, align, mask));
        } else {
            out.push_back(load_lanes(pointer, group.element, at, align, mask));
        }
        done = static_cast<unsigned>(out.size());
    }
    return out;
}

// Lanes that lie side by side are read in few stretches; none when they do not.
std::vector<llvm::Value*> Widener::load_stretch(const LoadGroup& group, Mask mask) {
    auto bytes = static_cast<std::int64_t>(layout_.getTypeStoreSize(group.element).getFixedValue());
    std::vector<Piece> places =
        mask ? std::vector<Piece>() : pieces(group.leader->getPointerOperand(), bytes * group.count, nullptr);
    llvm::Align align = llvm::commonAlignment(group.leader->getAlign(), static_cast<std::uint64_t>(bytes));
    if (places.empty() || std::ranges::any_of(places, &Piece::same)) {
        return mask ? std::vector<llvm::Value*>() : load_rows(group, align);
    }
    llvm::Value* wide = load_pieces(places, group.element, group.count, group.start, align, nullptr);
    llvm::Value* parts = deinterleave(wide, group.count);
    std::vector<llvm::Value*> out;
    for (unsigned i = 0; i < group.count; ++i) {
        out.push_back(builder_.CreateExtractValue(parts, i));
    }
    return out;
}

std::vector<llvm::Value*> Widener::load_rows(const LoadGroup& group, llvm::Align align) {
    std::vector<llvm::Value*> out;
    if (auto rows = read_rows(group.leader->getPointerOperand(), group.element, group.start, group.count, align)) {
        for (unsigned i = 0; i < group.count; ++i) {
            out.push_back(pick_from_rows(*rows, i));
        }
    }
    return out;
}

// A number of less than a word, read with the aligned word it lies in: that word is on no other page, and words can be
// gathered.
llvm::Value* Widener::gather_small(llvm::Value* places, llvm::Type* element, Mask mask) {
    auto* integers = vector_of(builder_.getInt64Ty());
    auto* words = vector_of(builder_.getInt32Ty());
    llvm::Value* inside = builder_.CreateAnd(builder_.CreatePtrToInt(places, integers), 3);
    llvm::Value* keep = llvm::ConstantInt::getSigned(integers, -4);
    llvm::Value* word_places =
        builder_.CreateIntrinsic(llvm::Intrinsic::ptrmask, {places->getType(), integers}, {places, keep});
    llvm::Value* word = builder_.CreateMaskedGather(words, word_places, llvm::Align(4), mask ? mask : full_mask(),
                                                    llvm::PoisonValue::get(words));
    llvm::Value* shift = builder_.CreateShl(builder_.CreateTrunc(inside, words), 3);
    auto bits = static_cast<unsigned>(layout_.getTypeSizeInBits(element).getFixedValue());
    llvm::Value* number = builder_.CreateTrunc(builder_.CreateLShr(word, shift), vector_of(builder_.getIntNTy(bits)));
    return builder_.CreateBitCast(number, vector_of(element));
}

} // namespace metalki::compiler::vectorize
