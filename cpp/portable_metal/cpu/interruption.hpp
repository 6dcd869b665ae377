// Makes threads leave kernels that have to stop: a signal does to them what a fault would do.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "cpu/job.hpp"

namespace metalki::cpu {

// While it lives, the calling thread runs threadgroups of the job and can be made to leave them.
class Interruptible {
public:
    explicit Interruptible(const Job& job);
    ~Interruptible();
    Interruptible(const Interruptible&) = delete;
    Interruptible& operator=(const Interruptible&) = delete;
};

// A thread that stops jobs at their deadline and makes all workers of stopped jobs leave.
class Watchdog {
public:
    Watchdog() = default;
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // Fails the job when it still runs after `limit`. It must stay alive until forget() has returned.
    void watch(Job& job, std::chrono::nanoseconds limit);
    void forget(Job& job);

    // The jobs with this flag, which has been set, end now.
    void interrupt(const std::atomic<bool>& stop);

private:
    using Clock = std::chrono::steady_clock;
    struct Watched {
        Job* job;
        Clock::time_point deadline;
        std::chrono::nanoseconds limit;
    };

    void start();
    void run();
    Clock::time_point look(Clock::time_point now);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Watched> watched_;
    std::vector<const std::atomic<bool>*> flags_;
    std::thread thread_;
    pid_t owner_ = 0;
    bool closing_ = false;
};

} // namespace metalki::cpu
