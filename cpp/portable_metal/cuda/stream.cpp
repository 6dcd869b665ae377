// Streams of a GPU.
#include "cuda/stream.hpp"

#include <new>

namespace metalki::cuda {

EventHandle Gpu::take_event() {
    {
        const std::lock_guard lock(mutex_);
        if (generation_ != device.generation()) {
            events_.clear();
            generation_ = device.generation();
        }
        if (!events_.empty()) {
            EventHandle event = events_.back();
            events_.pop_back();
            return event;
        }
    }
    EventHandle event = nullptr;
    check(driver().event_create(&event, 0), "cuEventCreate");
    return event;
}

void Gpu::give_back(EventHandle event, std::uint64_t generation) {
    const std::lock_guard lock(mutex_);
    if (generation == generation_)
        events_.push_back(event);
}

std::shared_ptr<Point> Gpu::mark_foreign(std::uint64_t stream) {
    const Use use(device);
    // Nobody counts: the driver is asked.
    std::shared_ptr<Point> point(new Point(*this, std::make_shared<std::atomic<std::uint64_t>>(0)));
    point->generation_ = device.generation();
    point->sequence_ = 1;
    point->event_ = take_event();
    check(driver().event_record(point->event_, reinterpret_cast<StreamHandle>(stream)), "cuEventRecord");
    return point;
}

void Gpu::let_foreign_wait(std::uint64_t stream, const Point& point) {
    if (point.is_passed())
        return;
    const Use use(device);
    check(driver().stream_wait_event(reinterpret_cast<StreamHandle>(stream), point.event_, 0), "cuStreamWaitEvent");
}

Point::~Point() {
    if (event_)
        gpu_.give_back(event_, generation_);
}

Progress Point::look(std::string& failure) const {
    if (is_passed())
        return Progress::done;
    constexpr const char* gone = "the device had to be made ready again after a fault";
    if (generation_ != gpu_.device.generation()) {
        failure = gone;
        return Progress::failed;
    }
    Result result;
    try {
        const Use use(gpu_.device);
        if (generation_ != gpu_.device.generation())
            return look(failure);
        result = driver().event_query(event_);
    } catch (const std::exception& error) {
        failure = error.what();
        return Progress::failed;
    }
    if (result == Result::not_ready)
        return Progress::running;
    if (result == Result::success || is_passed())
        return Progress::done;
    failure = describe(result);
    gpu_.device.note(Error(result, "cuEventQuery"));
    return Progress::failed;
}

double Point::seconds_since(const Point& earlier) const {
    try {
        const Use use(gpu_.device);
        if (generation_ != gpu_.device.generation() || earlier.generation_ != generation_)
            return 0;
        float milliseconds = 0;
        const Result result = driver().event_elapsed(&milliseconds, earlier.event_, event_);
        return result == Result::success ? double{milliseconds} / 1000 : 0;
    } catch (const std::exception&) {
        return 0; // the device is lost, or the process ends
    }
}

Stream::Stream(Gpu& gpu, int priority) : gpu_(gpu), priority_(priority) {
    std::byte* memory = gpu.memory.allocate_on_host(sizeof(std::atomic<std::uint64_t>));
    if (!memory)
        throw std::bad_alloc();
    // Its memory stays with it: the device may write its last number when the stream and all points are gone already, and
    // another stream's work would seem to be done.
    counter_ = {new (memory) std::atomic<std::uint64_t>(0), [](std::atomic<std::uint64_t>*) {}};
}

Stream::~Stream() {
    try {
        const Use use(gpu_.device);
        if (handle_ && generation_ == gpu_.device.generation())
            driver().stream_destroy(handle_);
    } catch (const std::exception&) {
        // With the context the stream is gone as well.
    }
}

void Stream::prepare() {
    if (handle_ && generation_ == gpu_.device.generation())
        return;
    int lowest = 0, highest = 0; // high priorities are low numbers
    check(driver().stream_priority_range(&lowest, &highest), "cuCtxGetStreamPriorityRange");
    const int number = priority_ > 0 ? highest : priority_ < 0 ? lowest : (lowest + highest) / 2;
    check(driver().stream_create(&handle_, stream_non_blocking, number), "cuStreamCreateWithPriority");
    generation_ = gpu_.device.generation();
}

void Stream::launch(const Launch& launch) {
    const Function function = launch.kernel.function(launch.threadgroup_memory);
    std::size_t bytes = launch.parameter_bytes;
    void* block[] = {launch_buffer_pointer, launch.parameters, launch_buffer_size, &bytes, nullptr};
    const auto& [groups, threads] = std::pair(launch.threadgroups, launch.threads);
    check(driver().launch_kernel(function, groups.x, groups.y, groups.z, threads.x, threads.y, threads.z,
                                 static_cast<unsigned>(launch.threadgroup_memory), handle_, nullptr, block),
          "cuLaunchKernel");
}

void Stream::copy(Address destination, Address source, std::size_t bytes) {
    check(driver().copy_async(destination, source, bytes, handle_), "cuMemcpyAsync");
}

void Stream::fill(Address destination, std::uint8_t value, std::size_t bytes) {
    check(driver().fill_bytes_async(destination, value, bytes, handle_), "cuMemsetD8Async");
}

std::shared_ptr<Point> Stream::mark(bool for_time) {
    std::shared_ptr<Point> point(new Point(gpu_, counter_));
    point->generation_ = generation_;
    point->sequence_ = ++sequence_;
    point->event_ = gpu_.take_event();
    check(driver().event_record(point->event_, handle_), "cuEventRecord");
    if (gpu_.device.facts().writes_from_streams && !for_time)
        check(driver().stream_write_64(handle_, reinterpret_cast<Address>(counter_.get()), sequence_, 0),
              "cuStreamWriteValue64");
    return point;
}

void Stream::wait(const Point& point) {
    if (point.is_passed())
        return;
    check(driver().stream_wait_event(handle_, point.event_, 0), "cuStreamWaitEvent");
}

void Stream::synchronize() {
    check(driver().stream_synchronize(handle_), "cuStreamSynchronize");
}

} // namespace metalki::cuda
