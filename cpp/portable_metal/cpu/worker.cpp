// Claims ranges of threadgroups and runs them.
#include "cpu/worker.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <new>

#include "cpu/fault_guard.hpp"
#include "cpu/float_environment.hpp"
#include "cpu/interruption.hpp"
#include "cpu/message_log.hpp"

namespace metalki::cpu {

namespace {

// Beyond what the compiler knows of: calls into libm, signal frames of the host program.
constexpr std::size_t stack_slack = 40960;
constexpr std::size_t runner_stack = 262144;
constexpr std::size_t smallest_arena = 65536;

// Loads of vectors reach past the memory with lanes that are off. On a guard each of them would cost more than a whole group.
constexpr std::size_t off_lanes = compiler::simd_width * sizeof(std::uint64_t);

// A claim should last about this long: long against the claim itself, short against the whole.
constexpr std::uint64_t claim_nanoseconds = 10000;
constexpr std::uint64_t largest_claim = 1 << 16;

std::size_t round_to_line(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

std::uint64_t nanoseconds(Worker::Clock::duration time) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

} // namespace

void Worker::work(Job& job, unsigned workers, Clock::time_point& time,
                  const std::function<void(std::uint64_t)>& between_claims) {
    try {
        guard_against_faults(time);
        prepare(job);
    } catch (const std::bad_alloc&) {
        return job.fail("kernel '" + job.dispatch.code->function.name + "': no memory for the stacks of a threadgroup: " +
                        std::to_string(job.plan.stack_size) + " bytes a thread are needed");
    }
    const Interruptible interruptible(job);
    const FloatEnvironment float_environment;
    const LogScope log_scope(job.dispatch.log);
    const Clock::time_point start = time;
    std::uint64_t claim = job.first_claim;
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
        const std::uint64_t spent = nanoseconds(now - time);
        time = now;
        if (between_claims)
            between_claims(nanoseconds(now - start));
        if (spent < claim_nanoseconds / 2)
            claim = std::min(claim * 4, largest_claim);
        else if (spent > claim_nanoseconds * 2)
            claim = std::max<std::uint64_t>(claim / 2, 1);
        // Towards the end claims get smaller, so that all workers finish together.
        claim = std::clamp<std::uint64_t>((job.total - end) / (2 * workers), 1, claim);
    }
    // What kernels stored past the caches is not ordered by what tells others that the launch is over.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    fibers_.trim();
    runner_.trim();
}

void Worker::prepare(const Job& job) {
    const Dispatch& dispatch = job.dispatch;
    const compiler::KernelCode& code = *dispatch.code;
    if (job.plan.codes[0]->synchronizes)
        fibers_.reserve(dispatch.threadgroup.x * dispatch.threadgroup.y * dispatch.threadgroup.z,
                        job.plan.stack_size + stack_slack);
    else
        runner_.reserve(1, std::max(job.plan.stack_size + stack_slack, runner_stack));

    std::size_t bytes = round_to_line(code.static_threadgroup_memory);
    for (const ThreadgroupArgument& argument : dispatch.threadgroup_arguments)
        bytes += round_to_line(argument.length);
    if (code.variants != nullptr)
        bytes += off_lanes;
    if (arena_.blocks() == 0 || bytes > arena_.block_bytes())
        arena_ = GuardedMemory(1, std::max(bytes, smallest_arena));
    // The end of what is used meets the guard behind the arena, but for what lanes that are off need: running past it does not
    // go unseen.
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
    context_.threadgroups_per_grid = job.plan.groups;
    context_.threads_per_threadgroup = dispatch.threadgroup;
    context_.threads_per_grid = dispatch.grid;
}

bool Worker::run_range(const Job& job, std::uint64_t begin, std::uint64_t end) {
    job_ = &job;
    const compiler::KernelCode& code = *job.plan.codes[0];
    if (code.synchronizes) {
        enter(begin);
        for (std::uint64_t i = begin; i < end && !job.must_stop(); ++i, enter_next())
            if (!fibers_.run(context_, code.run_thread))
                return false;
        return true;
    }
    Range range{{}, this, begin, end};
    range.shape.threads_in_this_threadgroup = {1, 1, 1};
    return runner_.run(range.shape, [](const compiler::ThreadgroupContext* shape, auto, auto, auto) {
        const auto* own = reinterpret_cast<const Range*>(shape);
        if (own->worker->job_->plan.by_rows())
            own->worker->run_rows(own->begin, own->end);
        else
            own->worker->run_threadgroups(own->begin, own->end);
    });
}

void Worker::run_threadgroups(std::uint64_t begin, std::uint64_t end) {
    enter(begin);
    for (std::uint64_t i = begin; i < end && !job_->must_stop(); ++i, enter_next()) {
        const compiler::Uint3& size = context_.threads_in_this_threadgroup;
        const compiler::Uint3& usual = context_.threads_per_threadgroup;
        const unsigned cut = Plan::cut(size.x != usual.x, size.y != usual.y, size.z != usual.z);
        const compiler::KernelCode& code = *job_->plan.codes[cut];
        if (code.wants_positions)
            list_positions(positions_[cut]);
        code.run_threadgroup(&context_);
    }
}

void Worker::run_rows(std::uint64_t begin, std::uint64_t end) {
    const Plan& plan = job_->plan;
    const compiler::RowEntry entry = plan.codes[0]->run_rows;
    const bool several_parts = plan.codes[0]->axes_in_row > 1;
    enter(begin);
    for (std::uint64_t i = begin; i < end && !job_->must_stop(); ++i, enter_next()) {
        const std::uint64_t first = place_in_row();
        if (first >= plan.row_threads)
            continue; // the last part of a long row is shorter
        const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.row_length, plan.row_threads - first));
        entry(&context_, static_cast<std::uint32_t>(first), count, several_parts ? 0 : unit_.y, unit_.z);
    }
}

// Of the unit's first thread.
std::uint64_t Worker::place_in_row() const {
    const std::uint64_t part = job_->plan.codes[0]->axes_in_row > 1 ? std::uint64_t{unit_.y} << 32 : 0;
    return part + std::uint64_t{unit_.x} * job_->plan.row_length;
}

// By rows: in the grid.
compiler::Uint3 Worker::position_of(std::uint64_t place) const {
    const unsigned axes = job_->plan.codes[0]->axes_in_row;
    const compiler::Uint3& grid = context_.threads_per_grid;
    const std::uint64_t row = place / grid.x;
    return {static_cast<std::uint32_t>(place % grid.x), axes == 1 ? unit_.y : static_cast<std::uint32_t>(row % grid.y),
            axes == 3 ? static_cast<std::uint32_t>(row / grid.y) : unit_.z};
}

void Worker::enter(std::uint64_t index) {
    const compiler::Uint3& units = job_->plan.units;
    const std::uint64_t row = index / units.x;
    unit_ = {static_cast<std::uint32_t>(index % units.x), static_cast<std::uint32_t>(row % units.y),
             static_cast<std::uint32_t>(row / units.y)};
    set_size();
}

void Worker::enter_next() {
    const compiler::Uint3& units = job_->plan.units;
    if (++unit_.x == units.x) {
        unit_.x = 0;
        if (++unit_.y == units.y) {
            unit_.y = 0;
            ++unit_.z;
        }
    }
    // Past the last unit there is no size to compute.
    if (unit_.z < units.z)
        set_size();
}

void Worker::set_size() {
    if (job_->plan.by_rows())
        return;
    context_.threadgroup_position = unit_;
    const auto clipped = [](std::uint32_t position, std::uint32_t threads, std::uint32_t grid) {
        const std::uint64_t first = std::uint64_t{position} * threads;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(threads, grid - first));
    };
    const compiler::Uint3& threads = context_.threads_per_threadgroup;
    const compiler::Uint3& grid = context_.threads_per_grid;
    context_.threads_in_this_threadgroup = {clipped(unit_.x, threads.x, grid.x), clipped(unit_.y, threads.y, grid.y),
                                            clipped(unit_.z, threads.z, grid.z)};
}

// Threads of a group with an odd shape: their places do not follow from their number without a division.
void Worker::list_positions(Positions& positions) {
    const compiler::Uint3& size = context_.threads_in_this_threadgroup;
    std::vector<std::uint32_t>& list = positions.list;
    if (list.empty() || size.x != positions.size.x || size.y != positions.size.y || size.z != positions.size.z) {
        list.assign(3 * std::size_t{compiler::max_positions}, 0);
        std::size_t thread = 0;
        for (std::uint32_t z = 0; z < size.z; ++z)
            for (std::uint32_t y = 0; y < size.y; ++y)
                for (std::uint32_t x = 0; x < size.x; ++x, ++thread) {
                    list[thread] = x;
                    list[compiler::max_positions + thread] = y;
                    list[2 * std::size_t{compiler::max_positions} + thread] = z;
                }
        positions.size = size;
    }
    context_.positions = list.data();
}

std::string Worker::fault_message(const Dispatch& dispatch) const {
    const auto triple = [](const compiler::Uint3& p) {
        return "(" + std::to_string(p.x) + ", " + std::to_string(p.y) + ", " + std::to_string(p.z) + ")";
    };
    std::string message = "kernel '" + dispatch.code->function.name + "': " + describe(last_fault());
    if (job_->plan.by_rows()) {
        const std::uint64_t first = place_in_row(), last = std::min(first + job_->plan.row_length, job_->plan.row_threads) - 1;
        return message + " in the threads from " + triple(position_of(first)) + " to " + triple(position_of(last)) +
               " of the grid";
    }
    message += " in threadgroup " + triple(context_.threadgroup_position);
    if (job_->plan.codes[0]->synchronizes)
        message += ", thread " + triple(fibers_.current_thread());
    return message;
}

} // namespace metalki::cpu
