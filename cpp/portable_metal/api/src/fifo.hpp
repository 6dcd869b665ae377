// A first-in, first-out list that keeps its memory: a queue in use allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace metalki::api {

template <class T> class Fifo {
public:
    bool empty() const { return first_ == items_.size(); }
    std::size_t size() const { return items_.size() - first_; }
    T& front() { return items_[first_]; }
    const T& front() const { return items_[first_]; }
    auto begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
    auto end() const { return items_.end(); }

    void push_back(T item) {
        // Moves the items down when half of the memory lies in front of them.
        if (first_ > 0 && items_.size() == items_.capacity() && first_ >= items_.size() / 2) {
            items_.erase(items_.begin(), begin());
            first_ = 0;
        }
        items_.push_back(item);
    }
    void pop_front() {
        if (++first_ == items_.size()) {
            items_.clear();
            first_ = 0;
        }
    }
    void remove(const T& item) {
        items_.erase(std::remove(items_.begin() + static_cast<std::ptrdiff_t>(first_), items_.end(), item), items_.end());
    }

private:
    std::vector<T> items_;
    std::size_t first_ = 0;
};

} // namespace metalki::api
