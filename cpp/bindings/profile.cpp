// Records launches for metalki.profile().
#include <chrono>
#include <mutex>

#include "module.hpp"

namespace metalki::python {

namespace {

using Clock = std::chrono::steady_clock;

struct Record {
    std::string kernel;
    std::string queue;
    const void* queue_identity;
    double launched, completed; // seconds since the profile began
    std::size_t bytes;
};

struct Recording {
    std::mutex mutex;
    std::vector<Record> records;
    Clock::time_point began = Clock::now();

    double now() const { return std::chrono::duration<double>(Clock::now() - began).count(); }
};

// Both under the GIL.
std::shared_ptr<Recording> current;
bool profiling = false;

nb::list records_of(Recording& recording) {
    std::vector<Record> records;
    {
        std::lock_guard lock(recording.mutex);
        records = recording.records;
    }
    nb::list result;
    for (const Record& r : records)
        result.append(nb::make_tuple(r.kernel.c_str(), r.queue.c_str(), reinterpret_cast<std::uintptr_t>(r.queue_identity),
                                     r.launched, r.completed, r.bytes));
    return result;
}

} // namespace

bool is_profiling() noexcept {
    return profiling;
}

// A command buffer for each launch, so that each has its own completion.
void profile_before(const Queue& queue) {
    GilRelease release;
    queue.flush();
}

void profile_after(const Queue& queue, const Kernel& kernel, std::size_t bytes) {
    std::shared_ptr<Recording> recording = current;
    if (!recording)
        return;
    Record record{kernel.name(), queue.label(), queue.impl().get(), recording->now(), 0, bytes};
    GilRelease release;
    queue.on_complete([recording, record]() mutable {
        record.completed = recording->now();
        std::lock_guard lock(recording->mutex);
        recording->records.push_back(std::move(record));
    });
    queue.flush();
}

void bind_profile(nb::module_& m) {
    m.def(
        "begin_profile",
        [] {
            if (profiling)
                throw ArgumentError("profile: one is being taken already");
            current = std::make_shared<Recording>();
            profiling = true;
        },
        "Starts recording launches.");
    m.def(
        "end_profile",
        [] {
            profiling = false;
            std::shared_ptr<Recording> ended = std::exchange(current, nullptr);
            return ended ? records_of(*ended) : nb::list();
        },
        "Stops recording; returns (kernel, queue, queue's identity, launched, completed, bytes), times in seconds.");
}

} // namespace metalki::python
