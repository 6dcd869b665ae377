// Text behind NS::String, kept as UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "object.hpp"

namespace metalki::api {

class StringState final : public ObjectState {
public:
    explicit StringState(std::string text) : text(std::move(text)) {}
    const char* class_name() const override { return "NS::String"; }
    std::string description() const override { return text; }
    std::size_t hash() const override { return std::hash<std::string>{}(text); }
    bool is_equal(const ObjectState& other) const override {
        const auto* string = dynamic_cast<const StringState*>(&other);
        return string && string->text == text;
    }

    std::string text;
};

// A new string that the caller owns.
inline StringState* make_string(std::string_view text) {
    return new StringState(std::string(text));
}
inline NS::String* autoreleased_string(std::string_view text) {
    return autoreleased<NS::String>(make_string(text));
}
inline NS::String* constant_string(std::string_view text) {
    return NS::Private::constantString(text.data(), text.size());
}

// Empty for null.
inline std::string text_of(const NS::String* string) {
    return string ? state_of<StringState>(string).text : std::string();
}

// A label as API objects hold it.
inline Reference<StringState> label_of(const NS::String* string) {
    return string ? Reference<StringState>::share(&state_of<StringState>(string)) : Reference<StringState>();
}

} // namespace metalki::api
