// Queues of devices that work by themselves: handing commands over, and completing what the device has finished.
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "commands.hpp"

namespace metalki::api {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

// Asking the driver takes locks that launching threads want as well.
constexpr std::int64_t between_looks = 20'000;

// Looks after queues whose flights nobody waits for.
class Watcher {
public:
    void add(QueueState& queue) {
        queue.retain();
        std::lock_guard lock(mutex_);
        added_.push_back(&queue);
        if (!started_) {
            std::thread(&Watcher::run, this).detach();
            started_ = true;
        }
        wake_.notify_one();
    }

    // The driver ends with the process: nobody may be in it then.
    void stop() {
        std::unique_lock lock(mutex_);
        stopping_ = true;
        wake_.notify_one();
        gone_.wait_for(lock, std::chrono::seconds(1), [this] { return !started_; });
    }

private:
    static constexpr std::chrono::microseconds shortest_nap{20}, longest_nap{200};

    void run() {
#ifdef PR_SET_TIMERSLACK
        prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); // short naps must be short
#endif
        std::vector<QueueState*> watched;
        std::chrono::microseconds nap = shortest_nap;
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                if (watched.empty())
                    wake_.wait(lock, [this] { return !added_.empty() || stopping_; });
                if (stopping_)
                    break;
                if (!added_.empty())
                    nap = shortest_nap;
                watched.insert(watched.end(), added_.begin(), added_.end());
                added_.clear();
            }
            std::erase_if(watched, [](QueueState* queue) { return is_done(*queue); });
            std::this_thread::sleep_for(nap);
            nap = std::min(nap + nap / 4, longest_nap);
        }
        std::lock_guard lock(mutex_);
        started_ = false;
        gone_.notify_all();
    }

    static bool is_done(QueueState& queue) {
        ScopedPool pool;
        complete_flights(queue);
        {
            std::lock_guard lock(queue.mutex);
            if (!queue.flights.empty())
                return false;
            queue.watched = false;
        }
        queue.release();
        return true;
    }

    std::mutex mutex_;
    std::condition_variable wake_, gone_;
    std::vector<QueueState*> added_; // each retained
    bool started_ = false, stopping_ = false;
};

Watcher& watcher() {
    // Never destroyed: its thread runs until the process ends.
    static Watcher* const instance = [] {
        std::atexit([] { watcher().stop(); });
        return new Watcher;
    }();
    return *instance;
}

thread_local const QueueState* looked_after_here = nullptr;

void add_flight(QueueState& queue, Flight flight) {
    {
        std::lock_guard lock(queue.mutex);
        if (queue.flights.empty())
            queue.front_since.store(nanoseconds_now(), std::memory_order_relaxed);
        queue.flights.push_back(std::move(flight));
    }
    if (looked_after_here != &queue)
        watch_flights(queue);
}

void signal_later(CommandBufferState& buffer, const Command& command) {
    std::shared_ptr<DevicePoint> point;
    try {
        point = buffer.queue->device_queue->mark();
    } catch (const std::exception& error) {
        if (buffer.fault.empty())
            buffer.fault = error.what();
    }
    if (point)
        command.event->announce(command.size, point);
    add_flight(*buffer.queue, {&buffer, command.event, command.size, false, std::move(point)});
}

// False when the queue now waits for an event that no device has been given yet.
bool wait_on_device(CommandBufferState& buffer, const Command& command) {
    QueueState& queue = *buffer.queue;
    if (!buffer.fault.empty() || command.event->value.load(std::memory_order_acquire) >= command.size)
        return true;
    if (const auto point = command.event->announced(command.size)) {
        queue.device_queue->wait_for(*point);
        // On the host, too, a buffer completes after what it waited for.
        if (!command.event->is_foreign)
            add_flight(queue, {&buffer, command.event, command.size, false, nullptr, true});
        return true;
    }
    return buffer.cancelled.load(std::memory_order_relaxed);
}

// Lets the queue wait for the event of its next command. Whoever goes on looks again: not only this event resumes it. False:
// the buffer is cancelled and need not wait.
bool park(CommandBufferState& buffer, const Command& command) {
    QueueState& queue = *buffer.queue;
    {
        std::lock_guard lock(queue.mutex);
        if (buffer.cancelled.load(std::memory_order_relaxed))
            return false;
        queue.phase = QueueState::Phase::parked;
    }
    if (command.event->reached_or_wait(command.size, queue))
        resume(queue);
    return true;
}

bool hand_over_command(CommandBufferState& buffer, const Command& command) {
    if (command.kind == Command::Kind::signal) {
        if (&command != &buffer.storage->commands.back()) // the last one comes with the end of the buffer
            signal_later(buffer, command);                // also after a fault, so that nobody waits for ever
        return true;
    }
    if (command.kind == Command::Kind::wait)
        return wait_on_device(buffer, command);
    if (buffer.cancelled.load(std::memory_order_relaxed) && buffer.fault.empty())
        buffer.fault = "dropped: the queue was cancelled before this ran";
    if (!buffer.fault.empty())
        return true;
    QueueState& queue = *buffer.queue;
    queue.device_queue->run(buffer, command);
    // A limit counts for a single dispatch.
    if (queue.time_limit.load(std::memory_order_relaxed) > 0)
        add_flight(queue, {&buffer, nullptr, 0, false, queue.device_queue->mark()});
    return true;
}

std::string names_of_kernels(const CommandBufferState& buffer) {
    std::vector<std::string> names;
    for (const Command& command : buffer.storage->commands) {
        if (!command.pipeline)
            continue;
        const std::string& name = command.pipeline->code->function.name;
        if (std::find(names.begin(), names.end(), name) == names.end())
            names.push_back(name);
    }
    if (names.empty())
        return {};
    std::string text = names.size() == 1 ? "kernel " : "one of the kernels ";
    for (const auto& name : names)
        text += (&name == &names.front() ? "'" : ", '") + name + "'";
    return text + ": ";
}

// Stops waiting for a dispatch that takes longer than the queue allows. The queue's mutex is held.
void check_time_limit(QueueState& queue, const Flight& front) {
    const std::int64_t limit = queue.time_limit.load(std::memory_order_relaxed);
    if (limit > 0 && nanoseconds_now() - queue.front_since.load(std::memory_order_relaxed) > limit)
        queue.device_queue->give_up(names_of_kernels(*front.buffer) + "stopped waiting after the time limit of " +
                                    std::to_string(limit / 1'000'000) + " ms; the device cannot stop it");
}

Progress progress_of(QueueState& queue, const Flight& front, std::string& failure) {
    if (front.waits)
        return front.event->value.load(std::memory_order_acquire) >= front.value ? Progress::done : Progress::running;
    if (!front.point || front.point->is_passed())
        return Progress::done;
    const std::int64_t now = nanoseconds_now();
    if (now < queue.next_look.load(std::memory_order_relaxed))
        return Progress::running;
    queue.next_look.store(now + between_looks, std::memory_order_relaxed);
    check_time_limit(queue, front);
    return front.point->look(failure);
}

void fail(CommandBufferState& buffer, const std::string& failure, bool is_first) {
    if (!buffer.fault.empty())
        return;
    buffer.fault = is_first ? names_of_kernels(buffer) + failure
                            : "not run: an earlier command buffer of the queue failed (" + failure + ")";
}

void complete(QueueState& queue, Reference<CommandBufferState> buffer) {
    try {
        queue.device_queue->completed(*buffer);
    } catch (const std::exception& error) {
        if (buffer->fault.empty())
            buffer->fault = error.what();
    }
    buffer->device_run.reset();
    set_result(*buffer);
    buffer->storage->clear();
    bool given_away = false;
    {
        std::lock_guard lock(queue.mutex);
        given_away = pass_to_handlers(queue, buffer);
    }
    if (!given_away)
        finish(*buffer);
}

// Takes the first flight when the device is done with it.
bool take_flight(QueueState& queue, Flight& flight, std::string& failure, bool& failed) {
    std::lock_guard lock(queue.mutex);
    if (queue.flights.empty())
        return false;
    const Progress progress = progress_of(queue, queue.flights.front(), failure);
    if (progress == Progress::running)
        return false;
    failed = progress == Progress::failed;
    flight = std::move(queue.flights.front());
    queue.flights.pop_front();
    queue.front_since.store(nanoseconds_now(), std::memory_order_relaxed);
    queue.next_look.store(0, std::memory_order_relaxed);
    return true;
}

// The command that has to wait for an event that no device has been given yet; null: there is none, and `end` is set.
const Command* hand_over_commands(CommandBufferState& buffer, std::shared_ptr<DevicePoint>& end) {
    DeviceQueue& device = *buffer.queue->device_queue;
    const HandingOver handing_over(device);
    if (!buffer.device_run)
        device.begin(buffer);
    for (const auto& commands = buffer.storage->commands; buffer.next_command < commands.size(); ++buffer.next_command) {
        const Command& command = commands[buffer.next_command];
        try {
            if (!hand_over_command(buffer, command))
                return &command;
        } catch (const std::exception& error) {
            buffer.fault = error.what();
        }
    }
    end = device.end(buffer);
    return nullptr;
}

} // namespace

void watch_flights(QueueState& queue) {
    {
        std::lock_guard lock(queue.mutex);
        if (queue.flights.empty() || std::exchange(queue.watched, true))
            return;
    }
    watcher().add(queue);
}

LookingAfter::LookingAfter(QueueState& queue) : queue_(queue), outer_(std::exchange(looked_after_here, &queue)) {}

LookingAfter::~LookingAfter() {
    looked_after_here = outer_;
    watch_flights(queue_);
}

bool hand_over(CommandBufferState& buffer) {
    QueueState& queue = *buffer.queue;
    std::shared_ptr<DevicePoint> end;
    try {
        while (const Command* waiting = hand_over_commands(buffer, end))
            if (park(buffer, *waiting))
                return false;
    } catch (const std::exception& error) {
        if (buffer.fault.empty())
            buffer.fault = error.what();
        for (; buffer.next_command + 1 < buffer.storage->commands.size(); ++buffer.next_command)
            if (const Command& command = buffer.storage->commands[buffer.next_command]; command.kind == Command::Kind::signal)
                add_flight(queue, {&buffer, command.event, command.size, false, nullptr});
    }
    Flight last{&buffer, nullptr, 0, true, std::move(end)};
    if (!buffer.storage->commands.empty() && buffer.storage->commands.back().kind == Command::Kind::signal) {
        last.event = buffer.storage->commands.back().event;
        last.value = buffer.storage->commands.back().size;
        last.event->retain(); // the buffer lets go of it first
        if (last.point)
            last.event->announce(last.value, last.point);
    }
    {
        std::lock_guard lock(queue.mutex);
        queue.buffers.pop_front();
    }
    add_flight(queue, std::move(last));
    return true;
}

void complete_flights(QueueState& queue) {
    {
        const std::unique_lock completing(queue.completing, std::try_to_lock);
        if (!completing)
            return;
        std::string failure;
        bool failed_before = false;
        for (Flight flight;;) {
            bool failed = false;
            if (!take_flight(queue, flight, failure, failed))
                break;
            if (failed)
                fail(*flight.buffer, failure, !failed_before);
            failed_before |= failed;
            if (flight.completes)
                complete(queue, Reference<CommandBufferState>::adopt(flight.buffer));
            if (flight.event && !flight.waits)
                flight.event->signal(flight.value);
            if (flight.event && flight.completes)
                flight.event->release();
            flight = {};
        }
    }
    Reference<CommandBufferState> with_handlers;
    {
        std::lock_guard lock(queue.mutex);
        with_handlers = claim_handlers(queue);
    }
    run_handlers(queue, std::move(with_handlers));
}

} // namespace metalki::api
