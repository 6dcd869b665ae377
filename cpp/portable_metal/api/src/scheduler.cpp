// Runs committed command buffers: in order within a queue, queues side by side, on few threads or on the waiting one.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "Metal/MetalkiValidation.hpp"
#include "commands.hpp"
#include "memory.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

constexpr unsigned max_drivers = 4;
constexpr std::size_t most_spare_storages = 32; // of a queue

thread_local bool in_completed_handler = false;
thread_local const QueueState* owned_queue = nullptr;

std::atomic<bool> used{false};
std::atomic<bool> forked{false};

struct Scheduler {
    std::mutex mutex;
    std::condition_variable work, gone;
    std::vector<QueueState*> ready; // each retained; not many, and a vector keeps its memory
    unsigned drivers = 0, idle = 0;
    bool stopping = false;
};

void stop_at_exit();

// Never destroyed: threads may outlive static destructors.
Scheduler& scheduler() {
    static Scheduler* const instance = [] {
        pthread_atfork(nullptr, nullptr, [] { forked.store(used.load()); });
        std::atexit(stop_at_exit);
        return new Scheduler;
    }();
    return *instance;
}

cpu::Executor& executor() {
    static cpu::Executor* const instance = new cpu::Executor(cpu::usable_cores());
    return *instance;
}

} // namespace

using Clock = CommandBufferState::Clock;

double seconds_now() {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

namespace {

double seconds(Clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// What dispatches took when they last ran with the same arguments. Only a hint: entries may be lost.
class DurationMemory {
public:
    // Nothing is known of dispatches that read their grid from a buffer.
    std::optional<std::uint64_t> nanoseconds(const Command& command) const {
        const std::uint64_t entry = slot(command).load(std::memory_order_relaxed);
        if (command.kind != Command::Kind::dispatch || entry >> duration_bits != command.digest >> duration_bits)
            return std::nullopt;
        return entry & longest;
    }
    void remember(const Command& command, Clock::duration duration) {
        const auto taken = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
        slot(command).store((command.digest & ~longest) | std::min(taken, longest), std::memory_order_relaxed);
    }

private:
    static constexpr unsigned duration_bits = 24;
    static constexpr std::uint64_t longest = (std::uint64_t{1} << duration_bits) - 1;
    std::atomic<std::uint64_t>& slot(const Command& command) const { return slots_[command.digest >> 30 & 255]; }

    mutable std::array<std::atomic<std::uint64_t>, 256> slots_{};
};

DurationMemory& durations() {
    static DurationMemory* const instance = new DurationMemory;
    return *instance;
}

void call_handler(const MTL::HandlerFunction& handler, CommandBufferState& buffer) {
    try {
        handler(public_of<MTL::CommandBuffer>(&buffer));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "metalki: a command buffer handler threw: %s\n", error.what());
    } catch (...) {
        std::fprintf(stderr, "metalki: a command buffer handler threw\n");
    }
}

void run_dispatch(CommandBufferState& buffer, const Command& command) {
    const CommandStorage& storage = *buffer.storage;
    cpu::Dispatch dispatch;
    dispatch.code = command.pipeline->code->for_cpu;
    dispatch.arguments = {storage.arguments.data() + command.first_argument, command.argument_count};
    dispatch.threadgroup_arguments = {storage.threadgroup_arguments.data() + command.first_threadgroup,
                                      command.threadgroup_count};
    dispatch.grid = command.grid;
    dispatch.threadgroup = command.threadgroup;
    dispatch.log = &buffer.log;
    dispatch.stop = &buffer.cancelled;
    dispatch.time_limit = std::chrono::nanoseconds(buffer.queue->time_limit.load(std::memory_order_relaxed));
    Clock::time_point time = buffer.time ? *buffer.time : Clock::now();
    const Clock::time_point start = time;
    dispatch.time = &time;
    if (command.kind == Command::Kind::dispatch_indirect) {
        std::uint32_t groups[3];
        std::memcpy(groups, command.source, sizeof groups);
        const std::uint32_t sizes[3] = {command.threadgroup.x, command.threadgroup.y, command.threadgroup.z};
        for (int axis = 0; axis < 3; ++axis) {
            if (groups[axis] == 0)
                return;
            if (static_cast<std::uint64_t>(groups[axis]) * sizes[axis] > UINT32_MAX) {
                buffer.fault = "the indirect dispatch asks for more than 4294967295 threads along one axis";
                return;
            }
        }
        dispatch.grid = {groups[0] * sizes[0], groups[1] * sizes[1], groups[2] * sizes[2]};
    }
    if (auto fault = executor().run(dispatch))
        buffer.fault = fault->message; // names the kernel
    durations().remember(command, time - start);
    buffer.time = time;
}

// False when the queue now waits for an event.
bool run_command(CommandBufferState& buffer, const Command& command) {
    switch (command.kind) {
    case Command::Kind::signal: // also after a fault, so that nobody waits for ever
        command.event->signal(command.size);
        buffer.time.reset();
        return true;
    case Command::Kind::wait: {
        buffer.time.reset();
        QueueState& queue = *buffer.queue;
        if (!buffer.fault.empty() || command.event->value.load(std::memory_order_acquire) >= command.size)
            return true;
        {
            std::lock_guard lock(queue.mutex);
            if (buffer.cancelled.load(std::memory_order_relaxed))
                return true;
            // Whoever goes on looks again: not only this event resumes a parked queue.
            --buffer.next_command;
            queue.phase = QueueState::Phase::parked;
        }
        if (!command.event->reached_or_wait(command.size, queue))
            return false;
        resume(queue);
        return false;
    }
    default:
        break;
    }
    if (buffer.cancelled.load(std::memory_order_relaxed) && buffer.fault.empty())
        buffer.fault = "dropped: the queue was cancelled before this ran";
    if (!buffer.fault.empty())
        return true;
    if (command.kind != Command::Kind::copy && command.kind != Command::Kind::fill) {
        run_dispatch(buffer, command);
        return true;
    }
    if (command.kind == Command::Kind::copy)
        copy_memory(command.destination, command.source, command.size);
    else
        std::memset(command.destination, command.fill_value, command.size);
    buffer.time.reset();
    return true;
}

void start(CommandBufferState& buffer) {
    if (buffer.scheduled)
        return;
    buffer.scheduled = true;
    buffer.time = Clock::now();
    buffer.start = seconds(*buffer.time);
    buffer.set_status(MTL::CommandBufferStatusScheduled);
    buffer.scheduled_handlers.for_each([&](const auto& handler) {
        call_handler(handler, buffer);
        buffer.time.reset();
    });
}

bool execute(CommandBufferState& buffer) {
    start(buffer);
    while (buffer.next_command < buffer.storage->commands.size()) {
        // Counted first: once parked, another thread may go on with the buffer.
        const std::size_t index = buffer.next_command++;
        try {
            if (!run_command(buffer, buffer.storage->commands[index]))
                return false;
        } catch (const std::exception& error) {
            buffer.fault = error.what();
        }
    }
    return true;
}

MTL::CommandBufferError error_code(const std::string& message) {
    if (message.find("stack") != std::string::npos)
        return MTL::CommandBufferErrorStackOverflow;
    if (message.find("access") != std::string::npos || message.find("address") != std::string::npos)
        return MTL::CommandBufferErrorPageFault;
    return MTL::CommandBufferErrorInternal;
}

} // namespace

void set_result(CommandBufferState& buffer) {
    if (!buffer.queue->device_queue)
        buffer.end = buffer.time ? seconds(*buffer.time) : seconds_now();
    if (!buffer.fault.empty())
        buffer.error = make_error(MTL::CommandBufferErrorDomain, error_code(buffer.fault), buffer.fault);
    buffer.set_status(buffer.error ? MTL::CommandBufferStatusError : MTL::CommandBufferStatusCompleted);
}

void finish(CommandBufferState& buffer) {
    buffer.finished.store(1, std::memory_order_release);
    buffer.finished.notify_all();
}

bool pass_to_handlers(QueueState& queue, Reference<CommandBufferState>& buffer) {
    if (queue.spare.size() < most_spare_storages)
        queue.spare.push_back(std::move(buffer->storage));
    const bool handlers =
        !buffer->completed_handlers.empty() || !buffer->log.is_empty() || !queue.completed.empty() || queue.running_handlers;
    if (handlers)
        queue.completed.push_back(buffer.hand_out());
    return handlers;
}

namespace {

// The queue's mutex is held.
Reference<CommandBufferState> next_for_handlers(QueueState& queue) {
    queue.running_handlers = !queue.completed.empty();
    if (!queue.running_handlers)
        return {};
    auto buffer = Reference<CommandBufferState>::adopt(queue.completed.front());
    queue.completed.pop_front();
    return buffer;
}

} // namespace

Reference<CommandBufferState> claim_handlers(QueueState& queue) {
    return queue.running_handlers ? Reference<CommandBufferState>() : next_for_handlers(queue);
}

void run_handlers(QueueState& queue, Reference<CommandBufferState> buffer) {
    const bool outer = std::exchange(in_completed_handler, true);
    while (buffer) {
        {
            ScopedPool pool;
            if (!buffer->log.is_empty())
                deliver_messages(*buffer);
            buffer->completed_handlers.for_each([&](const auto& handler) { call_handler(handler, *buffer); });
            buffer->completed_handlers.clear();
        }
        finish(*buffer);
        buffer = {};
        std::lock_guard lock(queue.mutex);
        buffer = next_for_handlers(queue);
    }
    in_completed_handler = outer;
}

namespace {

CommandBufferState* runnable_head(const QueueState& queue) {
    return !queue.buffers.empty() && queue.buffers.front()->committed ? queue.buffers.front() : nullptr;
}

void drive();

void push_ready(QueueState& queue) {
    Scheduler& s = scheduler();
    queue.retain();
    bool start_driver = false;
    {
        std::lock_guard lock(s.mutex);
        const int priority = queue.priority.load(std::memory_order_relaxed);
        const auto before = [&](const QueueState* other) {
            return other->priority.load(std::memory_order_relaxed) >= priority;
        };
        s.ready.insert(std::find_if(s.ready.rbegin(), s.ready.rend(), before).base(), &queue);
        // An idle driver that has been woken for another queue still counts as idle.
        start_driver = s.ready.size() > s.idle && s.drivers < max_drivers && !s.stopping;
        if (start_driver)
            ++s.drivers;
    }
    s.work.notify_one();
    if (!start_driver)
        return;
    try {
        std::thread(drive).detach();
    } catch (const std::system_error&) {
        // Whoever waits runs the work instead.
        std::lock_guard lock(s.mutex);
        --s.drivers;
    }
}

// What the thread that runs the queue goes on with; null: the queue is idle now. The queue's mutex is held.
CommandBufferState* go_on(QueueState& queue) {
    CommandBufferState* const head = runnable_head(queue);
    if (!head)
        queue.phase = QueueState::Phase::idle;
    return head;
}

// Runs the queue, which the caller has marked as running, from its head on until it is empty, parked, or `until` has completed.
void run_owned(QueueState& queue, CommandBufferState* head, const CommandBufferState* until) {
    const auto keep = Reference<QueueState>::share(&queue);
    const QueueState* outer = std::exchange(owned_queue, &queue);
    while (head) {
        if (queue.device_queue) {
            start(*head);
            if (!hand_over(*head))
                break;
            std::lock_guard lock(queue.mutex);
            head = go_on(queue);
            continue;
        }
        if (!execute(*head))
            break;
        auto buffer = Reference<CommandBufferState>::adopt(head);
        set_result(*buffer);
        buffer->storage->clear();
        Reference<CommandBufferState> with_handlers;
        bool let_go = head == until;
        {
            std::lock_guard lock(queue.mutex);
            queue.buffers.pop_front();
            if (pass_to_handlers(queue, buffer)) {
                with_handlers = claim_handlers(queue);
                let_go = true;
            }
            head = go_on(queue);
            if (head && let_go)
                queue.phase = QueueState::Phase::ready;
        }
        if (buffer)
            finish(*buffer);
        if (!let_go)
            continue;
        // Handlers may wait for later buffers of this queue: let go of it first.
        owned_queue = outer;
        if (head)
            push_ready(queue);
        run_handlers(queue, std::move(with_handlers));
        return;
    }
    owned_queue = outer;
}

void drive() {
    Scheduler& s = scheduler();
    std::unique_lock lock(s.mutex);
    for (;;) {
        ++s.idle;
        s.work.wait(lock, [&] { return s.stopping || !s.ready.empty(); });
        --s.idle;
        if (s.stopping)
            break;
        auto queue = Reference<QueueState>::adopt(s.ready.front());
        s.ready.erase(s.ready.begin());
        lock.unlock();
        CommandBufferState* head = nullptr;
        {
            std::lock_guard queue_lock(queue->mutex);
            if (queue->phase == QueueState::Phase::ready) {
                queue->phase = QueueState::Phase::running;
                head = go_on(*queue);
            }
        }
        if (head) {
            ScopedPool pool;
            run_owned(*queue, head, nullptr);
        }
        queue = {};
        lock.lock();
    }
    --s.drivers;
    s.gone.notify_all();
}

// Lets drivers end what they are doing; work that takes longer than a second is abandoned with the process.
void stop_at_exit() {
    if (forked.load())
        return;
    Scheduler& s = scheduler();
    std::unique_lock lock(s.mutex);
    s.stopping = true;
    s.work.notify_all();
    s.gone.wait_for(lock, std::chrono::seconds(1), [&] { return s.drivers == 0; });
}

bool takes_less_than(const CommandBufferState& buffer, std::chrono::nanoseconds limit) {
    if (limit == std::chrono::nanoseconds::max())
        return true;
    constexpr std::uint64_t bytes_per_nanosecond = 4;
    const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 0));
    std::uint64_t total = 0;
    for (const Command& command : buffer.storage->commands) {
        std::optional<std::uint64_t> taken = 0;
        if (command.kind == Command::Kind::dispatch || command.kind == Command::Kind::dispatch_indirect)
            taken = durations().nanoseconds(command);
        else if (command.kind == Command::Kind::copy || command.kind == Command::Kind::fill)
            taken = command.size / bytes_per_nanosecond;
        if (!taken || (total += *taken) > most)
            return false;
    }
    return true;
}

// Takes the queue over, when nobody runs it and there is something to run. Returns its head, or null.
CommandBufferState* take(QueueState& queue) {
    std::lock_guard lock(queue.mutex);
    const bool free = queue.phase == QueueState::Phase::ready || queue.phase == QueueState::Phase::idle;
    CommandBufferState* const head = free ? runnable_head(queue) : nullptr;
    if (head)
        queue.phase = QueueState::Phase::running;
    return head;
}

} // namespace

bool forked_after_use() {
    return forked.load(std::memory_order_relaxed);
}

void wake_if_runnable(QueueState& queue) {
    {
        std::lock_guard lock(queue.mutex);
        if (queue.phase != QueueState::Phase::idle || !runnable_head(queue))
            return;
        queue.phase = QueueState::Phase::ready;
    }
    push_ready(queue);
}

void resume(QueueState& queue) {
    {
        std::lock_guard lock(queue.mutex);
        if (queue.phase != QueueState::Phase::parked)
            return;
        queue.phase = QueueState::Phase::ready;
    }
    push_ready(queue);
}

void cancel(QueueState& queue) {
    bool parked = false;
    {
        std::lock_guard lock(queue.mutex);
        for (CommandBufferState* buffer : queue.buffers) {
            if (!buffer->committed)
                continue;
            buffer->cancelled.store(true, std::memory_order_relaxed);
            if (!queue.device_queue)
                executor().interrupt(buffer->cancelled);
        }
        parked = queue.phase == QueueState::Phase::parked;
    }
    if (parked)
        resume(queue);
}

namespace {

bool is_done(const CommandBufferState& buffer) {
    return in_completed_handler ? buffer.status.load(std::memory_order_acquire) >= MTL::CommandBufferStatusCompleted
                                : buffer.finished.load(std::memory_order_acquire);
}

// Looks at the device by itself: being woken by another thread would take longer than most kernels. False: not until then.
bool wait_for_device(CommandBufferState& buffer, Clock::time_point until) {
    constexpr std::chrono::microseconds busy{100}, shortest_nap{20}, longest_nap{500};
    QueueState& queue = *buffer.queue;
    const Clock::time_point start = Clock::now();
    for (auto nap = shortest_nap; !is_done(buffer);) {
        ScopedPool pool;
        if (CommandBufferState* head = take(queue))
            run_owned(queue, head, &buffer);
        complete_flights(queue);
        const Clock::time_point now = Clock::now();
        if (is_done(buffer) || now >= until)
            break;
        if (now - start < busy) {
            std::this_thread::yield();
            continue;
        }
        std::this_thread::sleep_for(nap);
        nap = std::min(nap + nap / 8, longest_nap);
    }
    return is_done(buffer);
}

} // namespace

bool commit(CommandBufferState& buffer, bool run_here) {
    QueueState& queue = *buffer.queue;
    if (forked_after_use()) {
        buffer.committed = true;
        buffer.fault =
            "the process was forked after the device had been used; a child process must use the device first itself";
        set_result(buffer);
        buffer.completed_handlers.for_each([&](const auto& handler) { call_handler(handler, buffer); });
        buffer.completed_handlers.clear();
        finish(buffer);
        return true;
    }
    used.store(true, std::memory_order_relaxed);
    bool mine = false;
    {
        std::lock_guard lock(queue.mutex);
        if (buffer.status.load(std::memory_order_relaxed) == MTL::CommandBufferStatusNotEnqueued)
            queue.buffers.push_back(&buffer);
        buffer.retain();
        buffer.committed = true;
        buffer.status.store(MTL::CommandBufferStatusCommitted, std::memory_order_release);
        mine = run_here && queue.phase == QueueState::Phase::idle && queue.buffers.front() == &buffer;
        if (mine)
            queue.phase = QueueState::Phase::running;
    }
    if (!mine) {
        wake_if_runnable(queue);
        return false;
    }
    ScopedPool pool;
    run_owned(queue, &buffer, &buffer);
    return buffer.finished.load(std::memory_order_acquire);
}

void commit(CommandBufferState& buffer) {
    commit(buffer, false);
}

bool commit_and_run(CommandBufferState& buffer, std::chrono::nanoseconds limit) {
    if (buffer.queue->device_queue) {
        const LookingAfter looking_after(*buffer.queue);
        const bool for_ever = limit == std::chrono::nanoseconds::max();
        return commit(buffer, true) || wait_for_device(buffer, for_ever ? Clock::time_point::max() : Clock::now() + limit);
    }
    return commit(buffer, takes_less_than(buffer, limit));
}

void wait_completed(CommandBufferState& buffer) {
    QueueState& queue = *buffer.queue;
    const auto done = [&] { return is_done(buffer); };
    if (done())
        return;
    if (!require(owned_queue != &queue, "MTL::CommandBuffer::waitUntilCompleted",
                 "a scheduled handler cannot wait for its own queue"))
        return;
    if (queue.device_queue) {
        wait_for_device(buffer, Clock::time_point::max());
        return;
    }
    while (!done() && buffer.status.load(std::memory_order_acquire) < MTL::CommandBufferStatusCompleted) {
        CommandBufferState* const head = take(queue);
        if (!head)
            break;
        ScopedPool pool;
        run_owned(queue, head, &buffer);
    }
    if (!in_completed_handler)
        return buffer.finished.wait(0, std::memory_order_acquire);
    for (auto status = buffer.status.load(std::memory_order_acquire); status < MTL::CommandBufferStatusCompleted;
         status = buffer.status.load(std::memory_order_acquire))
        buffer.status.wait(status, std::memory_order_acquire);
}

} // namespace metalki::api
