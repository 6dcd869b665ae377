// Looks through the usual places of CUDA toolkits.
#include "cuda/libdevice.hpp"

#include <cstdlib>
#include <filesystem>

namespace metalki::cuda {
namespace {

bool is_there(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
}

std::string search() {
    if (const char* named = std::getenv("METALKI_LIBDEVICE"))
        return is_there(named) ? named : "";
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
        if (const char* toolkit = std::getenv(variable))
            if (std::string path = std::string(toolkit) + "/nvvm/libdevice/libdevice.10.bc"; is_there(path))
                return path;
    for (const char* folder : {"/usr/local/cuda/nvvm/libdevice", "/opt/cuda/nvvm/libdevice", "/usr/lib/cuda/nvvm/libdevice",
                               "/usr/lib/nvidia-cuda-toolkit/libdevice"})
        if (std::string path = std::string(folder) + "/libdevice.10.bc"; is_there(path))
            return path;
    return {};
}

} // namespace

const std::string& find_libdevice() {
    static const std::string* const found = new std::string(search());
    return *found;
}

} // namespace metalki::cuda
