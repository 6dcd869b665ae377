// Partial linearisation decides here: only what lies between a divergent branch and the block where its lanes meet is masked.
#include "vectorize/regions.hpp"

#include <algorithm>

#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::vectorize {
namespace {

// The loop that is a direct child of `outer` and contains `block`, or null when the block lies in `outer` itself.
llvm::Loop* child_loop(const llvm::LoopInfo& loops, const llvm::BasicBlock* block, const llvm::Loop* outer) {
    llvm::Loop* loop = loops.getLoopFor(block);
    while (loop && loop->getParentLoop() != outer) {
        loop = loop->getParentLoop();
    }
    return loop;
}

// What lies between a node and its immediate post-dominator.
std::vector<unsigned> influence(const Level& level, unsigned split) {
    std::vector<bool> seen(level.nodes.size(), false);
    std::vector<unsigned> open{split}, out;
    unsigned join = level.nodes[split].post_dominator;
    while (!open.empty()) {
        unsigned node = open.back();
        open.pop_back();
        for (const Edge& edge : level.nodes[node].edges) {
            if (edge.target != join && edge.target != level.end() && !seen[edge.target]) {
                seen[edge.target] = true;
                open.push_back(edge.target);
                out.push_back(edge.target);
            }
        }
    }
    std::ranges::sort(out);
    return out;
}

unsigned common_dominator(const Level& level, unsigned a, unsigned b) {
    while (a != b) {
        (a > b ? a : b) = level.nodes[std::max(a, b)].dominator;
    }
    return a;
}

bool has_several_targets(const Level::Node& node) {
    return std::ranges::any_of(node.edges, [&](const Edge& edge) {
        return edge.target != node.edges.front().target || edge.to != node.edges.front().to;
    });
}

// One way into every masked part: where control flow joins it from the side, the branch further up is taken as a split as well.
void close_regions(Level& level) {
    for (bool changed = true; changed;) {
        changed = false;
        for (Level::Node& node : level.nodes) {
            node.predicated = false;
            node.region.clear();
        }
        std::vector<int> owner(level.nodes.size(), -1);
        auto add_split = [&](unsigned a, unsigned b) {
            level.nodes[common_dominator(level, a, b)].split = true;
            changed = true;
        };
        for (unsigned s = 0; s < level.nodes.size() && !changed; ++s) {
            Level::Node& node = level.nodes[s];
            if (!node.split || node.predicated) {
                continue;
            }
            node.region = influence(level, s);
            for (unsigned r : node.region) {
                if (owner[r] >= 0) {
                    add_split(s, static_cast<unsigned>(owner[r]));
                    break;
                }
                owner[r] = static_cast<int>(s);
                level.nodes[r].predicated = true;
            }
        }
        for (unsigned r = 0; r < level.nodes.size() && !changed; ++r) {
            if (!level.nodes[r].predicated) {
                continue;
            }
            for (unsigned p : level.nodes[r].predecessors) {
                if (p != static_cast<unsigned>(owner[r]) && owner[p] != owner[r]) {
                    add_split(p, static_cast<unsigned>(owner[r]));
                    break;
                }
            }
        }
    }
}

} // namespace

Regions::Regions(llvm::Function& function, llvm::LoopInfo& loops)
    : loops_(loops), root_(make_level(&function.getEntryBlock(), nullptr, {})) {}

std::unique_ptr<Level> Regions::make_level(llvm::BasicBlock* entry, llvm::Loop* loop, const Cuts& cuts) {
    auto level = std::make_unique<Level>();
    level->loop = loop;
    struct Raw {
        llvm::BasicBlock* block;
        llvm::Loop* inner;
        std::vector<Edge> edges;
        std::vector<llvm::BasicBlock*> targets; // of the edges: a block of this level, or null
    };
    std::map<llvm::BasicBlock*, Raw> raw;
    auto representative = [&](llvm::BasicBlock* block) -> llvm::BasicBlock* {
        if (loop && (!loop->contains(block) || block == loop->getHeader())) {
            return nullptr;
        }
        llvm::Loop* child = child_loop(loops_, block, loop);
        return child ? child->getHeader() : block;
    };
    auto describe = [&](llvm::BasicBlock* block) -> Raw& {
        Raw& node = raw[block];
        node.block = block;
        llvm::Loop* child = child_loop(loops_, block, loop);
        node.inner = child;
        auto add = [&](llvm::BasicBlock* from, llvm::BasicBlock* to) {
            if (cuts.count({from, to})) {
                return;
            }
            node.edges.push_back({from, to, 0});
            node.targets.push_back(to ? representative(to) : nullptr);
        };
        if (child) {
            llvm::SmallVector<std::pair<llvm::BasicBlock*, llvm::BasicBlock*>, 8> exits;
            child->getExitEdges(exits);
            for (auto& [from, to] : exits) {
                add(from, to);
            }
        } else {
            for (llvm::BasicBlock* to : llvm::successors(block)) {
                add(block, to);
            }
            if (llvm::succ_empty(block)) {
                add(block, nullptr);
            }
        }
        return node;
    };
    // Post-order by depth-first search, then reversed.
    std::vector<llvm::BasicBlock*> order;
    std::set<llvm::BasicBlock*> seen{entry};
    std::vector<std::pair<llvm::BasicBlock*, std::size_t>> stack{{entry, 0}};
    describe(entry);
    while (!stack.empty()) {
        auto& [block, next] = stack.back();
        Raw& node = raw[block];
        if (next == node.targets.size()) {
            order.push_back(block);
            stack.pop_back();
            continue;
        }
        llvm::BasicBlock* target = node.targets[next++];
        if (target && seen.insert(target).second) {
            describe(target);
            stack.push_back({target, 0});
        }
    }
    std::ranges::reverse(order);
    std::map<llvm::BasicBlock*, unsigned> index;
    for (unsigned i = 0; i < order.size(); ++i) {
        index[order[i]] = i;
    }
    level->nodes.resize(order.size());
    for (unsigned i = 0; i < order.size(); ++i) {
        Raw& from = raw[order[i]];
        Level::Node& node = level->nodes[i];
        node.block = from.block;
        node.edges = from.edges;
        for (std::size_t e = 0; e < node.edges.size(); ++e) {
            node.edges[e].target = from.targets[e] ? index[from.targets[e]] : level->end();
            if (from.targets[e]) {
                level->nodes[node.edges[e].target].predecessors.push_back(i);
            }
        }
        if (from.inner) {
            node.inner = make_level(from.block, from.inner, {});
        }
    }
    find_dominators(*level);
    return level;
}

void Regions::find_dominators(Level& level) {
    for (unsigned i = 1; i < level.nodes.size(); ++i) {
        unsigned dominator = level.nodes[i].predecessors.front();
        for (unsigned p : level.nodes[i].predecessors) {
            dominator = common_dominator(level, dominator, p);
        }
        level.nodes[i].dominator = dominator;
    }
    for (unsigned i = level.end(); i-- > 0;) {
        Level::Node& node = level.nodes[i];
        unsigned common = node.edges.empty() ? level.end() : node.edges.front().target;
        for (const Edge& edge : node.edges) {
            unsigned other = edge.target;
            while (common != other) {
                unsigned& nearer = common < other ? common : other;
                nearer = level.nodes[nearer].post_dominator;
            }
        }
        node.post_dominator = common;
    }
}

void Regions::update_level(Level& level, const IsDivergent& is_divergent) {
    for (Level::Node& node : level.nodes) {
        if (node.inner) {
            update_level(*node.inner, is_divergent);
            node.split |= node.inner->divergent && has_several_targets(node);
        } else {
            node.split |= is_divergent(node.block) && has_several_targets(node);
        }
    }
    close_regions(level);
    if (!level.loop) {
        return;
    }
    for (const Level::Node& node : level.nodes) {
        bool leaves =
            std::ranges::any_of(node.edges, [&](const Edge& edge) { return edge.to && !level.loop->contains(edge.to); });
        level.divergent |= leaves && (node.split || node.predicated);
    }
}

void Regions::update(const IsDivergent& is_divergent) {
    update_level(*root_, is_divergent);
    joins_.clear();
    divergent_exits_.clear();
    unmasked_.clear();
    std::vector<const Level*> open{root_.get()};
    while (!open.empty()) {
        const Level& level = *open.back();
        open.pop_back();
        for (const Level::Node& node : level.nodes) {
            if (node.inner) {
                open.push_back(node.inner.get());
                if (node.inner->divergent) {
                    for (const Edge& edge : node.edges) {
                        divergent_exits_.insert(edge.to);
                    }
                }
            }
            if (node.split && !node.predicated && node.post_dominator != level.end()) {
                joins_.insert(level.nodes[node.post_dominator].block);
            }
            if (node.predicated && node.predecessors.size() > 1) {
                joins_.insert(node.block);
            }
        }
    }
    note_unmasked(*root_, true);
}

void Regions::note_unmasked(const Level& level, bool unmasked) {
    for (const Level::Node& node : level.nodes) {
        bool here = unmasked && !node.predicated;
        if (node.inner) {
            note_unmasked(*node.inner, here && !node.inner->divergent);
        } else if (here) {
            unmasked_.insert(node.block);
        }
    }
}

} // namespace metalki::compiler::vectorize
