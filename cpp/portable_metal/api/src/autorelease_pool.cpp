// NS::AutoreleasePool: a stack of pools per thread, and the report of objects that no pool takes.
#include <algorithm>
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

class PoolState final : public ObjectState, public RecycledMemory<PoolState> {
public:
    const char* class_name() const override { return "NS::AutoreleasePool"; }
    void last_reference_gone() override;
    void dispose() override {
        if (!abandoned)
            delete this;
    }
    void drain();

    std::vector<const ObjectState*> added; // by addObject()
    std::size_t base = 0;                  // of its objects in the thread's list
    bool in_stack = false;
    bool abandoned = false; // released on another thread: the stack of its own one still names it
};

// Pools of one thread, innermost last; every object waits in the pool that was innermost when it came. The objects of all
// pools lie in one list, which keeps its memory: opening a pool allocates nothing.
struct ThreadPools {
    struct Scope {
        PoolState* pool; // null: a ScopedPool
        std::size_t base;
    };
    std::vector<Scope> stack;
    std::vector<const ObjectState*> objects;
};
ThreadPools& this_thread() {
    thread_local ThreadPools pools;
    return pools;
}
void end_inner_pools(std::size_t depth);

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

// Releasing may autorelease more objects into the innermost pool.
void release_all(std::vector<const ObjectState*>& from, std::size_t down_to, std::exception_ptr& first) {
    while (from.size() > down_to) {
        const ObjectState* object = from.back();
        from.pop_back();
        try {
            object->release();
        } catch (...) {
            if (!first)
                first = std::current_exception();
        }
    }
}

void PoolState::drain() {
    std::exception_ptr first;
    if (in_stack)
        release_all(this_thread().objects, base, first);
    release_all(added, 0, first);
    if (first)
        std::rethrow_exception(first);
}

void PoolState::last_reference_gone() {
    std::exception_ptr first;
    const auto attempt = [&](auto&& action) {
        try {
            action();
        } catch (...) {
            if (!first)
                first = std::current_exception();
        }
    };
    auto& stack = this_thread().stack;
    const auto place = std::find_if(stack.rbegin(), stack.rend(), [this](const auto& scope) { return scope.pool == this; });
    const bool found = place != stack.rend();
    if (in_stack && !found) {
        abandoned = true;
        return violation("NS::AutoreleasePool::release", "the pool belongs to another thread");
    }
    if (found)
        attempt([&] { end_inner_pools(static_cast<std::size_t>(stack.rend() - place)); });
    attempt([this] { drain(); });
    if (found)
        stack.pop_back();
    if (first)
        std::rethrow_exception(first);
}

// Pools opened after the `depth` outermost ones and forgotten end with the one that ends.
void end_inner_pools(std::size_t depth) {
    std::exception_ptr first;
    ThreadPools& pools = this_thread();
    while (pools.stack.size() > depth) {
        const auto [inner, base] = pools.stack.back();
        release_all(pools.objects, base, first);
        if (inner) {
            release_all(inner->added, 0, first);
            inner->in_stack = false;
        }
        pools.stack.pop_back();
    }
    if (first)
        std::rethrow_exception(first);
}

} // namespace

void* autorelease(const ObjectState* state) {
    ThreadPools& pools = this_thread();
    if (pools.stack.empty())
        report_unpooled(*state);
    else
        pools.objects.push_back(state);
    return const_cast<ObjectState*>(state);
}

std::uint64_t unpooled_autoreleases() {
    return unpooled_count.load(std::memory_order_relaxed);
}

ScopedPool::ScopedPool() : depth_(this_thread().stack.size()) {
    ThreadPools& pools = this_thread();
    pools.stack.push_back({nullptr, pools.objects.size()});
}
ScopedPool::~ScopedPool() {
    try {
        end_inner_pools(depth_);
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
    ThreadPools& pools = this_thread();
    if (!pool.in_stack) {
        pool.base = pools.objects.size();
        pools.stack.push_back({&pool, pool.base});
    }
    pool.in_stack = true;
    return this;
}

// As in Objective-C with reference counting: the pool ends.
void AutoreleasePool::drain() {
    release();
}

void AutoreleasePool::addObject(Object* pObject) {
    if (pObject)
        state_of<PoolState>(this).added.push_back(&state_of<ObjectState>(pObject));
}

void AutoreleasePool::showPools() {
    const ThreadPools& pools = this_thread();
    const auto show = [](const ObjectState* object) {
        std::fprintf(stderr, "    %s %p\n", object->class_name(), static_cast<const void*>(object));
    };
    std::fprintf(stderr, "metalki: %zu autorelease pools on this thread\n", pools.stack.size());
    for (std::size_t i = 0; i < pools.stack.size(); ++i) {
        const auto [pool, base] = pools.stack[i];
        const std::size_t end = i + 1 < pools.stack.size() ? pools.stack[i + 1].base : pools.objects.size();
        std::fprintf(stderr, "  pool %p: %zu objects\n", static_cast<const void*>(pool),
                     end - base + (pool ? pool->added.size() : 0));
        std::for_each(pools.objects.begin() + static_cast<std::ptrdiff_t>(base),
                      pools.objects.begin() + static_cast<std::ptrdiff_t>(end), show);
        if (pool)
            std::for_each(pool->added.begin(), pool->added.end(), show);
    }
}

} // namespace NS
