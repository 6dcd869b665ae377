// One dispatch while it runs: what is left of it, and what stopped it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "cpu/executor.hpp"
#include "cpu/plan.hpp"

namespace metalki::cpu {

struct Job {
    const Dispatch& dispatch;
    const Plan plan;
    std::uint64_t total = 0; // units
    std::uint64_t first_claim = 1;
    std::atomic<std::uint64_t> next{0};
    std::atomic<bool> stopped{false};

    // Owned by WorkerPool, under its mutex.
    unsigned helpers_wanted = 0;
    std::atomic<unsigned> helpers_active{0}; // may be read without the mutex

    explicit Job(const Dispatch& d) : dispatch(d), plan(d) {}

    bool must_stop() const {
        return stopped.load(std::memory_order_relaxed) ||
               (dispatch.stop != nullptr && dispatch.stop->load(std::memory_order_relaxed));
    }
    void fail(std::string message) {
        const std::scoped_lock lock(mutex_);
        if (!fault_)
            fault_ = Fault{std::move(message)};
        stopped.store(true, std::memory_order_relaxed);
    }
    // Only after all workers have left.
    std::optional<Fault> take_fault() { return std::move(fault_); }

private:
    std::mutex mutex_;
    std::optional<Fault> fault_;
};

} // namespace metalki::cpu
