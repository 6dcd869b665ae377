// State behind the opaque objects of Foundation and Metal: a reference count and a virtual table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "Foundation/Foundation.hpp"

namespace metalki::api {

class ObjectState {
public:
    ObjectState();
    virtual ~ObjectState();
    ObjectState(const ObjectState&) = delete;
    ObjectState& operator=(const ObjectState&) = delete;

    virtual const char* class_name() const = 0;
    virtual std::string description() const;
    virtual std::size_t hash() const { return reinterpret_cast<std::size_t>(this) >> 4; }
    virtual bool is_equal(const ObjectState& other) const { return this == &other; }
    // A reference of its own for the caller; immutable objects share themselves.
    virtual ObjectState* copy() const;
    // Called when the last reference is gone, before the object is destroyed. May report misuse.
    virtual void last_reference_gone() {}
    // The object ends here; classes that recycle their memory override it.
    virtual void dispose() { delete this; }

    void retain() const {
        if (!immortal_)
            count_.fetch_add(1, std::memory_order_relaxed);
    }
    void release() const;
    std::int64_t count() const { return count_.load(std::memory_order_relaxed); }
    void make_immortal();

private:
    mutable std::atomic<std::int64_t> count_{1};
    bool immortal_ = false;
};

// The state of a public object. Public classes are never instantiated: their addresses are those of their states.
template <class State, class Public> State& state_of(Public* object) {
    return *static_cast<State*>(reinterpret_cast<ObjectState*>(const_cast<std::remove_const_t<Public>*>(object)));
}
template <class Public> Public* public_of(const ObjectState* state) {
    return reinterpret_cast<Public*>(const_cast<ObjectState*>(state));
}

// One reference to a state; null allowed.
template <class State> class Reference {
public:
    Reference() = default;
    static Reference adopt(State* state) {
        Reference result;
        result.state_ = state;
        return result;
    }
    static Reference share(State* state) {
        if (state)
            state->retain();
        return adopt(state);
    }
    Reference(const Reference& other) : state_(other.state_) {
        if (state_)
            state_->retain();
    }
    Reference(Reference&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Reference& operator=(Reference other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~Reference() {
        if (state_)
            state_->release();
    }
    State* get() const { return state_; }
    State* operator->() const { return state_; }
    State& operator*() const { return *state_; }
    explicit operator bool() const { return state_ != nullptr; }
    State* hand_out() { return std::exchange(state_, nullptr); }

private:
    State* state_ = nullptr;
};

// Gives the caller's reference to the innermost pool of this thread.
void* autorelease(const ObjectState* state);

template <class Public> Public* autoreleased(ObjectState* state) {
    autorelease(state);
    return public_of<Public>(state);
}
// For getters: a reference that lives as long as the pool, whatever becomes of the owner.
template <class Public, class State> Public* autoreleased(const Reference<State>& reference) {
    if (!reference)
        return nullptr;
    reference->retain();
    return autoreleased<Public>(reference.get());
}

// Releases autoreleased objects of library code that runs on threads without a pool.
class ScopedPool {
public:
    ScopedPool();
    ~ScopedPool();
    ScopedPool(const ScopedPool&) = delete;
    ScopedPool& operator=(const ScopedPool&) = delete;

private:
    const std::size_t depth_; // of the thread's pools outside
};

// Held for a few instructions at a time, at half the cost of a mutex. Whoever does not get it soon goes without: its holder may
// be a thread that a forked child does not have.
class BriefLock {
public:
    explicit BriefLock(std::atomic_flag& flag) noexcept : flag_(flag) {
        for (unsigned tries = 0; !held_ && tries < 1000; ++tries) {
            if (tries > 0)
                std::this_thread::yield();
            held_ = !flag_.test_and_set(std::memory_order_acquire);
        }
    }
    ~BriefLock() {
        if (held_)
            flag_.clear(std::memory_order_release);
    }
    BriefLock(const BriefLock&) = delete;
    BriefLock& operator=(const BriefLock&) = delete;
    explicit operator bool() const noexcept { return held_; }

private:
    std::atomic_flag& flag_;
    bool held_ = false;
};

// Blocks of one size that wait for their next use. Never destroyed: objects may go while the process ends.
class BlockStore {
public:
    explicit BlockStore(std::size_t most) : most_(most) {}
    void* take(std::size_t size);
    void give_back(void* block) noexcept;

private:
    struct Block {
        Block* next;
    };
    std::atomic_flag used_;
    Block* first_ = nullptr;
    std::size_t count_ = 0;
    const std::size_t most_; // more are freed
};

// For classes whose objects come and go with every command buffer: launching allocates nothing in the long run.
template <class T, std::size_t Most = 64> class RecycledMemory {
public:
    static void* operator new(std::size_t size) { return size == sizeof(T) ? store().take(size) : ::operator new(size); }
    static void operator delete(void* block, std::size_t size) noexcept {
        if (size == sizeof(T))
            store().give_back(block);
        else
            ::operator delete(block);
    }

private:
    static BlockStore& store() {
        static BlockStore* const instance = new BlockStore(Most);
        return *instance;
    }
};

std::uint64_t live_objects();
std::uint64_t unpooled_autoreleases();

} // namespace metalki::api
