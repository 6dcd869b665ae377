// See the header.
#include "cache/dependencies.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cache/disk_cache.hpp"

namespace metalki::compiler {
namespace {

std::string hash_of_file(const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) {
        return {};
    }
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return content_hash(text);
}

} // namespace

bool unchanged(const std::vector<Dependency>& dependencies) {
    return std::all_of(dependencies.begin(), dependencies.end(),
                       [](const Dependency& d) { return hash_of_file(d.path) == d.hash; });
}

void RecordingFileSystem::note(const llvm::Twine& path) {
    paths_.push_back(path.str());
}

llvm::ErrorOr<llvm::vfs::Status> RecordingFileSystem::status(const llvm::Twine& path) {
    note(path);
    return ProxyFileSystem::status(path);
}

llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> RecordingFileSystem::openFileForRead(const llvm::Twine& path) {
    note(path);
    return ProxyFileSystem::openFileForRead(path);
}

std::vector<Dependency> RecordingFileSystem::dependencies() const {
    std::vector<std::string> paths = paths_;
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    std::vector<Dependency> out;
    for (const std::string& path : paths) {
        std::error_code ignored;
        if (!std::filesystem::is_directory(path, ignored)) {
            out.push_back({path, hash_of_file(path)});
        }
    }
    return out;
}

} // namespace metalki::compiler
