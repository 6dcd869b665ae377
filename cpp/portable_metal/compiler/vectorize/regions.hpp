// Which blocks run under a mask, loop by loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/BasicBlock.h"

namespace metalki::compiler::vectorize {

// An edge of the control flow graph, seen from a level: where it starts and which of its level's nodes it reaches.
struct Edge {
    llvm::BasicBlock* from = nullptr;
    llvm::BasicBlock* to = nullptr; // null: return
    unsigned target = 0;            // node index; Level::end() when it goes round or leaves the level
};

// One iteration of a loop (or the whole function): an acyclic graph of blocks and inner loops, in topological order.
struct Level {
    struct Node {
        llvm::BasicBlock* block = nullptr;  // the block, or the header of the inner loop
        std::unique_ptr<Level> inner;       // set for an inner loop
        std::vector<Edge> edges;            // what leaves the node
        std::vector<unsigned> predecessors; // nodes of this level
        unsigned dominator = 0;             // immediate, of this level
        unsigned post_dominator = 0;        // immediate; end() possible
        bool split = false;                 // its lanes may go different ways
        bool predicated = false;            // runs under a mask of its own
        bool parts = false;                 // of `together`: only the edge that stays in the loop is left
        std::vector<unsigned> region;       // split and not predicated: what lies between it and its post-dominator, in order
    };

    llvm::Loop* loop = nullptr; // null: the function
    bool divergent = false;     // lanes may leave the loop in different iterations
    std::vector<Node> nodes;
    // Of a divergent loop: the same iteration as long as no lane leaves, without the ways that lead out of the loop. Null where
    // that would be of no use.
    std::unique_ptr<Level> together;

    unsigned end() const { return static_cast<unsigned>(nodes.size()); }
};

// What the analysis of values says of a block's terminator.
using IsDivergent = std::function<bool(const llvm::BasicBlock*)>;

class Regions {
public:
    Regions(llvm::Function& function, llvm::LoopInfo& loops);

    // Marks splits, predicated nodes and divergent loops; returns the blocks at whose start lanes of different ways meet, and
    // the loops (their exit blocks) that lanes leave at different times. Call again when more terminators are found to be
    // divergent.
    void update(const IsDivergent& is_divergent);

    // Adds `together` to the divergent loops. Once, when all divergent terminators are known.
    void find_full_loops(const IsDivergent& is_divergent);

    const Level& function() const { return *root_; }
    // Lanes may have come here along different ways: phis of different values differ by lane.
    bool is_join(const llvm::BasicBlock* block) const { return joins_.count(block) > 0; }
    // Exit block of a divergent loop.
    bool is_divergent_exit(const llvm::BasicBlock* block) const { return divergent_exits_.count(block) > 0; }
    // Not under a mask of its own on any level.
    bool is_unmasked(const llvm::BasicBlock* block) const { return unmasked_.count(block) > 0; }

private:
    using Cuts = std::set<std::pair<const llvm::BasicBlock*, const llvm::BasicBlock*>>;

    std::unique_ptr<Level> make_level(llvm::BasicBlock* entry, llvm::Loop* loop, const Cuts& cuts);
    void find_full_loops(Level& level, const IsDivergent& is_divergent);
    std::unique_ptr<Level> make_together(const Level& level, const IsDivergent& is_divergent);
    void find_dominators(Level& level);
    void update_level(Level& level, const IsDivergent& is_divergent);
    void note_unmasked(const Level& level, bool unmasked);

    llvm::LoopInfo& loops_;
    std::unique_ptr<Level> root_;
    std::set<const llvm::BasicBlock*> joins_, divergent_exits_, unmasked_;
};

} // namespace metalki::compiler::vectorize
