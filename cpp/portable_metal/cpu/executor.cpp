// Splits a grid into threadgroups and decides who runs them.
#include "cpu/executor.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <limits>

#include "cpu/interruption.hpp"
#include "cpu/job.hpp"
#include "cpu/worker_pool.hpp"

namespace metalki::cpu {

namespace {

// Waking a thread costs the caller 5 to 10 microseconds and takes some 20 to arrive.
constexpr double worth_waking = 50000;
constexpr double worth_a_helper = 25000;
constexpr double worth_a_claim = 5000;

// Nanoseconds a thread of an unknown kernel may take.
constexpr double unknown_cost = 20;
constexpr double unknown_cost_of_fibers = 100;
constexpr double unknown_cost_of_vectors = 2;

std::uint64_t volume(const compiler::Uint3& size) {
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(std::uint64_t{size.x} * size.y, std::uint64_t{size.z}, &product))
        return std::numeric_limits<std::uint64_t>::max();
    return product;
}

std::string triple(const compiler::Uint3& size) {
    return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " + std::to_string(size.z);
}

std::optional<Fault> refuse(const Dispatch& dispatch) {
    const compiler::Uint3& threads = dispatch.threadgroup;
    if (dispatch.code == nullptr || (dispatch.code->variants == nullptr && dispatch.code->run_rows == nullptr &&
                                     dispatch.code->run_thread == nullptr && dispatch.code->run_threadgroup == nullptr))
        return Fault{"dispatch without the code of a kernel"};
    if (threads.x > max_threads_per_threadgroup || threads.y > max_threads_per_threadgroup ||
        threads.z > max_threads_per_threadgroup || volume(threads) > max_threads_per_threadgroup || volume(threads) == 0)
        return Fault{"kernel '" + dispatch.code->function.name + "': a threadgroup of " + triple(threads) +
                     " threads; expected 1 to " + std::to_string(max_threads_per_threadgroup)};
    return std::nullopt;
}

double guess_of(const compiler::KernelCode& code) {
    return code.synchronizes ? unknown_cost_of_fibers : code.variants ? unknown_cost_of_vectors : unknown_cost;
}

// What a thread of recently run kernels took. Only a hint: entries may be lost or belong to a kernel that is gone.
class CostMemory {
public:
    std::optional<double> nanoseconds_per_thread(const compiler::KernelCode& code) const {
        const std::uint64_t entry = slot(code).load(std::memory_order_relaxed);
        if (entry >> 32 != tag(code))
            return std::nullopt;
        return std::bit_cast<float>(static_cast<std::uint32_t>(entry));
    }
    void remember(const compiler::KernelCode& code, double nanoseconds_per_thread) {
        const std::uint32_t cost = std::bit_cast<std::uint32_t>(static_cast<float>(nanoseconds_per_thread));
        slot(code).store(tag(code) << 32 | cost, std::memory_order_relaxed);
    }

private:
    static std::uint64_t hash(const compiler::KernelCode& code) {
        return reinterpret_cast<std::uintptr_t>(&code) * 0x9e3779b97f4a7c15u;
    }
    static std::uint64_t tag(const compiler::KernelCode& code) { return hash(code) >> 32 | 1; }
    std::atomic<std::uint64_t>& slot(const compiler::KernelCode& code) const { return slots_[hash(code) >> 26 & 63]; }

    mutable std::array<std::atomic<std::uint64_t>, 64> slots_{};
};

// Only while it lives: the job is gone afterwards.
class TimeLimit {
public:
    TimeLimit(Watchdog& watchdog, Job& job) : watchdog_(watchdog), job_(job) {
        if (limited())
            watchdog_.watch(job_, job_.dispatch.time_limit);
    }
    ~TimeLimit() {
        if (limited())
            watchdog_.forget(job_);
    }
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;

private:
    bool limited() const { return job_.dispatch.time_limit.count() > 0; }
    Watchdog& watchdog_;
    Job& job_;
};

} // namespace

struct Executor::State {
    explicit State(unsigned helpers) : pool(helpers) {}

    WorkerPool pool;
    CostMemory costs;
    Watchdog watchdog;
};

Executor::Executor(unsigned threads) : state_(std::make_unique<State>(threads > 1 ? threads - 1 : 0)) {}

Executor::~Executor() = default;

void Executor::interrupt(const std::atomic<bool>& stop) {
    state_->watchdog.interrupt(stop);
}

unsigned Executor::concurrency() const {
    return state_->pool.helpers() + 1;
}

std::optional<Fault> Executor::run(const Dispatch& dispatch) {
    if (auto fault = refuse(dispatch))
        return fault;
    if (dispatch.grid.x == 0 || dispatch.grid.y == 0 || dispatch.grid.z == 0)
        return std::nullopt;

    std::optional<Job> made;
    try {
        made.emplace(dispatch);
    } catch (const std::exception& problem) {
        return Fault{"kernel '" + dispatch.code->function.name + "': " + problem.what()};
    }
    Job& job = *made;
    job.total = volume(job.plan.units);
    if (job.total > std::numeric_limits<std::uint64_t>::max() / 2)
        return Fault{"kernel '" + dispatch.code->function.name + "': a grid of " + triple(dispatch.grid) +
                     " threads has too many threadgroups"};

    const TimeLimit time_limit(state_->watchdog, job);
    const double threads = job.plan.by_rows()
                               ? static_cast<double>(volume(dispatch.grid))
                               : static_cast<double>(job.total) * static_cast<double>(volume(dispatch.threadgroup));
    bool offered = false;
    const auto offer_if_worthwhile = [&](double expected) {
        const unsigned helpers = state_->pool.helpers();
        if (offered || helpers == 0 || job.total < 2 || expected < worth_waking)
            return;
        offered = true;
        const double wanted = std::min({expected / worth_a_helper, static_cast<double>(job.total - 1), double(helpers)});
        state_->pool.offer(job, static_cast<unsigned>(wanted));
    };
    const std::optional<double> known = state_->costs.nanoseconds_per_thread(*dispatch.code);
    offer_if_worthwhile(threads * known.value_or(guess_of(*dispatch.code)));
    // Looking at the clock after each of a few short groups would take longer than the groups.
    if (known && threads * *known < worth_a_claim)
        job.first_claim = job.total;

    // The caller sees how long its own share takes, and calls for help when the guess was too low.
    std::uint64_t spent = 0;
    const auto between_claims = [&](std::uint64_t nanoseconds) {
        spent = nanoseconds;
        const auto claimed = static_cast<double>(std::min(job.next.load(std::memory_order_relaxed), job.total));
        if (!offered)
            offer_if_worthwhile(static_cast<double>(nanoseconds) / claimed * (static_cast<double>(job.total) - claimed));
    };
    std::unique_ptr<Worker> worker = state_->pool.borrow();
    Worker::Clock::time_point time = dispatch.time ? *dispatch.time : Worker::Clock::now();
    worker->work(job, concurrency(), time, std::ref(between_claims));
    state_->pool.give_back(std::move(worker));
    if (offered)
        state_->pool.withdraw(job);
    // A worker that leaves a kernel, or finds the job stopped, has not looked.
    if (offered || job.must_stop())
        time = Worker::Clock::now();
    if (dispatch.time)
        *dispatch.time = time;
    if (spent > 0)
        state_->costs.remember(*dispatch.code, static_cast<double>(spent) / threads);

    if (auto fault = job.take_fault())
        return fault;
    if (job.next.load() < job.total || job.must_stop())
        return Fault{"kernel '" + dispatch.code->function.name + "': stopped before all threadgroups had run"};
    return std::nullopt;
}

} // namespace metalki::cpu
