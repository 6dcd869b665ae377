// Encoding and completion of a queue's commands.
#include "metal_backend/queue.hpp"

#include <algorithm>

#include "kernel_interface/messages.hpp"
#include "metal_backend/messages.hpp"
#include "metal_backend/texture.hpp"

namespace metalki::metal {

namespace {

constexpr unsigned commands_per_batch = 128;
constexpr std::size_t most_spare_batches = 64;
constexpr std::size_t most_inline_bytes = 4096; // Metal's limit of setBytes

MTL::Size size_of(const Extents& extents) {
    return MTL::Size(extents.x(), extents.y(), extents.z());
}

MTL::Buffer* buffer_of(detail::BufferImpl& impl) {
    return static_cast<MetalBuffer&>(impl).buffer.get();
}

bool multiple_of_4(std::size_t a, std::size_t b, std::size_t c) {
    return ((a | b | c) & 3) == 0;
}

// A waiting thread runs by itself what is known to be short: waking another one would take longer. With a timeout it must
// come back in time; without one it has nothing else to do.
void commit_and_wait_briefly(MTL::CommandBuffer* commands, detail::Timeout timeout) {
    AutoreleaseScope scope;
#if METALKI_EXTENDED_METAL
    using std::chrono::nanoseconds;
    constexpr nanoseconds brief = std::chrono::milliseconds(5);
    MTL::Portable::commitAndRun(commands, timeout ? std::min(brief, *timeout / 4) : nanoseconds::max());
#else
    commands->commit();
#endif
}

// Names the kernels that may be meant, where the device's message does not.
std::string with_kernels(const std::string& error, const std::vector<std::shared_ptr<const detail::KernelImpl>>& kernels) {
    std::string names;
    for (const auto& kernel : kernels) {
        if (error.find(kernel->name) != std::string::npos)
            return error;
        const std::string name = '"' + kernel->name + '"';
        if (names.find(name) == std::string::npos)
            names += (names.empty() ? "" : ", ") + name;
    }
    if (names.empty())
        return error;
    return (kernels.size() == 1 ? "kernel " : "one of the kernels ") + names + ": " + error;
}

std::atomic<std::uint64_t> next_encoder{1}; // of all queues

// Completion must not wait for itself.
thread_local bool in_completion = false;

bool overlap(std::size_t a, std::size_t b, std::size_t bytes) {
    return a < b + bytes && b < a + bytes;
}

} // namespace

// Waits for what done_ is told of.
template <class Ready>
bool MetalQueue::wait_until(std::unique_lock<std::mutex>& lock, detail::Timeout timeout, const Ready& ready) {
    constexpr std::chrono::hours longest{24 * 365 * 100}; // the clock overflows later
    if (timeout)
        return done_.wait_for(lock, std::min<std::chrono::nanoseconds>(*timeout, longest), ready);
    done_.wait(lock, ready);
    return true;
}

// What the Metal API throws when it validates must not reach callers under a type they do not know.
template <class Function> void MetalQueue::guarded(const std::string& what, Function function) {
    try {
        function();
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw LaunchError(what + ": " + error.what());
    }
}

MetalQueue::MetalQueue(MetalDevice& device, std::string_view label) : metal_(device) {
    AutoreleaseScope scope;
    queue_ = NS::TransferPtr(device.device->newCommandQueue());
    if (!queue_)
        throw DeviceError("Queue: device " + device.info.name + " gives no command queue");
    if (!label.empty())
        queue_->setLabel(make_string(label).get());
}

MetalQueue::~MetalQueue() {
    if (!error_.empty())
        metal_.keep_error(std::move(error_));
}

NS::SharedPtr<MTL::CommandBuffer> MetalQueue::new_commands(bool prints) {
    if (!prints)
        return NS::RetainPtr(queue_->commandBuffer());
    if (!log_state_)
        log_state_ = make_log_state(*metal_.device.get(), this);
    auto descriptor = NS::TransferPtr(MTL::CommandBufferDescriptor::alloc()->init());
    descriptor->setLogState(log_state_.get());
    return NS::RetainPtr(queue_->commandBuffer(descriptor.get()));
}

MetalQueue::Batch& MetalQueue::open_batch(bool prints) {
    if (open_)
        return *open_;
    std::unique_ptr<Batch> batch;
    {
        std::lock_guard lock(done_mutex_);
        if (!spare_.empty()) {
            batch = std::move(spare_.back());
            spare_.pop_back();
        }
    }
    if (!batch)
        batch = std::make_unique<Batch>();
    batch->commands = new_commands(prints);
    if (!batch->commands)
        throw LaunchError("queue \"" + label + "\": the device gives no command buffer");
    batch->prints = prints;
    if (prints)
        detail::expect_messages();
    open_ = std::move(batch);
    ++opened_;
    if (becomes_busy())
        metal_.add_busy(weak_from_this());
    if (!watched_) {
        watch(shared_from_this());
        watched_ = true;
        idle_looks_ = 0;
    }
    return *open_;
}

// Logs cost time on some devices: only command buffers with kernels that print have one.
void MetalQueue::open_printing_batch() {
    if (open_ && open_->prints)
        return;
    AutoreleaseScope scope;
    commit();
    open_batch(true);
}

MTL::ComputeCommandEncoder* MetalQueue::compute_encoder() {
    if (open_ && open_->compute)
        return open_->compute.get();
    AutoreleaseScope scope;
    Batch& batch = open_batch();
    end_encoding();
    batch.compute = NS::RetainPtr(batch.commands->computeCommandEncoder());
    batch.encoder_number = next_encoder.fetch_add(1, std::memory_order_relaxed);
    batch.pipeline = nullptr;
    if (!batch.compute)
        throw LaunchError("queue \"" + label + "\": the device gives no compute encoder");
    return batch.compute.get();
}

MTL::BlitCommandEncoder* MetalQueue::blit_encoder() {
    if (open_ && open_->blit)
        return open_->blit.get();
    AutoreleaseScope scope;
    Batch& batch = open_batch();
    end_encoding();
    batch.blit = NS::RetainPtr(batch.commands->blitCommandEncoder());
    if (!batch.blit)
        throw LaunchError("queue \"" + label + "\": the device gives no blit encoder");
    return batch.blit.get();
}

void MetalQueue::end_encoding() {
    if (open_->compute) {
        open_->compute->endEncoding();
        open_->compute.reset();
    }
    if (open_->blit) {
        open_->blit->endEncoding();
        open_->blit.reset();
    }
}

// Ends the open batch and gives it its place in the queue; the caller commits it.
NS::SharedPtr<MTL::CommandBuffer> MetalQueue::close_batch() {
    end_encoding();
    NS::SharedPtr<MTL::CommandBuffer> commands = std::move(open_->commands);
    open_->queue = shared_from_this();
    Batch* batch = open_.release(); // its completion handler, which always runs, owns it
    ++submitted_;
    commands->addCompletedHandler(MTL::HandlerFunction([batch](MTL::CommandBuffer* done) {
        const std::shared_ptr<MetalQueue> queue = std::move(batch->queue);
        queue->finished(std::unique_ptr<Batch>(batch), done);
    }));
    commands->enqueue();
    return commands;
}

void MetalQueue::commit() {
    if (!open_)
        return;
    AutoreleaseScope scope;
    close_batch()->commit();
}

void MetalQueue::counted() {
    if (++open_->count >= commands_per_batch)
        commit();
}

bool MetalQueue::flush_what_waits() noexcept {
    constexpr unsigned patience = 20;
    // A queue in steady use is left alone: whoever launches would find the lock taken.
    const std::uint64_t opened = opened_.load(std::memory_order_relaxed);
    if (std::exchange(opened_before_, opened) != opened)
        return true;
    const std::unique_lock lock(encode_mutex_, std::try_to_lock);
    if (!lock || opened_.load(std::memory_order_relaxed) != opened)
        return true;
    idle_looks_ = open_ ? 0 : idle_looks_ + 1;
    watched_ = idle_looks_ < patience;
    if (open_) {
        try {
            commit();
        } catch (const std::exception&) {
            // The commands stay; whoever waits for them is told.
        }
    }
    return watched_;
}

void MetalQueue::finished(std::unique_ptr<Batch> batch, MTL::CommandBuffer* commands) {
    const bool outer = std::exchange(in_completion, true);
    std::string error;
    if (commands->status() == MTL::CommandBufferStatusError) {
        AutoreleaseScope scope;
        error = commands->error() ? to_string(commands->error()->localizedDescription()) : "the device reported an error";
        error = with_kernels(error, batch->kernels);
    }
    if (batch->recording) {
        batch->record.started = batch->recording->from_device(commands->GPUStartTime());
        batch->record.completed = batch->recording->from_device(commands->GPUEndTime());
        batch->record.failed = !error.empty();
        batch->recording->add(std::move(batch->record));
        batch->recording.reset();
    }
    for (const auto& callback : batch->callbacks) {
        try {
            callback();
        } catch (const std::exception& thrown) {
            if (error.empty())
                error = std::string("a completion callback failed: ") + thrown.what();
        } catch (...) {
            if (error.empty())
                error = "a completion callback failed";
        }
    }
    // What the callbacks keep alive goes before anybody is told.
    batch->callbacks.clear();
    in_completion = outer;
    batch->kernels.clear();
    batch->pipeline = nullptr;
    batch->count = 0;
    if (std::exchange(batch->prints, false))
        detail::messages_came();
    std::lock_guard lock(done_mutex_);
    if (error_.empty())
        error_ = std::move(error);
    failed_.store(!error_.empty(), std::memory_order_relaxed);
    if (spare_.size() < most_spare_batches)
        spare_.push_back(std::move(batch));
    completed_.fetch_add(1, std::memory_order_release);
    done_.notify_all();
}

void MetalQueue::encode_bytes(MTL::ComputeCommandEncoder& encoder, const ArgumentValue& value, unsigned index) {
    if (value.length <= most_inline_bytes)
        return encoder.setBytes(value.data, value.length, index);
    auto buffer = NS::TransferPtr(metal_.device->newBuffer(value.data, value.length, MTL::ResourceStorageModeShared));
    if (!buffer)
        throw OutOfMemoryError("launch: " + std::to_string(value.length) + " bytes for an argument could not be had");
    encoder.setBuffer(buffer.get(), 0, index);
}

void MetalQueue::encode_arguments(MTL::ComputeCommandEncoder& encoder, const detail::Launch& launch) {
    const std::vector<ArgumentInfo>& infos = launch.kernel->arguments;
    for (std::size_t i = 0; i < infos.size(); ++i) {
        const ArgumentValue& value = launch.arguments[i];
        if (!infos[i].active)
            continue;
        if (value.kind == ArgumentValue::Kind::buffer)
            encoder.setBuffer(buffer_of(*value.buffer), value.length == 0 ? 0 : value.offset, infos[i].index);
        else if (value.kind == ArgumentValue::Kind::bytes)
            encode_bytes(encoder, value, infos[i].index);
        else if (value.kind == ArgumentValue::Kind::threadgroup)
            encoder.setThreadgroupMemoryLength((value.length + 15) / 16 * 16, infos[i].index);
        else if (value.kind == ArgumentValue::Kind::texture)
            set_texture(encoder, value.data, infos[i].index);
        else if (value.kind == ArgumentValue::Kind::sampler)
            set_sampler(encoder, value.data, infos[i].index);
    }
}

// A launch on the portable Metal holds the buffers of its arguments here rather than at every binding.
void MetalQueue::hold(MTL::ComputeCommandEncoder& encoder, detail::BufferImpl& buffer) {
    if (buffer.holder.load(std::memory_order_relaxed) == open_->encoder_number) [[likely]]
        return;
    encoder.useResource(buffer_of(buffer), MTL::ResourceUsageRead | MTL::ResourceUsageWrite);
    buffer.holder.store(open_->encoder_number, std::memory_order_relaxed);
}

#if METALKI_EXTENDED_METAL
// The same as encode_call_by_call() without its some hundred calls. False: not for this launch.
bool MetalQueue::encode_at_once(MTL::ComputeCommandEncoder& encoder, const detail::Launch& launch) {
    using Argument = MTL::Portable::DispatchArgument;
    const auto& kernel = static_cast<const MetalKernel&>(*launch.kernel);
    constexpr std::size_t most = 40; // 31 buffers and some threadgroup memory
    const std::size_t count = launch.arguments.size();
    if (!kernel.takes_only_memory || count > most)
        return false;
    std::array<Argument, most> arguments;
    for (std::size_t i = 0; i < count; ++i) {
        const ArgumentValue& value = launch.arguments[i];
        Argument& argument = arguments[i];
        if (!kernel.checks[i].active) {
            argument = {};
        } else if (value.kind == ArgumentValue::Kind::buffer) {
            hold(encoder, *value.buffer);
            argument = {Argument::Kind::address, 0, reinterpret_cast<void*>(value.buffer->gpu_address + value.offset)};
        } else if (value.kind == ArgumentValue::Kind::bytes) {
            if (value.length > most_inline_bytes)
                return false;
            argument = {Argument::Kind::bytes, static_cast<std::uint32_t>(value.length), value.data};
        } else {
            argument = {Argument::Kind::threadgroup, static_cast<std::uint32_t>((value.length + 15) / 16 * 16), nullptr};
        }
    }
    MTL::Size threads = size_of(launch.grid);
    const MTL::Size group = size_of(launch.group);
    if (!launch.counts_threads)
        threads = MTL::Size(threads.width * group.width, threads.height * group.height, threads.depth * group.depth);
    MTL::Portable::dispatch(&encoder, kernel.pipeline.get(), {arguments.data(), count}, threads, group);
    open_->pipeline = kernel.pipeline.get();
    return true;
}
#else
bool MetalQueue::encode_at_once(MTL::ComputeCommandEncoder&, const detail::Launch&) {
    return false;
}
#endif

void MetalQueue::encode_call_by_call(MTL::ComputeCommandEncoder& encoder, const detail::Launch& launch) {
    const auto& kernel = static_cast<const MetalKernel&>(*launch.kernel);
    if (open_->pipeline != kernel.pipeline.get()) {
        encoder.setComputePipelineState(kernel.pipeline.get());
        open_->pipeline = kernel.pipeline.get();
    }
    encode_arguments(encoder, launch);
    if (launch.counts_threads)
        encoder.dispatchThreads(size_of(launch.grid), size_of(launch.group));
    else
        encoder.dispatchThreadgroups(size_of(launch.grid), size_of(launch.group));
}

void MetalQueue::encode(const detail::Launch& launch) {
    if (static_cast<const MetalKernel&>(*launch.kernel).prints) [[unlikely]]
        open_printing_batch();
    MTL::ComputeCommandEncoder* encoder = compute_encoder();
    for (const Buffer& buffer : launch.uses)
        hold(*encoder, *buffer.impl());
    if (!encode_at_once(*encoder, launch))
        encode_call_by_call(*encoder, launch);
    if (open_->kernels.empty() || open_->kernels.back() != launch.kernel)
        open_->kernels.push_back(launch.kernel);
    counted();
}

// In a command buffer of its own, so that the device tells its times.
void MetalQueue::encode_recorded(const detail::Launch& launch) {
    const std::shared_ptr<detail::Recording> recording = detail::current_recording();
    if (!recording)
        return encode(launch);
    commit();
    LaunchRecord record{launch.kernel->name, label, reinterpret_cast<std::uintptr_t>(this), recording->now()};
    for (const ArgumentValue& value : launch.arguments)
        record.bytes += value.kind == ArgumentValue::Kind::buffer ? value.length : 0;
    encode(launch);
    if (!open_)
        return;
    open_->record = std::move(record);
    open_->recording = recording;
    commit();
}

void MetalQueue::launch(const detail::Launch& launch) {
    std::lock_guard lock(encode_mutex_);
    try {
        if (detail::recording_is_on.load(std::memory_order_relaxed))
            encode_recorded(launch);
        else
            encode(launch);
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw LaunchError("launch of \"" + launch.kernel->name + "\": " + error.what());
    }
}

void MetalQueue::encode_copy(detail::BufferImpl& destination, std::size_t destination_offset, detail::BufferImpl& source,
                             std::size_t source_offset, std::size_t bytes) {
    destination_offset += static_cast<MetalBuffer&>(destination).origin;
    source_offset += static_cast<MetalBuffer&>(source).origin;
    if (multiple_of_4(destination_offset, source_offset, bytes)) {
        blit_encoder()->copyFromBuffer(buffer_of(source), source_offset, buffer_of(destination), destination_offset, bytes);
        return counted();
    }
    ArgumentValue arguments[2];
    arguments[0] = {ArgumentValue::Kind::buffer, nullptr, &destination, destination_offset, bytes};
    arguments[1] = {ArgumentValue::Kind::buffer, nullptr, &source, source_offset, bytes};
    auto kernel = metal_.byte_kernel("metalki_copy_bytes");
    encode({kernel, arguments, Extents(bytes), Extents(std::min<std::uint64_t>(256, kernel->max_total_threads)), true, {}});
}

void MetalQueue::copy(detail::BufferImpl& destination, std::size_t destination_offset, detail::BufferImpl& source,
                      std::size_t source_offset, std::size_t bytes) {
    guarded("copy", [&] {
        std::shared_ptr<detail::BufferImpl> between;
        if (&destination == &source && overlap(destination_offset, source_offset, bytes)) {
            between = metal_.allocate(bytes, Storage::private_, "staging", Contents::undefined);
            if (!between)
                throw OutOfMemoryError("copy: " + std::to_string(bytes) + " bytes for an overlapping copy could not be had");
        }
        std::lock_guard lock(encode_mutex_);
        if (between) {
            encode_copy(*between, 0, source, source_offset, bytes);
            encode_copy(destination, destination_offset, *between, 0, bytes);
        } else {
            encode_copy(destination, destination_offset, source, source_offset, bytes);
        }
    });
}

void MetalQueue::fill(detail::BufferImpl& destination, std::size_t offset, std::size_t bytes, std::uint8_t value) {
    guarded("fill", [&] {
        std::lock_guard lock(encode_mutex_);
        if (multiple_of_4(offset, bytes, 0)) {
            blit_encoder()->fillBuffer(buffer_of(destination), NS::Range::Make(offset, bytes), value);
            return counted();
        }
        ArgumentValue arguments[2];
        arguments[0] = {ArgumentValue::Kind::buffer, nullptr, &destination, offset, bytes};
        arguments[1] = ArgumentValue::bytes(&value, 1);
        auto kernel = metal_.byte_kernel("metalki_fill_bytes");
        encode({kernel, arguments, Extents(bytes), Extents(std::min<std::uint64_t>(256, kernel->max_total_threads)), true, {}});
    });
}

void MetalQueue::flush() {
    guarded("flush", [&] {
        std::lock_guard lock(encode_mutex_);
        commit();
    });
}

bool MetalQueue::synchronize(detail::Timeout timeout) {
    std::uint64_t target = 0;
    guarded("synchronize", [&] {
        NS::SharedPtr<MTL::CommandBuffer> commands;
        {
            std::lock_guard lock(encode_mutex_);
            if (open_)
                commands = close_batch();
            target = submitted_;
        }
        // Outside the lock: what runs here may call back.
        if (commands)
            commit_and_wait_briefly(commands.get(), timeout);
    });
    const auto done = [&] { return completed_.load(std::memory_order_acquire) >= target; };
    if (done() && !failed_.load(std::memory_order_relaxed)) [[likely]]
        return true;
    std::unique_lock lock(done_mutex_);
    if (!wait_until(lock, timeout, done))
        return false;
    if (error_.empty())
        return true;
    failed_.store(false, std::memory_order_relaxed);
    throw DeviceError(std::exchange(error_, {}));
}

bool MetalQueue::wait_for_room(detail::Timeout timeout) {
    std::unique_lock lock(done_mutex_);
    return wait_until(lock, timeout, [this] { return has_room() || in_completion; });
}

Event MetalQueue::record_event() {
    std::lock_guard lock(encode_mutex_);
    guarded("record_event", [&] {
        AutoreleaseScope scope;
        if (!event_) {
            auto event = std::make_shared<MetalEvent>();
            event->event = NS::TransferPtr(metal_.device->newSharedEvent());
            event->device = device;
            event_ = std::move(event);
        }
        open_batch();
        end_encoding();
        open_->commands->encodeSignalEvent(event_->event.get(), ++event_value_);
        commit();
    });
    return Event(event_, event_value_);
}

void MetalQueue::wait_event(const Event& event) {
    if (event.is_complete())
        return;
    guarded("wait_event", [&] {
        std::lock_guard lock(encode_mutex_);
        AutoreleaseScope scope;
        commit();
        open_batch();
        open_->commands->encodeWait(static_cast<MetalEvent&>(*event.impl()).event.get(), event.value());
        ++open_->count;
    });
}

bool MetalQueue::wait_stream([[maybe_unused]] std::uint64_t stream) {
    bool known = false;
#if METALKI_EXTENDED_METAL
    guarded("wait_stream", [&] {
        std::lock_guard lock(encode_mutex_);
        AutoreleaseScope scope;
        commit();
        open_batch();
        known = MTL::Portable::encodeWaitForStream(open_->commands.get(), stream);
        ++open_->count;
    });
#endif
    return known;
}

bool MetalQueue::let_stream_wait([[maybe_unused]] std::uint64_t stream) {
#if METALKI_EXTENDED_METAL
    if (device->info.kind != "cuda")
        return false;
    const Event event = record_event();
    guarded("let_stream_wait",
            [&] { MTL::Portable::letStreamWait(static_cast<MetalEvent&>(*event.impl()).event.get(), event.value(), stream); });
    return true;
#else
    return false;
#endif
}

void MetalQueue::set_priority([[maybe_unused]] Priority priority) {
#if METALKI_EXTENDED_METAL
    MTL::Portable::setPriority(queue_.get(), static_cast<MTL::Portable::Priority>(priority));
#endif
}

bool MetalQueue::set_time_limit([[maybe_unused]] std::chrono::nanoseconds limit) {
#if METALKI_EXTENDED_METAL
    MTL::Portable::setTimeLimit(queue_.get(), limit);
    return true;
#else
    return false;
#endif
}

void MetalQueue::cancel() {
    flush();
#if METALKI_EXTENDED_METAL
    MTL::Portable::cancel(queue_.get());
#endif
}

void MetalQueue::on_complete(std::function<void()> function) {
    guarded("on_complete", [&] {
        std::lock_guard lock(encode_mutex_);
        AutoreleaseScope scope;
        open_batch().callbacks.push_back(std::move(function));
    });
}

} // namespace metalki::metal
