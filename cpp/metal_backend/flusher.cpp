// The thread that commits what nobody waits for yet.
#include <thread>

#include "metal_backend/queue.hpp"

namespace metalki::metal {

namespace {

constexpr std::chrono::microseconds patience{100};

// Looks at busy queues every now and then: waking it for each batch would cost the launching thread more than a launch.
class Flusher {
public:
    Flusher() { std::thread(&Flusher::run, this).detach(); }

    void add(std::shared_ptr<MetalQueue> queue) {
        std::lock_guard lock(mutex_);
        added_.push_back(std::move(queue));
        wake_.notify_one();
    }

private:
    [[noreturn]] void run() {
        std::vector<std::shared_ptr<MetalQueue>> watched;
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                if (watched.empty())
                    wake_.wait(lock, [this] { return !added_.empty(); });
                std::move(added_.begin(), added_.end(), std::back_inserter(watched));
                added_.clear();
            }
            std::this_thread::sleep_for(patience);
            std::erase_if(watched, [](const auto& queue) { return !queue->flush_what_waits(); });
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<std::shared_ptr<MetalQueue>> added_;
};

} // namespace

void watch(std::shared_ptr<MetalQueue> queue) {
    // Never destroyed: its thread runs until the process ends.
    static Flusher* flusher = new Flusher;
    flusher->add(std::move(queue));
}

} // namespace metalki::metal
