// Record files: a magic word, the key, the hash of what follows, the content compressed with zstd.
#include "cache/disk_cache.hpp"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>
#include <unistd.h>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/Error.h"

#include "cache/binary_stream.hpp"

namespace metalki::compiler {
namespace {

constexpr std::string_view magic = "metalki cache 2\n";

std::filesystem::path default_folder() {
    const char* on = std::getenv("METALKI_CACHE");
    if (on && std::string_view(on) == "0") {
        return {};
    }
    if (const char* chosen = std::getenv("METALKI_CACHE_DIR"); chosen && *chosen) {
        return chosen;
    }
    if (const char* base = std::getenv("XDG_CACHE_HOME"); base && *base) {
        return std::filesystem::path(base) / "metalki";
    }
    if (const char* home = std::getenv("HOME"); home && *home) {
        return std::filesystem::path(home) / ".cache" / "metalki";
    }
    return {};
}

std::string compress(std::string_view content) {
    if (!llvm::compression::zstd::isAvailable()) {
        return std::string(content);
    }
    llvm::SmallVector<std::uint8_t, 0> out;
    llvm::compression::zstd::compress(llvm::arrayRefFromStringRef(llvm::StringRef(content)), out, /*Level=*/1);
    return std::string(out.begin(), out.end());
}

std::string decompress(std::string_view packed, std::uint64_t size) {
    if (!llvm::compression::zstd::isAvailable()) {
        return std::string(packed);
    }
    std::string out(size, '\0');
    std::size_t written = size;
    if (auto error = llvm::compression::zstd::decompress(llvm::arrayRefFromStringRef(llvm::StringRef(packed)),
                                                         reinterpret_cast<std::uint8_t*>(out.data()), written)) {
        llvm::consumeError(std::move(error));
        throw DamagedRecord();
    }
    out.resize(written);
    return out;
}

} // namespace

std::string content_hash(std::string_view text) {
    return llvm::toHex(llvm::BLAKE3::hash<32>(llvm::arrayRefFromStringRef(llvm::StringRef(text))), /*LowerCase=*/true);
}

const DiskCache& DiskCache::instance() {
    // Never destroyed: threads may still compile while the process ends.
    static const auto* const cache = new DiskCache(default_folder());
    return *cache;
}

// Two levels of folders keep the number of files in one folder small.
std::filesystem::path DiskCache::file_of(std::string_view key) const {
    return folder_ / std::string(key.substr(0, 2)) / std::string(key.substr(2));
}

std::optional<std::string> DiskCache::load(std::string_view key) const {
    if (folder_.empty()) {
        return std::nullopt;
    }
    try {
        std::ifstream file(file_of(key), std::ios::binary);
        if (!file) {
            return std::nullopt;
        }
        std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        if (!text.starts_with(magic)) {
            return std::nullopt;
        }
        BinaryReader reader(std::string_view(text).substr(magic.size()));
        if (reader.read_view() != key) {
            return std::nullopt; // another record in this one's place
        }
        std::string hash = reader.read_string();
        auto size = reader.read<std::uint64_t>();
        std::string_view packed = reader.read_view();
        // The hash covers what is on disk: a flipped bit must not even reach the decompressor.
        if (content_hash(packed) != hash || size > std::uint64_t(1) << 32) {
            return std::nullopt;
        }
        return decompress(packed, size);
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

void DiskCache::store(std::string_view key, std::string_view content) const {
    if (folder_.empty()) {
        return;
    }
    static std::atomic<unsigned> count{0};
    std::filesystem::path target = file_of(key);
    std::filesystem::path beside = target;
    beside += "." + std::to_string(::getpid()) + "." + std::to_string(count++) + ".tmp";
    std::error_code ignored;
    try {
        std::string packed = compress(content);
        BinaryWriter writer;
        writer.write(key);
        writer.write(content_hash(packed));
        writer.write(static_cast<std::uint64_t>(content.size()));
        writer.write(std::string_view(packed));
        std::filesystem::create_directories(target.parent_path(), ignored);
        std::ofstream file(beside, std::ios::binary | std::ios::trunc);
        file << magic << writer.take();
        file.close();
        if (file) {
            std::filesystem::rename(beside, target, ignored);
        }
        if (!file || ignored) {
            std::filesystem::remove(beside, ignored); // a full or read-only disk
        }
    } catch (const std::exception&) {
        std::filesystem::remove(beside, ignored);
    }
}

} // namespace metalki::compiler
