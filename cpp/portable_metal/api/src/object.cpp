// Reference counting and NS::Object.
#include "object.hpp"

#include <exception>

#include "string.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

std::atomic<std::uint64_t> live_count{0};

} // namespace

ObjectState::ObjectState() {
    live_count.fetch_add(1, std::memory_order_relaxed);
}
ObjectState::~ObjectState() {
    if (!immortal_)
        live_count.fetch_sub(1, std::memory_order_relaxed);
}

std::uint64_t live_objects() {
    return live_count.load(std::memory_order_relaxed);
}

void ObjectState::make_immortal() {
    immortal_ = true;
    live_count.fetch_sub(1, std::memory_order_relaxed);
}

std::string ObjectState::description() const {
    return std::string("<") + class_name() + ">";
}

ObjectState* ObjectState::copy() const {
    retain();
    return const_cast<ObjectState*>(this);
}

void ObjectState::release() const {
    if (immortal_)
        return;
    const std::int64_t before = count_.fetch_sub(1, std::memory_order_acq_rel);
    if (before > 1)
        return;
    auto* self = const_cast<ObjectState*>(this);
    if (before < 1) {
        count_.fetch_add(1, std::memory_order_relaxed);
        violation("NS::Object::release", "the object has been released more often than it was retained");
        return;
    }
    // The object goes even when its end is misuse, so that a reported mistake does not also leak.
    struct Dispose {
        ObjectState* object;
        ~Dispose() { object->dispose(); }
    } dispose{self};
    self->last_reference_gone();
}

void* BlockStore::take(std::size_t size) {
    if (const BriefLock lock(used_); lock && first_) {
        --count_;
        return std::exchange(first_, first_->next);
    }
    return ::operator new(size);
}

void BlockStore::give_back(void* block) noexcept {
    if (const BriefLock lock(used_); lock && count_ < most_) {
        ++count_;
        first_ = new (block) Block{first_};
        return;
    }
    ::operator delete(block);
}

} // namespace metalki::api

namespace NS::Private {

using metalki::api::ObjectState;

namespace {
const ObjectState* state(const void* object) {
    return static_cast<const ObjectState*>(object);
}
} // namespace

void* retain(const void* object) {
    if (object)
        state(object)->retain();
    return const_cast<void*>(object);
}

void release(const void* object) {
    if (object)
        state(object)->release();
}

void* autorelease(const void* object) {
    return object ? metalki::api::autorelease(state(object)) : nullptr;
}

UInteger retainCount(const void* object) {
    return object ? static_cast<UInteger>(state(object)->count()) : 0;
}

void* copy(const void* object) {
    return object ? state(object)->copy() : nullptr;
}

} // namespace NS::Private

namespace NS {

using namespace metalki::api;

UInteger Object::hash() const {
    return state_of<ObjectState>(this).hash();
}

bool Object::isEqual(const Object* pObject) const {
    return pObject && state_of<ObjectState>(this).is_equal(state_of<ObjectState>(pObject));
}

String* Object::description() const {
    return autoreleased<String>(make_string(state_of<ObjectState>(this).description()));
}

String* Object::debugDescription() const {
    return description();
}

} // namespace NS
