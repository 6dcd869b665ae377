// Ctrl-C while the waiting thread itself runs a kernel: Python looks for signals between waits only, so a kernel that never
// ends would keep it from seeing any.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>

#include "module.hpp"

namespace metalki::python {

namespace {

#ifndef _WIN32

// Waits come back earlier by themselves unless they run a kernel.
constexpr std::chrono::milliseconds tick{100}, quick_tick{10};
constexpr int most_idle_ticks = 20;

std::atomic<std::uint64_t> waits{0}; // odd while the main thread waits
std::atomic<bool> watching{false};
std::atomic<bool> interrupted{false};

struct sigaction previous_action;

void on_interrupt(int signal, siginfo_t* info, void* machine) {
    interrupted.store(true, std::memory_order_relaxed);
    if ((previous_action.sa_flags & SA_SIGINFO) != 0)
        previous_action.sa_sigaction(signal, info, machine);
    else
        previous_action.sa_handler(signal);
}

// In front of Python's handler, which goes on to be called, only while a wait does not come back.
class InterruptHandler {
public:
    InterruptHandler() {
        if (sigaction(SIGINT, nullptr, &previous_action) != 0 || previous_action.sa_handler == SIG_DFL ||
            previous_action.sa_handler == SIG_IGN)
            return;
        interrupted.store(false);
        struct sigaction ours = previous_action;
        ours.sa_sigaction = &on_interrupt;
        ours.sa_flags |= SA_SIGINFO;
        installed_ = sigaction(SIGINT, &ours, nullptr) == 0;
    }
    ~InterruptHandler() {
        struct sigaction present{};
        if (installed_ && sigaction(SIGINT, nullptr, &present) == 0 && present.sa_sigaction == &on_interrupt)
            sigaction(SIGINT, &previous_action, nullptr);
    }
    InterruptHandler(const InterruptHandler&) = delete;
    InterruptHandler& operator=(const InterruptHandler&) = delete;

private:
    bool installed_ = false;
};

// Everything, as nobody knows here which queue the kernel belongs to.
void stop_all() {
    try {
        for (const Device& device : devices())
            device.cancel();
    } catch (const Error&) {
    }
}

void watch_wait(std::uint64_t wait) {
    const InterruptHandler handler;
    while (waits.load(std::memory_order_relaxed) == wait) {
        if (interrupted.exchange(false))
            stop_all();
        std::this_thread::sleep_for(quick_tick);
    }
}

class Watcher {
public:
    Watcher() { std::thread(&Watcher::run, this).detach(); }

    void wake() {
        const std::scoped_lock lock(mutex_);
        watching.store(true);
        wake_.notify_one();
    }

private:
    [[noreturn]] void run() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, [] { return watching.load(); });
            }
            std::uint64_t before = 0;
            for (int idle = 0; idle < most_idle_ticks; ++idle) {
                std::this_thread::sleep_for(tick);
                const std::uint64_t now = waits.load(std::memory_order_relaxed);
                if (now != before)
                    idle = 0;
                else if (now % 2 == 1)
                    watch_wait(now);
                before = now;
            }
            watching.store(false);
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
};

void watch() {
    try {
        static Watcher* const watcher = new Watcher; // never destroyed: its thread runs until the process ends
        watcher->wake();
    } catch (const std::system_error&) {
        // Without a thread Ctrl-C comes later.
    }
}

// Signals are seen by the main thread only.
bool in_main_thread() {
    static const auto main_thread =
        nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
    return PyThread_get_thread_ident() == main_thread;
}

// Only the main thread counts.
void count_wait() {
    waits.store(waits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

#endif

} // namespace

#ifndef _WIN32

InterruptibleWait::InterruptibleWait() : marks_(in_main_thread()) {
    if (!marks_)
        return;
    count_wait();
    if (!watching.load(std::memory_order_relaxed))
        watch();
}

InterruptibleWait::~InterruptibleWait() {
    if (marks_)
        count_wait();
}

#else

InterruptibleWait::InterruptibleWait() = default;
InterruptibleWait::~InterruptibleWait() = default;

#endif

} // namespace metalki::python
