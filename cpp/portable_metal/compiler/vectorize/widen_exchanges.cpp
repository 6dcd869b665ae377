// Lanes whose place is the next one's but for some bits that are flipped in all of them, `a[i ^ j]`: together they read and
// write one whole block, in another order.
#include <numeric>

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

bool is_in_a_row(const Shape& shape) {
    return shape.kind == Shape::Kind::affine && shape.offsets == Shape::linear(1).offsets;
}

std::vector<llvm::Value*> cut(llvm::IRBuilder<>& builder, llvm::Value* whole, unsigned pieces) {
    std::vector<llvm::Value*> out;
    for (unsigned i = 0; i < pieces; ++i) {
        std::vector<int> order(lanes / pieces);
        std::iota(order.begin(), order.end(), static_cast<int>(i * (lanes / pieces)));
        out.push_back(builder.CreateShuffleVector(whole, order));
    }
    return out;
}

} // namespace

// The bits that lead to other blocks.
llvm::Value* Widener::bits_of_blocks(const llvm::Value* flipped) {
    llvm::Value* bits = scalar(flipped);
    return near_bits_.count(flipped)
               ? llvm::Constant::getNullValue(bits->getType())
               : builder_.CreateAnd(bits, llvm::ConstantInt::getSigned(bits->getType(), -std::int64_t{lanes}));
}

// The place of a block's first number, and the bits in which a lane's number differs from its place in the block. None: other
// lanes than those of a block, or values that are not known here.
std::optional<Widener::Exchange> Widener::exchange_of(const llvm::Value* value, std::int64_t step,
                                                      const llvm::BasicBlock* block) {
    const auto* operation = llvm::dyn_cast<llvm::Instruction>(value);
    if (!operation || operation->getParent() != block) {
        return std::nullopt;
    }
    if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(operation)) {
        return exchange_of_address(*address, step);
    }
    if (llvm::isa<llvm::ZExtInst, llvm::SExtInst>(operation)) {
        std::optional<Exchange> out = exchange_of(operation->getOperand(0), step, block);
        if (out) {
            Shape shape = Shape::linear(1, 0, out->no_wrap);
            out->start = emit_extension(out->start, shape, operation->getType(), llvm::isa<llvm::SExtInst>(operation));
        }
        return out;
    }
    bool adds = operation->getOpcode() == llvm::Instruction::Add;
    if (step != 1 || (!adds && operation->getOpcode() != llvm::Instruction::Xor)) {
        return std::nullopt;
    }
    for (unsigned i = 0; i < 2; ++i) {
        const llvm::Value *own = operation->getOperand(i), *other = operation->getOperand(1 - i);
        if (!divergence_.shape_of(other).is_uniform()) {
            continue;
        }
        if (adds) {
            std::optional<Exchange> out = exchange_of(own, step, block);
            if (out) {
                out->start = builder_.CreateAdd(out->start, scalar(other));
                out->no_wrap = false;
            }
            return out;
        }
        if (Shape shape = divergence_.shape_of(own); is_in_a_row(shape)) {
            llvm::Value *first = scalar(own), *flipped = scalar(other);
            if (is_known_first(other)) {
                flipped_bits_.insert(other);
            }
            Exchange out;
            out.start = builder_.CreateXor(first, bits_of_blocks(other));
            out.flipped = builder_.CreateAnd(builder_.CreateZExtOrTrunc(flipped, builder_.getInt32Ty()), lanes - 1);
            out.no_wrap = true;
            out.near = near_bits_.count(other) > 0;
            if (shape.zeros < lane_bits) {
                llvm::Value* off = builder_.CreateAnd(first, lanes - 1);
                out.condition = builder_.CreateICmpEQ(off, llvm::ConstantInt::get(off->getType(), 0));
            }
            return out;
        }
    }
    return std::nullopt;
}

std::optional<Widener::Exchange> Widener::exchange_of_address(const llvm::GetElementPtrInst& address, std::int64_t step) {
    const llvm::Use* differs = nullptr;
    for (const llvm::Use& operand : address.operands()) {
        if (!divergence_.shape_of(operand.get()).is_uniform()) {
            if (differs) {
                return std::nullopt;
            }
            differs = &operand;
        }
    }
    if (!differs || address.getType()->isVectorTy()) {
        return std::nullopt;
    }
    std::int64_t inner = step;
    for (auto index = llvm::gep_type_begin(address), end = llvm::gep_type_end(address); index != end; ++index) {
        if (index.getOperand() == differs->get()) {
            if (index.isStruct() ||
                static_cast<std::int64_t>(index.getSequentialElementStride(layout_).getFixedValue()) != step) {
                return std::nullopt;
            }
            inner = 1;
        }
    }
    std::optional<Exchange> out = exchange_of(differs->get(), inner, address.getParent());
    if (!out) {
        return std::nullopt;
    }
    auto* copy = llvm::cast<llvm::GetElementPtrInst>(address.clone());
    for (unsigned i = 0; i < copy->getNumOperands(); ++i) {
        copy->setOperand(i, i == differs->getOperandNo() ? out->start : scalar(address.getOperand(i)));
    }
    copy->dropPoisonGeneratingFlags();
    copy->setDebugLoc({});
    out->start = builder_.Insert(copy, address.getName());
    return out;
}

llvm::Function* Widener::make_near_test() {
    llvm::Type* yes_or_no = builder_.getInt1Ty();
    auto* type = llvm::FunctionType::get(yes_or_no, body_->getFunctionType()->params(), false);
    auto* out = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, body_->getName() + ".near", module_);
    out->addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context_, "test", out));
    llvm::ValueToValueMapTy values;
    for (unsigned i : {unsigned(BodyParameter::context), unsigned(BodyParameter::y), unsigned(BodyParameter::z)}) {
        values[body_->getArg(i)] = out->getArg(i);
    }
    for (const llvm::Instruction& instruction : *prologue_) {
        auto is_known = [&](const llvm::Value* operand) { return llvm::isa<llvm::Constant>(operand) || values.count(operand); };
        if (!instruction.isTerminator() && llvm::all_of(instruction.operand_values(), is_known)) {
            llvm::Instruction* copy = builder.Insert(instruction.clone());
            values[&instruction] = copy;
            llvm::RemapInstruction(copy, values, llvm::RF_NoModuleLevelChanges);
        }
    }
    llvm::Value* near = builder.getTrue();
    for (const llvm::Value* bits : near_bits_) {
        llvm::Value* found = values.lookup(prologue_values_.at(bits));
        if (!found) {
            out->eraseFromParent();
            return nullptr;
        }
        near = builder.CreateAnd(near, builder.CreateICmpULT(found, llvm::ConstantInt::get(found->getType(), lanes)));
    }
    builder.CreateRet(near);
    return out;
}

// Of an access to `count` numbers of this type a lane.
std::optional<Widener::Exchange> Widener::exchange_at(const llvm::Value* pointer, llvm::Type* element, unsigned count,
                                                      const llvm::BasicBlock* block) {
    std::uint64_t bits = layout_.getTypeSizeInBits(element).getFixedValue();
    bool permutes =
        (element->isIntegerTy() || element->isFloatingPointTy()) && (bits == 8 || bits == 16 || bits == 32 || bits == 64);
    if (!permutes || !divergence_.shape_of(pointer).is_varying() || divergence_.interleaved_base(pointer)) {
        return std::nullopt;
    }
    return exchange_of(pointer, static_cast<std::int64_t>(count * bits / 8), block);
}

// For each of the numbers in a block, `count` of them a lane.
Mask Widener::mask_of_block(Mask mask, const Exchange& exchange, unsigned count) {
    Mask own = exchange_lanes(mask, exchange.flipped);
    return count == 1 ? own : builder_.CreateShuffleVector(own, llvm::createReplicatedMask(static_cast<int>(count), lanes));
}

// How the lanes come to their numbers: as they stand in a block, in another order, or, where they are not those of a block,
// one by one.
template <class InBlock, class OneByOne>
llvm::Value* Widener::choose_exchange(const Exchange& exchange, InBlock in_block, OneByOne one_by_one) {
    auto block = [&]() -> llvm::Value* {
        if (exchange.near) {
            return in_block(exchange);
        }
        Exchange in_order = exchange;
        in_order.flipped = nullptr;
        llvm::Value* ordered = builder_.CreateICmpEQ(exchange.flipped, builder_.getInt32(0));
        return choose(ordered, [&] { return in_block(in_order); }, [&] { return in_block(exchange); });
    };
    return exchange.condition ? choose(exchange.condition, block, one_by_one) : block();
}

template <class Yes, class No> llvm::Value* Widener::choose(llvm::Value* condition, Yes yes, No no) {
    auto* if_so = llvm::BasicBlock::Create(context_, "yes", body_);
    auto* if_not = llvm::BasicBlock::Create(context_, "no", body_);
    auto* behind = llvm::BasicBlock::Create(context_, "behind", body_);
    builder_.CreateCondBr(condition, if_so, if_not);
    builder_.SetInsertPoint(if_so);
    llvm::Value* one = yes();
    if_so = builder_.GetInsertBlock();
    builder_.CreateBr(behind);
    builder_.SetInsertPoint(if_not);
    llvm::Value* other = no();
    if_not = builder_.GetInsertBlock();
    builder_.CreateBr(behind);
    builder_.SetInsertPoint(behind);
    if (!one) {
        return nullptr;
    }
    llvm::PHINode* out = builder_.CreatePHI(one->getType(), 2);
    out->addIncoming(one, if_so);
    out->addIncoming(other, if_not);
    return out;
}

bool Widener::emit_exchanged_load(const llvm::LoadInst& load, Mask mask) {
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(load.getType());
    llvm::Type* element = load.getType()->getScalarType();
    unsigned count = type ? type->getNumElements() : 1;
    const llvm::Value* pointer = load.getPointerOperand();
    std::optional<Exchange> exchange = exchange_at(pointer, element, count, load.getParent());
    if (!exchange) {
        return false;
    }
    define(load, choose_exchange(
                     *exchange, [&](const Exchange& how) { return load_block(how, element, count, load.getAlign(), mask); },
                     [&] {
                         return type ? load_components(pointer, *type, load.getAlign(), mask)
                                     : load_lanes(pointer, element, 0, load.getAlign(), mask);
                     }));
    return true;
}

bool Widener::emit_exchanged_store(const llvm::StoreInst& store, llvm::Value* value, Mask mask) {
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(store.getValueOperand()->getType());
    const llvm::Value* pointer = store.getPointerOperand();
    unsigned count = type ? type->getNumElements() : 1;
    std::optional<Exchange> exchange =
        exchange_at(pointer, store.getValueOperand()->getType()->getScalarType(), count, store.getParent());
    if (!exchange) {
        return false;
    }
    choose_exchange(
        *exchange,
        [&](const Exchange& how) {
            store_block(how, value, count, store.getAlign(), mask);
            return nullptr;
        },
        [&] {
            if (type) {
                store_components(pointer, value, *type, store.getAlign(), mask);
            } else {
                store_lanes(pointer, value, 0, store.getAlign(), mask);
            }
            return nullptr;
        });
    return true;
}

llvm::Value* Widener::load_block(const Exchange& exchange, llvm::Type* element, unsigned count, llvm::Align align, Mask mask) {
    auto* type = llvm::FixedVectorType::get(element, lanes * count);
    llvm::Value* whole = mask ? builder_.CreateMaskedLoad(type, exchange.start, align, mask_of_block(mask, exchange, count))
                              : static_cast<llvm::Value*>(builder_.CreateAlignedLoad(type, exchange.start, align));
    if (count == 1) {
        return exchange_lanes(whole, exchange.flipped);
    }
    llvm::Value* parts = deinterleave(whole, count);
    llvm::Value* out = llvm::PoisonValue::get(parts->getType());
    for (unsigned i = 0; i < count; ++i) {
        llvm::Value* part = exchange_lanes(builder_.CreateExtractValue(parts, i), exchange.flipped);
        out = builder_.CreateInsertValue(out, part, i);
    }
    return out;
}

void Widener::store_block(const Exchange& exchange, llvm::Value* value, unsigned count, llvm::Align align, Mask mask) {
    llvm::Value* whole = nullptr;
    if (count == 1) {
        whole = exchange_lanes(value, exchange.flipped);
    } else {
        llvm::Value* parts = llvm::PoisonValue::get(value->getType());
        for (unsigned i = 0; i < count; ++i) {
            llvm::Value* part = exchange_lanes(builder_.CreateExtractValue(value, i), exchange.flipped);
            parts = builder_.CreateInsertValue(parts, part, i);
        }
        whole = interleave(parts);
    }
    if (mask) {
        builder_.CreateMaskedStore(whole, exchange.start, align, mask_of_block(mask, exchange, count));
    } else {
        builder_.CreateAlignedStore(whole, exchange.start, align);
    }
}

// Each lane gets what the lane has whose number differs in these bits; null: in none.
llvm::Value* Widener::exchange_lanes(llvm::Value* value, llvm::Value* flipped) {
    if (!flipped) {
        return value;
    }
    auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
    if (vector_registers_.masks) {
        // As wide as what moves, so that they need not be converted.
        auto* word = builder_.getIntNTy(std::max(type->getScalarSizeInBits(), 16U));
        llvm::Value* own = lane_constants(word, Shape::linear(1).offsets);
        return permute_registers(value, builder_.CreateXor(own, splat(builder_.CreateZExtOrTrunc(flipped, word))));
    }
    bool is_mask = type->getElementType()->isIntegerTy(1);
    if (is_mask) {
        value = builder_.CreateSExt(value, vector_of(builder_.getInt8Ty()));
    }
    for (unsigned bit = 1; bit < lanes; bit *= 2) {
        std::vector<int> order(lanes);
        for (unsigned lane = 0; lane < lanes; ++lane) {
            order[lane] = static_cast<int>(lane ^ bit);
        }
        llvm::Value* flips = builder_.CreateICmpNE(builder_.CreateAnd(flipped, bit), builder_.getInt32(0));
        value = builder_.CreateSelect(flips, builder_.CreateShuffleVector(value, order), value);
    }
    return is_mask ? builder_.CreateICmpSLT(value, llvm::Constant::getNullValue(value->getType())) : value;
}

// With AVX-512's instructions that take numbers from two registers in any order.
llvm::Value* Widener::permute_registers(llvm::Value* value, llvm::Value* source) {
    llvm::Type* element = llvm::cast<llvm::FixedVectorType>(value->getType())->getElementType();
    auto bits = static_cast<unsigned>(layout_.getTypeSizeInBits(element).getFixedValue());
    auto* halves = vector_of(builder_.getInt16Ty());
    if (bits == 1) {
        llvm::Value* found = permute_registers(builder_.CreateSExt(value, halves), source);
        return builder_.CreateICmpSLT(found, llvm::Constant::getNullValue(halves));
    }
    if (bits == 8) {
        return builder_.CreateTrunc(permute_registers(builder_.CreateZExt(value, halves), source), value->getType());
    }
    llvm::Type* integers = vector_of(builder_.getIntNTy(bits));
    llvm::Value* numbers = builder_.CreateBitCast(value, integers);
    llvm::Value* places = builder_.CreateZExtOrTrunc(source, integers);
    if (bits == 16) {
        llvm::Value* found = builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_hi_512, {}, {numbers, places});
        return builder_.CreateBitCast(found, value->getType());
    }
    llvm::Intrinsic::ID from_two =
        bits == 32 ? llvm::Intrinsic::x86_avx512_vpermi2var_d_512 : llvm::Intrinsic::x86_avx512_vpermi2var_q_512;
    unsigned registers = bits / 16;
    std::vector<llvm::Value*> from = cut(builder_, numbers, registers), to;
    for (llvm::Value* wanted : cut(builder_, places, registers)) {
        llvm::Value* found = builder_.CreateIntrinsic(from_two, {}, {from[0], wanted, from[1]});
        if (registers == 4) {
            llvm::Value* behind = builder_.CreateIntrinsic(from_two, {}, {from[2], wanted, from[3]});
            llvm::Value* upper = builder_.CreateAnd(wanted, lanes / 2);
            found = builder_.CreateSelect(builder_.CreateICmpNE(upper, llvm::Constant::getNullValue(upper->getType())), behind,
                                          found);
        }
        to.push_back(found);
    }
    return builder_.CreateBitCast(llvm::concatenateVectors(builder_, to), value->getType());
}

} // namespace metalki::compiler::vectorize
