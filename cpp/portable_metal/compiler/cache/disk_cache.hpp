// A folder of named records that survive the process. Never an error: what cannot be read or written is not cached.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace metalki::compiler {

class DiskCache {
public:
    // METALKI_CACHE_DIR, or `metalki` in XDG_CACHE_HOME, or ~/.cache/metalki. METALKI_CACHE=0 switches it off.
    static const DiskCache& instance();

    // The record's content, if it is there and undamaged.
    std::optional<std::string> load(std::string_view key) const;
    // Written beside its place and renamed into it, so that other processes see all of it or nothing.
    void store(std::string_view key, std::string_view content) const;

    const std::filesystem::path& folder() const { return folder_; } // empty when switched off

    explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

private:
    std::filesystem::path file_of(std::string_view key) const;

    std::filesystem::path folder_;
};

// A name for anything: 64 hexadecimal digits, different for different texts.
std::string content_hash(std::string_view text);

} // namespace metalki::compiler
