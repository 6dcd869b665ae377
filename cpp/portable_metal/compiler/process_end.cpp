// See the header.
#include "process_end.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace metalki::compiler {
namespace {

constexpr std::chrono::seconds patience{60}; // far more than any kernel takes

struct Users {
    std::mutex mutex;
    std::condition_variable left;
    unsigned count = 0;
    bool ending = false;
};

thread_local unsigned depth = 0; // of this thread's uses
Users* users_of_process = nullptr;

void wait_for_users() {
    Users& users = *users_of_process;
    std::unique_lock lock(users.mutex);
    users.ending = true;
    users.left.wait_for(lock, patience, [&] { return users.count <= depth; });
}

// A forked child has only the thread that forked, and perhaps a locked mutex.
void start_anew() {
    users_of_process = new Users;
    users_of_process->count = depth;
}

Users& users() {
    [[maybe_unused]] static const bool once = [] {
        users_of_process = new Users; // never destroyed: threads outlive static objects
        pthread_atfork(nullptr, nullptr, start_anew);
        std::atexit(wait_for_users);
        return true;
    }();
    return *users_of_process;
}

} // namespace

Compiling::Compiling() {
    Users& all = users();
    const std::lock_guard lock(all.mutex);
    if (all.ending && depth == 0) {
        throw std::runtime_error("nothing is compiled any more: the process ends");
    }
    ++all.count;
    ++depth;
}

Compiling::~Compiling() {
    Users& all = users();
    const std::lock_guard lock(all.mutex);
    --all.count;
    --depth;
    if (all.ending) {
        all.left.notify_all();
    }
}

} // namespace metalki::compiler
