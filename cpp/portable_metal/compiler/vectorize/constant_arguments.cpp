// See the header.
#include "vectorize/constant_arguments.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

#include "vectorize/readable_memory.hpp"

namespace metalki::compiler::vectorize {
namespace {

// A constant distance from a pointer.
struct Place {
    const llvm::Value* base;
    std::uint64_t offset;
};

Place place_of(const llvm::Value* address, const llvm::DataLayout& layout) {
    llvm::APInt offset(64, 0);
    const llvm::Value* base = address->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
    return {base, offset.getZExtValue()};
}

// The slot of the argument whose address is loaded here, from the table that the context points to.
std::optional<std::size_t> slot_of(const llvm::LoadInst& load) {
    if (!load.getType()->isPointerTy()) {
        return std::nullopt;
    }
    auto [entries, at] = place_of(load.getPointerOperand(), load.getModule()->getDataLayout());
    const auto* table = llvm::dyn_cast<llvm::LoadInst>(entries);
    bool of_context = table && llvm::isa<llvm::Argument>(table->getPointerOperand());
    return of_context && at % sizeof(void*) == 0 ? std::optional(at / sizeof(void*)) : std::nullopt;
}

// A number of an argument: its slot, place in the argument and type.
using Key = std::tuple<std::uint64_t, std::uint64_t, llvm::Type*>;

std::optional<Key> number_of(const llvm::LoadInst& load, std::span<const Argument> arguments) {
    const llvm::DataLayout& layout = load.getModule()->getDataLayout();
    auto [base, offset] = place_of(load.getPointerOperand(), layout);
    const auto* address = llvm::dyn_cast<llvm::LoadInst>(base);
    std::optional<std::size_t> slot = address ? slot_of(*address) : std::nullopt;
    if (!load.isSimple() || load.getType()->isAggregateType() || !slot || *slot >= arguments.size()) {
        return std::nullopt;
    }
    const Argument& argument = arguments[*slot];
    std::uint64_t size = layout.getTypeStoreSize(load.getType()).getFixedValue();
    bool inside = offset < argument.type.size && size <= argument.type.size - offset;
    bool given = argument.kind == ArgumentKind::buffer && argument.constant_space && argument.reference && argument.active;
    return given && inside ? std::optional(Key(*slot, offset, load.getType())) : std::nullopt;
}

llvm::LoadInst* load_address(llvm::IRBuilder<>& builder, llvm::Value* from, std::uint64_t bytes, llvm::Align align) {
    llvm::LoadInst* out = builder.CreateLoad(builder.getPtrTy(), from);
    mark_readable(*out, bytes, align);
    return out;
}

} // namespace

bool loads_context(const llvm::LoadInst& load) {
    const llvm::DataLayout& layout = load.getModule()->getDataLayout();
    return load.hasMetadata(constant_argument) || slot_of(load) ||
           llvm::isa<llvm::Argument>(place_of(load.getPointerOperand(), layout).base);
}

void read_constant_arguments_first(llvm::Function& kernel, std::span<const Argument> arguments) {
    llvm::MapVector<Key, std::vector<llvm::LoadInst*>> found;
    std::vector<llvm::LoadInst*> tables;
    llvm::Argument* context = kernel.getArg(0);
    for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
        auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
        if (load && load->getPointerOperand() == context) {
            tables.push_back(load);
        } else if (auto key = load ? number_of(*load, arguments) : std::nullopt) {
            found[*key].push_back(load);
        }
    }
    if (found.empty()) {
        return;
    }
    llvm::IRBuilder<> builder(&*kernel.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    auto at = [&](llvm::Value* start, std::uint64_t bytes) {
        return builder.CreateGEP(builder.getInt8Ty(), start, builder.getInt64(bytes));
    };
    auto replace = [](llvm::LoadInst* load, llvm::Value* other) {
        load->replaceAllUsesWith(other);
        load->eraseFromParent();
    };
    llvm::Value* table = load_address(builder, context, arguments.size() * sizeof(void*), llvm::Align(alignof(void*)));
    for (auto& [key, loads] : found) {
        auto [slot, offset, type] = key;
        llvm::Align align = (*std::ranges::min_element(loads, {}, &llvm::LoadInst::getAlign))->getAlign();
        llvm::Value* address = load_address(builder, at(table, slot * sizeof(void*)), arguments[slot].type.size, align);
        llvm::LoadInst* number = builder.CreateAlignedLoad(type, at(address, offset), align);
        number->setMetadata(constant_argument, llvm::MDNode::get(kernel.getContext(), {}));
        number->takeName(loads.front());
        for (llvm::LoadInst* load : loads) {
            replace(load, number);
        }
    }
    for (llvm::LoadInst* load : tables) {
        replace(load, table);
    }
}

} // namespace metalki::compiler::vectorize
