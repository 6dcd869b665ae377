// What one thread needs to run threadgroups: stacks, threadgroup memory, the context handed to kernels.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu/fiber_group.hpp"
#include "cpu/guarded_memory.hpp"
#include "cpu/job.hpp"

namespace metalki::cpu {

class Worker {
public:
    using Clock = std::chrono::steady_clock;

    // Claims and runs threadgroups until none is left or the job is stopped. `workers`: threads that may share the job. `time`
    // is what the clock says, and then what it said last. `between_claims` is called after each claimed range with the
    // nanoseconds since work began.
    void work(Job& job, unsigned workers, Clock::time_point& time, const std::function<void(std::uint64_t)>& between_claims);

private:
    struct Range {
        compiler::ThreadgroupContext shape; // one thread: the fiber that runs the whole range
        Worker* worker;
        std::uint64_t begin, end;
    };

    // Of all threads of a group of that size.
    struct Positions {
        compiler::Uint3 size{};
        std::vector<std::uint32_t> list;
    };

    void prepare(const Job& job);
    bool run_range(const Job& job, std::uint64_t begin, std::uint64_t end);
    void run_threadgroups(std::uint64_t begin, std::uint64_t end);
    void run_rows(std::uint64_t begin, std::uint64_t end);
    std::uint64_t place_in_row() const;
    compiler::Uint3 position_of(std::uint64_t place) const;
    void enter(std::uint64_t index);
    void enter_next();
    void set_size();
    void list_positions(Positions& positions);
    std::string fault_message(const Dispatch& dispatch) const;

    FiberGroup fibers_; // threads of synchronising kernels
    FiberGroup runner_; // a single stack for kernels that run thread after thread
    GuardedMemory arena_;
    std::vector<void*> arguments_;
    compiler::ThreadgroupContext context_{};
    compiler::Uint3 unit_{}; // where in the plan's units
    // One list for each way in which groups are cut off at the ends of the grid: groups alternate between these.
    std::array<Positions, 8> positions_;
    const Job* job_ = nullptr;
};

} // namespace metalki::cpu
