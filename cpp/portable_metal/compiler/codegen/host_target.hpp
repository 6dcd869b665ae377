// The machine code target: this machine, or a lower instruction set chosen with METALKI_CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
}

namespace metalki::compiler {

struct HostTarget {
    std::string triple;
    std::string cpu;                   // LLVM's name, for example "znver4"
    std::vector<std::string> features; // "+avx2", "-avx512f"; empty when METALKI_CPU names the processor
};

const HostTarget& host_target();

// For looking at code for another machine: what is compiled from now on is for this target, and nothing of it may run. Before
// anything is compiled; whoever calls makes LLVM's back end known.
void look_at_target(HostTarget target);

// Throws std::runtime_error when LLVM has no back end for this machine.
std::unique_ptr<llvm::TargetMachine> make_target_machine();

} // namespace metalki::compiler
