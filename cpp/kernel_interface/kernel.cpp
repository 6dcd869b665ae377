// What is known of a kernel.
#include "metalki/kernel.hpp"

#include <algorithm>
#include <bit>

#include "kernel_interface/backend.hpp"

namespace metalki {

const std::string& Kernel::name() const {
    return impl_->name;
}
Device Kernel::device() const {
    return Device(impl_->device);
}
std::span<const ArgumentInfo> Kernel::arguments() const {
    return impl_->arguments;
}
std::uint64_t Kernel::max_total_threads_per_threadgroup() const {
    return impl_->max_total_threads;
}
std::uint64_t Kernel::thread_execution_width() const {
    return impl_->execution_width;
}
std::uint64_t Kernel::static_threadgroup_memory_length() const {
    return impl_->static_threadgroup_memory;
}

std::uint64_t Kernel::max_work_group_size(std::uint64_t max_work_items) const {
    return max_work_items == 0 ? impl_->max_total_threads : std::min(max_work_items, impl_->max_total_threads);
}

std::string Kernel::disassemble(std::string_view form) const {
    return impl_->disassemble(form);
}

void detail::KernelImpl::prepare() {
    checks.clear();
    uses_threadgroup_memory = static_threadgroup_memory > 0;
    for (const ArgumentInfo& info : arguments) {
        uses_threadgroup_memory = uses_threadgroup_memory || info.kind == ArgumentKind::threadgroup;
        const bool takes_buffer = info.kind == ArgumentKind::buffer && info.active;
        const bool takes_value = takes_buffer && info.access == Access::read && info.nbytes != 0;
        checks.push_back({info.active, takes_buffer,
                          std::has_single_bit(info.alignment) ? info.alignment - 1 : ~std::uint64_t{0},
                          std::max<std::uint64_t>(1, info.nbytes), takes_value ? info.nbytes : ~std::uint64_t{0}});
    }
}

} // namespace metalki
