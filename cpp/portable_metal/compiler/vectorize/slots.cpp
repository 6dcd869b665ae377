// See the header.
#include "vectorize/slots.hpp"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/ValueHandle.h"

namespace metalki::compiler::vectorize {
namespace {

llvm::AllocaInst* stored_slot(llvm::Instruction& instruction) {
    auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
    return store ? llvm::dyn_cast<llvm::AllocaInst>(store->getPointerOperand()) : nullptr;
}

llvm::AllocaInst* loaded_slot(llvm::Value& value) {
    auto* load = llvm::dyn_cast<llvm::LoadInst>(&value);
    return load ? llvm::dyn_cast<llvm::AllocaInst>(load->getPointerOperand()) : nullptr;
}

// The slot whose value the store copies, as it is when the store is reached; null: another value.
llvm::AllocaInst* source_of(llvm::StoreInst& store) {
    auto* load = llvm::dyn_cast<llvm::LoadInst>(store.getValueOperand());
    llvm::AllocaInst* source = load ? loaded_slot(*load) : nullptr;
    if (!source || load->getParent() != store.getParent()) {
        return nullptr;
    }
    for (llvm::Instruction* between = load->getNextNode(); between != &store; between = between->getNextNode()) {
        if (stored_slot(*between) == source) {
            return nullptr;
        }
    }
    return source;
}

bool is_live_behind(llvm::Instruction& instruction, llvm::AllocaInst* slot, const LiveSlots& live) {
    for (llvm::Instruction* next = instruction.getNextNode(); next; next = next->getNextNode()) {
        if (loaded_slot(*next) == slot) {
            return true;
        }
        if (stored_slot(*next) == slot) {
            return false;
        }
    }
    return llvm::any_of(llvm::successors(instruction.getParent()), [&](llvm::BasicBlock* block) {
        auto found = live.find(block);
        return found != live.end() && found->second.count(slot);
    });
}

// Something else is written to `changed` while what `waiting` holds is still to be read.
bool changes_under(llvm::AllocaInst& changed, llvm::AllocaInst& waiting, const LiveSlots& live) {
    return llvm::any_of(changed.users(), [&](llvm::User* user) {
        auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
        return store && source_of(*store) != &waiting && is_live_behind(*store, &waiting, live);
    });
}

void merge(llvm::AllocaInst& slot, llvm::AllocaInst& into, LiveSlots& live) {
    slot.replaceAllUsesWith(&into);
    slot.eraseFromParent();
    for (llvm::User* user : llvm::make_early_inc_range(into.users())) {
        auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
        if (store && source_of(*store) == &into) {
            store->eraseFromParent();
        }
    }
    for (auto& [block, slots] : live) {
        if (slots.erase(&slot)) {
            slots.insert(&into);
        }
    }
}

} // namespace

LiveSlots live_slots(llvm::Function& body, const std::vector<llvm::AllocaInst*>& slots) {
    const Slots known(slots.begin(), slots.end());
    LiveSlots live, used, defined;
    for (llvm::BasicBlock& block : body) {
        for (llvm::Instruction& instruction : block) {
            if (llvm::AllocaInst* read = loaded_slot(instruction); read && known.count(read)) {
                if (!defined[&block].count(read)) {
                    used[&block].insert(read);
                }
            } else if (llvm::AllocaInst* written = stored_slot(instruction); written && known.count(written)) {
                defined[&block].insert(written);
            }
        }
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (llvm::BasicBlock& block : llvm::reverse(body)) {
            Slots here = used[&block];
            for (llvm::BasicBlock* next : llvm::successors(&block)) {
                for (llvm::AllocaInst* slot : live[next]) {
                    if (!defined[&block].count(slot)) {
                        here.insert(slot);
                    }
                }
            }
            if (here.size() != live[&block].size()) {
                live[&block] = std::move(here);
                changed = true;
            }
        }
    }
    return live;
}

void merge_slots(std::vector<llvm::AllocaInst*>& slots, LiveSlots& live) {
    Slots known(slots.begin(), slots.end());
    std::vector<llvm::WeakTrackingVH> copies;
    for (llvm::AllocaInst* slot : slots) {
        for (llvm::User* user : slot->users()) {
            if (auto* store = llvm::dyn_cast<llvm::StoreInst>(user); store && source_of(*store)) {
                copies.emplace_back(store);
            }
        }
    }
    for (const llvm::WeakTrackingVH& copy : copies) {
        auto* store = llvm::cast_or_null<llvm::StoreInst>(static_cast<llvm::Value*>(copy));
        llvm::AllocaInst* from = store ? source_of(*store) : nullptr;
        llvm::AllocaInst* to = store ? stored_slot(*store) : nullptr;
        if (from && from != to && known.count(from) && from->getAllocatedType() == to->getAllocatedType() &&
            !changes_under(*from, *to, live) && !changes_under(*to, *from, live)) {
            known.erase(from);
            merge(*from, *to, live);
        }
    }
    llvm::erase_if(slots, [&](llvm::AllocaInst* slot) { return !known.count(slot); });
}

} // namespace metalki::compiler::vectorize
