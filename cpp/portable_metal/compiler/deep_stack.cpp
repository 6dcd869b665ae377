// See the header.
#include "deep_stack.hpp"

#include <csignal>
#include <cstddef>
#include <exception>

#include <pthread.h>

namespace metalki::compiler {
namespace {

// Clang takes up to 6 KiB for a level; the sanitizers' code several times that. Costs nothing before it is touched.
constexpr std::size_t stack_sizes[] = {std::size_t{512} << 20, std::size_t{64} << 20};

thread_local bool is_deep = false;

struct Task {
    llvm::function_ref<void()> work;
    std::exception_ptr problem;
};

void* run_task(void* argument) {
    auto& task = *static_cast<Task*>(argument);
    is_deep = true;
    try {
        task.work();
    } catch (...) {
        task.problem = std::current_exception();
    }
    return nullptr;
}

bool start(pthread_t& thread, std::size_t stack_size, Task& task) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    const bool started =
        pthread_attr_setstacksize(&attributes, stack_size) == 0 && pthread_create(&thread, &attributes, run_task, &task) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

// Signals are for the threads of the program.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

} // namespace

void run_on_deep_stack(llvm::function_ref<void()> work) {
    Task task{work, nullptr};
    pthread_t thread{};
    bool started = false;
    if (!is_deep) {
        const SignalsBlocked blocked;
        for (std::size_t size : stack_sizes) {
            started = started || start(thread, size, task);
        }
    }
    if (!started) {
        return work();
    }
    pthread_join(thread, nullptr);
    if (task.problem) {
        std::rethrow_exception(task.problem);
    }
}

} // namespace metalki::compiler
