// Finds them: same base and same variable offsets, constant distances, and nothing written in between.
#include "vectorize/load_groups.hpp"

#include <algorithm>
#include <map>

#include "llvm/IR/Module.h"

#include "codegen/linear_address.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr unsigned longest_group = 64; // elements

struct Candidate {
    const llvm::LoadInst* load;
    std::int64_t offset;
    std::int64_t bytes;
    unsigned order;
};

bool can_share(const llvm::LoadInst& load, const Divergence& divergence, const llvm::DataLayout& layout) {
    llvm::Type* element = load.getType()->getScalarType();
    if (!load.isSimple() || !(element->isIntegerTy() || element->isFloatingPointTy()) ||
        layout.getTypeStoreSizeInBits(element) != layout.getTypeSizeInBits(element)) {
        return false;
    }
    Shape shape = divergence.shape_of(load.getPointerOperand());
    return shape.kind != Shape::Kind::unknown && !shape.is_uniform() && !divergence.interleaved_base(load.getPointerOperand());
}

// A vector of small numbers comes in words as well, unless the lanes' vectors lie side by side.
bool is_worth_words(const LoadGroup& group, const Divergence& divergence, const llvm::DataLayout& layout) {
    Shape shape = divergence.shape_of(group.leader->getPointerOperand());
    auto bytes = static_cast<std::int64_t>(layout.getTypeStoreSize(group.leader->getType()).getFixedValue());
    bool side_by_side = shape.has_scalar() && shape.offsets[1] - shape.offsets[0] == bytes;
    return group.count > 1 && layout.getTypeSizeInBits(group.element) < 32 && !side_by_side;
}

// The stretches without gaps among loads that may be done together.
void close(std::vector<Candidate>& open, std::vector<LoadGroup>& groups, const Divergence& divergence,
           const llvm::DataLayout& layout) {
    std::ranges::stable_sort(open, {}, &Candidate::offset);
    for (std::size_t first = 0; first < open.size();) {
        llvm::Type* element = open[first].load->getType()->getScalarType();
        std::size_t last = first;
        LoadGroup group{.element = element};
        while (true) {
            llvm::Type* type = open[last].load->getType();
            group.loads.push_back(open[last].load);
            group.count += type->isVectorTy() ? llvm::cast<llvm::FixedVectorType>(type)->getNumElements() : 1;
            if (last + 1 == open.size() || open[last + 1].offset != open[last].offset + open[last].bytes ||
                group.count >= longest_group) {
                break;
            }
            ++last;
        }
        auto leader = std::ranges::min_element(open.begin() + static_cast<std::ptrdiff_t>(first),
                                               open.begin() + static_cast<std::ptrdiff_t>(last) + 1, {}, &Candidate::order);
        group.leader = leader->load;
        group.start = open[first].offset - leader->offset;
        if (group.loads.size() > 1 || is_worth_words(group, divergence, layout)) {
            groups.push_back(std::move(group));
        }
        first = last + 1;
    }
    open.clear();
}

} // namespace

LoadGroups::LoadGroups(llvm::Function& kernel, const Divergence& divergence, llvm::AAResults& aliases) {
    const llvm::DataLayout& layout = kernel.getParent()->getDataLayout();
    for (const llvm::BasicBlock& block : kernel) {
        std::map<std::pair<LinearAddress::Place, llvm::Type*>, std::vector<Candidate>> open;
        std::vector<std::pair<unsigned, const llvm::Instruction*>> writes;
        unsigned order = 0;
        for (const llvm::Instruction& instruction : block) {
            ++order;
            const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
            if (instruction.mayWriteToMemory()) {
                writes.emplace_back(order, &instruction);
            } else if (load && can_share(*load, divergence, layout)) {
                LinearAddress address(*load->getPointerOperand(), layout);
                std::vector<Candidate>& others = open[{address.place, load->getType()->getScalarType()}];
                llvm::MemoryLocation place = llvm::MemoryLocation::get(load);
                bool stale = !others.empty() && std::ranges::any_of(writes, [&](const auto& write) {
                    return write.first > others.front().order && llvm::isModSet(aliases.getModRefInfo(write.second, place));
                });
                if (stale) {
                    close(others, groups_, divergence, layout);
                }
                auto bytes = static_cast<std::int64_t>(layout.getTypeStoreSize(load->getType()).getFixedValue());
                others.push_back({load, address.constant, bytes, order});
            }
        }
        for (auto& [key, candidates] : open) {
            close(candidates, groups_, divergence, layout);
        }
    }
    for (std::size_t index = 0; index < groups_.size(); ++index) {
        for (const llvm::LoadInst* load : groups_[index].loads) {
            of_load_[load] = index;
        }
    }
}

const LoadGroup* LoadGroups::group_of(const llvm::LoadInst& load) const {
    auto found = of_load_.find(&load);
    return found == of_load_.end() ? nullptr : &groups_[found->second];
}

} // namespace metalki::compiler::vectorize
