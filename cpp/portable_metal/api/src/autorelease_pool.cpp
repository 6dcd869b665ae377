// NS::AutoreleasePool: a stack of pools per thread, and the report of objects that no pool takes.
#include <cstdio>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "object.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

class PoolState final : public ObjectState {
public:
    const char* class_name() const override { return "NS::AutoreleasePool"; }
    void last_reference_gone() override;
    void drain();

    std::vector<const ObjectState*> objects;
    bool in_stack = false;
};

// Pools of one thread, innermost last; every object waits in the pool that was innermost when it came.
std::vector<PoolState*>& pool_stack() {
    thread_local std::vector<PoolState*> stack;
    return stack;
}

std::atomic<std::uint64_t> unpooled_count{0};

void report_unpooled(const ObjectState& object) {
    unpooled_count.fetch_add(1, std::memory_order_relaxed);
    static std::mutex mutex;
    static auto* seen = new std::set<std::string>;
    std::lock_guard lock(mutex);
    if (seen->insert(object.class_name()).second)
        std::fprintf(stderr,
                     "metalki: an object of class %s was autoreleased on a thread without an autorelease pool and leaks "
                     "(further objects of this class are only counted)\n",
                     object.class_name());
}

void PoolState::drain() {
    std::exception_ptr first;
    // Releasing may autorelease more objects into this pool.
    while (!objects.empty()) {
        const ObjectState* object = objects.back();
        objects.pop_back();
        try {
            object->release();
        } catch (...) {
            if (!first)
                first = std::current_exception();
        }
    }
    if (first)
        std::rethrow_exception(first);
}

void PoolState::last_reference_gone() {
    std::exception_ptr first;
    const auto attempt = [&](PoolState& pool) {
        try {
            pool.drain();
        } catch (...) {
            if (!first)
                first = std::current_exception();
        }
    };
    auto& stack = pool_stack();
    bool found = false;
    for (const PoolState* pool : stack)
        found = found || pool == this;
    if (in_stack && !found)
        violation("NS::AutoreleasePool::release", "the pool belongs to another thread");
    // Pools opened after this one and forgotten end with it.
    while (found && stack.back() != this) {
        PoolState* inner = stack.back();
        attempt(*inner);
        inner->in_stack = false;
        stack.pop_back();
    }
    attempt(*this);
    if (found)
        stack.pop_back();
    if (first)
        std::rethrow_exception(first);
}

} // namespace

void* autorelease(const ObjectState* state) {
    auto& stack = pool_stack();
    if (stack.empty())
        report_unpooled(*state);
    else
        stack.back()->objects.push_back(state);
    return const_cast<ObjectState*>(state);
}

std::uint64_t unpooled_autoreleases() {
    return unpooled_count.load(std::memory_order_relaxed);
}

ScopedPool::ScopedPool() : pool_(NS::AutoreleasePool::alloc()->init()) {}
ScopedPool::~ScopedPool() {
    try {
        pool_->release();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "metalki: %s\n", error.what());
    }
}

} // namespace metalki::api

namespace NS {

using namespace metalki::api;

AutoreleasePool* AutoreleasePool::alloc() {
    return public_of<AutoreleasePool>(new PoolState);
}

AutoreleasePool* AutoreleasePool::init() {
    auto& pool = state_of<PoolState>(this);
    if (!pool.in_stack)
        pool_stack().push_back(&pool);
    pool.in_stack = true;
    return this;
}

// As in Objective-C with reference counting: the pool ends.
void AutoreleasePool::drain() {
    release();
}

void AutoreleasePool::addObject(Object* pObject) {
    if (pObject)
        state_of<PoolState>(this).objects.push_back(&state_of<ObjectState>(pObject));
}

void AutoreleasePool::showPools() {
    const auto& stack = pool_stack();
    std::fprintf(stderr, "metalki: %zu autorelease pools on this thread\n", stack.size());
    for (const PoolState* pool : stack) {
        std::fprintf(stderr, "  pool %p: %zu objects\n", static_cast<const void*>(pool), pool->objects.size());
        for (const ObjectState* object : pool->objects)
            std::fprintf(stderr, "    %s %p\n", object->class_name(), static_cast<const void*>(object));
    }
}

} // namespace NS
