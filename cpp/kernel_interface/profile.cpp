// Profiles: who records, and what becomes of the records.
#include "metalki/profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <utility>

#include "kernel_interface/recording.hpp"
#include "metalki/device.hpp"
#include "metalki/error.hpp"

namespace metalki {

namespace detail {

std::atomic<bool> recording_is_on{false};

namespace {

std::mutex& recording_mutex() {
    static std::mutex* const mutex = new std::mutex;
    return *mutex;
}
std::shared_ptr<Recording>& the_recording() {
    static auto* const recording = new std::shared_ptr<Recording>;
    return *recording;
}

} // namespace

std::shared_ptr<Recording> current_recording() {
    const std::scoped_lock lock(recording_mutex());
    return the_recording();
}

} // namespace detail

namespace {

template <class... Values> std::string print(const char* format, Values... values) {
    std::array<char, 256> text{};
    const int length = std::snprintf(text.data(), text.size(), format, values...);
    return std::string(text.data(), std::min(text.size() - 1, static_cast<std::size_t>(std::max(0, length))));
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += '\\';
        if (static_cast<unsigned char>(c) < 0x20)
            out += print("\\u%04x", c);
        else
            out += c;
    }
    return out + '"';
}

// Whole nanoseconds, so that what follows on a queue never overlaps what goes before.
long long nanoseconds(double seconds) {
    return std::llround(seconds * 1e9);
}
std::string microseconds(long long nanoseconds) {
    return print("%lld.%03lld", nanoseconds / 1000, nanoseconds % 1000);
}

std::string event_of(const LaunchRecord& launch, std::size_t row) {
    const long long start = std::max(0LL, nanoseconds(launch.started));
    const long long end = std::max(start, nanoseconds(launch.completed));
    return R"({"ph": "X", "cat": "kernel", "name": )" + quoted(launch.kernel) + R"(, "pid": 1, "tid": )" + std::to_string(row) +
           R"(, "ts": )" + microseconds(start) + R"(, "dur": )" + microseconds(end - start) + R"(, "args": {"bytes": )" +
           std::to_string(launch.bytes) + R"(, "launched": )" + microseconds(std::max(0LL, nanoseconds(launch.launched))) +
           (launch.failed ? R"(, "failed": true}})" : "}}");
}

std::string metadata_of(const char* what, std::size_t row, const std::string& name) {
    return R"({"ph": "M", "name": ")" + std::string(what) + R"(", "pid": 1, "tid": )" + std::to_string(row) +
           R"(, "args": {"name": )" + quoted(name) + "}}";
}

} // namespace

Profile::Profile() {
    const std::scoped_lock lock(detail::recording_mutex());
    if (detail::the_recording())
        throw ArgumentError("profile: another profile is being taken; one at a time");
    recording_ = detail::the_recording() = std::make_shared<detail::Recording>();
    detail::recording_is_on.store(true);
}

Profile::~Profile() {
    const std::scoped_lock lock(detail::recording_mutex());
    if (detail::the_recording() == recording_) {
        detail::the_recording() = nullptr;
        detail::recording_is_on.store(false);
    }
}

void Profile::stop() {
    std::string error;
    for (const Device& device : devices()) {
        try {
            device.synchronize();
        } catch (const DeviceError& thrown) {
            if (error.empty())
                error = thrown.what();
        }
    }
    {
        const std::scoped_lock lock(detail::recording_mutex());
        if (detail::the_recording() == recording_) {
            detail::the_recording() = nullptr;
            detail::recording_is_on.store(false);
        }
    }
    if (!error.empty())
        throw DeviceError(error);
}

std::vector<LaunchRecord> Profile::launches() const {
    std::vector<LaunchRecord> records = recording_->records();
    std::stable_sort(records.begin(), records.end(),
                     [](const LaunchRecord& a, const LaunchRecord& b) { return a.launched < b.launched; });
    return records;
}

std::vector<KernelProfile> Profile::kernels() const {
    std::map<std::string, KernelProfile> by_name;
    for (const LaunchRecord& launch : launches()) {
        KernelProfile& kernel = by_name[launch.kernel];
        const double taken = launch.completed - launch.started;
        kernel.shortest = kernel.count == 0 ? taken : std::min(kernel.shortest, taken);
        kernel.longest = std::max(kernel.longest, taken);
        kernel.total += taken;
        kernel.bytes += launch.bytes;
        ++kernel.count;
    }
    std::vector<KernelProfile> result;
    for (auto& [name, kernel] : by_name) {
        kernel.kernel = name;
        result.push_back(std::move(kernel));
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const KernelProfile& a, const KernelProfile& b) { return a.total > b.total; });
    return result;
}

std::string Profile::table() const {
    const std::vector<KernelProfile> entries = kernels();
    std::size_t width = 6;
    for (const KernelProfile& e : entries)
        width = std::max(width, e.kernel.size());
    auto padded = [width](std::string text) {
        text.resize(std::max(width, text.size()), ' ');
        return text;
    };
    std::string text = padded("kernel") + "   count   total ms    mean us     min us     max us         MB";
    for (const KernelProfile& e : entries)
        text += '\n' + padded(e.kernel) +
                print(" %7zu %10.3f %10.1f %10.1f %10.1f %10.3f", e.count, e.total * 1e3,
                      e.total / static_cast<double>(e.count) * 1e6, e.shortest * 1e6, e.longest * 1e6,
                      static_cast<double>(e.bytes) / 1e6);
    return text;
}

std::string Profile::trace() const {
    const std::vector<LaunchRecord> records = launches();
    std::map<std::uint64_t, std::size_t> rows;
    std::string events = metadata_of("process_name", 0, "metalki");
    for (const LaunchRecord& launch : records)
        if (rows.try_emplace(launch.queue_id, rows.size() + 1).second)
            events += ",\n" + metadata_of("thread_name", rows.size(), launch.queue.empty() ? "queue" : launch.queue);
    for (const LaunchRecord& launch : records)
        events += ",\n" + event_of(launch, rows[launch.queue_id]);
    return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events + "\n]}\n";
}

void Profile::save(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    file << trace();
    file.close();
    if (!file)
        throw ArgumentError("Profile::save: \"" + path + "\" cannot be written");
}

} // namespace metalki
