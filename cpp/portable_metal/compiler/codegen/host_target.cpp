// Asks LLVM what this processor is and makes target machines for it.
#include "codegen/host_target.hpp"

#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/Triple.h"

namespace metalki::compiler {
namespace {

// LLVM's last resort is to end the process; an exception leaves the caller a way on.
void throw_fatal_error(void*, const char* reason, bool) {
    throw std::runtime_error(std::string("the code generator gave up: ") + reason);
}

HostTarget detect() {
    llvm::install_fatal_error_handler(throw_fatal_error);
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    HostTarget host;
    host.triple = llvm::sys::getProcessTriple();
    if (llvm::Triple(host.triple).isX86()) {
        // Vectors of native halves gave other results than threads one by one; conversions to float are nearly as fast.
        host.features.push_back("-avx512fp16");
    }
    if (const char* chosen = std::getenv("METALKI_CPU"); chosen && *chosen) {
        host.cpu = chosen;
        return host;
    }
    host.cpu = llvm::sys::getHostCPUName().str();
    // Only where this machine differs from what its name says: LLVM parses and hashes the list many times in a compilation.
    std::string problem;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(host.triple, problem);
    std::unique_ptr<llvm::MCSubtargetInfo> by_name(target ? target->createMCSubtargetInfo(host.triple, host.cpu, "") : nullptr);
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
        std::string setting = (feature.second ? "+" : "-") + feature.first().str();
        if (feature.first() != "avx512fp16" && (!by_name || !by_name->checkFeatures(setting))) {
            host.features.push_back(std::move(setting));
        }
    }
    return host;
}

std::optional<HostTarget> looked_at;

} // namespace

const HostTarget& host_target() {
    static const HostTarget host = detect();
    return looked_at ? *looked_at : host;
}

void look_at_target(HostTarget target) {
    looked_at = std::move(target);
}

std::unique_ptr<llvm::TargetMachine> make_target_machine() {
    const HostTarget& host = host_target();
    std::string problem;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(host.triple, problem);
    if (!target) {
        throw std::runtime_error("no code generator for " + host.triple + ": " + problem);
    }
    llvm::SubtargetFeatures features;
    for (const std::string& feature : host.features) {
        features.AddFeature(feature);
    }
    llvm::TargetOptions options;
    options.EmitStackSizeSection = true; // the executor gives each fiber a stack of the right size
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
    std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(host.triple, host.cpu, features.getString(),
                                                                             options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                             llvm::CodeGenOptLevel::Default,
                                                                             /*JIT=*/true));
    if (!machine) {
        throw std::runtime_error("cannot create a code generator for " + host.triple);
    }
    return machine;
}

} // namespace metalki::compiler
