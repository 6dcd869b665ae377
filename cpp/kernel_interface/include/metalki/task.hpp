// Work in other threads, in the order of the device.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "metalki/event.hpp"
#include "metalki/queue.hpp"

namespace metalki {

namespace detail {
/// An event on the calling thread's queue of each device.
METALKI_API std::vector<Event> record_all();
/// Orders the calling thread's queues after the events of record_all().
METALKI_API void wait_for_all(const std::vector<Event>& events);
} // namespace detail

/// A function running in a thread of its own, made by spawn(). The destructor waits for the function to return.
template <class Result> class Task {
public:
    Task(Task&&) noexcept = default;
    Task& operator=(Task&&) noexcept = default;

    /// Orders the caller's queues after everything the task launched: the device waits for it, not the host. The host waits
    /// for the function to return; what it threw is thrown here.
    void wait() {
        if (thread_.joinable())
            thread_.join();
        detail::wait_for_all(state_->events);
        if (state_->error)
            std::rethrow_exception(state_->error);
    }

    /// wait(), then what the function returned.
    std::add_lvalue_reference_t<const Result> result()
        requires(!std::is_void_v<Result>)
    {
        wait();
        return *state_->value;
    }

private:
    struct State {
        std::vector<Event> events;
        std::exception_ptr error;
        std::optional<std::conditional_t<std::is_void_v<Result>, bool, Result>> value;
    };

    template <class Function> explicit Task(Function function) {
        thread_ = std::jthread([state = state_.get(), before = detail::record_all(), function = std::move(function)]() mutable {
            try {
                detail::wait_for_all(before);
                if constexpr (std::is_void_v<Result>)
                    std::invoke(function);
                else
                    state->value.emplace(std::invoke(function));
            } catch (...) {
                state->error = std::current_exception();
            }
            try {
                state->events = detail::record_all(); // whatever happened, what was launched counts
            } catch (...) {
                state->error = state->error ? state->error : std::current_exception();
            }
        });
    }
    template <std::invocable Function> friend auto spawn(Function function) -> Task<std::invoke_result_t<Function&>>;

    std::unique_ptr<State> state_ = std::make_unique<State>();
    std::jthread thread_; // joins before the state goes
};

/// Runs `function()` in a thread of its own, whose queues start after what the caller has launched on its own queues.
template <std::invocable Function> auto spawn(Function function) -> Task<std::invoke_result_t<Function&>> {
    return Task<std::invoke_result_t<Function&>>(std::move(function));
}

} // namespace metalki
