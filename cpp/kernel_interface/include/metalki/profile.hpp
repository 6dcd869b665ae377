// Where the device's time goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "metalki/export.hpp"

namespace metalki {

namespace detail {
class Recording;
}

/// One launch. Times are in seconds since the profile began; `started` and `completed` are the device's own.
struct LaunchRecord {
    std::string kernel;
    std::string queue;         ///< label
    std::uint64_t queue_id{0}; ///< tells queues of one label apart
    double launched = 0;       ///< when the host gave it to the queue
    double started = 0;
    double completed = 0;
    std::size_t bytes = 0; ///< of all buffers bound to it
    bool failed = false;   ///< the device reported an error
};

/// All launches of the kernels of one name. Times in seconds on the device.
struct KernelProfile {
    std::string kernel;
    std::size_t count = 0;
    double total = 0, shortest = 0, longest = 0;
    std::size_t bytes = 0;
};

/// Records all launches of the process, in all threads, from its construction to stop(). Each launch gets a command buffer of
/// its own meanwhile, so launching is slower.
class METALKI_API Profile {
public:
    /// Throws ArgumentError while another profile is being taken.
    Profile();
    ~Profile();
    Profile(const Profile&) = delete;
    Profile& operator=(const Profile&) = delete;

    /// Waits for all devices and ends the recording; doing it twice does nothing. Throws DeviceError when a device reported a
    /// fault; the recording has ended all the same.
    void stop();

    /// What has completed so far, in the order of the launches.
    std::vector<LaunchRecord> launches() const;
    /// One entry per kernel name, the one with the most device time first.
    std::vector<KernelProfile> kernels() const;
    /// kernels() as text for people.
    std::string table() const;
    /// A trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open: a row per queue.
    std::string trace() const;
    /// Writes trace() to a file. Throws ArgumentError when that fails.
    void save(const std::string& path) const;

private:
    std::shared_ptr<detail::Recording> recording_;
};

} // namespace metalki
