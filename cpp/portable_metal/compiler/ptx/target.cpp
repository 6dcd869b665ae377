// See the header.
#include "ptx/target.hpp"

#include <array>
#include <mutex>
#include <stdexcept>

#include "llvm/MC/TargetRegistry.h"

#include "codegen/host_target.hpp"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace metalki::compiler::ptx {
namespace {

constexpr const char* triple = "nvptx64-nvidia-cuda";

// Architectures and the PTX version that introduced each, newest first.
constexpr std::array<Dialect, 8> architectures{
    {{90, 78}, {89, 78}, {87, 74}, {86, 71}, {80, 70}, {75, 63}, {72, 61}, {70, 60}}};
constexpr std::array<unsigned, 20> versions{85, 84, 83, 82, 81, 80, 78, 77, 76, 75, 74, 73, 72, 71, 70, 65, 64, 63, 62, 61};

void register_target() {
    static std::once_flag once;
    std::call_once(once, [] {
        host_target(); // installs the handler of LLVM's fatal errors
        LLVMInitializeNVPTXTargetInfo();
        LLVMInitializeNVPTXTarget();
        LLVMInitializeNVPTXTargetMC();
        LLVMInitializeNVPTXAsmPrinter();
    });
}

} // namespace

Dialect dialect_of(const GpuTarget& target) {
    for (const Dialect& known : architectures) {
        if (known.architecture > target.architecture || known.version > target.ptx_version) {
            continue;
        }
        for (unsigned version : versions) {
            if (version <= target.ptx_version) {
                return {known.architecture, version};
            }
        }
    }
    throw SpecializationError("kernels need a GPU of compute capability 7.0 and a driver that reads PTX 6.1; this one has " +
                              std::to_string(target.architecture) + " (ten times the capability) and PTX " +
                              std::to_string(target.ptx_version) + " (ten times the version)");
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const GpuTarget& wanted) {
    register_target();
    const Dialect dialect = dialect_of(wanted);
    std::string problem;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
    if (!target) {
        throw std::runtime_error(std::string("no code generator for ") + triple + ": " + problem);
    }
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
    std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
        triple, "sm_" + std::to_string(dialect.architecture), "+ptx" + std::to_string(dialect.version), options,
        llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
    if (!machine) {
        throw std::runtime_error(std::string("cannot create a code generator for ") + triple);
    }
    return machine;
}

} // namespace metalki::compiler::ptx
