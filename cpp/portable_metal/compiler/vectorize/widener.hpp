// Rewrites a kernel for one thread as a function for the 32 lanes of a SIMD-group.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llvm/IR/Function.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

#include "vectorize/divergence.hpp"
#include "vectorize/load_groups.hpp"
#include "vectorize/vector_math.hpp"

namespace metalki::compiler::vectorize {

// The kernel has to run thread by thread; what() says why.
class Unsupported : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Parameters of the widened function.
enum class BodyParameter : unsigned { context, simdgroup, x, y, z, active_lanes };

// Marks memory that is used within one operation only.
inline constexpr const char* scratch_mark = "metalki.scratch";

// Of the processor. Without registers for masks, masks wait as a number a lane, to compare and blend with.
struct VectorRegisters {
    unsigned bytes = 16;
    bool masks = false;
    bool fused = false; // multiplies and adds in one instruction
};

// The lanes that take part; null: all 32.
using Mask = llvm::Value*;

class Widener {
public:
    Widener(llvm::Function& kernel, const Divergence& divergence, const LoadGroups& load_groups, const VectorMath& mathematics,
            VectorRegisters vector_registers);

    // void body(context, simdgroup, x, y, z, active lanes): runs one SIMD-group. x, y, z: position of lane 0 in the grid (flat)
    // or in the threadgroup. Values that live from block to block sit in allocas, those in the first block depend on the
    // parameters only.
    llvm::Function& run();

    // Bits in which the places of lanes differ that exchange numbers, as values of the kernel, of those known before all else.
    const std::set<const llvm::Value*>& flipped_bits() const { return flipped_bits_; }
    // Code for launches in which none of these bits leads out of a SIMD-group.
    void stay_in_blocks(const std::set<const llvm::Value*>& bits) { near_bits_ = bits; }
    // bool near(parameters of the body): whether this is such a launch. Null: it may be one in some SIMD-groups only.
    llvm::Function* make_near_test();

private:
    // Scalar part for uniform and affine values, an array of the scalar parts where there are some, a vector of all lanes for
    // varying values.
    using Representation = llvm::Value*;
    using EdgeKey = std::pair<const llvm::BasicBlock*, const llvm::BasicBlock*>;

    using Values = std::unordered_map<const llvm::Value*, llvm::Value*>;

    // Where the first lanes want to leave a loop that all were in.
    struct Parting {
        const llvm::BasicBlock* at = nullptr;
        llvm::BasicBlock* code = nullptr; // empty as yet
        Values values;                    // known there
    };

    // A level while code for it is written.
    struct LevelState {
        const Level* level = nullptr;
        LevelState* outer = nullptr;
        const Level::Node* node = nullptr;  // of the outer level
        llvm::AllocaInst* mask = nullptr;   // lanes in this iteration; null: all
        llvm::AllocaInst* again = nullptr;  // divergent loops: lanes that go round
        bool collects = false;              // lanes that leave are gathered behind the loop
        llvm::BasicBlock* end = nullptr;    // divergent loops: end of the iteration
        llvm::BasicBlock* behind = nullptr; // where collected lanes go on
        std::map<EdgeKey, llvm::AllocaInst*> exit_masks;
        std::vector<llvm::AllocaInst*> node_masks;
        std::vector<Parting> partings;
        std::map<const llvm::BasicBlock*, llvm::BasicBlock*> behind_partings; // where lanes that have parted go on
    };

    // widen_control.cpp
    void emit_level(LevelState& state);
    void emit_node(LevelState& state, unsigned index);
    void emit_inner_loop(LevelState& outer, unsigned index, llvm::AllocaInst* mask, LevelState& state);
    void emit_region(LevelState& state, const Level::Node& split);
    void emit_real_branch(LevelState& state, const Level::Node& node);
    void emit_masked_branch(LevelState& state, const Level::Node& node);
    void note_mask(LevelState& state, const Edge& edge, Mask mask);
    using PhiValues = std::vector<std::pair<const llvm::PHINode*, llvm::Value*>>;
    PhiValues phi_values(const Edge& edge);
    void store_phis(const Edge& edge, const PhiValues& values, Mask mask, bool masked);
    void forget_phis(const llvm::BasicBlock* block);
    bool leaves_divergent_loop(const LevelState& state, const Edge& edge) const;
    llvm::BasicBlock* follow(LevelState& state, const Edge& edge, Mask mask);
    void note_headers(const Level& level);
    void open_region(LevelState& state, const Level::Node& split, unsigned from);
    llvm::BasicBlock* label(const llvm::BasicBlock* block);
    void enter(llvm::BasicBlock* block);
    void emit_block(const llvm::BasicBlock& block, Mask mask);
    bool needs_guard(const Level::Node& node) const;
    Mask load_mask(llvm::AllocaInst* slot);
    void or_mask(llvm::AllocaInst* slot, Mask mask);
    void store_mask(llvm::AllocaInst* slot, Mask mask);
    llvm::AllocaInst* make_mask_slot(const llvm::Twine& name);

    // widen_full_loops.cpp
    void emit_full_loop(LevelState& masked, llvm::BasicBlock* header);
    void emit_parting(LevelState& state, const Level::Node& node);
    void emit_partings(LevelState& masked);
    llvm::Value* holds_for_all(const llvm::Value* condition, bool expected, const llvm::BasicBlock* block);
    llvm::Value* comparison_holds_for_all(const llvm::ICmpInst& comparison, bool expected);

    // widen_values.cpp
    llvm::Type* widened(llvm::Type* type) const;
    llvm::FixedVectorType* vector_of(llvm::Type* scalar) const;
    Representation representation(const llvm::Value* value);
    llvm::Value* scalar(const llvm::Value* value);
    llvm::Value* vector(const llvm::Value* value);
    std::vector<llvm::Value*> parts(const llvm::Value* value, const Partition& partition);
    llvm::Value* pack(const std::vector<llvm::Value*>& parts);
    llvm::Value* spread(const std::vector<llvm::Value*>& parts, const Partition& partition);
    llvm::Value* add_offset(llvm::Value* start, std::int64_t offset);
    llvm::Value* add_offsets(llvm::Value* start, const LaneOffsets& offsets);
    llvm::Value* as(const llvm::Value* value, const Shape& shape);
    llvm::Value* splat(llvm::Value* scalar);
    llvm::Constant* lane_constants(llvm::Type* type, const LaneOffsets& offsets) const;
    llvm::AllocaInst* slot_for(const llvm::Value* value);
    llvm::AllocaInst* make_slot(llvm::Type* type, const llvm::Twine& name);
    llvm::AllocaInst* make_scratch(llvm::Type* type);
    void define(const llvm::Instruction& instruction, Representation value);
    llvm::Value* mask_bits(Mask mask);
    llvm::Value* any(Mask mask);
    llvm::Value* all(Mask mask);
    Mask both(Mask a, Mask b);
    llvm::Value* blend(Mask mask, llvm::Value* on, llvm::Value* off);
    Mask full_mask();
    llvm::Value* last_active(Mask mask);
    llvm::Value* first_active(Mask mask);

    // widen_operations.cpp
    bool is_prologue(const llvm::Instruction& instruction) const;
    bool is_known_first(const llvm::Value* value) const { return prologue_values_.count(value) > 0; }
    void emit_instruction(const llvm::Instruction& instruction, Mask mask);
    llvm::Value* clone_scalar(const llvm::Instruction& instruction, bool keep_flags);
    llvm::Value* emit_affine(const llvm::Instruction& instruction);
    llvm::Value* emit_extension(llvm::Value* narrow, const Shape& shape, llvm::Type* wide, bool is_signed);
    llvm::Value* emit_parts(const llvm::Instruction& instruction);
    std::vector<llvm::Value*> multiply_rows(const llvm::Value* row, const llvm::Value* length, const Partition& partition);
    llvm::Value* emit_part(const llvm::Instruction& instruction, const std::vector<llvm::Value*>& operands);
    llvm::Value* emit_compact(const llvm::Instruction& instruction);
    llvm::Value* emit_varying(const llvm::Instruction& instruction, Mask mask);
    llvm::Value* emit_vector_cast(const llvm::CastInst& cast);
    llvm::Value* emit_division(const llvm::BinaryOperator& division, Mask mask);
    llvm::Value* emit_address(const llvm::GetElementPtrInst& address);

    // widen_comparisons.cpp
    struct Halves {
        llvm::Value* high = nullptr; // of all lanes
        llvm::Value* low = nullptr;  // five bits of each lane, in bytes
    };
    std::optional<Halves> halves_of(const llvm::Value* value, unsigned steps);
    llvm::Value* compare_halves(const llvm::ICmpInst& comparison);

    // widen_components.cpp
    llvm::Value* interleave(llvm::Value* components);
    llvm::Value* deinterleave(llvm::Value* wide, unsigned components);
    std::vector<llvm::Value*> separate(llvm::Value* wide, unsigned components);
    std::vector<llvm::Value*> pick_components(llvm::Value* wide, unsigned components);
    llvm::Value* every(llvm::Value* vector, unsigned step, unsigned first);

    // widen_memory.cpp
    void emit_array(const llvm::AllocaInst& array);
    void emit_load(const llvm::LoadInst& load, Mask mask);
    void emit_store(const llvm::StoreInst& store, Mask mask);
    // Lanes in a row at consecutive places, or all at one place.
    struct Piece {
        llvm::Value* address = nullptr;
        unsigned first = 0, length = lanes;
        bool same = false;
    };
    std::vector<Piece> pieces(const llvm::Value* pointer, std::int64_t step, Mask mask);
    llvm::Value* load_pieces(const std::vector<Piece>& places, llvm::Type* element, unsigned count, std::int64_t bytes_on,
                             llvm::Align align, Mask mask);
    bool store_pieces(const std::vector<Piece>& places, llvm::Value* value, unsigned count, std::int64_t bytes_on,
                      llvm::Align align, Mask mask, bool stream);
    void stream_store(llvm::Value* value, llvm::Value* address, llvm::Align align, Mask mask);
    llvm::Value* part_of(llvm::Value* whole, const Piece& piece);
    llvm::Value* load_lanes(const llvm::Value* pointer, llvm::Type* element, std::int64_t bytes_on, llvm::Align align,
                            Mask mask);
    void store_lanes(const llvm::Value* pointer, llvm::Value* value, std::int64_t bytes_on, llvm::Align align, Mask mask,
                     bool stream = false);
    llvm::Value* load_components(const llvm::Value* pointer, llvm::FixedVectorType& type, llvm::Align align, Mask mask);
    void store_components(const llvm::Value* pointer, llvm::Value* value, llvm::FixedVectorType& type, llvm::Align align,
                          Mask mask);
    llvm::Value* load_parts(const llvm::LoadInst& load, Mask mask);
    void emit_prefetch(const llvm::CallInst& call);
    void prefetch_stream(const llvm::Value* pointer);
    void prefetch_lines(const llvm::Value* pointer, std::int64_t bytes_on, std::uint64_t level);
    llvm::Value* nowhere(llvm::Type* type);
    llvm::Value* addresses(const llvm::Value* pointer, std::int64_t bytes_on);
    llvm::Value* offset_address(llvm::Value* address, std::int64_t bytes);

    // widen_rows.cpp
    struct Rows {
        Partition partition;
        std::array<unsigned, Partition::most> first_lanes{}; // of each part: the one that lies first
        std::array<unsigned, lanes> places{};                // of a lane's first element in the row of its part
        unsigned length = 0;                                 // elements of a part
        unsigned width = 0, stored = 0;                      // elements of one load; of all loads of a part
        std::vector<llvm::Value*> blocks;
    };
    std::optional<Rows> read_rows(const llvm::Value* pointer, llvm::Type* element, std::int64_t start, unsigned count,
                                  llvm::Align align);
    static std::optional<Rows> lay_out(const Shape& shape, const Partition& partition, std::int64_t size, unsigned count);
    void cut_into_blocks(Rows& rows, const std::vector<llvm::Value*>& loads);
    llvm::Value* pick_from_rows(const Rows& rows, unsigned index);
    llvm::Value* pick(const std::vector<llvm::Value*>& blocks, const std::vector<unsigned>& places);

    // widen_exchanges.cpp
    struct Exchange {
        llvm::Value* start = nullptr;     // where the block begins
        llvm::Value* flipped = nullptr;   // bits of the lanes' numbers; null: none
        llvm::Value* condition = nullptr; // under which it is a block; null: always
        bool no_wrap = false;             // no number of the block exceeds its type
        bool near = false;                // it is the block of the lanes' own numbers
    };
    std::optional<Exchange> exchange_of(const llvm::Value* value, std::int64_t step, const llvm::BasicBlock* block);
    std::optional<Exchange> exchange_of_address(const llvm::GetElementPtrInst& address, std::int64_t step);
    std::optional<Exchange> exchange_at(const llvm::Value* pointer, llvm::Type* element, unsigned count,
                                        const llvm::BasicBlock* block);
    Mask mask_of_block(Mask mask, const Exchange& exchange, unsigned count);
    template <class InBlock, class OneByOne>
    llvm::Value* choose_exchange(const Exchange& exchange, InBlock in_block, OneByOne one_by_one);
    template <class Yes, class No> llvm::Value* choose(llvm::Value* condition, Yes yes, No no);
    llvm::Value* bits_of_blocks(const llvm::Value* flipped);
    bool emit_exchanged_load(const llvm::LoadInst& load, Mask mask);
    bool emit_exchanged_store(const llvm::StoreInst& store, llvm::Value* value, Mask mask);
    llvm::Value* load_block(const Exchange& exchange, llvm::Type* element, unsigned count, llvm::Align align, Mask mask);
    void store_block(const Exchange& exchange, llvm::Value* value, unsigned count, llvm::Align align, Mask mask);
    llvm::Value* exchange_lanes(llvm::Value* value, llvm::Value* flipped);
    llvm::Value* permute_registers(llvm::Value* value, llvm::Value* source);

    // widen_windows.cpp
    llvm::Value* load_window(llvm::Value* address, llvm::Type* element, unsigned count, llvm::Align align);
    llvm::Value* load_windows(const llvm::Value* pointer, llvm::Type* element, std::int64_t start, llvm::Align align);

    // widen_load_groups.cpp
    bool emit_in_group(const llvm::LoadInst& load, Mask mask);
    void define_group(const LoadGroup& group, const std::vector<llvm::Value*>& elements);
    std::vector<llvm::Value*> load_small(const LoadGroup& group, Mask mask);
    std::vector<llvm::Value*> load_stretch(const LoadGroup& group, Mask mask);
    std::vector<llvm::Value*> load_rows(const LoadGroup& group, llvm::Align align);
    llvm::Value* gather_small(llvm::Value* places, llvm::Type* element, Mask mask);

    // widen_calls.cpp
    void emit_call(const llvm::CallInst& call, Mask mask);
    llvm::Value* emit_intrinsic(const llvm::CallInst& call, Mask mask);
    llvm::Value* emit_call_in_parts(const llvm::CallInst& call);
    llvm::Value* emit_power(llvm::Value* x, llvm::Value* y); // widen_power.cpp
    llvm::Value* emit_tanh(llvm::Value* x);                  // widen_tanh.cpp
    llvm::Value* emit_any_power(llvm::Value* x, llvm::Value* y);
    static bool is_saturated_conversion(const llvm::CallInst& call); // widen_conversions.cpp
    llvm::Value* emit_saturated_conversion(const llvm::CallInst& call);
    llvm::Value* emit_vector_function(const VectorFunction& function, const llvm::CallInst& call);
    llvm::Value* input(unsigned which);
    llvm::LoadInst* load_context(llvm::Type* type, std::size_t offset);
    llvm::Value* load_threadgroup_memory(const llvm::CallInst& call);
    bool in_threadgroup_memory(const llvm::Instruction& instruction) const;
    llvm::Value* without_lock(llvm::Instruction* atomic);
    bool emit_in_a_row(const llvm::AtomicRMWInst& change, Mask mask);
    llvm::Value* emit_per_lane(const llvm::Instruction& instruction, Mask mask);

    // widen_simd.cpp
    llvm::Value* emit_simd_operation(const llvm::CallInst& call, Mask mask);
    llvm::Value* emit_reduction(SimdOp op, SimdType type, llvm::Value* value, unsigned width);
    llvm::Value* emit_prefix(SimdOp op, SimdType type, llvm::Value* value, llvm::Value* none, unsigned width, bool inclusive);
    llvm::Value* emit_shuffle(SimdOp op, unsigned width, const llvm::CallInst& call, Mask mask);
    llvm::Value* emit_ballot(const llvm::Value* predicate, unsigned width, Mask mask);
    llvm::Value* permute(llvm::Value* value, llvm::Value* source);
    llvm::Value* existing_lanes();
    llvm::Value* emit_matrix_multiply(const llvm::CallInst& call, Mask mask);

    llvm::Function& kernel_;
    const Divergence& divergence_;
    const LoadGroups& load_groups_;
    const VectorMath& mathematics_;
    VectorRegisters vector_registers_;
    llvm::LLVMContext& context_;
    llvm::Module& module_;
    const llvm::DataLayout& layout_;
    llvm::Function* body_ = nullptr;
    llvm::BasicBlock* slots_ = nullptr;    // allocas
    llvm::BasicBlock* prologue_ = nullptr; // what depends on parameters only
    llvm::BasicBlock* return_ = nullptr;
    llvm::IRBuilder<> builder_;
    Values prologue_values_, local_values_;
    std::unordered_map<const llvm::Value*, llvm::AllocaInst*> value_slots_;
    std::map<const llvm::BasicBlock*, llvm::BasicBlock*> labels_;
    std::map<const Level::Node*, std::map<EdgeKey, llvm::AllocaInst*>> node_exit_masks_;
    std::set<const llvm::BasicBlock*> headers_;
    std::map<unsigned, llvm::Value*> inputs_;
    std::set<std::pair<const llvm::Value*, const llvm::Value*>> streams_; // asked for
    std::set<const llvm::Value*> flipped_bits_, near_bits_;
    llvm::Value* all_lanes_ = nullptr; // mask of the lanes that exist; null: 32
};

} // namespace metalki::compiler::vectorize
