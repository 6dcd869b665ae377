// The thread that commits what nobody waits for yet.
#include <thread>

#include "metal_backend/queue.hpp"

namespace metalki::metal {

namespace {

constexpr std::chrono::microseconds patience{100};

class Flusher {
public:
    Flusher() { std::thread(&Flusher::run, this).detach(); }

    void add(std::shared_ptr<MetalQueue> queue) {
        std::lock_guard lock(mutex_);
        queues_.push_back(std::move(queue));
        if (queues_.size() == 1)
            wake_.notify_one();
    }

private:
    [[noreturn]] void run() {
        std::vector<std::shared_ptr<MetalQueue>> ready;
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, [this] { return !queues_.empty(); });
            }
            std::this_thread::sleep_for(patience);
            {
                std::lock_guard lock(mutex_);
                ready.swap(queues_);
            }
            for (const auto& queue : ready) {
                try {
                    queue->flush();
                } catch (const std::exception&) {
                    // The commands stay; whoever waits for them is told.
                }
            }
            ready.clear();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<std::shared_ptr<MetalQueue>> queues_;
};

} // namespace

void flush_soon(std::shared_ptr<MetalQueue> queue) {
    // Never destroyed: its thread runs until the process ends.
    static Flusher* flusher = new Flusher;
    flusher->add(std::move(queue));
}

} // namespace metalki::metal
