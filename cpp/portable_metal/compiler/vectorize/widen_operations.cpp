// Arithmetic, comparisons, casts, addresses: one scalar operation where the lanes share it, a vector operation otherwise.
#include <algorithm>
#include <cstddef>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/Operator.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "vectorize/constant_arguments.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// Two values that have no bit in common in any lane that is on: an addition, whose scalar parts may well have some.
bool is_sum_by_or(const llvm::Instruction& instruction) {
    const auto* bits = llvm::dyn_cast<llvm::PossiblyDisjointInst>(&instruction);
    return bits && bits->isDisjoint() && !llvm::isa<llvm::ConstantInt>(instruction.getOperand(1));
}

bool is_vector_of_lanes(const llvm::Value* value) {
    return value->getType()->isVectorTy();
}

} // namespace

// Depends on nothing but the parameters, and may be computed whether it is needed or not.
bool Widener::is_prologue(const llvm::Instruction& instruction) const {
    for (const char* name : {runtime::input, runtime::simd_lane, runtime::threadgroup_memory}) {
        if (callee_name(instruction) == name) {
            return true;
        }
    }
    if (llvm::isa<llvm::PHINode, llvm::AllocaInst, llvm::CallInst>(instruction) || instruction.isTerminator()) {
        return false;
    }
    auto known = [&](const llvm::Value* operand) {
        return !llvm::isa<llvm::Instruction>(operand) || prologue_values_.count(operand) > 0;
    };
    if (!std::ranges::all_of(instruction.operand_values(), known)) {
        return false;
    }
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
        return load->isSimple() && loads_context(*load);
    }
    return divergence_.shape_of(&instruction).is_compact() && !instruction.mayReadOrWriteMemory() &&
           llvm::isSafeToSpeculativelyExecute(&instruction);
}

void Widener::emit_instruction(const llvm::Instruction& instruction, Mask mask) {
    if (is_prologue(instruction)) {
        llvm::IRBuilderBase::InsertPointGuard guard(builder_);
        builder_.SetInsertPoint(prologue_->getTerminator());
        if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            call && callee_name(instruction) == runtime::input) {
            prologue_values_[&instruction] =
                input(static_cast<unsigned>(llvm::cast<llvm::ConstantInt>(call->getArgOperand(0))->getZExtValue()));
        } else if (callee_name(instruction) == runtime::simd_lane) {
            prologue_values_[&instruction] = input(unsigned(ThreadInput::index_in_simdgroup));
        } else if (callee_name(instruction) == runtime::threadgroup_memory) {
            prologue_values_[&instruction] = load_threadgroup_memory(llvm::cast<llvm::CallInst>(instruction));
        } else if (divergence_.shape_of(&instruction).is_uniform()) {
            llvm::Value* copy = clone_scalar(instruction, true);
            if (auto* load = llvm::dyn_cast<llvm::LoadInst>(copy)) {
                load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
            }
            prologue_values_[&instruction] = copy;
        } else {
            prologue_values_[&instruction] = emit_compact(instruction);
        }
        return;
    }
    switch (instruction.getOpcode()) {
    case llvm::Instruction::Alloca:
        return emit_array(llvm::cast<llvm::AllocaInst>(instruction));
    case llvm::Instruction::Load:
        return emit_load(llvm::cast<llvm::LoadInst>(instruction), mask);
    case llvm::Instruction::Store:
        return emit_store(llvm::cast<llvm::StoreInst>(instruction), mask);
    case llvm::Instruction::Call:
        return emit_call(llvm::cast<llvm::CallInst>(instruction), mask);
    case llvm::Instruction::Fence:
        builder_.Insert(instruction.clone());
        return;
    case llvm::Instruction::AtomicRMW:
        if (emit_in_a_row(llvm::cast<llvm::AtomicRMWInst>(instruction), mask)) {
            return;
        }
        [[fallthrough]];
    case llvm::Instruction::AtomicCmpXchg:
        return define(instruction, emit_per_lane(instruction, mask));
    default:
        break;
    }
    Shape shape = divergence_.shape_of(&instruction);
    if (shape.kind == Shape::Kind::unknown) {
        return;
    }
    if (shape.is_uniform()) {
        auto operands_agree = [&](const llvm::Value* operand) { return divergence_.shape_of(operand).is_uniform(); };
        bool uniform_operands = std::ranges::all_of(instruction.operand_values(), operands_agree);
        return define(instruction, uniform_operands ? clone_scalar(instruction, true) : emit_affine(instruction));
    }
    define(instruction, shape.is_compact() ? emit_compact(instruction) : emit_varying(instruction, mask));
}

llvm::Value* Widener::emit_compact(const llvm::Instruction& instruction) {
    return divergence_.shape_of(&instruction).is_parts() ? emit_parts(instruction) : emit_affine(instruction);
}

// One operation for all lanes of a part.
llvm::Value* Widener::emit_parts(const llvm::Instruction& instruction) {
    const Partition partition = divergence_.shape_of(&instruction).partition;
    if (instruction.getOpcode() == llvm::Instruction::Mul) {
        for (unsigned i = 0; i < 2; ++i) {
            const llvm::Value *row = instruction.getOperand(i), *length = instruction.getOperand(1 - i);
            if (divergence_.shape_of(row).kind == Shape::Kind::affine && divergence_.shape_of(length).is_uniform()) {
                return pack(multiply_rows(row, length, partition));
            }
        }
    }
    std::vector<std::vector<llvm::Value*>> operands;
    bool choice = llvm::isa<llvm::SelectInst>(instruction);
    for (const llvm::Value* operand : instruction.operand_values()) {
        bool same = llvm::isa<llvm::ConstantInt>(operand) || (choice && operand == instruction.getOperand(0));
        operands.push_back(same ? std::vector(partition.count, scalar(operand)) : parts(operand, partition));
    }
    std::vector<llvm::Value*> out;
    for (unsigned i = 0; i < partition.count; ++i) {
        std::vector<llvm::Value*> own;
        for (const std::vector<llvm::Value*>& operand : operands) {
            own.push_back(operand[i]);
        }
        out.push_back(emit_part(instruction, own));
    }
    return pack(out);
}

// One multiplication for the first part; the others lie a number of lengths behind it.
std::vector<llvm::Value*> Widener::multiply_rows(const llvm::Value* row, const llvm::Value* length,
                                                 const Partition& partition) {
    const LaneOffsets offsets = divergence_.shape_of(row).offsets;
    std::int64_t before = offsets[partition.first_lane(0)];
    std::vector<llvm::Value*> out{builder_.CreateMul(add_offset(scalar(row), before), scalar(length))};
    for (unsigned i = 1; i < partition.count; ++i) {
        std::int64_t own = offsets[partition.first_lane(i)];
        auto* rows = llvm::ConstantInt::get(row->getType(), static_cast<std::uint64_t>(own - before), true);
        out.push_back(builder_.CreateAdd(out.back(), builder_.CreateMul(scalar(length), rows)));
        before = own;
    }
    return out;
}

llvm::Value* Widener::emit_part(const llvm::Instruction& instruction, const std::vector<llvm::Value*>& operands) {
    Shape first = divergence_.shape_of(instruction.getOperand(0));
    llvm::Type* type = instruction.getType();
    if (llvm::isa<llvm::ZExtInst, llvm::SExtInst>(instruction)) {
        return emit_extension(operands[0], first, type, llvm::isa<llvm::SExtInst>(instruction));
    }
    if (is_truncating_mask(instruction, first)) {
        first.no_wrap = false;
        return emit_extension(builder_.CreateTrunc(operands[0], builder_.getInt32Ty()), first, type, false);
    }
    if (is_sum_by_or(instruction)) {
        return builder_.CreateAdd(operands[0], operands[1], instruction.getName());
    }
    llvm::Instruction* copy = instruction.clone();
    for (unsigned i = 0; i < operands.size(); ++i) {
        copy->setOperand(i, operands[i]);
    }
    copy->dropPoisonGeneratingFlags();
    copy->setDebugLoc({});
    return builder_.Insert(copy, instruction.getName());
}

// The instruction over the scalar parts of its operands.
llvm::Value* Widener::clone_scalar(const llvm::Instruction& instruction, bool keep_flags) {
    llvm::Instruction* copy = instruction.clone();
    for (llvm::Use& operand : copy->operands()) {
        if (!llvm::isa<llvm::BasicBlock>(operand.get())) {
            operand.set(scalar(operand.get()));
        }
    }
    if (!keep_flags) {
        copy->dropPoisonGeneratingFlags();
    }
    copy->setDebugLoc({});
    return builder_.Insert(copy, instruction.getName());
}

llvm::Value* Widener::emit_affine(const llvm::Instruction& instruction) {
    if (const auto* cast = llvm::dyn_cast<llvm::CastInst>(&instruction);
        cast && llvm::isa<llvm::ZExtInst, llvm::SExtInst>(cast)) {
        Shape shape = divergence_.shape_of(cast->getOperand(0));
        return emit_extension(scalar(cast->getOperand(0)), shape, cast->getType(), llvm::isa<llvm::SExtInst>(cast));
    }
    if (Shape shape = divergence_.shape_of(instruction.getOperand(0));
        !shape.is_uniform() && is_truncating_mask(instruction, shape)) {
        llvm::Value* narrow = builder_.CreateTrunc(scalar(instruction.getOperand(0)), builder_.getInt32Ty());
        shape.no_wrap = false;
        return emit_extension(narrow, shape, instruction.getType(), false);
    }
    if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
        address && divergence_.interleaved_base(address)) {
        return emit_address(*address);
    }
    // The scalar part belongs to no lane in particular: promises about the lanes' values do not hold for it.
    if (is_sum_by_or(instruction)) {
        return builder_.CreateAdd(scalar(instruction.getOperand(0)), scalar(instruction.getOperand(1)), instruction.getName());
    }
    return clone_scalar(instruction, false);
}

// Lanes may wrap round where the scalar part does not: `i - 1` of lane 0. The highest lane's number, made wider, is then right,
// and so are those before it that wrapped as well; a negative scalar part is right for these.
llvm::Value* Widener::emit_extension(llvm::Value* narrow, const Shape& shape, llvm::Type* wide, bool is_signed) {
    if (is_signed) {
        return builder_.CreateSExt(narrow, wide);
    }
    auto [lowest, highest] = std::ranges::minmax(shape.offsets);
    if (shape.no_wrap || lowest == highest || shape.is_disjoint()) {
        return builder_.CreateZExt(narrow, wide);
    }
    auto number = [](llvm::Type* type, std::int64_t value) {
        return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true);
    };
    llvm::Value* last = builder_.CreateAdd(narrow, number(narrow->getType(), highest));
    return builder_.CreateSub(builder_.CreateZExt(last, wide), number(wide, highest));
}

llvm::Value* Widener::emit_varying(const llvm::Instruction& instruction, Mask mask) {
    if (const auto* cast = llvm::dyn_cast<llvm::CastInst>(&instruction)) {
        return emit_vector_cast(*cast);
    }
    if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction)) {
        return emit_address(*address);
    }
    if (const auto* element = llvm::dyn_cast<llvm::ExtractElementInst>(&instruction)) {
        if (const auto* index = llvm::dyn_cast<llvm::ConstantInt>(element->getIndexOperand())) {
            return builder_.CreateExtractValue(vector(element->getVectorOperand()),
                                               static_cast<unsigned>(index->getZExtValue()));
        }
        return emit_per_lane(instruction, mask);
    }
    if (const auto* element = llvm::dyn_cast<llvm::InsertElementInst>(&instruction)) {
        if (const auto* index = llvm::dyn_cast<llvm::ConstantInt>(element->getOperand(2))) {
            return builder_.CreateInsertValue(vector(element->getOperand(0)), vector(element->getOperand(1)),
                                              static_cast<unsigned>(index->getZExtValue()));
        }
        return emit_per_lane(instruction, mask);
    }
    if (const auto* value = llvm::dyn_cast<llvm::ExtractValueInst>(&instruction)) {
        return builder_.CreateExtractValue(vector(value->getAggregateOperand()), value->getIndices());
    }
    if (const auto* value = llvm::dyn_cast<llvm::InsertValueInst>(&instruction)) {
        return builder_.CreateInsertValue(vector(value->getAggregateOperand()), vector(value->getInsertedValueOperand()),
                                          value->getIndices());
    }
    bool aggregate = instruction.getType()->isVectorTy() || instruction.getType()->isAggregateType() ||
                     std::ranges::any_of(instruction.operand_values(), is_vector_of_lanes);
    if (aggregate) {
        if (const auto* choice = llvm::dyn_cast<llvm::SelectInst>(&instruction);
            choice && !is_vector_of_lanes(choice->getCondition())) {
            return blend(vector(choice->getCondition()), vector(choice->getTrueValue()), vector(choice->getFalseValue()));
        }
        return emit_per_lane(instruction, mask);
    }
    if (const auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(&instruction); operation && operation->isIntDivRem()) {
        return emit_division(*operation, mask);
    }
    if (const auto* choice = llvm::dyn_cast<llvm::SelectInst>(&instruction)) {
        llvm::Value* on = vector(choice->getTrueValue());
        llvm::Value* off = vector(choice->getFalseValue());
        bool same_way = divergence_.shape_of(choice->getCondition()).is_uniform();
        llvm::Value* condition = same_way ? scalar(choice->getCondition()) : vector(choice->getCondition());
        return builder_.CreateSelect(condition, on, off);
    }
    if (const auto* comparison = llvm::dyn_cast<llvm::ICmpInst>(&instruction)) {
        if (llvm::Value* found = compare_halves(*comparison)) {
            return found;
        }
    }
    llvm::Instruction* wide = nullptr;
    if (const auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(&instruction)) {
        wide = llvm::BinaryOperator::Create(operation->getOpcode(), vector(operation->getOperand(0)),
                                            vector(operation->getOperand(1)));
    } else if (const auto* sign = llvm::dyn_cast<llvm::UnaryOperator>(&instruction)) {
        wide = llvm::UnaryOperator::Create(sign->getOpcode(), vector(sign->getOperand(0)));
    } else if (const auto* comparison = llvm::dyn_cast<llvm::CmpInst>(&instruction)) {
        wide = llvm::CmpInst::Create(comparison->getOpcode(), comparison->getPredicate(), vector(comparison->getOperand(0)),
                                     vector(comparison->getOperand(1)));
    } else if (llvm::isa<llvm::FreezeInst>(instruction)) {
        wide = new llvm::FreezeInst(vector(instruction.getOperand(0)));
    } else {
        return emit_per_lane(instruction, mask);
    }
    wide->copyIRFlags(&instruction);
    return builder_.Insert(wide, instruction.getName());
}

// A lane that is off must not trap, whatever its divisor. A zero is taken out of all lanes, as LLVM takes a constant vector
// with one for a divisor that nobody divides by, and forgets about the other lanes. Frozen, as what flags say of the divisor
// (that a shift loses no bits, so that it is not zero) holds for lanes that are on.
llvm::Value* Widener::emit_division(const llvm::BinaryOperator& division, Mask mask) {
    llvm::Value* divisor = vector(division.getOperand(1));
    llvm::Value* dividend = vector(division.getOperand(0));
    if (mask && !llvm::isa<llvm::Constant>(division.getOperand(1))) {
        auto* one = llvm::ConstantInt::get(divisor->getType(), 1);
        divisor = builder_.CreateFreeze(divisor);
        llvm::Value* is_zero = builder_.CreateICmpEQ(divisor, llvm::Constant::getNullValue(divisor->getType()));
        divisor = builder_.CreateSelect(mask, builder_.CreateSelect(is_zero, one, divisor), one);
        dividend = builder_.CreateSelect(mask, dividend, llvm::Constant::getNullValue(dividend->getType()));
    }
    auto* wide = llvm::BinaryOperator::Create(division.getOpcode(), dividend, divisor);
    wide->copyIRFlags(&division);
    return builder_.Insert(wide, division.getName());
}

llvm::Value* Widener::emit_vector_cast(const llvm::CastInst& cast) {
    auto* from = llvm::dyn_cast<llvm::FixedVectorType>(cast.getSrcTy());
    auto* to = llvm::dyn_cast<llvm::FixedVectorType>(cast.getDestTy());
    llvm::Value* value = vector(cast.getOperand(0));
    if (!from && !to) {
        llvm::Value* out = builder_.CreateCast(cast.getOpcode(), value, vector_of(cast.getType()));
        if (auto* wide = llvm::dyn_cast<llvm::Instruction>(out)) {
            wide->copyIRFlags(&cast);
        }
        return out;
    }
    if (cast.getOpcode() == llvm::Instruction::BitCast) {
        llvm::Type* element = to ? to->getElementType() : cast.getDestTy();
        unsigned count = to ? to->getNumElements() : 1;
        llvm::Value* wide = from ? interleave(value) : value;
        wide = builder_.CreateBitCast(wide, llvm::FixedVectorType::get(element, count * lanes));
        return to ? deinterleave(wide, count) : wide;
    }
    llvm::Value* out = llvm::PoisonValue::get(widened(cast.getType()));
    for (unsigned i = 0; i < to->getNumElements(); ++i) {
        llvm::Value* part = builder_.CreateExtractValue(value, i);
        out = builder_.CreateInsertValue(out, builder_.CreateCast(cast.getOpcode(), part, vector_of(to->getElementType())), i);
    }
    return out;
}

// Addresses of all lanes, or the scalar part of them; steps in an interleaved array pass the copies of all lanes.
llvm::Value* Widener::emit_address(const llvm::GetElementPtrInst& address) {
    bool interleaved = divergence_.interleaved_base(&address) != nullptr;
    bool varying = divergence_.shape_of(&address).is_varying();
    llvm::Value* start = varying && !divergence_.shape_of(address.getPointerOperand()).is_uniform()
                             ? vector(address.getPointerOperand())
                             : scalar(address.getPointerOperand());
    llvm::Type* word = builder_.getInt64Ty();
    llvm::Value* common = builder_.getInt64(0);
    llvm::Value* own = nullptr;
    for (auto step = llvm::gep_type_begin(address), end = llvm::gep_type_end(address); step != end; ++step) {
        const llvm::Value* index = step.getOperand();
        if (llvm::StructType* structure = step.getStructTypeOrNull()) {
            auto field = static_cast<unsigned>(llvm::cast<llvm::ConstantInt>(index)->getZExtValue());
            std::uint64_t bytes = layout_.getStructLayout(structure)->getElementOffset(field).getFixedValue();
            common = builder_.CreateAdd(common, builder_.getInt64(interleaved ? bytes * lanes : bytes));
            continue;
        }
        std::uint64_t stride = step.getSequentialElementStride(layout_).getFixedValue() * (interleaved ? lanes : 1);
        if (!varying || divergence_.shape_of(index).is_uniform()) {
            llvm::Value* steps = builder_.CreateSExtOrTrunc(scalar(index), word);
            common = builder_.CreateAdd(common, builder_.CreateMul(steps, builder_.getInt64(stride)));
        } else {
            llvm::Value* steps = builder_.CreateSExtOrTrunc(vector(index), vector_of(word));
            steps = builder_.CreateMul(steps, splat(builder_.getInt64(stride)));
            own = own ? builder_.CreateAdd(own, steps) : steps;
        }
    }
    llvm::Value* out = builder_.CreateGEP(builder_.getInt8Ty(), start, common);
    return own                                        ? builder_.CreateGEP(builder_.getInt8Ty(), out, own)
           : varying && !out->getType()->isVectorTy() ? splat(out)
                                                      : out;
}

} // namespace metalki::compiler::vectorize
