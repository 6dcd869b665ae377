// Ordered work of a GPU, and points in it that the host and other streams can wait for.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/kernel.hpp"
#include "cuda/memory.hpp"
#include "cuda/progress.hpp"

namespace metalki::cuda {

class Point;

// A GPU with what all of its streams share.
struct Gpu {
    explicit Gpu(Device& device) : device(device), memory(device) {}
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    EventHandle take_event(); // within a Use
    // What a stream of others (a CUstream as a number) has been given so far.
    std::shared_ptr<Point> mark_foreign(std::uint64_t stream);
    // What such a stream is given from now on waits for the point.
    void let_foreign_wait(std::uint64_t stream, const Point& point);
    void give_back(EventHandle event, std::uint64_t generation);

    Device& device;
    Memory memory;

private:
    std::mutex mutex_;
    std::vector<EventHandle> events_;
    std::uint64_t generation_ = 0; // of events_
};

// A place in a stream's work.
class Point {
public:
    ~Point();
    Point(const Point&) = delete;
    Point& operator=(const Point&) = delete;

    // Cheap: whether the device said so already. False tells nothing of failures.
    bool is_passed() const { return counter_->load(std::memory_order_acquire) >= sequence_; }
    // Asks the driver. After `failed`, `failure` says why.
    Progress look(std::string& failure) const;
    // Seconds from `earlier` to here; both are passed. 0 when the driver cannot say.
    double seconds_since(const Point& earlier) const;

private:
    friend class Stream;
    friend struct Gpu;
    Point(Gpu& gpu, std::shared_ptr<std::atomic<std::uint64_t>> counter) : gpu_(gpu), counter_(std::move(counter)) {}

    Gpu& gpu_;
    const std::shared_ptr<std::atomic<std::uint64_t>> counter_; // the stream's; written by the device
    std::uint64_t sequence_ = 0, generation_ = 0;
    EventHandle event_ = nullptr;
};

struct Launch {
    Kernel& kernel;
    compiler::Uint3 threadgroups, threads;
    std::size_t threadgroup_memory; // dynamic
    void* parameters;
    std::size_t parameter_bytes;
};

// Used by one thread at a time, within a Use of its device.
class Stream {
public:
    // Priority: below 0, 0 or above 0.
    Stream(Gpu& gpu, int priority);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // Before anything else of a Use: a stream of a context that is gone is made anew.
    void prepare();
    void launch(const Launch& launch);
    void copy(Address destination, Address source, std::size_t bytes);
    void fill(Address destination, std::uint8_t value, std::size_t bytes);
    // `for_time`: only seconds_since() is going to be asked.
    std::shared_ptr<Point> mark(bool for_time = false);
    // Later work of this stream waits for the point, which may lie in a stream of another device.
    void wait(const Point& point);
    // Blocks until all is done.
    void synchronize();

private:
    Gpu& gpu_;
    const int priority_;
    StreamHandle handle_ = nullptr;
    std::uint64_t generation_ = 0, sequence_ = 0;
    std::shared_ptr<std::atomic<std::uint64_t>> counter_; // sequence of the last point passed, in memory the device writes to
};

} // namespace metalki::cuda
