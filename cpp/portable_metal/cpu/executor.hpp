// Runs threadgroups of compiled kernels on the cores of this machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compiler/compiler.hpp"

namespace metalki::cpu {

class MessageLog;

struct ThreadgroupArgument {
    std::uint32_t slot;   // argument slot that gets the address
    std::uint32_t length; // bytes
};

struct Dispatch {
    const compiler::KernelCode* code = nullptr;
    std::span<void* const> arguments; // one address per argument slot; threadgroup slots are ignored
    std::span<const ThreadgroupArgument> threadgroup_arguments;
    compiler::Uint3 grid{};                  // threads; need not be a multiple of the threadgroup
    compiler::Uint3 threadgroup{};           // threads
    const std::atomic<bool>* stop = nullptr; // when set to true, no further threadgroup starts and run() returns a Fault
    MessageLog* log = nullptr;               // takes what the kernel prints; null: it is lost
    std::chrono::nanoseconds time_limit{0};  // when it has passed, the kernel is stopped and run() returns a Fault; 0: none
    // Reading the clock is a good part of a short dispatch. When run() is called: what the clock says, where the caller has
    // just read it; when it returns: what it said at the end. Null: nobody knows or asks.
    std::chrono::steady_clock::time_point* time = nullptr;
};

// What stopped a kernel: an access violation, an arithmetic trap, a stack overflow.
struct Fault {
    std::string message;
};

class Executor {
public:
    explicit Executor(unsigned threads);
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    // Runs the whole grid and returns when it is done; the calling thread takes part. May be called from several
    // threads at once. A faulting kernel ends the dispatch and leaves executor and process usable.
    std::optional<Fault> run(const Dispatch& dispatch);

    // Ends the dispatches with this flag, which the caller has set, also where threadgroups would run for ever. Does not wait.
    void interrupt(const std::atomic<bool>& stop);

    // Threads that work on one dispatch, the caller included.
    unsigned concurrency() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// Cores this process may use: affinity mask and cgroup quota respected; METALKI_NUM_THREADS overrides.
unsigned usable_cores();

// The functions of kernel_abi.hpp, for the compiler to link kernels against.
std::span<const compiler::RuntimeSymbol> runtime_symbols();

// Limits of this device.
constexpr std::uint32_t max_threads_per_threadgroup = 1024;
constexpr std::uint32_t max_threadgroup_memory = 32768;

} // namespace metalki::cpu
