// Version and facts for bug reports.
#include "metalki/version.hpp"

#include "kernel_interface/backend.hpp"

namespace metalki {

std::string version() {
    return METALKI_VERSION;
}

std::vector<std::pair<std::string, std::string>> version_info() {
    std::vector<std::pair<std::string, std::string>> facts{{"metalki", version()},
                                                           {"provider", detail::metal_backend()->provider()},
                                                           {"compiler", detail::metal_backend()->compiler()},
                                                           {"MSL version", "3.2"}};
    for (const Device& device : devices())
        facts.emplace_back("device " + std::to_string(device.index()), device.info().id + " (" + device.name() + ")");
    return facts;
}

} // namespace metalki
