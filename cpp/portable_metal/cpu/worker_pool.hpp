// Helper threads that join dispatches, and the workers that calling threads borrow.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/types.h>

#include "cpu/job.hpp"
#include "cpu/worker.hpp"

namespace metalki::cpu {

class WorkerPool {
public:
    // Starts nothing yet: the helpers start with the first offer.
    explicit WorkerPool(unsigned helpers) : helpers_(helpers) {}
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    unsigned helpers() const { return helpers_; }

    // Lets up to `helpers` threads join the job, which must stay alive until withdraw() has returned.
    void offer(Job& job, unsigned helpers);
    // Lets nobody join any more and waits for those who have.
    void withdraw(Job& job);

    std::unique_ptr<Worker> borrow();
    void give_back(std::unique_ptr<Worker> worker);

private:
    struct Helper {
        std::thread thread;
        cpu_set_t cores{};     // where it may run since it was last moved
        int avoided_core = -1; // taken from what the host program lets it use
    };

    void start_threads();
    void keep_off(int core);
    void help();
    Job* wait_for_job(std::unique_lock<std::mutex>& lock);
    Job* find_job();

    const unsigned helpers_;
    std::mutex mutex_;
    std::condition_variable work_to_do_;
    std::condition_variable helper_left_;
    std::vector<Job*> jobs_;
    std::vector<Helper> threads_;
    int avoided_core_ = -1;
    std::vector<std::unique_ptr<Worker>> spare_;
    std::atomic<Worker*> last_given_back_{nullptr}; // owned; apart from the others, as it takes no lock
    std::atomic<std::uint64_t> offers_{0};          // counts offers, for helpers that still spin
    unsigned asleep_ = 0;
    bool closing_ = false;
    pid_t owner_ = 0; // process that started the threads: they do not exist in its children
};

} // namespace metalki::cpu
