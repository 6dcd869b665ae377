// State of queues, command buffers, encoders and events.
#pragma once

#include <bit>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "cpu/executor.hpp"
#include "cpu/message_log.hpp"
#include "device.hpp"
#include "device_queue.hpp"
#include "fifo.hpp"
#include "log_state.hpp"
#include "texture.hpp"

namespace metalki::api {

class QueueState;
class CommandBufferState;
class EventState;

struct Command {
    enum class Kind : std::uint8_t { dispatch, dispatch_indirect, copy, fill, signal, wait };
    Kind kind;
    std::uint8_t fill_value = 0;
    std::uint32_t argument_count = 0, first_argument = 0;
    std::uint32_t threadgroup_count = 0, first_threadgroup = 0;
    compiler::Uint3 grid{}, threadgroup{};
    const PipelineState* pipeline = nullptr;
    EventState* event = nullptr;
    const void* source = nullptr; // copies; the indirect arguments
    void* destination = nullptr;
    std::uint64_t size = 0;   // bytes, or the value of an event
    std::uint64_t digest = 0; // dispatches: tells apart kernels, grids and arguments
};

// Memory of encoded commands; recycled from one command buffer to the next.
struct CommandStorage {
    explicit CommandStorage(DeviceState& device) : device(device) {}
    ~CommandStorage() { keep_blocks(0); }
    CommandStorage(const CommandStorage&) = delete;
    CommandStorage& operator=(const CommandStorage&) = delete;

    DeviceState& device;
    std::vector<Command> commands;
    std::vector<void*> arguments;
    std::vector<std::uint32_t> lengths; // by argument, for queues with a DeviceQueue: of those given as bytes; 0: an address
    std::vector<cpu::ThreadgroupArgument> threadgroup_arguments;
    std::vector<const ObjectState*> retained;
    std::vector<std::byte*> blocks; // bytes of setBytes, in blocks of the device that never move
    std::size_t blocks_used = 0;
    std::byte *cursor = nullptr, *block_end = nullptr; // what is free of the block in use

    // Memory of 1 to max_set_bytes bytes for one argument, aligned as any type of that size is.
    std::byte* allocate(std::size_t length) {
        const std::size_t alignment = length > 8 ? 16 : std::bit_ceil(length);
        const std::size_t gap = -reinterpret_cast<std::uintptr_t>(cursor) & (alignment - 1);
        if (gap + length > static_cast<std::size_t>(block_end - cursor)) {
            next_block();
            return std::exchange(cursor, cursor + length);
        }
        std::byte* const place = cursor + gap;
        cursor = place + length;
        return place;
    }
    void next_block();
    void keep_blocks(std::size_t count);
    void clear(); // releases what it retained
};

// The handlers of a command buffer. There is mostly one, for which nothing is allocated.
class Handlers {
public:
    void add(const MTL::HandlerFunction& function) {
        if (first_)
            others_.push_back(function);
        else
            first_ = function;
    }
    bool empty() const { return !first_; }
    template <class Call> void for_each(Call call) const {
        if (first_)
            call(first_);
        for (const auto& function : others_)
            call(function);
    }
    void clear() {
        first_ = nullptr;
        others_.clear();
    }

private:
    MTL::HandlerFunction first_;
    std::vector<MTL::HandlerFunction> others_;
};

class EncoderState final : public ObjectState, public RecycledMemory<EncoderState> {
public:
    EncoderState(CommandBufferState& buffer, bool compute, MTL::DispatchType type);
    const char* class_name() const override { return compute ? "MTL::ComputeCommandEncoder" : "MTL::BlitCommandEncoder"; }
    void last_reference_gone() override;

    struct Binding {
        std::byte* address = nullptr;       // null: nothing bound
        std::size_t offset = 0, length = 0; // length of the whole buffer
        std::uint64_t digest = 0;           // of bytes or address
        bool is_bytes = false;
    };
    Reference<CommandBufferState> buffer;
    bool compute;
    MTL::DispatchType dispatch_type;
    bool ended = false;
    int debug_groups = 0;
    const PipelineState* pipeline = nullptr;
    std::array<Binding, buffer_slots> bindings{};
    std::array<std::uint32_t, buffer_slots> threadgroup_lengths{};
    std::unique_ptr<TextureBindings> textures; // null: none is bound
    Reference<StringState> label;
};

class CommandBufferState final : public ObjectState, public RecycledMemory<CommandBufferState> {
public:
    CommandBufferState(QueueState& queue, bool retains);
    ~CommandBufferState() override;
    const char* class_name() const override { return "MTL::CommandBuffer"; }
    void keep(const ObjectState& object);
    void use_log_state(const Reference<LogStateState>& state);
    void set_status(MTL::CommandBufferStatus value) {
        status.store(static_cast<Word>(value), std::memory_order_release);
        status.notify_all();
    }

    using Clock = std::chrono::steady_clock;

    Reference<QueueState> queue;
    std::unique_ptr<CommandStorage> storage;
    const std::uint64_t serial;
    const bool retains;
    // Words that the system can wait for by themselves: telling nobody of a change of others costs much more.
    using Word = std::uint32_t;
    std::atomic<Word> status{MTL::CommandBufferStatusNotEnqueued};
    std::atomic<Word> finished{0}; // 1: completed, and its handlers have run
    std::atomic<bool> cancelled{false};
    bool committed = false, open_encoder = false, abandoned_encoder = false, scheduled = false;
    std::size_t next_command = 0;
    Handlers scheduled_handlers, completed_handlers;
    std::string fault;
    NS::Error* error = nullptr;
    Reference<LogStateState> log_state; // null: messages go to the standard streams
    cpu::MessageLog log;
    double start = 0, end = 0;
    std::optional<Clock::time_point> time; // it is still, as nothing has happened since somebody looked
    int debug_groups = 0;
    Reference<StringState> label;
    std::unique_ptr<DeviceRun> device_run; // while a device has the buffer
};

// A point that a queue's device will come to, and what happens then.
struct Flight {
    CommandBufferState* buffer = nullptr;
    EventState* event = nullptr; // gets `value`
    std::uint64_t value = 0;
    bool completes = false;             // the buffer, which is retained
    std::shared_ptr<DevicePoint> point; // null: there is nothing to wait for
    bool waits = false;                 // until the event has the value, instead
};

class QueueState final : public ObjectState {
public:
    explicit QueueState(DeviceState& device);
    const char* class_name() const override { return "MTL::CommandQueue"; }
    ~QueueState() override;

    DeviceState& device;
    std::unique_ptr<DeviceQueue> device_queue; // null: the scheduler's threads run the commands

    enum class Phase { idle, ready, running, parked };
    std::mutex mutex;
    Phase phase = Phase::idle;
    Fifo<CommandBufferState*> buffers;   // enqueued order; committed ones are retained
    Fifo<CommandBufferState*> completed; // wait for their handlers
    bool running_handlers = false;
    Fifo<Flight> flights;                                   // what the device has, in order
    bool watched = false;                                   // by the thread that completes flights
    std::mutex completing;                                  // held by who completes flights
    std::atomic<std::int64_t> next_look{0}, front_since{0}; // at the driver; of the first flight: nanoseconds
    NS::UInteger limit = 64;
    Reference<LogStateState> log_state;
    std::atomic<int> priority{0};
    std::atomic<std::int64_t> time_limit{0}; // nanoseconds; 0: none
    std::vector<std::unique_ptr<CommandStorage>> spare;
    Reference<StringState> label;
};

class EventState final : public ObjectState {
public:
    EventState(DeviceState& device, bool shared) : device(device), shared(shared) {}
    const char* class_name() const override { return shared ? "MTL::SharedEvent" : "MTL::Event"; }
    // Raises the value and lets everything that waits for it go on.
    void signal(std::uint64_t value);
    // True when the value is there already; otherwise the queue is resumed later: when it is there, or, for queues of
    // devices, when a device will signal it.
    bool reached_or_wait(std::uint64_t value, QueueState& queue);
    // A device will signal the value when it comes to the point.
    void announce(std::uint64_t value, std::shared_ptr<DevicePoint> point);
    // Where a device will have signalled the value or a higher one; null: none is known.
    std::shared_ptr<DevicePoint> announced(std::uint64_t value);

    struct Listener {
        std::uint64_t value;
        MTL::SharedEventNotificationFunction function;
    };
    DeviceState& device;
    const bool shared;
    bool is_foreign = false; // a point in a stream of others: the host is not told when it is passed
    std::atomic<std::uint64_t> value{0};
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::pair<std::uint64_t, Reference<QueueState>>> waiting;
    std::vector<Listener> listeners;
    std::vector<std::pair<std::uint64_t, std::shared_ptr<DevicePoint>>> announcements; // by rising value
    Reference<StringState> label;
};

// Scheduling.
void commit(CommandBufferState& buffer);
// Runs the buffer here when it is next and known to take less than the limit; true when it has finished.
bool commit_and_run(CommandBufferState& buffer, std::chrono::nanoseconds limit);
void wait_completed(CommandBufferState& buffer);
void resume(QueueState& queue); // an event that the parked queue waited for is there
void wake_if_runnable(QueueState& queue);
void cancel(QueueState& queue);
bool forked_after_use();

// Devices that work by themselves.
// Hands the buffer's commands over from next_command on. False when the queue now waits for an event.
bool hand_over(CommandBufferState& buffer);
// Lets a thread complete the queue's flights from now on.
void watch_flights(QueueState& queue);
// While it lives, the calling thread completes the queue's flights, and need not wake another one to do it.
class LookingAfter {
public:
    explicit LookingAfter(QueueState& queue);
    ~LookingAfter();
    LookingAfter(const LookingAfter&) = delete;
    LookingAfter& operator=(const LookingAfter&) = delete;

private:
    QueueState& queue_;
    const QueueState* const outer_;
};
// Completes what the device has finished. Does nothing while another thread does that.
void complete_flights(QueueState& queue);
// Gives a completed buffer to its handlers, or finishes it. The queue's mutex is held; false: call finish() without it.
bool pass_to_handlers(QueueState& queue, Reference<CommandBufferState>& buffer);
// Handlers run on one thread at a time, so that those of a queue run in order of completion. With the queue's mutex held, the
// caller becomes that thread: it calls run_handlers() with the result, without the mutex. Null: there is nothing for it to do.
Reference<CommandBufferState> claim_handlers(QueueState& queue);
void run_handlers(QueueState& queue, Reference<CommandBufferState> first);
void finish(CommandBufferState& buffer);
void set_result(CommandBufferState& buffer);
double seconds_now();

} // namespace metalki::api
