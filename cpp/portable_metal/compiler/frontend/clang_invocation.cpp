// cc1 arguments and virtual files. Why SYCL device mode: its default address space contains the named ones, so methods,
// copies and references work without qualified overloads while overloads on `device T*` still differ.
#include "frontend/clang_invocation.hpp"

#include <filesystem>
#include <vector>

#include "clang/Basic/Diagnostic.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Lex/PreprocessorOptions.h"

#include "codegen/host_target.hpp"
#include "stdlib/embedded_files.hpp"

namespace metalki::compiler {
namespace {

void add_version_macros(std::vector<std::string>& arguments, unsigned language_version) {
    const unsigned version = (language_version >> 16) * 100 + (language_version & 0xffff) * 10;
    arguments.push_back("-D__METAL_VERSION__=" + std::to_string(version));
    if (version >= 310) {
        arguments.emplace_back("-D__HAVE_BFLOAT__=1");
    }
}

void add_math_mode(std::vector<std::string>& arguments, MathMode mode) {
    if (mode == MathMode::safe) {
        arguments.insert(arguments.end(), {"-ffp-contract=off"});
        return;
    }
    // Never -ffast-math: kernels start their reductions at infinity, so finite-only math would break them.
    for (const char* flag :
         {"-mreassociate", "-freciprocal-math", "-fapprox-func", "-fno-signed-zeros", "-ffp-contract=fast"}) {
        arguments.emplace_back(flag);
    }
}

std::vector<std::string> arguments_for(const Options& options, Purpose purpose) {
    const HostTarget& host = host_target();
    std::vector<std::string> arguments = {
        "-triple",
        host.triple,
        "-aux-triple",
        host.triple,
        "-fsycl-is-device",
        "-std=c++17",
        "-fdeclspec",
        "-faddress-space-map-mangling=no",
        "-fclang-abi-compat=15", // packed structures pack members of class types, as on Apple's systems
        "-fconvergent-functions",
        "-fno-threadsafe-statics",
        "-fno-rtti",
        "-fpch-instantiate-templates", // in the standard library once, not in every program
        "-nostdsysteminc",
        "-nobuiltininc",
        // What C++ leaves undefined and GPUs define, or what kernels do anyway.
        "-fwrapv",
        "-ffloat16-excess-precision=none",
        "-fbfloat16-excess-precision=none",
        "-fno-strict-float-cast-overflow",
        "-relaxed-aliasing",
        "-fno-delete-null-pointer-checks",
        "-fno-finite-loops",
        "-O2",
        "-disable-llvm-passes",
        "-ferror-limit",
        "100",
        "-fspell-checking-limit=50",
        "-fno-elide-type",
        "-Wno-c++11-narrowing",
        "-Wno-duplicate-decl-specifier",
        "-Wno-undefined-internal",
        "-Wno-unused-value",
        "-Wno-unknown-pragmas",
        "-Wno-unknown-attributes",
        "-Wno-undefined-inline",
        "-Wno-psabi",
        "-Wno-unused-function",
        "-Wno-c++20-designator",
        "-Wno-c++20-extensions",
        "-Wno-vla-cxx-extension",
        "-Wno-c99-designator",
        "-Wno-reorder-init-list",
        "-Wno-missing-braces",
        "-Wno-return-type-c-linkage",
        "-Wno-bitwise-op-parentheses",
        "-Wunused-variable",
        "-Wuninitialized",
        "-Wself-assign",
        "-Wloop-analysis",
        "-Wno-pragma-once-outside-header",
        "-isystem",
        "/metalki/include",
    };
    // What follows differs from program to program or from machine to machine; the headers' meaning must not depend on it.
    if (purpose == Purpose::precompile_prefix) {
        arguments.insert(arguments.end(), {"-x", "c++-header", prefix_header});
        return arguments;
    }
    arguments.insert(arguments.end(), {"-target-cpu", host.cpu});
    for (const std::string& feature : host.features) {
        arguments.insert(arguments.end(), {"-target-feature", feature});
    }
    add_math_mode(arguments, options.math_mode);
    add_version_macros(arguments, options.language_version);
    arguments.insert(arguments.end(), {"-I", "/metalki/user"});
    for (const std::string& directory : options.include_directories) {
        arguments.insert(arguments.end(), {"-I", std::filesystem::absolute(directory).string()});
    }
    for (const auto& [name, text] : options.macros) {
        arguments.push_back("-D" + name + "=" + text);
    }
    arguments.insert(arguments.end(), {"-include-pch", precompiled_header, "-fno-validate-pch", "-x", "c++", source_name});
    return arguments;
}

} // namespace

SourceFiles make_file_system(const Options& options, llvm::StringRef precompiled, std::string_view source) {
    auto memory = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
    memory->setCurrentWorkingDirectory("/");
    for (const stdlib::EmbeddedFile& file : stdlib::embedded_files()) {
        memory->addFile("/metalki/include/" + std::string(file.name), 0,
                        llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(file.text), "", true));
    }
    for (const auto& [name, text] : options.headers) {
        memory->addFile("/metalki/user/" + name, 0, llvm::MemoryBuffer::getMemBufferCopy(text));
    }
    if (!precompiled.empty()) {
        memory->addFile(precompiled_header, 0, llvm::MemoryBuffer::getMemBuffer(precompiled, "", false));
    }
    memory->addFile(std::string("/") + source_name, 0, llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(source)));
    if (options.include_directories.empty()) {
        return {memory, nullptr}; // the machine's own headers stay out of reach
    }
    auto disk = llvm::makeIntrusiveRefCnt<RecordingFileSystem>(
        llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem>(llvm::vfs::createPhysicalFileSystem().release()));
    auto both = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(disk);
    both->pushOverlay(memory);
    both->setCurrentWorkingDirectory("/");
    return {both, disk};
}

std::unique_ptr<clang::CompilerInstance> make_instance(const Options& options, Purpose purpose,
                                                       llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files,
                                                       clang::DiagnosticConsumer* consumer) {
    std::vector<std::string> arguments = arguments_for(options, purpose);
    std::vector<const char*> pointers;
    for (const std::string& argument : arguments) {
        pointers.push_back(argument.c_str());
    }
    auto instance = std::make_unique<clang::CompilerInstance>();
    instance->createDiagnostics(consumer, /*ShouldOwnClient=*/false);
    if (!clang::CompilerInvocation::CreateFromArgs(instance->getInvocation(), pointers, instance->getDiagnostics())) {
        return nullptr;
    }
    instance->getFileSystemOpts().WorkingDir = "/";
    instance->getDiagnosticOpts().ShowCarets = false; // also silences the summary line on standard error
    // Again: the first engine was made before the -W options were read.
    instance->createDiagnostics(consumer, /*ShouldOwnClient=*/false);
    instance->createFileManager(files);
    return instance->createTarget() ? std::move(instance) : nullptr;
}

} // namespace metalki::compiler
