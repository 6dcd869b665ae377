// Runs the commands of a queue on a stream of a GPU.
#pragma once

#include <optional>

#include "cuda/stream.hpp"
#include "gpu_kernel.hpp"

namespace metalki::api {

class GpuPoint final : public DevicePoint {
public:
    explicit GpuPoint(std::shared_ptr<cuda::Point> point) : point(std::move(point)) {}
    bool is_passed() const override { return point->is_passed(); }
    Progress look(std::string& failure) const override { return point->look(failure); }

    const std::shared_ptr<cuda::Point> point;
};

class GpuQueue final : public DeviceQueue {
public:
    GpuQueue(cuda::Gpu& gpu, const QueueState& queue) : gpu_(gpu), queue_(queue) {}

    void enter() override;
    void leave() noexcept override { use_.reset(); }
    void begin(CommandBufferState& buffer) override;
    void run(CommandBufferState& buffer, const Command& command) override;
    std::shared_ptr<DevicePoint> mark() override;
    void wait_for(const DevicePoint& point) override;
    std::shared_ptr<DevicePoint> end(CommandBufferState& buffer) override;
    void completed(CommandBufferState& buffer) override;
    void give_up(const std::string& reason) override { gpu_.device.give_up(reason); }

private:
    void set_times(CommandBufferState& buffer, const std::shared_ptr<cuda::Point>& start,
                   const std::shared_ptr<cuda::Point>& end);
    void dispatch(CommandBufferState& buffer, const Command& command);
    void launch(const GpuCode::Form& form, GpuParameters& parameters, compiler::Uint3 groups, compiler::Uint3 threads);
    compiler::Uint3 indirect_groups(const Command& command);

    cuda::Gpu& gpu_;
    const QueueState& queue_;
    std::optional<cuda::Use> use_;
    std::unique_ptr<cuda::Stream> stream_;
    int priority_ = 0; // of the stream
    // Where the last buffer that is complete ended, by the device's clock and by the host's.
    std::shared_ptr<cuda::Point> last_end_;
    double last_end_time_ = 0;
};

} // namespace metalki::api
