// Forms of a kernel's code for a GPU, and parameter blocks.
#include "gpu_kernel.hpp"

#include <algorithm>
#include <cstring>

namespace metalki::api {
namespace {

constexpr std::uint32_t most_value_bytes = 1024;  // of one argument that is a parameter
constexpr std::uint32_t most_values_bytes = 3200; // of all: addresses and geometry take the rest
constexpr std::uint32_t deepest_threadgroup = 64; // z of CUDA's blocks

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
    usual_ = make(value_bytes(expected), false);
    const compiler::GpuCode& code = usual_->kernel->code();
    function = code.function;
    static_threadgroup_memory = code.static_threadgroup_memory;
    max_threads = usual_->kernel->max_threads();
    preferred_threads = usual_->kernel->preferred_threads(max_threads);
    prints = code.prints;
}

std::unique_ptr<const GpuCode::Form> GpuCode::make(std::vector<std::uint32_t> value_bytes, bool folded) const {
    compiler::GpuRequest request;
    request.target = target_;
    request.folded = folded;
    request.value_bytes = value_bytes;
    auto code = compiler::make_gpu_code(*library_, name_, constants_, request);
    return std::make_unique<const Form>(
        Form{std::move(value_bytes), folded, std::make_unique<cuda::Kernel>(device_, std::move(code))});
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

const GpuCode::Form& GpuCode::form(const GpuArguments& arguments, compiler::Uint3 threads) const {
    const bool folded = threads.z > deepest_threadgroup;
    if (!folded && is_usual(arguments.lengths)) [[likely]]
        return *usual_;
    std::vector<std::uint32_t> wanted = value_bytes(arguments.lengths);
    if (!folded && wanted == usual_->value_bytes)
        return *usual_;
    const std::lock_guard lock(mutex_);
    for (const auto& other : others_)
        if (other->folded == folded && other->value_bytes == wanted)
            return *other;
    return *others_.emplace_back(make(std::move(wanted), folded));
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
    parameters.geometry = new (block + code.geometry_offset) compiler::GpuGeometry{};
}

} // namespace metalki::api
