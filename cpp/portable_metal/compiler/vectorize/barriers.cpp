// Cuts a body at its barriers. Each piece between barriers becomes a loop over the SIMD-groups; what lives across waits in an
// array with a place for each SIMD-group. Every SIMD-group remembers at which barrier it stands, so that those that ended
// early, or that jumped over a barrier nobody of theirs reached, do not hold up the others.
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "vectorize/entries.hpp"
#include "vectorize/slots.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr unsigned max_simdgroups = 32;
constexpr unsigned finished = 255;
constexpr std::uint8_t odd_phase = 64; // tells the marks of two phases apart that follow each other: one array does for both

llvm::Value* element(llvm::IRBuilderBase& builder, llvm::AllocaInst* array, llvm::Value* simdgroup) {
    llvm::Value* index = builder.CreateZExt(simdgroup, builder.getInt64Ty());
    return builder.CreateInBoundsGEP(array->getAllocatedType(), array, {builder.getInt64(0), index});
}

class BarrierCutter {
public:
    BarrierCutter(llvm::Function& body, const Geometry& geometry, const std::string& name);
    llvm::Function& run();

private:
    // The code from a barrier (or the start) up to the next ones.
    struct Region {
        llvm::BasicBlock* start = nullptr;
        std::vector<llvm::BasicBlock*> blocks;
        Slots changed; // that it stores to
    };

    void cut();
    void find_regions();
    void find_live_slots();
    void find_shared();
    void make_frame();
    void emit_dispatch();
    void emit_region(unsigned index, llvm::BasicBlock* entry, llvm::BasicBlock* done);
    void leave_region(llvm::Instruction* terminator, unsigned from, unsigned to, llvm::Value* simdgroup,
                      llvm::BasicBlock* latch, llvm::ValueToValueMapTy& values);

    llvm::Function& body_;
    Geometry geometry_;
    llvm::LLVMContext& context_;
    llvm::Function* entry_ = nullptr;
    llvm::BasicBlock* slots_block_ = nullptr;
    llvm::BasicBlock* prologue_ = nullptr;
    std::map<llvm::BasicBlock*, unsigned> barrier_ends_; // block that ends at a barrier: region behind it
    std::vector<Region> regions_;
    std::vector<llvm::AllocaInst*> promotable_, private_arrays_, scratch_;
    LiveSlots live_in_;
    std::set<const llvm::Instruction*> shared_;              // in the prologue, the same for all SIMD-groups
    std::map<llvm::AllocaInst*, llvm::AllocaInst*> waiting_; // slot: its array
    std::map<llvm::AllocaInst*, llvm::AllocaInst*> copies_;  // private array: one for each SIMD-group
    std::map<llvm::AllocaInst*, llvm::AllocaInst*> scratch_map_;
    llvm::BasicBlock* frame_ = nullptr;
    llvm::BasicBlock* dispatch_ = nullptr;
    llvm::AllocaInst *standing_ = nullptr, *pending_ = nullptr, *phase_ = nullptr;
    llvm::AllocaInst* places_[3] = {};
    std::unique_ptr<GroupSize> size_;
};

BarrierCutter::BarrierCutter(llvm::Function& body, const Geometry& geometry, const std::string& name)
    : body_(body), geometry_(geometry), context_(body.getContext()) {
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context_), {llvm::PointerType::get(context_, 0)}, false);
    entry_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *body.getParent());
    for (const llvm::Attribute& attribute : body.getAttributes().getFnAttrs()) {
        entry_->addFnAttr(attribute);
    }
    // So that what it holds can be read once, in front of the loops.
    entry_->addDereferenceableParamAttr(0, sizeof(ThreadgroupContext));
    slots_block_ = &body.getEntryBlock();
    prologue_ = slots_block_->getSingleSuccessor();
}

void BarrierCutter::cut() {
    std::vector<llvm::CallInst*> barriers = calls_of(body_, runtime::barrier);
    if (barriers.size() > 60) {
        throw Unsupported("more than 60 barriers");
    }
    llvm::removeUnreachableBlocks(body_);
    regions_.push_back({prologue_->getSingleSuccessor(), {}, {}});
    for (llvm::CallInst* barrier : barriers) {
        if (!barrier->getParent()) {
            continue; // was never reached
        }
        llvm::BasicBlock* before = barrier->getParent();
        llvm::BasicBlock* behind = llvm::SplitBlock(before, barrier->getNextNode());
        barrier->eraseFromParent();
        barrier_ends_[before] = static_cast<unsigned>(regions_.size());
        regions_.push_back({behind, {}, {}});
    }
}

void BarrierCutter::find_regions() {
    for (Region& region : regions_) {
        std::set<llvm::BasicBlock*> seen{region.start};
        std::vector<llvm::BasicBlock*> open{region.start};
        while (!open.empty()) {
            llvm::BasicBlock* block = open.back();
            open.pop_back();
            region.blocks.push_back(block);
            for (llvm::Instruction& instruction : *block) {
                auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
                if (auto* slot = llvm::dyn_cast_or_null<llvm::AllocaInst>(store ? store->getPointerOperand() : nullptr)) {
                    region.changed.insert(slot);
                }
            }
            if (barrier_ends_.count(block)) {
                continue;
            }
            for (llvm::BasicBlock* next : llvm::successors(block)) {
                if (seen.insert(next).second) {
                    open.push_back(next);
                }
            }
        }
    }
}

void BarrierCutter::find_live_slots() {
    for (llvm::Instruction& instruction : *slots_block_) {
        if (auto* slot = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
            bool scratch = slot->getMetadata(scratch_mark) != nullptr;
            (llvm::isAllocaPromotable(slot) ? promotable_ : scratch ? scratch_ : private_arrays_).push_back(slot);
        }
    }
    live_in_ = live_slots(body_, promotable_);
    merge_slots(promotable_, live_in_);
}

void BarrierCutter::find_shared() {
    auto is_shared = [&](const llvm::Value* operand) {
        const auto* instruction = llvm::dyn_cast<llvm::Instruction>(operand);
        return instruction ? shared_.count(instruction) > 0
                           : !llvm::isa<llvm::Argument>(operand) || operand == body_.getArg(unsigned(BodyParameter::context));
    };
    for (const llvm::Instruction& instruction : *prologue_) {
        if (llvm::all_of(instruction.operand_values(), is_shared)) {
            shared_.insert(&instruction);
        }
    }
}

void BarrierCutter::make_frame() {
    frame_ = llvm::BasicBlock::Create(context_, "frame", entry_);
    dispatch_ = llvm::BasicBlock::Create(context_, "phase", entry_);
    llvm::IRBuilder<> builder(frame_);
    // One more than needed: arrays a power of two apart would share a few lines of the cache.
    auto array = [&](llvm::Type* type) {
        llvm::AllocaInst* out = builder.CreateAlloca(llvm::ArrayType::get(type, max_simdgroups + 1));
        out->setAlignment(llvm::Align(64));
        return out;
    };
    auto* byte = builder.getInt8Ty();
    standing_ = builder.CreateAlloca(llvm::FixedVectorType::get(byte, max_simdgroups));
    pending_ = builder.CreateAlloca(builder.getInt64Ty());
    phase_ = builder.CreateAlloca(byte);
    for (llvm::AllocaInst*& table : places_) {
        table = array(builder.getInt32Ty());
    }
    for (const Region& region : regions_) {
        if (&region != &regions_.front()) {
            for (llvm::AllocaInst* slot : live_in_[region.start]) {
                if (!waiting_.count(slot)) {
                    waiting_[slot] = array(slot->getAllocatedType());
                }
            }
        }
    }
    for (llvm::AllocaInst* own : private_arrays_) {
        copies_[own] = array(own->getAllocatedType());
    }
    for (llvm::AllocaInst* memory : scratch_) {
        auto* copy = llvm::cast<llvm::AllocaInst>(builder.Insert(memory->clone()));
        scratch_map_[memory] = copy;
    }
    size_ = std::make_unique<GroupSize>(builder, entry_->getArg(0));
    builder.CreateStore(llvm::Constant::getNullValue(standing_->getAllocatedType()), standing_);
    builder.CreateStore(builder.getInt64(1), pending_);
    builder.CreateStore(builder.getInt8(0), phase_);

    // Where each SIMD-group lies.
    auto* fill = llvm::BasicBlock::Create(context_, "places", entry_);
    builder.CreateBr(fill);
    builder.SetInsertPoint(fill);
    llvm::PHINode* phis[4];
    for (llvm::PHINode*& phi : phis) {
        phi = builder.CreatePHI(builder.getInt32Ty(), 2);
        phi->addIncoming(builder.getInt32(0), frame_);
    }
    SimdGroupPlace place{phis[1], phis[2], phis[3]};
    for (unsigned axis = 0; axis < 3; ++axis) {
        builder.CreateStore(phis[1 + axis], element(builder, places_[axis], phis[0]));
    }
    llvm::Value* next = builder.CreateNUWAdd(phis[0], builder.getInt32(1));
    SimdGroupPlace next_at = next_place(builder, place, *size_, geometry_);
    phis[0]->addIncoming(next, fill);
    phis[1]->addIncoming(next_at.x, fill);
    phis[2]->addIncoming(next_at.y, fill);
    phis[3]->addIncoming(next_at.z, fill);
    builder.CreateCondBr(builder.CreateICmpULT(next, size_->simdgroups), fill, dispatch_);
}

// Phase by phase: from one barrier to the next for all SIMD-groups.
void BarrierCutter::emit_dispatch() {
    auto block = [&](const char* name) { return llvm::BasicBlock::Create(context_, name, entry_); };
    llvm::BasicBlock *pick = block("pick"), *picked = block("picked"), *finish = block("finish");
    llvm::IRBuilder<> builder(dispatch_);
    llvm::Value* first = builder.CreateLoad(builder.getInt64Ty(), pending_);
    builder.CreateStore(builder.getInt64(0), pending_);
    builder.CreateStore(builder.CreateXor(builder.CreateLoad(builder.getInt8Ty(), phase_), odd_phase), phase_);
    builder.CreateCondBr(builder.CreateICmpEQ(first, builder.getInt64(0)), finish, pick);
    builder.SetInsertPoint(pick);
    llvm::PHINode* todo = builder.CreatePHI(builder.getInt64Ty(), 2);
    llvm::Value* index = builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, todo, builder.getTrue());
    llvm::Value* rest = builder.CreateAnd(todo, builder.CreateSub(todo, builder.getInt64(1)));
    todo->addIncoming(first, dispatch_);
    todo->addIncoming(rest, picked);
    llvm::BasicBlock* nowhere = block("nowhere");
    llvm::SwitchInst* choice = builder.CreateSwitch(index, nowhere, static_cast<unsigned>(regions_.size()));
    llvm::IRBuilder<>(nowhere).CreateUnreachable();
    for (unsigned i = 0; i < regions_.size(); ++i) {
        llvm::BasicBlock* entry = block("region");
        choice->addCase(builder.getInt64(i), entry);
        emit_region(i, entry, picked);
    }
    builder.SetInsertPoint(picked);
    builder.CreateCondBr(builder.CreateICmpEQ(rest, builder.getInt64(0)), dispatch_, pick);
    builder.SetInsertPoint(finish);
    builder.CreateRetVoid();
}

void BarrierCutter::emit_region(unsigned index, llvm::BasicBlock* entry, llvm::BasicBlock* done) {
    const Region& region = regions_[index];
    auto block = [&](const char* name) { return llvm::BasicBlock::Create(context_, name, entry_); };
    llvm::BasicBlock *loop = block("simdgroup"), *inside = block("inside"), *latch = block("latch");
    llvm::IRBuilder<> builder(entry);
    builder.CreateBr(loop);
    builder.SetInsertPoint(loop);
    llvm::PHINode* simdgroup = builder.CreatePHI(builder.getInt32Ty(), 2, "simdgroup");
    simdgroup->addIncoming(builder.getInt32(0), entry);
    if (index == 0) {
        builder.CreateBr(inside);
    } else {
        llvm::Value* at =
            builder.CreateGEP(builder.getInt8Ty(), standing_, builder.CreateZExt(simdgroup, builder.getInt64Ty()));
        llvm::Value* arrived = builder.CreateXor(builder.CreateLoad(builder.getInt8Ty(), phase_), odd_phase);
        llvm::Value* mark = builder.CreateOr(arrived, static_cast<std::uint8_t>(index));
        llvm::Value* here = builder.CreateICmpEQ(builder.CreateLoad(builder.getInt8Ty(), at), mark);
        builder.CreateCondBr(here, inside, latch);
    }
    builder.SetInsertPoint(latch);
    llvm::Value* next = builder.CreateNUWAdd(simdgroup, builder.getInt32(1));
    simdgroup->addIncoming(next, latch);
    builder.CreateCondBr(builder.CreateICmpULT(next, size_->simdgroups), loop, done);

    builder.SetInsertPoint(inside);
    llvm::ValueToValueMapTy values;
    values[body_.getArg(unsigned(BodyParameter::context))] = entry_->getArg(0);
    values[body_.getArg(unsigned(BodyParameter::simdgroup))] = simdgroup;
    for (unsigned axis = 0; axis < 3; ++axis) {
        values[body_.getArg(unsigned(BodyParameter::x) + axis)] =
            builder.CreateLoad(builder.getInt32Ty(), element(builder, places_[axis], simdgroup));
    }
    values[body_.getArg(unsigned(BodyParameter::active_lanes))] = lanes_of(builder, simdgroup, *size_);
    for (auto& [memory, copy] : scratch_map_) {
        values[memory] = copy;
    }
    for (llvm::AllocaInst* own : private_arrays_) {
        values[own] = element(builder, copies_[own], simdgroup);
    }
    for (llvm::AllocaInst* slot : promotable_) {
        llvm::IRBuilder<> frame(&*frame_->getFirstInsertionPt());
        llvm::AllocaInst* own = frame.CreateAlloca(slot->getAllocatedType(), nullptr, slot->getName());
        values[slot] = own;
        if (index > 0 && live_in_[region.start].count(slot)) {
            llvm::Value* waiting = element(builder, waiting_.at(slot), simdgroup);
            builder.CreateStore(builder.CreateLoad(slot->getAllocatedType(), waiting), own);
        }
    }
    llvm::IRBuilder<> once(entry->getTerminator()); // behind a condition that each SIMD-group meets, nothing leaves the loop
    for (llvm::Instruction& instruction : *prologue_) {
        if (!instruction.isTerminator()) {
            llvm::Instruction* copy = (shared_.count(&instruction) ? once : builder).Insert(instruction.clone());
            values[&instruction] = copy;
            llvm::RemapInstruction(copy, values, llvm::RF_NoModuleLevelChanges);
        }
    }
    std::vector<llvm::BasicBlock*> copies;
    for (llvm::BasicBlock* original : region.blocks) {
        copies.push_back(llvm::CloneBasicBlock(original, values, "", entry_));
        values[original] = copies.back();
    }
    builder.CreateBr(llvm::cast<llvm::BasicBlock>(static_cast<llvm::Value*>(values[region.start])));
    for (std::size_t i = 0; i < copies.size(); ++i) {
        llvm::Instruction* terminator = copies[i]->getTerminator();
        if (auto end = barrier_ends_.find(region.blocks[i]); end != barrier_ends_.end()) {
            leave_region(terminator, index, end->second, simdgroup, latch, values);
        } else if (llvm::isa<llvm::ReturnInst>(terminator)) {
            leave_region(terminator, index, finished, simdgroup, latch, values);
        }
    }
    for (llvm::BasicBlock* copy : copies) {
        for (llvm::Instruction& instruction : *copy) {
            llvm::RemapInstruction(&instruction, values, llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals);
        }
    }
}

void BarrierCutter::leave_region(llvm::Instruction* terminator, unsigned from, unsigned to, llvm::Value* simdgroup,
                                 llvm::BasicBlock* latch, llvm::ValueToValueMapTy& values) {
    llvm::IRBuilder<> builder(terminator);
    llvm::Value* mark = builder.getInt8(static_cast<std::uint8_t>(to));
    if (to != finished) {
        mark = builder.CreateOr(builder.CreateLoad(builder.getInt8Ty(), phase_), mark);
        for (llvm::AllocaInst* slot : live_in_[regions_[to].start]) {
            if (regions_[from].changed.count(slot)) {
                llvm::Value* value = builder.CreateLoad(slot->getAllocatedType(), values[slot]);
                builder.CreateStore(value, element(builder, waiting_.at(slot), simdgroup));
            }
        }
        llvm::Value* pending = builder.CreateLoad(builder.getInt64Ty(), pending_);
        builder.CreateStore(builder.CreateOr(pending, builder.getInt64(std::uint64_t{1} << to)), pending_);
    }
    llvm::Value* at = builder.CreateGEP(builder.getInt8Ty(), standing_, builder.CreateZExt(simdgroup, builder.getInt64Ty()));
    builder.CreateStore(mark, at);
    builder.CreateBr(latch);
    terminator->eraseFromParent();
}

llvm::Function& BarrierCutter::run() {
    cut();
    find_live_slots();
    find_regions();
    find_shared();
    make_frame();
    emit_dispatch();
    body_.eraseFromParent();
    return *entry_;
}

} // namespace

llvm::Function& make_barrier_entry(llvm::Function& body, const Geometry& geometry, const std::string& name) {
    return BarrierCutter(body, geometry, name).run();
}

} // namespace metalki::compiler::vectorize
