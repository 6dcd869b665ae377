// Commands of a queue on a GPU.
#include "gpu_queue.hpp"

#include <algorithm>
#include <cstring>

#include "gpu_log.hpp"

namespace metalki::api {
namespace {

struct GpuRun final : DeviceRun {
    std::shared_ptr<cuda::Point> started, ended;
    std::unique_ptr<GpuLog> log; // of kernels that print
};

GpuRun& run_of(CommandBufferState& buffer) {
    return static_cast<GpuRun&>(*buffer.device_run);
}

std::uint32_t groups_of(std::uint32_t threads, std::uint32_t group) {
    return threads / group + (threads % group != 0);
}

// What a call of the driver gave, as the text of a command buffer's error.
[[noreturn]] void fail(cuda::Device& device, const std::string& what, const cuda::Error& error) {
    const std::string text = device.note(error);
    throw std::runtime_error(error.is_sticky() ? "not run: a fault before it ended what the device was doing (" + text + ")"
                                               : what + text);
}

} // namespace

void GpuQueue::enter() {
    use_.emplace(gpu_.device);
    try {
        const int priority = queue_.priority.load(std::memory_order_relaxed);
        if (stream_ && priority != priority_) {
            const auto before = stream_->mark();
            auto other = std::make_unique<cuda::Stream>(gpu_, priority);
            other->prepare();
            other->wait(*before);
            stream_ = std::move(other);
        } else if (!stream_) {
            stream_ = std::make_unique<cuda::Stream>(gpu_, priority);
        }
        priority_ = priority;
        stream_->prepare();
    } catch (...) {
        use_.reset();
        throw;
    }
}

void GpuQueue::begin(CommandBufferState& buffer) {
    buffer.device_run = std::make_unique<GpuRun>();
    run_of(buffer).started = stream_->mark(true);
}

void GpuQueue::run(CommandBufferState& buffer, const Command& command) {
    const bool is_dispatch = command.kind == Command::Kind::dispatch || command.kind == Command::Kind::dispatch_indirect;
    try {
        if (command.kind == Command::Kind::copy)
            stream_->copy(cuda::address_of(command.destination), cuda::address_of(command.source), command.size);
        else if (command.kind == Command::Kind::fill)
            stream_->fill(cuda::address_of(command.destination), command.fill_value, command.size);
        else
            dispatch(buffer, command);
    } catch (const cuda::Error& error) {
        fail(gpu_.device, is_dispatch ? "kernel '" + command.pipeline->code->function.name + "': " : std::string(), error);
    }
}

// The device has to come to the numbers first.
compiler::Uint3 GpuQueue::indirect_groups(const Command& command) {
    compiler::Uint3 groups{};
    std::byte* memory = gpu_.memory.allocate_on_host(sizeof groups);
    if (!memory)
        throw std::runtime_error("no host memory for the numbers of an indirect dispatch");
    const std::unique_ptr<std::byte, std::function<void(std::byte*)>> owner(
        memory, [this](std::byte* m) { gpu_.memory.free_on_host(m, sizeof(compiler::Uint3)); });
    stream_->copy(cuda::address_of(memory), cuda::address_of(command.source), sizeof groups);
    stream_->synchronize();
    std::memcpy(&groups, memory, sizeof groups);
    const auto fits = [](std::uint32_t count, std::uint32_t size) { return std::uint64_t{count} * size <= UINT32_MAX; };
    if (!fits(groups.x, command.threadgroup.x) || !fits(groups.y, command.threadgroup.y) ||
        !fits(groups.z, command.threadgroup.z))
        throw std::runtime_error("the indirect dispatch asks for more than 4294967295 threads along one axis");
    return groups;
}

void GpuQueue::dispatch(CommandBufferState& buffer, const Command& command) {
    const CommandStorage& storage = *buffer.storage;
    const GpuArguments arguments{{storage.arguments.data() + command.first_argument, command.argument_count},
                                 {storage.lengths.data() + command.first_argument, command.argument_count},
                                 {storage.threadgroup_arguments.data() + command.first_threadgroup, command.threadgroup_count}};
    const auto& threads = command.threadgroup;
    compiler::Uint3 grid = command.grid;
    if (command.kind == Command::Kind::dispatch_indirect) {
        const compiler::Uint3 asked = indirect_groups(command);
        grid = {asked.x * threads.x, asked.y * threads.y, asked.z * threads.z};
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return;
    const auto& code = static_cast<const GpuCode&>(*command.pipeline->code);
    const GpuCode::Form& form = code.form(arguments, grid, threads);
    GpuParameters parameters;
    GpuCode::fill(parameters, form, arguments);
    const compiler::Uint3 groups{groups_of(grid.x, threads.x), groups_of(grid.y, threads.y), groups_of(grid.z, threads.z)};
    *parameters.geometry = {grid, threads, groups, {0, 0, 0}, 0};
    if (form.kernel->code().prints) {
        auto& log = run_of(buffer).log;
        if (!log)
            log = std::make_unique<GpuLog>(gpu_, *stream_, buffer.log);
        parameters.geometry->log = log->address();
    }
    launch(form, parameters, groups, threads);
}

// A grid that CUDA refuses goes in parts.
void GpuQueue::launch(const GpuCode::Form& form, GpuParameters& parameters, compiler::Uint3 groups, compiler::Uint3 threads) {
    const compiler::Uint3 block = form.folded ? compiler::Uint3{threads.x * threads.y * threads.z, 1, 1} : threads;
    auto& base = parameters.geometry->threadgroup_base;
    for (base.z = 0; base.z < groups.z; base.z += highest_grid)
        for (base.y = 0; base.y < groups.y; base.y += highest_grid)
            for (std::uint64_t x = 0; x < groups.x; x += widest_grid) {
                base.x = static_cast<std::uint32_t>(x);
                stream_->launch({*form.kernel,
                                 {std::min(groups.x - base.x, widest_grid) / form.kernel->code().threadgroups_per_block,
                                  std::min(groups.y - base.y, highest_grid), std::min(groups.z - base.z, highest_grid)},
                                 block,
                                 parameters.threadgroup_memory,
                                 parameters.block.data(),
                                 parameters.bytes});
            }
}

std::shared_ptr<DevicePoint> GpuQueue::mark() {
    try {
        return std::make_shared<GpuPoint>(stream_->mark());
    } catch (const cuda::Error& error) {
        fail(gpu_.device, {}, error);
    }
}

void GpuQueue::wait_for(const DevicePoint& point) {
    stream_->wait(*static_cast<const GpuPoint&>(point).point);
}

std::shared_ptr<DevicePoint> GpuQueue::end(CommandBufferState& buffer) {
    GpuRun& run = run_of(buffer);
    try {
        if (run.log)
            run.log->fetch(*stream_);
        run.ended = stream_->mark();
    } catch (const cuda::Error& error) {
        fail(gpu_.device, {}, error);
    }
    return std::make_shared<GpuPoint>(run.ended);
}

// The device's clock from one buffer to the next; the host's where the device had nothing to do for a while.
void GpuQueue::set_times(CommandBufferState& buffer, const std::shared_ptr<cuda::Point>& start,
                         const std::shared_ptr<cuda::Point>& end) {
    constexpr double idle = 0.01;
    const double now = buffer.end, duration = end->seconds_since(*start);
    const double gap = last_end_ ? start->seconds_since(*last_end_) : idle;
    buffer.start = gap < idle ? std::min(last_end_time_ + std::max(gap, 0.0), now) : std::max(last_end_time_, now - duration);
    buffer.end = std::min(buffer.start + duration, now);
    last_end_ = end;
    last_end_time_ = buffer.end;
}

void GpuQueue::completed(CommandBufferState& buffer) {
    buffer.end = seconds_now();
    if (!buffer.device_run)
        return;
    const GpuRun& run = run_of(buffer);
    if (run.started && run.ended && buffer.fault.empty())
        set_times(buffer, run.started, run.ended);
    if (run.log && buffer.fault.empty())
        run.log->deliver(buffer.log);
}

} // namespace metalki::api
