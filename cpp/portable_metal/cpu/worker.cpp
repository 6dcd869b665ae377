// Claims ranges of threadgroups and runs them.
#include "cpu/worker.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>

#include "cpu/fault_guard.hpp"
#include "cpu/float_environment.hpp"
#include "cpu/interruption.hpp"
#include "cpu/message_log.hpp"

namespace metalki::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Beyond what the compiler knows of: calls into libm, signal frames of the host program.
constexpr std::size_t stack_slack = 40960;
constexpr std::size_t runner_stack = 262144;
constexpr std::size_t smallest_arena = 65536;

// A claim should last about this long: long against the claim itself, short against the whole.
constexpr std::uint64_t claim_nanoseconds = 10000;
constexpr std::uint64_t largest_claim = 1 << 16;

std::size_t round_to_line(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

std::uint64_t nanoseconds(Clock::duration time) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

} // namespace

void Worker::work(Job& job, unsigned workers, const std::function<void(std::uint64_t)>& between_claims) {
    try {
        guard_against_faults();
        prepare(job.dispatch, job.groups);
    } catch (const std::bad_alloc&) {
        return job.fail("kernel '" + job.dispatch.code->function.name + "': no memory for the stacks of a threadgroup: " +
                        std::to_string(job.dispatch.code->stack_size) + " bytes a thread are needed");
    }
    const Interruptible interruptible(job);
    const FloatEnvironment float_environment;
    const LogScope log_scope(job.dispatch.log);
    const Clock::time_point start = Clock::now();
    Clock::time_point before = start;
    std::uint64_t claim = 1;
    while (!job.must_stop()) {
        const std::uint64_t begin = job.next.fetch_add(claim, std::memory_order_relaxed);
        if (begin >= job.total)
            break;
        const std::uint64_t end = std::min(job.total, begin + claim);
        if (!run_range(job, begin, end)) {
            job.fail(fault_message(job.dispatch));
            break;
        }
        const Clock::time_point now = Clock::now();
        const std::uint64_t spent = nanoseconds(now - before);
        before = now;
        if (between_claims)
            between_claims(nanoseconds(now - start));
        if (spent < claim_nanoseconds / 2)
            claim = std::min(claim * 4, largest_claim);
        else if (spent > claim_nanoseconds * 2)
            claim = std::max<std::uint64_t>(claim / 2, 1);
        // Towards the end claims get smaller, so that all workers finish together.
        claim = std::clamp<std::uint64_t>((job.total - end) / (2 * workers), 1, claim);
    }
    fibers_.trim();
    runner_.trim();
}

void Worker::prepare(const Dispatch& dispatch, const compiler::Uint3& groups) {
    const compiler::KernelCode& code = *dispatch.code;
    if (code.synchronizes)
        fibers_.reserve(dispatch.threadgroup.x * dispatch.threadgroup.y * dispatch.threadgroup.z,
                        code.stack_size + stack_slack);
    else
        runner_.reserve(1, std::max(code.stack_size + stack_slack, runner_stack));

    std::size_t bytes = round_to_line(code.static_threadgroup_memory);
    for (const ThreadgroupArgument& argument : dispatch.threadgroup_arguments)
        bytes += round_to_line(argument.length);
    if (arena_.blocks() == 0 || bytes > arena_.block_bytes())
        arena_ = GuardedMemory(1, std::max(bytes, smallest_arena));
    // The end of what is used meets the guard behind the arena, so that running past it does not go unseen.
    std::byte* place = arena_.block(0) + arena_.block_bytes() - bytes;

    context_ = {};
    context_.arguments = dispatch.arguments.data();
    context_.static_threadgroup_memory = place;
    place += round_to_line(code.static_threadgroup_memory);
    if (!dispatch.threadgroup_arguments.empty()) {
        arguments_.assign(dispatch.arguments.begin(), dispatch.arguments.end());
        for (const ThreadgroupArgument& argument : dispatch.threadgroup_arguments) {
            if (argument.slot >= arguments_.size())
                arguments_.resize(argument.slot + std::size_t{1});
            arguments_[argument.slot] = place;
            place += round_to_line(argument.length);
        }
        context_.arguments = arguments_.data();
    }
    context_.threadgroups_per_grid = groups;
    context_.threads_per_threadgroup = dispatch.threadgroup;
    context_.threads_per_grid = dispatch.grid;
}

bool Worker::run_range(const Job& job, std::uint64_t begin, std::uint64_t end) {
    job_ = &job;
    if (job.dispatch.code->synchronizes) {
        enter(begin);
        for (std::uint64_t i = begin; i < end && !job.must_stop(); ++i, enter_next())
            if (!fibers_.run(context_, job.dispatch.code->run_thread))
                return false;
        return true;
    }
    Range range{{}, this, begin, end};
    range.shape.threads_in_this_threadgroup = {1, 1, 1};
    return runner_.run(range.shape, [](const compiler::ThreadgroupContext* shape, auto, auto, auto) {
        const auto* own = reinterpret_cast<const Range*>(shape);
        own->worker->run_threadgroups(own->begin, own->end);
    });
}

void Worker::run_threadgroups(std::uint64_t begin, std::uint64_t end) {
    const compiler::ThreadgroupEntry entry = job_->dispatch.code->run_threadgroup;
    enter(begin);
    for (std::uint64_t i = begin; i < end && !job_->must_stop(); ++i, enter_next())
        entry(&context_);
}

void Worker::enter(std::uint64_t index) {
    const compiler::Uint3& groups = context_.threadgroups_per_grid;
    const std::uint64_t row = index / groups.x;
    context_.threadgroup_position = {static_cast<std::uint32_t>(index % groups.x), static_cast<std::uint32_t>(row % groups.y),
                                     static_cast<std::uint32_t>(row / groups.y)};
    set_size();
}

void Worker::enter_next() {
    compiler::Uint3& position = context_.threadgroup_position;
    const compiler::Uint3& groups = context_.threadgroups_per_grid;
    if (++position.x == groups.x) {
        position.x = 0;
        if (++position.y == groups.y) {
            position.y = 0;
            ++position.z;
        }
    }
    // Past the last threadgroup there is no size to compute.
    if (position.z < groups.z)
        set_size();
}

void Worker::set_size() {
    const auto clipped = [](std::uint32_t position, std::uint32_t threads, std::uint32_t grid) {
        const std::uint64_t first = std::uint64_t{position} * threads;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(threads, grid - first));
    };
    const compiler::Uint3& position = context_.threadgroup_position;
    const compiler::Uint3& threads = context_.threads_per_threadgroup;
    const compiler::Uint3& grid = context_.threads_per_grid;
    context_.threads_in_this_threadgroup = {clipped(position.x, threads.x, grid.x), clipped(position.y, threads.y, grid.y),
                                            clipped(position.z, threads.z, grid.z)};
}

std::string Worker::fault_message(const Dispatch& dispatch) const {
    const auto triple = [](const compiler::Uint3& p) {
        return "(" + std::to_string(p.x) + ", " + std::to_string(p.y) + ", " + std::to_string(p.z) + ")";
    };
    std::string message = "kernel '" + dispatch.code->function.name + "': " + describe(last_fault()) + " in threadgroup " +
                          triple(context_.threadgroup_position);
    if (dispatch.code->synchronizes)
        message += ", thread " + triple(fibers_.current_thread());
    return message;
}

} // namespace metalki::cpu
