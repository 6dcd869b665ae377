// An ordered queue that gathers commands in a command buffer and commits it when full, waited on, or after a short time.
#pragma once

#include "kernel_interface/recording.hpp"
#include "metal_backend/objects.hpp"

namespace metalki::metal {

class MetalQueue final : public detail::QueueImpl, public std::enable_shared_from_this<MetalQueue> {
public:
    MetalQueue(MetalDevice& device, std::string_view label);

    void launch(const detail::Launch& launch) override;
    void copy(detail::BufferImpl& destination, std::size_t destination_offset, detail::BufferImpl& source,
              std::size_t source_offset, std::size_t bytes) override;
    void fill(detail::BufferImpl& destination, std::size_t offset, std::size_t bytes, std::uint8_t value) override;
    void flush() override;
    bool synchronize(detail::Timeout timeout) override;
    bool idle() const noexcept override {
        const std::uint64_t opened = opened_.load(std::memory_order_acquire);
        return completed_.load(std::memory_order_acquire) == opened && !failed_.load(std::memory_order_relaxed);
    }
    bool has_room() const noexcept override {
        return opened_.load(std::memory_order_relaxed) - completed_.load(std::memory_order_relaxed) < most_open_batches;
    }
    bool wait_for_room(detail::Timeout timeout) override;
    Event record_event() override;
    void wait_event(const Event& event) override;
    bool wait_stream(std::uint64_t stream) override;
    bool let_stream_wait(std::uint64_t stream) override;
    void on_complete(std::function<void()> function) override;
    void set_priority(Priority priority) override;
    bool set_time_limit(std::chrono::nanoseconds limit) override;
    void cancel() override;

    ~MetalQueue() override;

    // Called every now and then while the queue is watched: commits a batch that was open the last time already. False
    // when the queue has been idle for a while and is not watched any more.
    bool flush_what_waits() noexcept;

private:
    // Below the 64 that a Metal queue makes before it blocks its caller: these wait here, where others can go on.
    static constexpr std::uint64_t most_open_batches = 60;

    // One command buffer and what lives as long as it runs. Recycled, so that a steady state allocates nothing here.
    struct Batch {
        NS::SharedPtr<MTL::CommandBuffer> commands;
        NS::SharedPtr<MTL::ComputeCommandEncoder> compute;
        NS::SharedPtr<MTL::BlitCommandEncoder> blit;
        const MTL::ComputePipelineState* pipeline = nullptr; // bound to `compute`
        std::uint64_t encoder_number = 0;                    // tells `compute` apart from all other encoders
        unsigned count = 0;
        bool prints = false; // its command buffer has a log state
        std::vector<std::shared_ptr<const detail::KernelImpl>> kernels;
        std::vector<std::function<void()>> callbacks;
        std::shared_ptr<MetalQueue> queue;            // while the device has it
        std::shared_ptr<detail::Recording> recording; // of the only launch in it, which `record` describes
        LaunchRecord record;
    };

    // These need encode_mutex_. What opens batches and encoders needs an AutoreleaseScope as well.
    Batch& open_batch(bool prints = false);
    void open_printing_batch();
    NS::SharedPtr<MTL::CommandBuffer> new_commands(bool prints);
    MTL::ComputeCommandEncoder* compute_encoder();
    MTL::BlitCommandEncoder* blit_encoder();
    void end_encoding();
    NS::SharedPtr<MTL::CommandBuffer> close_batch();
    void commit();
    void counted();
    void encode(const detail::Launch& launch);
    void encode_recorded(const detail::Launch& launch);
    void hold(MTL::ComputeCommandEncoder& encoder, detail::BufferImpl& buffer);
    bool encode_at_once(MTL::ComputeCommandEncoder& encoder, const detail::Launch& launch);
    void encode_call_by_call(MTL::ComputeCommandEncoder& encoder, const detail::Launch& launch);
    void encode_arguments(MTL::ComputeCommandEncoder& encoder, const detail::Launch& launch);
    void encode_bytes(MTL::ComputeCommandEncoder& encoder, const ArgumentValue& value, unsigned index);
    void encode_copy(detail::BufferImpl& destination, std::size_t destination_offset, detail::BufferImpl& source,
                     std::size_t source_offset, std::size_t bytes);

    void finished(std::unique_ptr<Batch> batch, MTL::CommandBuffer* commands);
    template <class Ready> bool wait_until(std::unique_lock<std::mutex>& lock, detail::Timeout timeout, const Ready& ready);
    template <class Function> void guarded(const std::string& what, Function function);

    MetalDevice& metal_;
    NS::SharedPtr<MTL::CommandQueue> queue_;
    NS::SharedPtr<MTL::LogState> log_state_; // made for the first kernel that prints

    std::mutex encode_mutex_;
    std::unique_ptr<Batch> open_;
    std::atomic<std::uint64_t> opened_{0}; // batches so far
    std::uint64_t opened_before_ = 0;      // at the last look of the watching thread
    unsigned idle_looks_ = 0;
    bool watched_ = false;
    std::shared_ptr<MetalEvent> event_;
    std::uint64_t event_value_ = 0;
    std::uint64_t submitted_ = 0;

    // Apart from encode_mutex_: completion must go on while an encoding thread waits for a free command buffer.
    std::mutex done_mutex_;
    std::condition_variable done_;
    std::atomic<std::uint64_t> completed_{0};
    std::atomic<bool> failed_{false}; // there is an error_
    std::string error_;
    std::vector<std::unique_ptr<Batch>> spare_;
};

// Lets flush_what_waits() be called on the queue from now on.
void watch(std::shared_ptr<MetalQueue> queue);

} // namespace metalki::metal
