// A kernel's code for a GPU in the forms that launches ask for, and the parameters of a launch.
#pragma once

#include <array>
#include <mutex>

#include "commands.hpp"
#include "compiler/gpu_code.hpp"
#include "cuda/kernel.hpp"

namespace metalki::api {

// CUDA's limits of a grid, in threadgroups.
constexpr std::uint32_t widest_grid = 0x7fffffff, highest_grid = 65535;

// Arguments of a dispatch as they are encoded.
struct GpuArguments {
    std::span<void* const> addresses;
    std::span<const std::uint32_t> lengths; // of those given as bytes; 0: an address of the device
    std::span<const cpu::ThreadgroupArgument> threadgroup;
};

// The parameters of a launch; what is behind `bytes` is not used.
struct GpuParameters {
    static constexpr std::size_t most = 4096; // what every driver takes
    alignas(16) std::array<std::byte, most> block;
    std::size_t bytes = 0;
    std::size_t threadgroup_memory = 0; // of all threadgroup arguments
    compiler::GpuGeometry* geometry = nullptr;
};

class GpuCode final : public DeviceCode {
public:
    // Throws what compiler::make_gpu_code throws, and cuda::Error.
    GpuCode(cuda::Device& device, std::shared_ptr<const compiler::Library> library, std::string name,
            std::span<const compiler::ConstantValue> constants, compiler::GpuTarget target);

    // The code for one way to be launched.
    struct Form {
        std::vector<std::uint32_t> value_bytes; // by slot: of arguments that are parameters themselves
        bool folded = false;                    // threadgroups are lines
        bool whole = false;                     // only for grids of whole threadgroups that go in one launch
        bool may_pair = false;                  // only for an even number of threadgroups along x, and many
        unsigned axes = 3;                      // only for a single thread on the others
        std::optional<compiler::Uint3> threads; // set: for threadgroups of this size only
        unsigned most_threads = 0;              // in a threadgroup; 0: any number
        std::unique_ptr<cuda::Kernel> kernel;

        bool has_same_shape(const Form& other) const;
    };

    // The form that takes these arguments for this grid. Compiles it when it is worth while.
    const Form& form(const GpuArguments& arguments, compiler::Uint3 grid, compiler::Uint3 threads) const;
    static void fill(GpuParameters& parameters, const Form& form, const GpuArguments& arguments);

private:
    bool is_usual(std::span<const std::uint32_t> lengths) const;
    std::vector<std::uint32_t> value_bytes(std::span<const std::uint32_t> lengths) const;
    bool fills_twice(compiler::Uint3 grid) const;
    const Form* specialised(compiler::Uint3 grid, compiler::Uint3 threads) const;
    const Form& other(Form wanted) const;
    std::unique_ptr<const Form> make(Form wanted) const;

    cuda::Device& device_;
    const std::shared_ptr<const compiler::Library> library_;
    const std::string name_;
    const std::vector<compiler::ConstantValue> constants_;
    const compiler::GpuTarget target_;
    std::vector<std::uint32_t> value_sizes_; // by slot: what may be a parameter itself has this size; 0: it may not
    std::unique_ptr<const Form> usual_;      // references and samplers as parameters
    // The usual form for what came last, when it came several times in a row.
    mutable std::atomic<std::uint64_t> last_shape_{0};
    mutable std::atomic<unsigned> in_a_row_{0};
    mutable std::atomic<const Form*> specialised_{nullptr};
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<const Form>> others_;
};

} // namespace metalki::api
