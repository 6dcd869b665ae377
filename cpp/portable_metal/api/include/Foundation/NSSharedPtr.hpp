// A smart pointer that holds one reference.
#pragma once

#include <cstddef>
#include <type_traits>

#include "NSObject.hpp"

namespace NS {

template <class _Class> class SharedPtr {
    template <class _Other> using IfConvertible = std::enable_if_t<std::is_convertible_v<_Other*, _Class*>>;

public:
    SharedPtr() = default;
    SharedPtr(std::nullptr_t) noexcept {}
    ~SharedPtr() { Private::release(m_pObject); }

    SharedPtr(const SharedPtr& other) noexcept : m_pObject(retained(other.m_pObject)) {}
    SharedPtr(SharedPtr&& other) noexcept : m_pObject(other.m_pObject) { other.m_pObject = nullptr; }
    template <class _Other, class = IfConvertible<_Other>>
    SharedPtr(const SharedPtr<_Other>& other) noexcept : m_pObject(retained(other.get())) {}
    template <class _Other, class = IfConvertible<_Other>>
    SharedPtr(SharedPtr<_Other>&& other) noexcept : m_pObject(other.get()) {
        other.detach();
    }

    SharedPtr& operator=(const SharedPtr& other) { return take(retained(other.m_pObject)); }
    SharedPtr& operator=(SharedPtr&& other) {
        _Class* object = other.m_pObject;
        other.m_pObject = nullptr;
        return take(object);
    }
    template <class _Other, class = IfConvertible<_Other>> SharedPtr& operator=(const SharedPtr<_Other>& other) {
        return take(retained(other.get()));
    }
    template <class _Other, class = IfConvertible<_Other>> SharedPtr& operator=(SharedPtr<_Other>&& other) {
        _Class* object = other.get();
        other.detach();
        return take(object);
    }

    _Class* get() const { return m_pObject; }
    _Class* operator->() const { return m_pObject; }
    explicit operator bool() const { return m_pObject != nullptr; }

    void reset() { take(nullptr); }
    // Lets go of the object without releasing it.
    void detach() { m_pObject = nullptr; }

    template <class _Other> friend SharedPtr<_Other> RetainPtr(_Other* pObject);
    template <class _Other> friend SharedPtr<_Other> TransferPtr(_Other* pObject);

private:
    static _Class* retained(_Class* object) { return static_cast<_Class*>(Private::retain(object)); }
    SharedPtr& take(_Class* object) {
        _Class* old = m_pObject;
        m_pObject = object;
        Private::release(old);
        return *this;
    }

    _Class* m_pObject = nullptr;
};

// Shares an object that somebody else owns.
template <class _Class> SharedPtr<_Class> RetainPtr(_Class* pObject) {
    SharedPtr<_Class> result;
    result.m_pObject = SharedPtr<_Class>::retained(pObject);
    return result;
}

// Takes over a reference that the caller owns.
template <class _Class> SharedPtr<_Class> TransferPtr(_Class* pObject) {
    SharedPtr<_Class> result;
    result.m_pObject = pObject;
    return result;
}

template <class _Left, class _Right> bool operator==(const SharedPtr<_Left>& lhs, const SharedPtr<_Right>& rhs) {
    return lhs.get() == rhs.get();
}

} // namespace NS
