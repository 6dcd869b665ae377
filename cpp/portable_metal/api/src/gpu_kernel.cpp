// Forms of a kernel's code for a GPU, and parameter blocks.
#include "gpu_kernel.hpp"

#include <algorithm>
#include <cstring>

namespace metalki::api {
namespace {

constexpr std::uint32_t most_value_bytes = 1024;  // of one argument that is a parameter
constexpr std::uint32_t most_values_bytes = 3200; // of all: addresses and geometry take the rest
constexpr std::uint32_t deepest_threadgroup = 64; // z of CUDA's blocks
constexpr std::uint32_t small_threadgroup = 512;  // threads that may have 128 registers each

constexpr std::uint32_t most_resident_threads = 2048; // of a processor

// Only what the kernel cannot write, and what has one size.
std::uint32_t value_size(const compiler::Argument& argument) {
    if (!argument.active)
        return 0;
    if (argument.kind == compiler::ArgumentKind::sampler)
        return sizeof(compiler::SamplerState);
    const bool is_value = argument.kind == compiler::ArgumentKind::buffer && argument.constant_space &&
                          argument.type.size > 0 && argument.type.size <= most_value_bytes;
    return is_value ? static_cast<std::uint32_t>(argument.type.size) : 0;
}

bool is_line(compiler::Uint3 threads) {
    return threads.y == 1 && threads.z == 1;
}

} // namespace

GpuCode::GpuCode(cuda::Device& device, std::shared_ptr<const compiler::Library> library, std::string name,
                 std::span<const compiler::ConstantValue> constants, compiler::GpuTarget target)
    : device_(device), library_(std::move(library)), name_(std::move(name)), constants_(constants.begin(), constants.end()),
      target_(std::move(target)) {
    const auto& declared = library_->functions();
    const auto found = std::find_if(declared.begin(), declared.end(), [&](const auto& f) { return f.name == name_; });
    if (found == declared.end())
        throw std::runtime_error("there is no function \"" + name_ + "\"");
    // Function constants may switch arguments off, but never move them.
    std::vector<std::uint32_t> expected;
    for (const auto& argument : found->arguments) {
        value_sizes_.push_back(value_size(argument));
        const bool by_value = argument.reference || argument.kind == compiler::ArgumentKind::sampler;
        expected.push_back(by_value ? value_sizes_.back() : 0);
    }
    Form usual;
    usual.value_bytes = value_bytes(expected);
    usual_ = make(std::move(usual));
    const compiler::GpuCode& code = usual_->kernel->code();
    function = code.function;
    static_threadgroup_memory = code.static_threadgroup_memory;
    max_threads = usual_->kernel->max_threads();
    preferred_threads = usual_->kernel->preferred_threads();
    prints = code.prints;
}

bool GpuCode::Form::has_same_shape(const Form& other) const {
    const auto size = [](const Form& form) {
        const compiler::Uint3 all = form.threads.value_or(compiler::Uint3{0, 0, 0});
        return std::array{all.x, all.y, all.z};
    };
    return folded == other.folded && whole == other.whole && may_pair == other.may_pair && axes == other.axes &&
           most_threads == other.most_threads && size(*this) == size(other);
}

std::unique_ptr<const GpuCode::Form> GpuCode::make(Form wanted) const {
    compiler::GpuRequest request;
    request.target = target_;
    request.folded = wanted.folded;
    request.whole = wanted.whole;
    request.may_pair = wanted.may_pair;
    request.axes = wanted.axes;
    request.threadgroup = wanted.threads;
    // With two or three axes the driver's code was up to twice as slow as without.
    request.driver_knows_size = wanted.threads && is_line(*wanted.threads);
    request.most_threads = wanted.most_threads;
    request.value_bytes = wanted.value_bytes;
    wanted.kernel = std::make_unique<cuda::Kernel>(device_, compiler::make_gpu_code(*library_, name_, constants_, request));
    return std::make_unique<const Form>(std::move(wanted));
}

std::vector<std::uint32_t> GpuCode::value_bytes(std::span<const std::uint32_t> lengths) const {
    std::vector<std::uint32_t> result(lengths.size(), 0);
    std::uint32_t total = 0;
    for (std::size_t slot = 0; slot < lengths.size(); ++slot) {
        const std::uint32_t room = (lengths[slot] + 15) / 16 * 16;
        if (lengths[slot] == 0 || lengths[slot] != value_sizes_[slot] || total + room > most_values_bytes)
            continue;
        result[slot] = lengths[slot];
        total += room;
    }
    return result;
}

// Bytes that are no parameter lie in memory that the device reaches; but an address cannot be a parameter's value.
bool GpuCode::is_usual(std::span<const std::uint32_t> lengths) const {
    for (std::size_t slot = 0; slot < lengths.size(); ++slot) {
        const std::uint32_t here = usual_->value_bytes[slot], given = lengths[slot];
        if (here != given && function.arguments[slot].active && (here != 0 || given == value_sizes_[slot]))
            return false;
    }
    return true;
}

// Whether half as many threads still come to all processors more than once.
bool GpuCode::fills_twice(compiler::Uint3 grid) const {
    return std::uint64_t{grid.x} * grid.y * grid.z >=
           std::uint64_t{4} * most_resident_threads * device_.facts().multiprocessors;
}

// Code that knows its shape is worth a compile for what is launched again and again.
const GpuCode::Form* GpuCode::specialised(compiler::Uint3 grid, compiler::Uint3 threads) const {
    constexpr unsigned worth_while = 3;
    Form wanted;
    wanted.whole = grid.x % threads.x == 0 && grid.y % threads.y == 0 && grid.z % threads.z == 0 &&
                   grid.x / threads.x <= widest_grid && grid.y / threads.y <= highest_grid &&
                   grid.z / threads.z <= highest_grid;
    wanted.may_pair = wanted.whole && grid.x / threads.x % 2 == 0 && fills_twice(grid);
    wanted.axes = grid.z > 1 || threads.z > 1 ? 3 : grid.y > 1 || threads.y > 1 ? 2 : 1;
    if (is_line(threads) || wanted.may_pair) // which compares addresses in two threadgroups
        wanted.threads = threads;
    if (std::uint64_t{threads.x} * threads.y * threads.z <= small_threadgroup)
        wanted.most_threads = small_threadgroup;
    const std::uint64_t shape = (std::uint64_t{threads.x} << 40 | std::uint64_t{threads.y} << 24 | threads.z << 8) ^
                                (unsigned{wanted.may_pair} << 3 | wanted.axes << 1 | unsigned{wanted.whole});
    if (last_shape_.exchange(shape, std::memory_order_relaxed) != shape) {
        in_a_row_.store(1, std::memory_order_relaxed);
        specialised_.store(nullptr, std::memory_order_relaxed);
        return nullptr;
    }
    if (const Form* form = specialised_.load(std::memory_order_acquire); form && form->has_same_shape(wanted)) [[likely]]
        return form;
    if (in_a_row_.fetch_add(1, std::memory_order_relaxed) < worth_while)
        return nullptr;
    wanted.value_bytes = usual_->value_bytes;
    const Form& form = other(std::move(wanted));
    specialised_.store(&form, std::memory_order_release);
    return &form;
}

const GpuCode::Form& GpuCode::other(Form wanted) const {
    const std::lock_guard lock(mutex_);
    for (const auto& there : others_)
        if (there->has_same_shape(wanted) && there->value_bytes == wanted.value_bytes)
            return *there;
    return *others_.emplace_back(make(std::move(wanted)));
}

const GpuCode::Form& GpuCode::form(const GpuArguments& arguments, compiler::Uint3 grid, compiler::Uint3 threads) const {
    const bool folded = threads.z > deepest_threadgroup;
    if (!folded && is_usual(arguments.lengths)) [[likely]] {
        const Form* form = specialised(grid, threads);
        return form ? *form : *usual_;
    }
    Form wanted;
    wanted.value_bytes = value_bytes(arguments.lengths);
    wanted.folded = folded;
    return wanted.has_same_shape(*usual_) && wanted.value_bytes == usual_->value_bytes ? *usual_ : other(std::move(wanted));
}

void GpuCode::fill(GpuParameters& parameters, const Form& form, const GpuArguments& arguments) {
    const compiler::GpuCode& code = form.kernel->code();
    parameters.bytes = code.parameter_bytes;
    if (parameters.bytes > GpuParameters::most)
        throw std::runtime_error("kernel \"" + code.function.name + "\": its parameters take " +
                                 std::to_string(parameters.bytes) + " bytes; the limit is " +
                                 std::to_string(GpuParameters::most));
    std::byte* const block = parameters.block.data();
    for (std::size_t slot = 0; slot < arguments.addresses.size(); ++slot) {
        std::byte* const place = block + code.parameter_offsets[slot];
        if (const std::uint32_t bytes = form.value_bytes[slot]; bytes && arguments.addresses[slot])
            std::memcpy(place, arguments.addresses[slot], bytes);
        else if (!bytes)
            std::memcpy(place, &arguments.addresses[slot], sizeof(void*));
    }
    parameters.threadgroup_memory = 0;
    for (const auto& [slot, length] : arguments.threadgroup) {
        const std::uint64_t offset = parameters.threadgroup_memory;
        std::memcpy(block + code.parameter_offsets[slot], &offset, sizeof offset);
        parameters.threadgroup_memory += length;
    }
    parameters.geometry = new (block) compiler::GpuGeometry{};
}

} // namespace metalki::api
