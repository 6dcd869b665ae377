// Wakes as few helpers as the work needs; helpers that just worked spin for a moment before they sleep.
#include "cpu/worker_pool.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <system_error>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/fault_guard.hpp"

namespace metalki::cpu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto spin_time = std::chrono::microseconds(20);

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    asm volatile("yield");
#endif
}

// Waking up takes longer than what is waited for here mostly does.
template <typename Condition> void spin_until(const Condition& condition) {
    const Clock::time_point end = Clock::now() + spin_time;
    while (!condition() && Clock::now() < end)
        relax();
}

// Signals of the host program belong to its own threads; faults cannot be blocked.
void block_signals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, interruption_signal})
        sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

// A helper that wakes up takes its core at once from a thread that only spins there: the scheduler lets threads with short
// turns in before others' turns are over.
void ask_for_short_turns() {
#if defined(__linux__) && defined(SYS_sched_setattr)
    constexpr std::uint64_t turn = 100'000; // nanoseconds
    struct {                                // sched_attr, whose header and glibc's do not go together
        std::uint32_t size, policy;
        std::uint64_t flags;
        std::int32_t nice;
        std::uint32_t priority;
        std::uint64_t runtime, deadline, period;
    } attributes{};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER)
        return;
    attributes.runtime = turn;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

void name_thread() {
#if defined(__linux__)
    pthread_setname_np(pthread_self(), "metalki-cpu");
#endif
}

} // namespace

WorkerPool::~WorkerPool() {
    {
        const std::scoped_lock lock(mutex_);
        closing_ = true;
        offers_.fetch_add(1, std::memory_order_release);
    }
    work_to_do_.notify_all();
    for (Helper& helper : threads_) {
        if (owner_ == getpid())
            helper.thread.join();
        else
            helper.thread.detach();
    }
    delete last_given_back_.load();
}

void WorkerPool::start_threads() {
    owner_ = getpid();
    try {
        while (threads_.size() < helpers_)
            threads_.push_back({std::thread([this] { help(); })});
    } catch (const std::system_error&) {
        // The system has no more threads for us; the callers do the work.
    }
}

// Where all cores are busy (with another library's threads that wait by spinning, say) the system would put a helper on the
// caller's own, behind the caller.
void WorkerPool::keep_off(int core) {
    if (core == avoided_core_ || owner_ != getpid())
        return;
    avoided_core_ = core;
    for (Helper& helper : threads_) {
        cpu_set_t cores;
        const pthread_t thread = helper.thread.native_handle();
        if (pthread_getaffinity_np(thread, sizeof cores, &cores) != 0)
            continue;
        if (helper.avoided_core >= 0 && CPU_EQUAL(&cores, &helper.cores))
            CPU_SET(helper.avoided_core, &cores); // else the host program has chosen other cores since
        const bool can_avoid = CPU_ISSET(core, &cores) && CPU_COUNT(&cores) > 1;
        if (can_avoid)
            CPU_CLR(core, &cores);
        helper.avoided_core = can_avoid && pthread_setaffinity_np(thread, sizeof cores, &cores) == 0 ? core : -1;
        helper.cores = cores;
    }
}

void WorkerPool::offer(Job& job, unsigned helpers) {
    const std::scoped_lock lock(mutex_);
    if (threads_.empty())
        start_threads();
    if (const int core = sched_getcpu(); core >= 0 && core < CPU_SETSIZE)
        keep_off(core);
    job.helpers_wanted = std::min(helpers, helpers_);
    jobs_.push_back(&job);
    offers_.fetch_add(1, std::memory_order_release);
    for (unsigned i = 0; i < std::min(job.helpers_wanted, asleep_); ++i)
        work_to_do_.notify_one();
}

void WorkerPool::withdraw(Job& job) {
    std::unique_lock lock(mutex_);
    std::erase(jobs_, &job);
    lock.unlock();
    spin_until([&] { return job.helpers_active.load(std::memory_order_relaxed) == 0; });
    lock.lock();
    helper_left_.wait(lock, [&] { return job.helpers_active == 0; });
}

std::unique_ptr<Worker> WorkerPool::borrow() {
    if (Worker* worker = last_given_back_.exchange(nullptr, std::memory_order_acquire))
        return std::unique_ptr<Worker>(worker);
    {
        const std::scoped_lock lock(mutex_);
        if (!spare_.empty()) {
            std::unique_ptr<Worker> worker = std::move(spare_.back());
            spare_.pop_back();
            return worker;
        }
    }
    return std::make_unique<Worker>();
}

void WorkerPool::give_back(std::unique_ptr<Worker> worker) {
    Worker* nobody = nullptr;
    if (last_given_back_.compare_exchange_strong(nobody, worker.get(), std::memory_order_release, std::memory_order_relaxed)) {
        worker.release();
        return;
    }
    const std::scoped_lock lock(mutex_);
    spare_.push_back(std::move(worker));
}

Job* WorkerPool::find_job() {
    for (Job* job : jobs_)
        if (job->helpers_wanted > 0)
            return job;
    return nullptr;
}

Job* WorkerPool::wait_for_job(std::unique_lock<std::mutex>& lock) {
    if (Job* job = find_job(); job != nullptr || closing_)
        return job;
    const std::uint64_t seen = offers_.load(std::memory_order_relaxed);
    lock.unlock();
    spin_until([&] { return offers_.load(std::memory_order_acquire) != seen; });
    lock.lock();
    Job* job = nullptr;
    ++asleep_;
    work_to_do_.wait(lock, [&] { return (job = find_job()) != nullptr || closing_; });
    --asleep_;
    return job;
}

void WorkerPool::help() {
    block_signals();
    name_thread();
    ask_for_short_turns();
    Worker worker;
    std::unique_lock lock(mutex_);
    while (Job* job = wait_for_job(lock)) {
        --job->helpers_wanted;
        ++job->helpers_active;
        lock.unlock();
        Clock::time_point time = Clock::now();
        worker.work(*job, helpers_ + 1, time, nullptr);
        lock.lock();
        // A later caller would find nothing left to claim.
        job->helpers_wanted = 0;
        if (--job->helpers_active == 0)
            helper_left_.notify_all();
    }
}

} // namespace metalki::cpu
