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

// In front of Python's handler, which goes on to be called, while somebody watches.
void install_handler() {
    struct sigaction present{};
    if (sigaction(SIGINT, nullptr, &present) != 0 || present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN ||
        present.sa_sigaction == &on_interrupt)
        return;
    previous_action = present;
    struct sigaction ours = present;
    ours.sa_sigaction = &on_interrupt;
    ours.sa_flags |= SA_SIGINFO;
    sigaction(SIGINT, &ours, nullptr);
}

void remove_handler() {
    struct sigaction present{};
    if (sigaction(SIGINT, nullptr, &present) == 0 && present.sa_sigaction == &on_interrupt)
        sigaction(SIGINT, &previous_action, nullptr);
}

// Everything, as nobody knows here which queue the kernel belongs to.
void stop_all() {
    try {
        for (const Device& device : devices())
            device.cancel();
    } catch (const Error&) {
    }
}

void watch_wait(std::uint64_t wait) {
    install_handler(); // other libraries may have replaced it
    while (waits.load() == wait) {
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
        install_handler();
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
                const std::uint64_t now = waits.load();
                if (now != before)
                    idle = 0;
                else if (now % 2 == 1)
                    watch_wait(now);
                before = now;
            }
            stop_watching(before);
        }
    }

    // Not when a wait has begun that took the watch for granted.
    void stop_watching(std::uint64_t last_seen) {
        const std::scoped_lock lock(mutex_);
        watching.store(false);
        if (waits.load() == last_seen)
            remove_handler();
        else
            watching.store(true);
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

// Only the main thread counts. In one order with `watching`: either the wait finds that nobody watches, or the watcher finds
// the wait.
void count_wait() {
    waits.store(waits.load(std::memory_order_relaxed) + 1);
}

#endif

} // namespace

#ifndef _WIN32

bool is_interrupted() {
    interrupted.store(false);
    return PyErr_CheckSignals() != 0;
}

InterruptibleWait::InterruptibleWait() : marks_(in_main_thread()) {
    if (!marks_)
        return;
    count_wait();
    if (!watching.load())
        watch();
}

InterruptibleWait::~InterruptibleWait() {
    if (marks_)
        count_wait();
}

#else

bool is_interrupted() {
    return PyErr_CheckSignals() != 0;
}

InterruptibleWait::InterruptibleWait() = default;
InterruptibleWait::~InterruptibleWait() = default;

#endif

} // namespace metalki::python
