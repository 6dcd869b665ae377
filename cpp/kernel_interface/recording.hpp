// A profile while it is being taken.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "metalki/profile.hpp"

namespace metalki::detail {

class Recording {
public:
    // Seconds since the recording began.
    double now() const { return since_clock_start() - began_; }
    // A time of the device's clock, which is the host's monotonic one.
    double from_device(double seconds) const { return seconds - began_; }

    void add(LaunchRecord record) {
        const std::scoped_lock lock(mutex_);
        records_.push_back(std::move(record));
    }
    std::vector<LaunchRecord> records() const {
        const std::scoped_lock lock(mutex_);
        return records_;
    }

private:
    static double since_clock_start() {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    mutable std::mutex mutex_;
    std::vector<LaunchRecord> records_;
    const double began_ = since_clock_start();
};

// True while a profile is being taken: what every launch asks.
extern std::atomic<bool> recording_is_on;
// The profile being taken, or null.
std::shared_ptr<Recording> current_recording();

} // namespace metalki::detail
