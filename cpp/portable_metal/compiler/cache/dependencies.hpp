// Which files of the disk a compilation looked at, and whether they are still the same.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/VirtualFileSystem.h"

namespace metalki::compiler {

struct Dependency {
    std::string path;
    std::string hash; // of the content; empty: the file was looked for and not there
};

bool unchanged(const std::vector<Dependency>& dependencies);

// Passes every request on and notes it: a header that appears in an earlier include directory changes the result as well.
class RecordingFileSystem : public llvm::vfs::ProxyFileSystem {
public:
    using ProxyFileSystem::ProxyFileSystem;
    llvm::ErrorOr<llvm::vfs::Status> status(const llvm::Twine& path) override;
    llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine& path) override;

    // Directories are left out.
    std::vector<Dependency> dependencies() const;

private:
    void note(const llvm::Twine& path);
    std::vector<std::string> paths_;
};

} // namespace metalki::compiler
