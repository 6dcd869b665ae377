// See the header.
#include "frontend/device_runtime.hpp"

#include <mutex>

#include "clang/CodeGen/CodeGenAction.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

#include "cache/disk_cache.hpp"
#include "cache/records.hpp"
#include "codegen/precise_functions.hpp"
#include "frontend/clang_invocation.hpp"
#include "frontend/diagnostics.hpp"
#include "frontend/precompiled_header.hpp"

namespace metalki::compiler {
namespace {

constexpr std::string_view source = "#include <metalki_gpu.h>\n";

Options plain_options() {
    Options options;
    options.math_mode = MathMode::safe;
    return options;
}

std::string compile() {
    const Options options = plain_options();
    DiagnosticCollector collector;
    auto instance =
        make_instance(options, Purpose::parse_source, make_file_system(options, precompiled_prefix(), source).all, &collector);
    llvm::LLVMContext context;
    clang::EmitLLVMOnlyAction action(&context);
    if (!instance || !instance->ExecuteAction(action) || collector.has_errors()) {
        const std::string text = "the functions for GPUs do not compile: " + collector.text();
        throw CompileError(text, collector.take());
    }
    std::string out;
    llvm::raw_string_ostream stream(out);
    std::unique_ptr<llvm::Module> module = action.takeModule();
    protect_precise_functions(*module);
    llvm::WriteBitcodeToFile(*module, stream);
    return out;
}

} // namespace

std::shared_ptr<const std::string> device_runtime() {
    static std::mutex mutex;
    static std::shared_ptr<const std::string> bitcode;
    std::lock_guard lock(mutex);
    if (!bitcode) {
        const std::string key = bitcode_key(source_key(source, plain_options()));
        auto cached = DiskCache::instance().load(key);
        bitcode = std::make_shared<const std::string>(cached ? std::move(*cached) : compile());
        if (!cached) {
            DiskCache::instance().store(key, *bitcode);
        }
    }
    return bitcode;
}

} // namespace metalki::compiler
