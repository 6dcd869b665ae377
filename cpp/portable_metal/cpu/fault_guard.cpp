// Signal handlers that leave a faulting kernel by switching back to whoever ran its threadgroup.
#include "cpu/fault_guard.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <new>

#include <unistd.h>

#include "cpu/fiber_group.hpp"
#include "cpu/guarded_memory.hpp"

namespace metalki::cpu {

namespace {

constexpr std::array<int, 4> guarded_signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// A handler of ours is installed for as long as the process lives; what was there before is kept here.
std::array<struct sigaction, guarded_signals.size()> previous_actions;

__attribute__((tls_model("initial-exec"))) constinit thread_local FaultRecord thread_fault;
__attribute__((tls_model("initial-exec"))) constinit thread_local bool passing_on = false;

void restore_default(int signal) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
}

// Signals that are not ours. A fault repeats when the handler returns, so that the default action strikes then.
void pass_on(int signal, siginfo_t* info, void* machine) {
    const auto index = static_cast<std::size_t>(std::ranges::find(guarded_signals, signal) - guarded_signals.begin());
    const struct sigaction& previous = previous_actions[index];
    const bool sent = info->si_code <= 0;
    // The previous handler may itself end with the one before it, which can be ours again.
    const bool nested = passing_on;
    if (!nested && (previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
        passing_on = true;
        previous.sa_sigaction(signal, info, machine);
        passing_on = false;
    } else if (!nested && previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        passing_on = true;
        previous.sa_handler(signal);
        passing_on = false;
    } else if (!nested && sent && previous.sa_handler == SIG_IGN) {
        return;
    } else {
        restore_default(signal);
        if (sent)
            raise(signal);
    }
}

void on_signal(int signal, siginfo_t* info, void* machine) {
    FiberGroup* group = FiberGroup::current();
    if (group == nullptr || info->si_code <= 0)
        return pass_on(signal, info, machine);
    thread_fault.signal = signal;
    thread_fault.code = info->si_code;
    thread_fault.address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    thread_fault.stack_overflow = signal == SIGSEGV && group->guards(info->si_addr);
    group->abandon();
}

bool is_ours(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_signal;
}

void install_handlers() {
    for (std::size_t i = 0; i < guarded_signals.size(); ++i) {
        struct sigaction present{};
        if (sigaction(guarded_signals[i], nullptr, &present) != 0 || is_ours(present))
            continue;
        previous_actions[i] = present;
        struct sigaction ours{};
        ours.sa_sigaction = &on_signal;
        // Nothing is masked: the handler is left without returning from it.
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigemptyset(&ours.sa_mask);
        sigaction(guarded_signals[i], &ours, nullptr);
    }
}

// Other libraries may have replaced our handlers since; looking costs system calls, so it is done now and then.
void keep_handlers_installed(std::chrono::steady_clock::time_point time) {
    static std::mutex mutex;
    static std::atomic<std::int64_t> next_look{0};
    const std::int64_t now = time.time_since_epoch() / std::chrono::milliseconds(1);
    if (now < next_look.load(std::memory_order_acquire))
        return;
    const std::scoped_lock lock(mutex);
    install_handlers();
    next_look.store(now + 2, std::memory_order_release);
}

// Where handlers run: the stack of a kernel may be what has overflown.
class AlternateStack {
public:
    AlternateStack() {
        const auto needed = static_cast<std::size_t>(std::max<long>(sysconf(_SC_MINSIGSTKSZ), MINSIGSTKSZ)) + 16384;
        stack_t present{};
        if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE) == 0 && present.ss_size >= needed)
            return;
        memory_ = GuardedMemory(1, std::max<std::size_t>(needed, 65536));
        stack_t ours{};
        ours.ss_sp = memory_.block(0);
        ours.ss_size = memory_.block_bytes();
        sigaltstack(&ours, nullptr);
    }
    ~AlternateStack() {
        stack_t present{};
        if (memory_.blocks() == 0 || sigaltstack(nullptr, &present) != 0 || present.ss_sp != memory_.block(0))
            return;
        stack_t none{};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
    }
    AlternateStack(const AlternateStack&) = delete;
    AlternateStack& operator=(const AlternateStack&) = delete;

private:
    GuardedMemory memory_;
};

} // namespace

void guard_against_faults(std::chrono::steady_clock::time_point now) {
    keep_handlers_installed(now);
    static thread_local AlternateStack stack;
}

const FaultRecord& last_fault() {
    return thread_fault;
}

void note_interruption() {
    thread_fault = {interruption_signal, 0, 0, false};
}

std::string describe(const FaultRecord& fault) {
    if (fault.signal == interruption_signal)
        return "stopped";
    if (fault.signal == SIGFPE)
        return fault.code == FPE_INTDIV ? "integer division by zero or overflow" : "arithmetic trap";
    if (fault.signal == SIGILL)
        return "illegal instruction";
    if (fault.stack_overflow)
        return "stack overflow";
    // The processor does not tell addresses that no memory can have.
    if (fault.signal == SIGSEGV && fault.code != SEGV_MAPERR && fault.code != SEGV_ACCERR && fault.address == 0)
        return "invalid memory access at an impossible address";
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(fault.address));
    return std::string("invalid memory access at address ") + text.data();
}

} // namespace metalki::cpu
