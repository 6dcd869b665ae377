// The list of devices, the choice of the default one, and what a device makes.
#include "metalki/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kernel_interface/backend.hpp"
#include "kernel_interface/device_header.hpp"
#include "kernel_interface/messages.hpp"
#include "kernel_interface/process.hpp"

namespace metalki {

namespace {

const std::vector<Device>& all_devices() {
    // Never destroyed: threads of the device may still run while the process ends.
    static const auto* list = [] {
        auto* made = new std::vector<Device>;
        for (const auto& impl : detail::metal_backend()->devices()) {
            impl->info.index = static_cast<int>(made->size());
            made->emplace_back(impl);
        }
        return made;
    }();
    return *list;
}

std::string describe_devices() {
    std::string text;
    for (const Device& device : all_devices())
        text += (text.empty() ? "" : ", ") + std::to_string(device.index()) + ": \"" + device.info().id + "\" (" +
                device.name() + ")";
    return text.empty() ? "none" : text;
}

const Device& device_named(std::string_view name) {
    auto find = [&](auto matches) -> const Device* {
        auto it = std::find_if(all_devices().begin(), all_devices().end(), matches);
        return it == all_devices().end() ? nullptr : &*it;
    };
    const Device* found = find([&](const Device& d) { return d.info().id == name; });
    if (!found)
        found = find([&](const Device& d) { return d.kind() == name; });
    if (!found)
        found = find([&](const Device& d) { return d.name() == name || std::to_string(d.index()) == name; });
    // "cpu:0" is the first of its kind.
    if (!found && name.ends_with(":0"))
        found = find([&](const Device& d) { return d.kind() == name.substr(0, name.size() - 2); });
    if (!found)
        throw ArgumentError("find_device: there is no device \"" + std::string(name) + "\"; there are: " + describe_devices());
    return *found;
}

// Everything that changes the code, with lengths, so that no two sets of inputs meet in one key.
std::string cache_key(const detail::Program& program, const CompileOptions& options) {
    std::string key;
    auto add = [&key](std::string_view text) {
        key += std::to_string(text.size());
        key += ':';
        key += text;
    };
    add(program.source);
    // Holds the texts of the headers as they are now, which may change on disk.
    add(program.inlined == program.source ? std::string_view{} : program.inlined);
    for (const std::string& folder : options.include_dirs)
        add(folder);
    add(detail::include_state(program.inlined, options));
    add("");
    for (const auto& [name, text] : options.headers) {
        add(name);
        add(text);
    }
    add("");
    add(options.language_version);
    add(std::to_string(static_cast<int>(options.math_mode)));
    add(std::to_string(options.macros.size()));
    for (const auto& [name, text] : options.macros) {
        add(name);
        add(text);
    }
    return key;
}

bool has_header(const CompileOptions& options, std::string_view name) {
    return std::any_of(options.headers.begin(), options.headers.end(),
                       [&](const auto& header) { return header.first == name; });
}

// Waits for every queue even when one has failed; then the first error is thrown.
bool wait_for_all(detail::DeviceImpl& device, detail::Timeout timeout) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    const auto left = [&]() -> detail::Timeout {
        return timeout ? std::max(std::chrono::nanoseconds(0), *timeout - (Clock::now() - start)) : timeout;
    };
    std::string error;
    bool done = true;
    for (auto& queue : device.busy_queues()) {
        try {
            done = queue->synchronize(left()) && done;
        } catch (const DeviceError& thrown) {
            if (error.empty())
                error = thrown.what();
        }
    }
    if (std::string kept = device.take_error(); error.empty())
        error = std::move(kept);
    if (!error.empty())
        throw DeviceError(error);
    return done;
}

} // namespace

std::vector<Device> devices() {
    return all_devices();
}

Device find_device(std::string_view name) {
    return device_named(name);
}

const Device& default_device() {
    // Chosen by the first call that finds one.
    static const Device* const chosen = [] {
        if (const char* wanted = std::getenv("METALKI_DEVICE"); wanted && *wanted) {
            try {
                return &device_named(wanted);
            } catch (const ArgumentError& error) {
                throw ArgumentError(std::string("METALKI_DEVICE: ") + error.what());
            }
        }
        if (all_devices().empty())
            throw DeviceError("default_device: no device was found");
        return &all_devices().front();
    }();
    return *chosen;
}

const DeviceInfo& Device::info() const {
    return impl_->info;
}

Buffer Device::allocate(std::size_t bytes, Storage storage, std::string_view label, Contents contents) const {
    detail::check_device();
    const DeviceInfo& facts = info();
    auto refuse = [&](const std::string& why) {
        throw OutOfMemoryError("allocate: " + std::to_string(bytes) + " bytes" +
                               (label.empty() ? std::string() : " for \"" + std::string(label) + "\"") + " " + why +
                               " (device " + facts.name + ": at most " + std::to_string(facts.max_buffer_length) +
                               " bytes in a buffer, working set of " + std::to_string(facts.recommended_working_set_size) +
                               " bytes)");
    };
    if (bytes > facts.max_buffer_length)
        refuse("are more than a buffer may hold");
    std::shared_ptr<detail::BufferImpl> impl;
    try {
        impl = impl_->allocate(bytes, storage, label, contents);
    } catch (const Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        refuse("could not be had");
    } catch (const std::exception& error) {
        throw DeviceError(std::string("allocate: ") + error.what());
    }
    if (!impl)
        refuse("could not be had");
    return Buffer(std::move(impl));
}

Buffer Device::adopt(std::uint64_t address, std::size_t bytes, std::shared_ptr<void> owner) const {
    detail::use_device();
    std::shared_ptr<detail::BufferImpl> impl = address && bytes ? impl_->adopt(address, bytes, std::move(owner)) : nullptr;
    if (!impl)
        throw ArgumentError("adopt: " + std::to_string(bytes) + " bytes at address " + std::to_string(address) +
                            " are no memory that device " + info().id + " can use");
    return Buffer(std::move(impl));
}

Library Device::compile(std::string_view source) const {
    return compile(source, CompileOptions{});
}

Library Device::compile(std::string_view source, const CompileOptions& options) const {
    if (source.find('\0') != std::string_view::npos)
        throw ArgumentError("compile: the source holds a zero byte at offset " + std::to_string(source.find('\0')));
    if (detail::includes_device_header(source) && !has_header(options, detail::device_header_name)) {
        CompileOptions with_header = options;
        with_header.headers.emplace_back(detail::device_header_name, detail::device_header());
        return compile(source, with_header);
    }
    const detail::CompileScope scope;
    const detail::Program program{std::string(source), detail::inline_includes(source, options)};
    return Library(impl_->libraries.get(cache_key(program, options), [&] { return impl_->compile(program, options); }));
}

void Device::synchronize() const {
    detail::use_device();
    detail::wait_and_deliver(nullptr, [&] { return wait_for_all(*impl_, std::nullopt); });
}

bool Device::synchronize_for(std::chrono::nanoseconds timeout) const {
    detail::use_device();
    return detail::wait_and_deliver(nullptr, [&] { return wait_for_all(*impl_, timeout); });
}

void Device::cancel() const {
    detail::use_device();
    for (const auto& queue : impl_->busy_queues())
        queue->cancel();
}

namespace detail {

std::shared_ptr<QueueImpl> DeviceImpl::new_queue(std::string_view label) {
    std::shared_ptr<QueueImpl> queue = make_queue(label);
    queue->device = shared_from_this();
    queue->label = label;
    return queue;
}

void DeviceImpl::add_busy(std::weak_ptr<QueueImpl> queue) {
    std::lock_guard lock(queues_mutex_);
    busy_.push_back(std::move(queue));
}

std::vector<std::shared_ptr<QueueImpl>> DeviceImpl::busy_queues() {
    std::vector<std::shared_ptr<QueueImpl>> busy;
    std::lock_guard lock(queues_mutex_);
    std::erase_if(busy_, [&](const auto& weak) {
        auto queue = weak.lock();
        if (!queue)
            return true;
        if (queue->idle()) {
            // In this order: work that comes now is seen by the second look, or else tells of itself again.
            queue->known_busy_.exchange(false, std::memory_order_acq_rel);
            if (queue->idle() || !queue->becomes_busy())
                return true;
        }
        busy.push_back(std::move(queue));
        return false;
    });
    return busy;
}

void DeviceImpl::keep_error(std::string error) {
    std::lock_guard lock(queues_mutex_);
    if (kept_error_.empty())
        kept_error_ = std::move(error);
}

std::string DeviceImpl::take_error() {
    std::lock_guard lock(queues_mutex_);
    return std::exchange(kept_error_, {});
}

} // namespace detail
} // namespace metalki
