// How many cores this process may use.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <sched.h>

#include "cpu/executor.hpp"

namespace metalki::cpu {

namespace {

constexpr unsigned most_threads = 1024;

unsigned affinity_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return static_cast<unsigned>(CPU_COUNT(&set));
    return std::max(1u, std::thread::hardware_concurrency());
}

// Cores by the quota of one control group folder, or 0 when it sets none.
double quota_of(const std::string& folder) {
    double quota = 0, period = 0;
    std::string word;
    if (std::ifstream file(folder + "/cpu.max"); file >> word >> period && word != "max" && period > 0)
        return std::strtod(word.c_str(), nullptr) / period;
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
    if (quota_file >> quota && period_file >> period && quota > 0 && period > 0)
        return quota / period;
    return 0;
}

// The tightest quota of the folder and all above it, up to the mount point.
double tightest_quota(const std::string& mount, std::string path) {
    double tightest = 0;
    for (;;) {
        const double quota = quota_of(mount + path);
        if (quota > 0 && (tightest == 0 || quota < tightest))
            tightest = quota;
        const std::size_t slash = path.rfind('/');
        if (path.empty() || slash == std::string::npos)
            return tightest;
        path.resize(slash);
    }
}

double cgroup_quota() {
    double tightest = 0;
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos)
            continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const std::string path = line.substr(second + 1);
        double quota = 0;
        if (controllers == ",,")
            quota = tightest_quota("/sys/fs/cgroup", path);
        else if (controllers.find(",cpu,") != std::string::npos)
            quota = tightest_quota("/sys/fs/cgroup/cpu", path);
        if (quota > 0 && (tightest == 0 || quota < tightest))
            tightest = quota;
    }
    return tightest;
}

// 0 when METALKI_NUM_THREADS is not a whole number from 1 up.
unsigned requested_threads() {
    const char* text = std::getenv("METALKI_NUM_THREADS");
    if (text == nullptr)
        return 0;
    unsigned value = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, value);
    return error == std::errc() && stop == end ? std::min(value, most_threads) : 0;
}

} // namespace

unsigned usable_cores() {
    if (const unsigned requested = requested_threads(); requested > 0)
        return requested;
    unsigned cores = affinity_cores();
    if (const double quota = cgroup_quota(); quota > 0)
        cores = std::min(cores, static_cast<unsigned>(std::max(1.0, std::ceil(quota))));
    return std::clamp(cores, 1u, most_threads);
}

} // namespace metalki::cpu
