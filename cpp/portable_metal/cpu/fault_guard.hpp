// Turns processor faults inside kernels into results instead of the end of the process.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>

namespace metalki::cpu {

// The fault that abandoned the FiberGroup that ran last on this thread.
struct FaultRecord {
    int signal = 0;
    int code = 0;
    std::uintptr_t address = 0;
    bool stack_overflow = false;
};

// Installs the handlers for the process and an alternate signal stack for this thread, where still missing. Cheap when all is
// in place; call before kernels run, with what the clock says. Signals outside kernels go to the handlers that were there
// before.
void guard_against_faults(std::chrono::steady_clock::time_point now);

const FaultRecord& last_fault();

// Asks a thread to leave its kernel; ignored by default, and seldom used by others.
constexpr int interruption_signal = SIGURG;

// Makes last_fault() tell of an interruption. Called by the handler of that signal.
void note_interruption();

// "invalid memory access at address 0x10"
std::string describe(const FaultRecord& fault);

} // namespace metalki::cpu
