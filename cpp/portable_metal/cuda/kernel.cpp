// Loading of kernels.
#include "cuda/kernel.hpp"

#include <array>

#include "compiler/cache/disk_cache.hpp"

namespace metalki::cuda {
namespace {

// Without asking, kernels get this much dynamic threadgroup memory.
constexpr std::size_t granted_memory = 48 << 10;

// Room for what the driver's assembler says.
class AssemblerLog {
public:
    std::array<LoadOption, 2> options{LoadOption::error_log_buffer, LoadOption::error_log_buffer_size};
    std::array<void*, 2> values{text_.data(), reinterpret_cast<void*>(text_.size() - 1)};

    void check(Result result, const compiler::GpuCode& code) const {
        if (result != Result::success)
            throw Error(result, "assembling kernel \"" + code.function.name + "\"" +
                                    (text_[0] ? std::string(" (") + text_.data() + ")" : ""));
    }

private:
    std::array<char, 8192> text_{};
};

std::string assemble(const compiler::GpuCode& code) {
    AssemblerLog log;
    LinkHandle link = nullptr;
    log.check(driver().link_create(static_cast<unsigned>(log.options.size()), log.options.data(), log.values.data(), &link),
              code);
    const std::unique_ptr<LinkObject, Result (*)(LinkHandle)> owner(link, driver().link_destroy);
    log.check(
        driver().link_add(link, LinkInput::ptx, code.ptx.c_str(), code.ptx.size() + 1, code.entry.c_str(), 0, nullptr, nullptr),
        code);
    void* image = nullptr;
    std::size_t bytes = 0;
    log.check(driver().link_complete(link, &image, &bytes), code);
    return {static_cast<const char*>(image), bytes};
}

// From the disk where this driver has assembled the same text for such a device before.
std::string machine_code(const Device& device, const compiler::GpuCode& code) {
    const compiler::DiskCache& cache = compiler::DiskCache::instance();
    const std::string key = compiler::content_hash("machine code " + std::to_string(device.facts().architecture) + " " +
                                                   std::to_string(driver().version) + " " + code.ptx);
    if (auto found = cache.load(key))
        return *std::move(found);
    std::string made = assemble(code);
    cache.store(key, made);
    return made;
}

} // namespace

Kernel::Kernel(Device& device, std::shared_ptr<const compiler::GpuCode> code) : device_(device), code_(std::move(code)) {
    const Use use(device_);
    load();
    max_threads_ = static_cast<unsigned>(attribute(FunctionAttribute::max_threads_per_block));
    static_memory_ = static_cast<std::size_t>(attribute(FunctionAttribute::shared_size_bytes));
    preferred_threads_ = best_threads();
}

Kernel::~Kernel() {
    try {
        const Use use(device_);
        if (generation_.load() == device_.generation())
            driver().module_unload(module_);
    } catch (const std::exception&) {
        // With the context the module is gone as well.
    }
}

void Kernel::load() {
    if (image_.empty())
        image_ = machine_code(device_, *code_);
    check(driver().module_load(&module_, image_.data(), 0, nullptr, nullptr),
          "cuModuleLoadData of kernel \"" + code_->function.name + "\"");
    check(driver().module_get_function(&function_, module_, code_->entry.c_str()),
          "cuModuleGetFunction of \"" + code_->entry + "\"");
    allowed_memory_.store(0, std::memory_order_relaxed);
    generation_.store(device_.generation(), std::memory_order_release);
}

int Kernel::attribute(FunctionAttribute which) const {
    int value = 0;
    check(driver().function_get_attribute(&value, which, function_), "cuFuncGetAttribute");
    return value;
}

unsigned Kernel::best_threads() const {
    unsigned best = 0;
    int most = 0;
    for (const unsigned threads : {256u, 512u, 128u, 1024u, 64u, 32u}) {
        if (threads > max_threads_)
            continue;
        int blocks = 0;
        check(driver().blocks_per_multiprocessor(&blocks, function_, static_cast<int>(threads), 0),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        if (const int together = blocks * static_cast<int>(threads); together > most) {
            most = together;
            best = threads;
        }
    }
    return best ? best : max_threads_;
}

Function Kernel::function(std::size_t dynamic_memory) {
    const bool is_loaded = generation_.load(std::memory_order_acquire) == device_.generation();
    if (is_loaded && (dynamic_memory + static_memory_ <= granted_memory ||
                      dynamic_memory <= allowed_memory_.load(std::memory_order_acquire))) [[likely]]
        return function_;
    const std::lock_guard lock(mutex_);
    if (generation_.load() != device_.generation())
        load();
    if (dynamic_memory + static_memory_ > granted_memory && dynamic_memory > allowed_memory_.load()) {
        check(driver().function_set_attribute(function_, FunctionAttribute::max_dynamic_shared_size_bytes,
                                              static_cast<int>(dynamic_memory)),
              "cuFuncSetAttribute for " + std::to_string(dynamic_memory) + " bytes of threadgroup memory");
        allowed_memory_.store(dynamic_memory, std::memory_order_release);
    }
    return function_;
}

} // namespace metalki::cuda
