// Sends the signal that makes a thread leave its kernel, again and again until it arrives where leaving is safe.
#include "cpu/interruption.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <system_error>

#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

#include "cpu/fault_guard.hpp"
#include "cpu/fiber_group.hpp"

namespace metalki::cpu {

namespace {

constexpr std::chrono::milliseconds between_signals{1};

// One per thread that has run kernels; `job` and `stop` are compared by others, never followed.
struct RunningThread {
    pthread_t thread{};
    std::atomic<const Job*> job{nullptr};
    std::atomic<const std::atomic<bool>*> stop{nullptr};
};

struct Registry {
    std::mutex mutex;
    std::vector<RunningThread*> threads;
};

// Never destroyed: threads may end after static objects. There from the start: the thread sanitizer, which leaves this room
// out, would not see who made it first.
union Undying {
    constexpr Undying() : registry() {}
    ~Undying() {}
    Registry registry;
};
constinit Undying undying;

Registry& registry() {
    return undying.registry;
}

// Read in the signal handler, where only the initial-exec model is safe from lazy allocation.
__attribute__((tls_model("initial-exec"))) constinit thread_local const Job* running_job = nullptr;

struct sigaction previous_action;

std::uintptr_t program_counter(const void* machine) {
    const auto* context = static_cast<const ucontext_t*>(machine);
#if defined(__x86_64__)
    return static_cast<std::uintptr_t>(context->uc_mcontext.gregs[REG_RIP]);
#else
    return static_cast<std::uintptr_t>(context->uc_mcontext.pc);
#endif
}

void on_signal(int signal, siginfo_t* info, void* machine) {
    const Job* job = running_job;
    FiberGroup* group = FiberGroup::current();
    if (job != nullptr && group != nullptr && job->must_stop()) {
        // Only instructions of the kernel itself may be left: a function that it has called may hold a lock.
        if (job->plan.contains(program_counter(machine))) {
            note_interruption();
            group->abandon();
        }
        return;
    }
    if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr)
        previous_action.sa_sigaction(signal, info, machine);
    else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
        previous_action.sa_handler(signal);
}

void install_handler() {
    struct sigaction present{};
    if (sigaction(interruption_signal, nullptr, &present) != 0 ||
        ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == &on_signal))
        return;
    previous_action = present;
    struct sigaction ours{};
    ours.sa_sigaction = &on_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    sigaction(interruption_signal, &ours, nullptr);
}

class Registration {
public:
    Registration() {
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, interruption_signal);
        pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
        running.thread = pthread_self();
        const std::scoped_lock lock(registry().mutex);
        registry().threads.push_back(&running);
    }
    ~Registration() {
        const std::scoped_lock lock(registry().mutex);
        std::erase(registry().threads, &running);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    RunningThread running;
};

RunningThread& this_thread() {
    static thread_local Registration registration;
    return registration.running;
}

// Whether some thread still runs what `matches`.
template <class Matches> bool signal_threads(Matches matches) {
    bool found = false;
    const std::scoped_lock lock(registry().mutex);
    for (const RunningThread* running : registry().threads) {
        if (!matches(*running))
            continue;
        found = true;
        pthread_kill(running->thread, interruption_signal);
    }
    return found;
}

std::string seconds(std::chrono::nanoseconds time) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%g", std::chrono::duration<double>(time).count());
    return text.data();
}

} // namespace

Interruptible::Interruptible(const Job& job) {
    RunningThread& mine = this_thread();
    mine.stop.store(job.dispatch.stop, std::memory_order_relaxed);
    mine.job.store(&job, std::memory_order_relaxed);
    running_job = &job;
    // Either whoever stops the job finds this thread, or this thread finds the job stopped.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

Interruptible::~Interruptible() {
    running_job = nullptr;
    RunningThread& mine = this_thread();
    mine.job.store(nullptr, std::memory_order_relaxed);
    mine.stop.store(nullptr, std::memory_order_relaxed);
}

Watchdog::~Watchdog() {
    {
        const std::scoped_lock lock(mutex_);
        closing_ = true;
    }
    changed_.notify_all();
    if (!thread_.joinable())
        return;
    if (owner_ == getpid())
        thread_.join();
    else
        thread_.detach();
}

void Watchdog::start() {
    if (thread_.joinable())
        return;
    install_handler();
    owner_ = getpid();
    try {
        thread_ = std::thread(&Watchdog::run, this);
    } catch (const std::system_error&) {
        // Without a thread nothing is stopped; the next call tries again.
    }
}

void Watchdog::watch(Job& job, std::chrono::nanoseconds limit) {
    // Later than this nobody waits, and larger times overflow the clock.
    constexpr std::chrono::hours longest{24 * 365};
    const std::scoped_lock lock(mutex_);
    start();
    watched_.push_back({&job, Clock::now() + std::min<std::chrono::nanoseconds>(limit, longest), limit});
    changed_.notify_one();
}

void Watchdog::forget(Job& job) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(watched_, [&](const Watched& w) { return w.job == &job; });
}

void Watchdog::interrupt(const std::atomic<bool>& stop) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::scoped_lock lock(mutex_);
    start();
    flags_.push_back(&stop);
    changed_.notify_one();
}

// Does what is due; returns when to look again.
Watchdog::Clock::time_point Watchdog::look(Clock::time_point now) {
    Clock::time_point next = Clock::time_point::max();
    for (const Watched& w : watched_) {
        if (w.deadline > now) {
            next = std::min(next, w.deadline);
            continue;
        }
        w.job->fail("kernel '" + w.job->dispatch.code->function.name + "': stopped: it ran longer than the time limit of " +
                    seconds(w.limit) + " s");
        signal_threads([&](const RunningThread& r) { return r.job.load(std::memory_order_relaxed) == w.job; });
        next = std::min(next, now + between_signals);
    }
    std::erase_if(flags_, [](const std::atomic<bool>* flag) {
        return !signal_threads([&](const RunningThread& r) { return r.stop.load(std::memory_order_relaxed) == flag; });
    });
    return flags_.empty() ? next : std::min(next, now + between_signals);
}

void Watchdog::run() {
    // Signals of the host program belong to its own threads.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex_);
    while (!closing_) {
        const Clock::time_point next = look(Clock::now());
        if (next == Clock::time_point::max())
            changed_.wait(lock);
        else
            changed_.wait_until(lock, next);
    }
}

} // namespace metalki::cpu
