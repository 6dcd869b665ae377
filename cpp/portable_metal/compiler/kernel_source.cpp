// See the header.
#include "kernel_source.hpp"

#include <map>
#include <mutex>
#include <optional>

#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/raw_ostream.h"

#include "cache/disk_cache.hpp"
#include "cache/records.hpp"

namespace metalki::compiler {
namespace {

constexpr std::size_t few_kernels = 8;         // their code costs less than keeping Clang's data
constexpr std::size_t single_generations = 16; // of one source, before the rest is generated as well

std::string bitcode_of(const llvm::Module& module) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    llvm::WriteBitcodeToFile(module, stream);
    return out;
}

} // namespace

struct KernelSource::State {
    std::string key;
    std::function<std::shared_ptr<TranslationUnit>()> parse;
    std::mutex mutex;
    std::shared_ptr<const std::string> bitcode; // of the whole source
    std::shared_ptr<TranslationUnit> unit;
    bool has_failed = false;                                           // to generate everything
    std::map<std::string, std::shared_ptr<const std::string>> singles; // bitcode of single kernels, by their first root

    // The caller holds the mutex.
    void generate_everything() {
        if (!unit) {
            return;
        }
        KernelModule all = make_kernel_module();
        all.module = unit->generate(*all.context, {});
        bitcode = std::make_shared<const std::string>(bitcode_of(*all.module));
        unit.reset();
        singles.clear();
        DiskCache::instance().store(bitcode_key(key), *bitcode);
    }

    // A kernel that Clang cannot generate code for must not stop the others.
    void try_to_generate_everything() {
        try {
            if (!has_failed) {
                generate_everything();
            }
        } catch (const CompileError&) {
            has_failed = true;
        }
    }

    std::string single_key(const std::string& root) const { return bitcode_key(key + " " + root); }

    // Bitcode in which to find `root`, or null when `unit` has to generate it.
    std::shared_ptr<const std::string> bitcode_with(const std::string& root) {
        std::lock_guard lock(mutex);
        if (bitcode) {
            return bitcode;
        }
        if (auto found = singles.find(root); found != singles.end()) {
            return found->second;
        }
        if (!unit) {
            for (const std::string& name : {single_key(root), bitcode_key(key)}) {
                if (auto cached = DiskCache::instance().load(name)) {
                    auto text = std::make_shared<const std::string>(std::move(*cached));
                    (name == bitcode_key(key) ? bitcode : singles[root]) = text;
                    return text;
                }
            }
            unit = parse();
        } else if (singles.size() >= single_generations) {
            try_to_generate_everything();
        }
        return bitcode;
    }
};

namespace {

// Only one large source at a time stays parsed.
template <class State> void succeed_last(const std::shared_ptr<State>& next) {
    static std::mutex mutex;
    static std::weak_ptr<State> last;
    std::shared_ptr<State> previous;
    {
        std::lock_guard lock(mutex);
        previous = last.lock();
        last = next;
    }
    if (previous && previous != next) {
        std::lock_guard lock(previous->mutex);
        previous->try_to_generate_everything();
    }
}

} // namespace

KernelSource::KernelSource(std::string key, std::function<std::shared_ptr<TranslationUnit>()> parse)
    : state_(std::make_shared<State>()) {
    state_->key = std::move(key);
    state_->parse = std::move(parse);
}

void KernelSource::adopt(std::shared_ptr<TranslationUnit> unit, std::size_t kernels) {
    {
        std::lock_guard lock(state_->mutex);
        state_->unit = std::move(unit);
        if (kernels <= few_kernels) {
            state_->generate_everything();
            return;
        }
    }
    succeed_last(state_);
}

KernelModule KernelSource::read(const std::vector<std::string>& roots) const {
    const std::string& root = roots.front();
    for (;;) {
        if (auto bitcode = state_->bitcode_with(root)) {
            return extract_kernel(*bitcode, roots);
        }
        std::shared_ptr<TranslationUnit> unit;
        {
            std::lock_guard lock(state_->mutex);
            unit = state_->unit;
        }
        if (!unit) {
            continue; // another thread has generated everything meanwhile
        }
        succeed_last(state_);
        KernelModule out = make_kernel_module();
        out.module = unit->generate(*out.context, {roots.begin(), roots.end()});
        keep_only(*out.module, roots);
        auto text = std::make_shared<const std::string>(bitcode_of(*out.module));
        DiskCache::instance().store(state_->single_key(root), *text);
        std::lock_guard lock(state_->mutex);
        state_->singles[root] = std::move(text);
        return out;
    }
}

} // namespace metalki::compiler
