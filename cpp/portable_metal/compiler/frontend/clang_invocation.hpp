// How Clang is set up for MSL: arguments, in-memory file system, one compiler instance per parse.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "clang/Frontend/CompilerInstance.h"
#include "llvm/Support/VirtualFileSystem.h"

#include "cache/dependencies.hpp"
#include "compiler/compiler.hpp"

namespace metalki::compiler {

// Name under which the user's text appears in diagnostics, as Apple's compiler does.
inline constexpr const char* source_name = "program_source";
inline constexpr const char* prefix_header = "/metalki/include/metalki_prefix.h";
inline constexpr const char* precompiled_header = "/metalki/prefix.pch";

enum class Purpose { parse_source, precompile_prefix };

struct SourceFiles {
    llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> all; // what Clang sees
    llvm::IntrusiveRefCntPtr<RecordingFileSystem> disk;  // its part on the disk; null when no include directory was given
};

SourceFiles make_file_system(const Options& options, llvm::StringRef precompiled, std::string_view source);

// A compiler instance ready to run an action on the source (or on the prefix header); diagnostics go to `consumer`.
std::unique_ptr<clang::CompilerInstance> make_instance(const Options& options, Purpose purpose,
                                                       llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files,
                                                       clang::DiagnosticConsumer* consumer);

} // namespace metalki::compiler
