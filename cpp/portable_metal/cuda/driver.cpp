// Opens the driver's library and looks its functions up.
#include "cuda/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace metalki::cuda {
namespace {

struct Search {
    Driver driver;
    bool found = false;
    std::string reason;
};

bool load(void* library, Driver& driver, std::string& missing) {
    const auto look_up = [&](const char* symbol, auto& function) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
        if (!function && missing.empty())
            missing = symbol;
    };
#define METALKI_CUDA_LOAD(name, symbol, ...) look_up(#symbol, driver.name);
    METALKI_CUDA_FUNCTIONS(METALKI_CUDA_LOAD)
#undef METALKI_CUDA_LOAD
    return missing.empty();
}

// The library stays open: code of it may run until the process ends.
Search search() {
    Search result;
    const char* named = std::getenv("METALKI_CUDA_DRIVER");
    const std::string file = named ? named : "libcuda.so.1";
    if (file.empty()) {
        result.reason = "METALKI_CUDA_DRIVER is empty";
        return result;
    }
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char* error = dlerror();
        result.reason = error ? error : file + " cannot be opened";
        return result;
    }
    std::string missing;
    if (!load(library, result.driver, missing)) {
        result.reason = file + " has no function " + missing + "; CUDA 12 or newer is needed";
        return result;
    }
    if (const Result code = result.driver.init(0); code != Result::success) {
        const char* name = nullptr;
        result.driver.get_error_name(code, &name);
        result.reason = "cuInit: " + std::string(name ? name : "error " + std::to_string(static_cast<int>(code)));
        return result;
    }
    result.driver.driver_get_version(&result.driver.version);
    result.found = true;
    return result;
}

const Search& searched() {
    static const Search* const result = new Search(search());
    return *result;
}

} // namespace

const Driver* find_driver() {
    return searched().found ? &searched().driver : nullptr;
}

std::string missing_driver_reason() {
    return searched().reason;
}

const Driver& driver() {
    return searched().driver;
}

std::string describe(Result code) {
    const char *name = nullptr, *text = nullptr;
    driver().get_error_name(code, &name);
    driver().get_error_string(code, &text);
    const std::string number = "error " + std::to_string(static_cast<int>(code));
    return std::string(text ? text : number) + " (" + (name ? name : number) + ")";
}

Error::Error(Result code, std::string_view call) : std::runtime_error(std::string(call) + ": " + describe(code)), code_(code) {}

bool Error::is_sticky(Result code) {
    switch (code) {
    case Result::deinitialized:
    case Result::ecc_uncorrectable:
    case Result::nvlink_uncorrectable:
    case Result::contained:
    case Result::illegal_address:
    case Result::launch_timeout:
    case Result::context_is_destroyed:
    case Result::tensor_memory_leak:
    case Result::unknown:
        return true;
    default:
        // An assertion, then the kinds of exceptions of a multiprocessor, up to "unspecified launch failure".
        return code == Result::assert_failed || (static_cast<int>(code) >= 714 && static_cast<int>(code) <= 719);
    }
}

} // namespace metalki::cuda
