// Calls: position inputs, intrinsics, vector mathematics, and the way out: one lane after the other.
#include <algorithm>
#include <cstddef>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/LowerAtomic.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "codegen/thread_context.hpp"
#include "vectorize/readable_memory.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

bool has_no_effect(const llvm::IntrinsicInst& call) {
    switch (call.getIntrinsicID()) {
    case llvm::Intrinsic::assume:
    case llvm::Intrinsic::lifetime_start:
    case llvm::Intrinsic::lifetime_end:
    case llvm::Intrinsic::experimental_noalias_scope_decl:
    case llvm::Intrinsic::sideeffect:
    case llvm::Intrinsic::donothing:
        return true;
    default:
        return call.isDebugOrPseudoInst();
    }
}

bool works_on_vectors(llvm::Intrinsic::ID id) {
    switch (id) {
    case llvm::Intrinsic::uadd_with_overflow:
    case llvm::Intrinsic::usub_with_overflow:
    case llvm::Intrinsic::umul_with_overflow:
    case llvm::Intrinsic::sadd_with_overflow:
    case llvm::Intrinsic::ssub_with_overflow:
    case llvm::Intrinsic::smul_with_overflow:
    case llvm::Intrinsic::is_fpclass:
        return true;
    default:
        return llvm::isTriviallyVectorizable(id);
    }
}

bool has_vector_operand(const llvm::CallInst& call) {
    return call.getType()->isVectorTy() ||
           std::ranges::any_of(call.args(), [](const llvm::Use& use) { return use->getType()->isVectorTy(); });
}

} // namespace

llvm::LoadInst* Widener::load_context(llvm::Type* type, std::size_t offset) {
    llvm::Value* context = body_->getArg(unsigned(BodyParameter::context));
    llvm::LoadInst* field =
        builder_.CreateLoad(type, builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), context, offset));
    field->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return field;
}

// All of it may be read at any time: what all SIMD-groups read there between two barriers is read once.
llvm::Value* Widener::load_threadgroup_memory(const llvm::CallInst& call) {
    llvm::LoadInst* address = load_context(builder_.getPtrTy(), offsetof(ThreadgroupContext, static_threadgroup_memory));
    if (const std::uint64_t bytes = call.getRetDereferenceableBytes()) {
        mark_readable(*address, bytes, call.getRetAlign().valueOrOne());
    }
    return address;
}

// Scalar parts of the position inputs, from the parameters of the body.
llvm::Value* Widener::input(unsigned which) {
    if (auto known = inputs_.find(which); known != inputs_.end()) {
        return known->second;
    }
    auto parameter = [&](BodyParameter p) -> llvm::Value* { return body_->getArg(unsigned(p)); };
    auto place = [&](unsigned axis) { return body_->getArg(unsigned(BodyParameter::x) + axis); };
    const Geometry& geometry = divergence_.geometry();
    llvm::Value* context = parameter(BodyParameter::context);
    auto make = [&]() -> llvm::Value* {
        auto in = [&](ThreadInput first) { return which >= unsigned(first) && which < unsigned(first) + 3; };
        if (in(ThreadInput::position_in_grid)) {
            if (geometry.layout == LaneLayout::flat) {
                return place(which);
            }
            llvm::Value* size = input(unsigned(ThreadInput::threads_per_threadgroup) + which);
            llvm::Value* origin = builder_.CreateNUWMul(input(unsigned(ThreadInput::threadgroup_position) + which), size);
            if (geometry.layout == LaneLayout::table) {
                return builder_.CreateAdd(splat(origin), input(unsigned(ThreadInput::position_in_threadgroup) + which));
            }
            return builder_.CreateNUWAdd(origin, input(unsigned(ThreadInput::position_in_threadgroup) + which));
        }
        if (in(ThreadInput::position_in_threadgroup)) {
            unsigned axis = which - unsigned(ThreadInput::position_in_threadgroup);
            if (geometry.layout == LaneLayout::table) {
                llvm::Value* table = load_context(builder_.getPtrTy(), offsetof(ThreadgroupContext, positions));
                llvm::Value* at =
                    builder_.CreateAdd(builder_.CreateMul(parameter(BodyParameter::simdgroup), builder_.getInt32(lanes)),
                                       builder_.getInt32(axis * max_positions));
                llvm::Value* address =
                    builder_.CreateGEP(builder_.getInt32Ty(), table, builder_.CreateZExt(at, builder_.getInt64Ty()));
                return builder_.CreateAlignedLoad(vector_of(builder_.getInt32Ty()), address, llvm::Align(4));
            }
            return geometry.layout == LaneLayout::columns && axis == 0 ? static_cast<llvm::Value*>(builder_.getInt32(0))
                                                                       : place(axis);
        }
        if (which == unsigned(ThreadInput::index_in_threadgroup)) {
            return builder_.CreateNUWMul(parameter(BodyParameter::simdgroup), builder_.getInt32(lanes));
        }
        if (which == unsigned(ThreadInput::index_in_simdgroup)) {
            return builder_.getInt32(0);
        }
        if (which == unsigned(ThreadInput::simdgroup_index)) {
            return parameter(BodyParameter::simdgroup);
        }
        auto group = static_cast<ThreadInput>(which / 3 * 3);
        return load_context_word(builder_, context, context_offset(group), which % 3);
    };
    return inputs_[which] = make();
}

void Widener::emit_call(const llvm::CallInst& call, Mask mask) {
    const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&call);
    if (intrinsic && has_no_effect(*intrinsic)) {
        return;
    }
    llvm::StringRef name = callee_name(call);
    if (name == runtime::barrier) {
        builder_.CreateCall(call.getCalledFunction(), {llvm::cast<llvm::Value>(call.getArgOperand(0))});
        return;
    }
    if (name == runtime::simd) {
        return define(call, emit_simd_operation(call, mask));
    }
    if (name == runtime::simd_mma) {
        return define(call, emit_matrix_multiply(call, mask));
    }
    if (!call.getType()->isVoidTy() && divergence_.shape_of(&call).is_uniform()) {
        return define(call, clone_scalar(call, true));
    }
    if (intrinsic && intrinsic->getIntrinsicID() == llvm::Intrinsic::prefetch) {
        return emit_prefetch(call);
    }
    bool power = intrinsic ? intrinsic->getIntrinsicID() == llvm::Intrinsic::pow : name == "powf";
    if (power && call.getType()->isFloatTy()) {
        return define(call, emit_power(vector(call.getArgOperand(0)), vector(call.getArgOperand(1))));
    }
    bool tanh = intrinsic ? intrinsic->getIntrinsicID() == llvm::Intrinsic::tanh : name == "tanhf";
    if (tanh && call.getType()->isFloatTy() && vector_registers_.fused) {
        return define(call, emit_tanh(vector(call.getArgOperand(0))));
    }
    if (is_saturated_conversion(call)) {
        return define(call, emit_saturated_conversion(call));
    }
    if (const VectorFunction* function =
            intrinsic ? mathematics_.find(intrinsic->getIntrinsicID()) : mathematics_.find(name.str());
        function && call.getType()->isFloatTy()) {
        return define(call, emit_vector_function(*function, call));
    }
    llvm::Value* result = intrinsic ? emit_intrinsic(call, mask) : emit_per_lane(call, mask);
    if (!call.getType()->isVoidTy()) {
        define(call, result);
    }
}

llvm::Value* Widener::emit_intrinsic(const llvm::CallInst& call, Mask mask) {
    llvm::Intrinsic::ID id = call.getIntrinsicID();
    if (!works_on_vectors(id) || has_vector_operand(call)) {
        return emit_per_lane(call, mask);
    }
    std::vector<llvm::Value*> arguments;
    if (divergence_.shape_of(&call).is_parts()) {
        return emit_call_in_parts(call);
    }
    for (unsigned i = 0; i < call.arg_size(); ++i) {
        const llvm::Value* argument = call.getArgOperand(i);
        bool stays_scalar = llvm::isVectorIntrinsicWithScalarOpAtArg(id, i) ||
                            call.getCalledFunction()->hasParamAttribute(i, llvm::Attribute::ImmArg);
        if (stays_scalar && !divergence_.shape_of(argument).is_uniform()) {
            return emit_per_lane(call, mask);
        }
        arguments.push_back(stays_scalar ? scalar(argument) : vector(argument));
    }
    llvm::CallInst* wide = builder_.CreateIntrinsic(widened(call.getType()), id, arguments);
    wide->copyIRFlags(&call);
    return wide;
}

// A minimum or maximum, once for all lanes of a part.
llvm::Value* Widener::emit_call_in_parts(const llvm::CallInst& call) {
    const Partition partition = divergence_.shape_of(&call).partition;
    std::vector<llvm::Value*> a = parts(call.getArgOperand(0), partition), b = parts(call.getArgOperand(1), partition);
    std::vector<llvm::Value*> out;
    for (unsigned i = 0; i < partition.count; ++i) {
        out.push_back(builder_.CreateBinaryIntrinsic(call.getIntrinsicID(), a[i], b[i]));
    }
    return pack(out);
}

llvm::Value* Widener::emit_vector_function(const VectorFunction& function, const llvm::CallInst& call) {
    auto* part_type = llvm::FixedVectorType::get(builder_.getFloatTy(), function.width);
    std::vector<llvm::Type*> parameters(function.arguments, part_type);
    llvm::FunctionCallee callee =
        module_.getOrInsertFunction(function.symbol, llvm::FunctionType::get(part_type, parameters, false));
    auto* declaration = llvm::cast<llvm::Function>(callee.getCallee());
    declaration->setDoesNotAccessMemory();
    declaration->setDoesNotThrow();
    declaration->addFnAttr(llvm::Attribute::WillReturn);
    std::vector<llvm::Value*> parts;
    for (unsigned first = 0; first < lanes; first += function.width) {
        std::vector<int> order;
        for (unsigned i = 0; i < function.width; ++i) {
            order.push_back(static_cast<int>(first + i));
        }
        std::vector<llvm::Value*> arguments;
        for (unsigned i = 0; i < function.arguments; ++i) {
            arguments.push_back(builder_.CreateShuffleVector(vector(call.getArgOperand(i)), order));
        }
        parts.push_back(builder_.CreateCall(callee, arguments));
    }
    return llvm::concatenateVectors(builder_, parts);
}

// One thread of the machine runs a threadgroup: what its threads share among themselves needs no locked instructions.
bool Widener::in_threadgroup_memory(const llvm::Instruction& instruction) const {
    if (!llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(instruction)) {
        return false;
    }
    llvm::SmallVector<const llvm::Value*, 4> objects;
    llvm::getUnderlyingObjects(instruction.getOperand(0), objects, nullptr, 0);
    return std::ranges::all_of(objects, [](const llvm::Value* object) {
        const auto* call = llvm::dyn_cast<llvm::CallInst>(object);
        return call && callee_name(*call) == runtime::threadgroup_memory;
    });
}

// What the atomic operation does, as a load and a store. Takes the operation over.
llvm::Value* Widener::without_lock(llvm::Instruction* atomic) {
    llvm::unique_value owner(atomic);
    if (auto* change = llvm::dyn_cast<llvm::AtomicRMWInst>(atomic)) {
        llvm::Value* old = builder_.CreateAlignedLoad(change->getType(), change->getPointerOperand(), change->getAlign());
        llvm::Value* changed = llvm::buildAtomicRMWValue(change->getOperation(), builder_, old, change->getValOperand());
        builder_.CreateAlignedStore(changed, change->getPointerOperand(), change->getAlign());
        return old;
    }
    auto* exchange = llvm::cast<llvm::AtomicCmpXchgInst>(atomic);
    llvm::Value* wanted = exchange->getCompareOperand();
    llvm::Value* old = builder_.CreateAlignedLoad(wanted->getType(), exchange->getPointerOperand(), exchange->getAlign());
    llvm::Value* equal = builder_.CreateICmpEQ(old, wanted);
    builder_.CreateAlignedStore(builder_.CreateSelect(equal, exchange->getNewValOperand(), old), exchange->getPointerOperand(),
                                exchange->getAlign());
    llvm::Value* out = builder_.CreateInsertValue(llvm::PoisonValue::get(exchange->getType()), old, 0);
    return builder_.CreateInsertValue(out, equal, 1);
}

// A loop over the active lanes. Operands and results of the lanes lie in memory meanwhile.
// A change in threadgroup memory takes less time than it takes to write the lanes' addresses and read them back.
bool Widener::emit_in_a_row(const llvm::AtomicRMWInst& change, Mask mask) {
    if (mask || !change.use_empty() || !in_threadgroup_memory(change)) {
        return false;
    }
    auto of_lane = [&](const llvm::Value* operand, unsigned lane) {
        return divergence_.shape_of(operand).is_uniform() ? scalar(operand)
                                                          : builder_.CreateExtractElement(vector(operand), lane);
    };
    for (unsigned lane = 0; lane < lanes; ++lane) {
        auto* own = llvm::cast<llvm::AtomicRMWInst>(change.clone());
        own->setDebugLoc({});
        own->setOperand(0, of_lane(change.getPointerOperand(), lane));
        own->setOperand(1, of_lane(change.getValOperand(), lane));
        without_lock(own);
    }
    return true;
}

llvm::Value* Widener::emit_per_lane(const llvm::Instruction& instruction, Mask mask) {
    auto* word = builder_.getInt32Ty();
    auto in_memory = [&](llvm::Type* type) -> llvm::Type* { return type->isIntegerTy(1) ? builder_.getInt8Ty() : type; };
    // Components of a value, each a vector of lanes.
    auto store_component = [&](llvm::Value* wide) {
        llvm::Type* element = llvm::cast<llvm::FixedVectorType>(wide->getType())->getElementType();
        llvm::AllocaInst* array = make_scratch(llvm::ArrayType::get(in_memory(element), lanes));
        llvm::Value* value = element->isIntegerTy(1) ? builder_.CreateZExt(wide, vector_of(builder_.getInt8Ty())) : wide;
        builder_.CreateAlignedStore(value, array, llvm::Align(64));
        return array;
    };
    struct Operand {
        llvm::Value* same = nullptr;               // for all lanes
        std::vector<llvm::AllocaInst*> components; // or one array a component
        std::vector<llvm::Type*> types;
    };
    std::vector<Operand> operands;
    for (const llvm::Value* operand : instruction.operand_values()) {
        Operand& one = operands.emplace_back();
        Shape shape = divergence_.shape_of(operand);
        if (llvm::isa<llvm::Function, llvm::BasicBlock, llvm::MetadataAsValue>(operand) || shape.is_uniform()) {
            one.same =
                llvm::isa<llvm::Instruction, llvm::Argument>(operand) ? scalar(operand) : const_cast<llvm::Value*>(operand);
            continue;
        }
        llvm::Value* wide = vector(operand);
        if (auto* parts = llvm::dyn_cast<llvm::ArrayType>(wide->getType()); parts && operand->getType()->isVectorTy()) {
            for (unsigned i = 0; i < parts->getNumElements(); ++i) {
                llvm::Value* part = builder_.CreateExtractValue(wide, i);
                one.components.push_back(store_component(part));
                one.types.push_back(llvm::cast<llvm::FixedVectorType>(part->getType())->getElementType());
            }
        } else if (wide->getType()->isVectorTy()) {
            one.components.push_back(store_component(wide));
            one.types.push_back(operand->getType());
        } else {
            throw Unsupported("an aggregate as operand of an operation that goes lane by lane");
        }
    }

    llvm::Type* result_type = instruction.getType();
    std::vector<llvm::Type*> result_types;
    if (auto* vector_type = llvm::dyn_cast<llvm::FixedVectorType>(result_type)) {
        result_types.assign(vector_type->getNumElements(), vector_type->getElementType());
    } else if (auto* structure = llvm::dyn_cast<llvm::StructType>(result_type)) {
        result_types.assign(structure->element_begin(), structure->element_end());
    } else if (result_type->isArrayTy()) {
        throw Unsupported("an aggregate as result of an operation that goes lane by lane");
    } else if (!result_type->isVoidTy()) {
        result_types.push_back(result_type);
    }
    std::vector<llvm::AllocaInst*> results;
    for (llvm::Type* type : result_types) {
        if (!llvm::FixedVectorType::isValidElementType(type)) {
            throw Unsupported("an aggregate as result of an operation that goes lane by lane");
        }
        results.push_back(make_scratch(llvm::ArrayType::get(in_memory(type), lanes)));
        if (mask) {
            // Lanes that are off keep something that is defined.
            builder_.CreateStore(llvm::Constant::getNullValue(results.back()->getAllocatedType()), results.back());
        }
    }

    // Without a mask the lanes are counted, with one they are its bits.
    llvm::Value* all = mask ? mask_bits(mask) : builder_.getInt32(0);
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(context_, "each.lane", body_);
    auto* behind = llvm::BasicBlock::Create(context_, "each.lane.end", body_);
    if (mask) {
        builder_.CreateCondBr(builder_.CreateICmpNE(all, builder_.getInt32(0)), loop, behind);
    } else {
        builder_.CreateBr(loop);
    }
    builder_.SetInsertPoint(loop);
    llvm::PHINode* left = builder_.CreatePHI(word, 2);
    left->addIncoming(all, before);
    llvm::Value* lane = mask ? builder_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, builder_.getTrue()) : left;
    lane = builder_.CreateZExt(lane, builder_.getInt64Ty());
    auto at_lane = [&](llvm::AllocaInst* array) {
        return builder_.CreateInBoundsGEP(array->getAllocatedType(), array, {builder_.getInt64(0), lane});
    };
    auto load_element = [&](llvm::AllocaInst* array, llvm::Type* type) -> llvm::Value* {
        llvm::Value* value = builder_.CreateLoad(in_memory(type), at_lane(array));
        return type->isIntegerTy(1) ? builder_.CreateTrunc(value, type) : value;
    };
    llvm::Instruction* copy = instruction.clone();
    for (unsigned i = 0; i < operands.size(); ++i) {
        const Operand& operand = operands[i];
        llvm::Value* value = operand.same;
        if (!value && !instruction.getOperand(i)->getType()->isVectorTy()) {
            value = load_element(operand.components[0], operand.types[0]);
        } else if (!value) {
            value = llvm::PoisonValue::get(instruction.getOperand(i)->getType());
            for (unsigned k = 0; k < operand.components.size(); ++k) {
                value = builder_.CreateInsertElement(value, load_element(operand.components[k], operand.types[k]), k);
            }
        }
        copy->setOperand(i, value);
    }
    copy->setDebugLoc({});
    llvm::Value* result = in_threadgroup_memory(instruction) ? without_lock(copy) : builder_.Insert(copy);
    for (unsigned i = 0; i < results.size(); ++i) {
        llvm::Value* value = result;
        if (result_type->isVectorTy()) {
            value = builder_.CreateExtractElement(result, i);
        } else if (result_type->isStructTy()) {
            value = builder_.CreateExtractValue(result, i);
        }
        value = value->getType()->isIntegerTy(1) ? builder_.CreateZExt(value, builder_.getInt8Ty()) : value;
        builder_.CreateStore(value, at_lane(results[i]));
    }
    llvm::Value* rest = mask ? builder_.CreateAnd(left, builder_.CreateSub(left, builder_.getInt32(1)))
                             : builder_.CreateNUWAdd(left, builder_.getInt32(1));
    left->addIncoming(rest, builder_.GetInsertBlock());
    builder_.CreateCondBr(builder_.CreateICmpNE(rest, builder_.getInt32(mask ? 0 : lanes)), loop, behind);
    builder_.SetInsertPoint(behind);
    if (result_type->isVoidTy()) {
        return nullptr;
    }
    auto load_result = [&](unsigned i) -> llvm::Value* {
        llvm::Value* wide = builder_.CreateAlignedLoad(vector_of(in_memory(result_types[i])), results[i], llvm::Align(64));
        return result_types[i]->isIntegerTy(1) ? builder_.CreateTrunc(wide, vector_of(result_types[i])) : wide;
    };
    if (!result_type->isVectorTy() && !result_type->isStructTy()) {
        return load_result(0);
    }
    llvm::Value* out = llvm::PoisonValue::get(widened(result_type));
    for (unsigned i = 0; i < results.size(); ++i) {
        out = builder_.CreateInsertValue(out, load_result(i), i);
    }
    return out;
}

} // namespace metalki::compiler::vectorize
