// See repeated_prefetches.hpp.
#include "codegen/repeated_prefetches.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

#include "codegen/linear_address.hpp"

namespace metalki::compiler {
namespace {

constexpr std::int64_t line = 64;
constexpr std::int64_t beside = 8; // bytes apart: in the same line mostly

struct Prefetch {
    llvm::IntrinsicInst* call;
    std::int64_t offset;
};

// Of one block from one base, all alike.
bool drop_repeated(std::vector<Prefetch>& prefetches) {
    std::ranges::stable_sort(prefetches, {}, &Prefetch::offset);
    bool changed = false;
    std::int64_t kept = prefetches.front().offset;
    for (std::size_t i = 1; i < prefetches.size(); ++i) {
        std::int64_t own = prefetches[i].offset;
        bool between = i + 1 < prefetches.size() && prefetches[i + 1].offset <= kept + line;
        if (own <= kept + beside || between) {
            prefetches[i].call->eraseFromParent();
            changed = true;
        } else {
            kept = own;
        }
    }
    return changed;
}

} // namespace

llvm::PreservedAnalyses DropRepeatedPrefetches::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    const llvm::DataLayout& layout = function.getParent()->getDataLayout();
    bool changed = false;
    for (llvm::BasicBlock& block : function) {
        using Kind = std::tuple<LinearAddress::Place, std::uint64_t, std::uint64_t>; // for writing, level
        std::map<Kind, std::vector<Prefetch>> found;
        for (llvm::Instruction& instruction : block) {
            auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
            if (!call || call->getIntrinsicID() != llvm::Intrinsic::prefetch) {
                continue;
            }
            LinearAddress address(*call->getArgOperand(0), layout);
            auto detail = [&](unsigned i) { return llvm::cast<llvm::ConstantInt>(call->getArgOperand(i))->getZExtValue(); };
            found[{address.place, detail(1), detail(2)}].push_back({call, address.constant});
        }
        for (auto& [kind, prefetches] : found) {
            changed |= drop_repeated(prefetches);
        }
    }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

} // namespace metalki::compiler
