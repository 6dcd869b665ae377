// NS::Array, NS::Dictionary, their enumerators and NS::Error.
#include "collections.hpp"

#include "string.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

using Items = std::vector<Reference<ObjectState>>;

class ArrayState final : public ObjectState {
public:
    const char* class_name() const override { return "NS::Array"; }
    std::size_t hash() const override { return items.size(); }
    bool is_equal(const ObjectState& other) const override {
        const auto* array = dynamic_cast<const ArrayState*>(&other);
        if (!array || array->items.size() != items.size())
            return false;
        for (std::size_t i = 0; i < items.size(); ++i)
            if (!items[i]->is_equal(*array->items[i]))
                return false;
        return true;
    }
    std::string description() const override {
        std::string text = "(";
        for (const auto& item : items)
            text += (text.size() > 1 ? ", " : "") + item->description();
        return text + ")";
    }
    Items items;
};

class EnumeratorState final : public ObjectState {
public:
    explicit EnumeratorState(Items items) : items(std::move(items)) {}
    const char* class_name() const override { return "NS::Enumerator"; }
    Items items;
    std::size_t next = 0;
};

class DictionaryState final : public ObjectState {
public:
    const char* class_name() const override { return "NS::Dictionary"; }
    std::size_t hash() const override { return entries.size(); }
    ObjectState* find(const ObjectState& key) const {
        for (const auto& [own, value] : entries)
            if (own->is_equal(key))
                return value.get();
        return nullptr;
    }
    bool is_equal(const ObjectState& other) const override {
        const auto* dictionary = dynamic_cast<const DictionaryState*>(&other);
        if (!dictionary || dictionary->entries.size() != entries.size())
            return false;
        for (const auto& [key, value] : entries) {
            const ObjectState* theirs = dictionary->find(*key);
            if (!theirs || !value->is_equal(*theirs))
                return false;
        }
        return true;
    }
    std::string description() const override {
        std::string text = "{";
        for (const auto& [key, value] : entries)
            text += (text.size() > 1 ? "; " : "") + key->description() + " = " + value->description();
        return text + "}";
    }
    std::vector<Entry> entries;
};

class ErrorState final : public ObjectState {
public:
    const char* class_name() const override { return "NS::Error"; }
    std::string description() const override {
        return "Error Domain=" + (domain ? domain->text : std::string()) + " Code=" + std::to_string(code);
    }
    Reference<StringState> domain;
    NS::Integer code = 0;
    Reference<DictionaryState> info;
};

Reference<ObjectState> shared(const NS::Object* object) {
    return Reference<ObjectState>::share(&state_of<ObjectState>(object));
}

template <class Public> Public* info_value(const NS::Error* error, const NS::String* key) {
    const auto& info = state_of<ErrorState>(error).info;
    ObjectState* found = info ? info->find(state_of<StringState>(key)) : nullptr;
    return found ? autoreleased<Public>(Reference<ObjectState>::share(found)) : nullptr;
}

} // namespace

NS::Array* make_array(Items items) {
    auto* state = new ArrayState;
    state->items = std::move(items);
    return public_of<NS::Array>(state);
}

NS::Dictionary* make_dictionary(std::vector<Entry> entries) {
    auto* state = new DictionaryState;
    state->entries = std::move(entries);
    return public_of<NS::Dictionary>(state);
}

Entry text_entry(std::string_view key, std::string_view value) {
    return {Reference<ObjectState>::adopt(make_string(key)), Reference<ObjectState>::adopt(make_string(value))};
}

Entry number_entry(std::string_view key, std::int64_t value) {
    return {Reference<ObjectState>::adopt(make_string(key)), adopt(NS::Number::alloc()->init(static_cast<long>(value)))};
}

} // namespace metalki::api

namespace NS {

using namespace metalki::api;

Object* Private::nextObject(void* enumerator) {
    auto& state = state_of<EnumeratorState>(static_cast<Object*>(enumerator));
    return state.next < state.items.size() ? public_of<Object>(state.items[state.next++].get()) : nullptr;
}

Array* Private::allObjects(void* enumerator) {
    auto& state = state_of<EnumeratorState>(static_cast<Object*>(enumerator));
    Items rest(state.items.begin() + static_cast<std::ptrdiff_t>(state.next), state.items.end());
    state.next = state.items.size();
    return make_array(std::move(rest))->autorelease();
}

Array* Array::array() {
    return alloc()->autorelease();
}
Array* Array::array(const Object* pObject) {
    return array(&pObject, 1);
}
Array* Array::array(const Object* const* pObjects, UInteger count) {
    return alloc()->init(pObjects, count)->autorelease();
}
Array* Array::alloc() {
    return make_array({});
}
Array* Array::init() {
    return this;
}
Array* Array::init(const Object* const* pObjects, UInteger count) {
    for (UInteger i = 0; i < count; ++i) {
        if (!require(pObjects && pObjects[i], "NS::Array::init", "an object is null"))
            return this;
        state_of<ArrayState>(this).items.push_back(shared(pObjects[i]));
    }
    return this;
}
Object* Array::objectAtIndex(UInteger index) const {
    const auto& items = state_of<ArrayState>(this).items;
    const bool ok = require(index < items.size(), "NS::Array::object", [&] {
        return "index " + std::to_string(index) + " is beyond count " + std::to_string(items.size());
    });
    return ok ? public_of<Object>(items[index].get()) : nullptr;
}
UInteger Array::count() const {
    return state_of<ArrayState>(this).items.size();
}
Enumerator<Object>* Array::objectEnumerator() const {
    return autoreleased<Enumerator<Object>>(new EnumeratorState(state_of<ArrayState>(this).items));
}

Dictionary* Dictionary::dictionary() {
    return alloc()->autorelease();
}
Dictionary* Dictionary::dictionary(const Object* pObject, const Object* pKey) {
    return dictionary(&pObject, &pKey, 1);
}
Dictionary* Dictionary::dictionary(const Object* const* pObjects, const Object* const* pKeys, UInteger count) {
    return alloc()->init(pObjects, pKeys, count)->autorelease();
}
Dictionary* Dictionary::alloc() {
    return make_dictionary({});
}
Dictionary* Dictionary::init() {
    return this;
}
Dictionary* Dictionary::init(const Object* const* pObjects, const Object* const* pKeys, UInteger count) {
    auto& state = state_of<DictionaryState>(this);
    for (UInteger i = 0; i < count; ++i) {
        if (!require(pObjects && pKeys && pObjects[i] && pKeys[i], "NS::Dictionary::init", "an object or key is null"))
            return this;
        if (!state.find(state_of<ObjectState>(pKeys[i])))
            state.entries.emplace_back(shared(pKeys[i]), shared(pObjects[i]));
    }
    return this;
}
UInteger Dictionary::count() const {
    return state_of<DictionaryState>(this).entries.size();
}
Enumerator<Object>* Dictionary::keys() const {
    Items keys;
    for (const auto& entry : state_of<DictionaryState>(this).entries)
        keys.push_back(entry.first);
    return autoreleased<Enumerator<Object>>(new EnumeratorState(std::move(keys)));
}
Object* Dictionary::objectForKey(const Object* pKey) const {
    return pKey ? public_of<Object>(state_of<DictionaryState>(this).find(state_of<ObjectState>(pKey))) : nullptr;
}

#define METALKI_DEFINE_CONSTANT(type, name) type const name = MTLSTR("NS" #name)
METALKI_DEFINE_CONSTANT(ErrorDomain, CocoaErrorDomain);
METALKI_DEFINE_CONSTANT(ErrorDomain, POSIXErrorDomain);
METALKI_DEFINE_CONSTANT(ErrorDomain, OSStatusErrorDomain);
METALKI_DEFINE_CONSTANT(ErrorDomain, MachErrorDomain);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, UnderlyingErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, LocalizedDescriptionKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, LocalizedFailureReasonErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, LocalizedRecoverySuggestionErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, LocalizedRecoveryOptionsErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, RecoveryAttempterErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, HelpAnchorErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, DebugDescriptionErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, LocalizedFailureErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, StringEncodingErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, URLErrorKey);
METALKI_DEFINE_CONSTANT(ErrorUserInfoKey, FilePathErrorKey);

Error* Error::error(ErrorDomain domain, Integer code, Dictionary* pDictionary) {
    return alloc()->init(domain, code, pDictionary)->autorelease();
}
Error* Error::alloc() {
    return public_of<Error>(new ErrorState);
}
Error* Error::init() {
    return this;
}
Error* Error::init(ErrorDomain domain, Integer code, Dictionary* pDictionary) {
    auto& state = state_of<ErrorState>(this);
    state.domain = label_of(domain);
    state.code = code;
    if (pDictionary)
        state.info = Reference<DictionaryState>::share(&state_of<DictionaryState>(pDictionary));
    return this;
}
Integer Error::code() const {
    return state_of<ErrorState>(this).code;
}
ErrorDomain Error::domain() const {
    return autoreleased<String>(state_of<ErrorState>(this).domain);
}
Dictionary* Error::userInfo() const {
    return autoreleased<Dictionary>(state_of<ErrorState>(this).info);
}
String* Error::localizedDescription() const {
    String* text = info_value<String>(this, LocalizedDescriptionKey);
    return text ? text : autoreleased_string(state_of<ErrorState>(this).description());
}
Array* Error::localizedRecoveryOptions() const {
    return info_value<Array>(this, LocalizedRecoveryOptionsErrorKey);
}
String* Error::localizedRecoverySuggestion() const {
    return info_value<String>(this, LocalizedRecoverySuggestionErrorKey);
}
String* Error::localizedFailureReason() const {
    return info_value<String>(this, LocalizedFailureReasonErrorKey);
}

} // namespace NS
