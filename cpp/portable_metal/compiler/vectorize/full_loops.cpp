// Loops that lanes leave at different times, as they run while all lanes are still in them: without a mask.
#include <algorithm>

#include "llvm/IR/Instructions.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "vectorize/regions.hpp"

namespace metalki::compiler::vectorize {
namespace {

constexpr std::size_t longest_loop = 600; // instructions that are worth to be written twice

// Nodes from which the next iteration can be reached.
std::vector<bool> nodes_that_go_round(const Level& level) {
    std::vector<bool> out(level.nodes.size());
    for (unsigned i = level.end(); i-- > 0;) {
        out[i] = std::ranges::any_of(level.nodes[i].edges, [&](const Edge& edge) {
            return edge.target == level.end() ? edge.to == level.loop->getHeader() : out[edge.target];
        });
    }
    return out;
}

// Barriers have to stay where they are; long loops would make long code.
bool is_worth_it(const llvm::Loop& loop) {
    std::size_t size = 0;
    for (const llvm::BasicBlock* block : loop.blocks()) {
        size += block->size();
        for (const llvm::Instruction& instruction : *block) {
            if (callee_name(instruction) == runtime::barrier) {
                return false;
            }
        }
    }
    return size <= longest_loop;
}

} // namespace

std::unique_ptr<Level> Regions::make_together(const Level& level, const IsDivergent& is_divergent) {
    if (!is_worth_it(*level.loop)) {
        return nullptr;
    }
    std::vector<bool> goes_round = nodes_that_go_round(level);
    auto stays = [&](const Edge& edge) {
        return edge.target == level.end() ? edge.to == level.loop->getHeader() : static_cast<bool>(goes_round[edge.target]);
    };
    Cuts cuts;
    std::set<const llvm::BasicBlock*> parting;
    for (const Level::Node& node : level.nodes) {
        if (!node.inner && is_divergent(node.block) && node.edges.size() == 2 && stays(node.edges[0]) != stays(node.edges[1])) {
            cuts.insert({node.block, node.edges[stays(node.edges[0]) ? 1 : 0].to});
            parting.insert(node.block);
        }
    }
    if (cuts.empty()) {
        return nullptr;
    }
    std::unique_ptr<Level> out = make_level(level.loop->getHeader(), level.loop, cuts);
    update_level(*out, [&](const llvm::BasicBlock* block) { return is_divergent(block) && !parting.count(block); });
    for (Level::Node& node : out->nodes) {
        node.parts = !node.inner && parting.count(node.block) > 0;
        if (node.parts && node.predicated) {
            return nullptr; // some lanes come here without the others
        }
    }
    return out->divergent ? nullptr : std::move(out);
}

void Regions::find_full_loops(Level& level, const IsDivergent& is_divergent) {
    if (level.loop && level.divergent) {
        level.together = make_together(level, is_divergent);
    }
    Level& first = level.together ? *level.together : level;
    for (Level::Node& node : first.nodes) {
        if (node.inner) {
            find_full_loops(*node.inner, is_divergent);
        }
    }
}

void Regions::find_full_loops(const IsDivergent& is_divergent) {
    find_full_loops(*root_, is_divergent);
}

} // namespace metalki::compiler::vectorize
