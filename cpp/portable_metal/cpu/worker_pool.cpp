// Wakes as few helpers as the work needs; helpers that just worked spin for a moment before they sleep.
#include "cpu/worker_pool.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <system_error>

#include <pthread.h>
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

// Signals of the host program belong to its own threads; faults cannot be blocked.
void block_signals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, interruption_signal})
        sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
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
    for (std::thread& thread : threads_) {
        if (owner_ == getpid())
            thread.join();
        else
            thread.detach();
    }
}

void WorkerPool::start_threads() {
    owner_ = getpid();
    try {
        while (threads_.size() < helpers_)
            threads_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
        // The system has no more threads for us; the callers do the work.
    }
}

void WorkerPool::offer(Job& job, unsigned helpers) {
    const std::scoped_lock lock(mutex_);
    if (threads_.empty())
        start_threads();
    job.helpers_wanted = std::min(helpers, helpers_);
    jobs_.push_back(&job);
    offers_.fetch_add(1, std::memory_order_release);
    for (unsigned i = 0; i < std::min(job.helpers_wanted, asleep_); ++i)
        work_to_do_.notify_one();
}

void WorkerPool::withdraw(Job& job) {
    std::unique_lock lock(mutex_);
    std::erase(jobs_, &job);
    helper_left_.wait(lock, [&] { return job.helpers_active == 0; });
}

std::unique_ptr<Worker> WorkerPool::borrow() {
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
    const Clock::time_point end = Clock::now() + spin_time;
    while (offers_.load(std::memory_order_acquire) == seen && Clock::now() < end)
        relax();
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
    Worker worker;
    std::unique_lock lock(mutex_);
    while (Job* job = wait_for_job(lock)) {
        --job->helpers_wanted;
        ++job->helpers_active;
        lock.unlock();
        worker.work(*job, helpers_ + 1, nullptr);
        lock.lock();
        // A later caller would find nothing left to claim.
        job->helpers_wanted = 0;
        if (--job->helpers_active == 0)
            helper_left_.notify_all();
    }
}

} // namespace metalki::cpu
