// Messages on their way from the device to whoever waits for it.
#pragma once

#include "metalki/message.hpp"

namespace metalki::detail {

class QueueImpl;

// Called by the back end, on any thread, before the work that wrote the message counts as complete. `queue` only tells
// messages apart: it may be gone.
void add_message(const QueueImpl* queue, KernelMessage message);

// Called by the back end: a command buffer of kernels that print begins; it has ended.
void expect_messages() noexcept;
void messages_came() noexcept;

// Gives the handler the waiting messages of a queue, or all for null. What the handler throws comes through.
void deliver_messages(const QueueImpl* queue);

// Waits, and delivers whether that succeeds or throws; an error of the device counts more than one of the handler.
template <class Wait> bool wait_and_deliver(const QueueImpl* queue, Wait wait) {
    bool done = false;
    try {
        done = wait();
    } catch (...) {
        try {
            deliver_messages(queue);
        } catch (...) {
            static_cast<void>(queue); // the rest waits for the next call
        }
        throw;
    }
    deliver_messages(queue);
    return done;
}

} // namespace metalki::detail
