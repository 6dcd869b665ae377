// NS::Number and NS::Value.
#include <sstream>
#include <type_traits>
#include <variant>

#include "object.hpp"
#include "string.hpp"

namespace metalki::api {
namespace {

// Value is the base of Number: both share this state.
class NumberState final : public ObjectState {
public:
    using Content = std::variant<std::int64_t, std::uint64_t, double, bool, const void*>;
    const char* class_name() const override { return "NS::Number"; }
    template <class T> T as() const {
        return std::visit(
            [](auto value) -> T {
                if constexpr (std::is_pointer_v<decltype(value)>)
                    return static_cast<T>(reinterpret_cast<std::uintptr_t>(value));
                else
                    return static_cast<T>(value);
            },
            content);
    }
    std::size_t hash() const override { return std::hash<double>{}(as<double>()); }
    bool is_equal(const ObjectState& other) const override {
        const auto* number = dynamic_cast<const NumberState*>(&other);
        return number && compare(*number) == 0;
    }
    int compare(const NumberState& other) const {
        const auto order = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
        const bool real = std::holds_alternative<double>(content) || std::holds_alternative<double>(other.content);
        if (real)
            return order(as<double>(), other.as<double>());
        const bool negative = is_negative(), other_negative = other.is_negative();
        if (negative != other_negative)
            return negative ? -1 : 1;
        return negative ? order(as<std::int64_t>(), other.as<std::int64_t>())
                        : order(as<std::uint64_t>(), other.as<std::uint64_t>());
    }
    bool is_negative() const {
        const auto* value = std::get_if<std::int64_t>(&content);
        return value && *value < 0;
    }
    std::string description() const override {
        std::ostringstream text;
        text.precision(17);
        std::visit([&](auto value) { text << value; }, content);
        return text.str();
    }
    Content content = std::int64_t{0};
};

const NumberState& number(const NS::Value* value) {
    return state_of<NumberState>(value);
}

template <class T> NumberState::Content boxed(T value) {
    if constexpr (std::is_same_v<T, bool>)
        return value;
    else if constexpr (std::is_floating_point_v<T>)
        return static_cast<double>(value);
    else if constexpr (std::is_signed_v<T>)
        return static_cast<std::int64_t>(value);
    else
        return static_cast<std::uint64_t>(value);
}

} // namespace
} // namespace metalki::api

namespace NS {

using namespace metalki::api;

Value* Value::value(const void* pPointer) {
    auto* state = new NumberState;
    state->content = pPointer;
    return autoreleased<Value>(state);
}
void* Value::pointerValue() const {
    const auto* pointer = std::get_if<const void*>(&number(this).content);
    return pointer ? const_cast<void*>(*pointer) : nullptr;
}

Number* Number::alloc() {
    return public_of<Number>(new NumberState);
}

#define METALKI_NUMBER(type, getter)                                                                                           \
    Number* Number::number(type value) {                                                                                       \
        return alloc()->init(value)->autorelease();                                                                            \
    }                                                                                                                          \
    Number* Number::init(type value) {                                                                                         \
        state_of<NumberState>(this).content = boxed(value);                                                                    \
        return this;                                                                                                           \
    }                                                                                                                          \
    type Number::getter() const {                                                                                              \
        return metalki::api::number(this).as<type>();                                                                          \
    }
METALKI_NUMBER(char, charValue)
METALKI_NUMBER(unsigned char, unsignedCharValue)
METALKI_NUMBER(short, shortValue)
METALKI_NUMBER(unsigned short, unsignedShortValue)
METALKI_NUMBER(int, intValue)
METALKI_NUMBER(unsigned int, unsignedIntValue)
METALKI_NUMBER(long, longValue)
METALKI_NUMBER(unsigned long, unsignedLongValue)
METALKI_NUMBER(long long, longLongValue)
METALKI_NUMBER(unsigned long long, unsignedLongLongValue)
METALKI_NUMBER(float, floatValue)
METALKI_NUMBER(double, doubleValue)
METALKI_NUMBER(bool, boolValue)
#undef METALKI_NUMBER

Integer Number::integerValue() const {
    return metalki::api::number(this).as<Integer>();
}
UInteger Number::unsignedIntegerValue() const {
    return metalki::api::number(this).as<UInteger>();
}
String* Number::stringValue() const {
    return description();
}
ComparisonResult Number::compare(const Number* pOtherNumber) const {
    return static_cast<ComparisonResult>(metalki::api::number(this).compare(metalki::api::number(pOtherNumber)));
}
bool Number::isEqualToNumber(const Number* pNumber) const {
    return pNumber && isEqual(pNumber);
}
String* Number::descriptionWithLocale(const Object* pLocale) const {
    return description();
}

} // namespace NS
