// NS::String.
#include "string.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "validation.hpp"

namespace metalki::api {
namespace {

// Bytes of the sequence at `text`, 0 when it is not well-formed UTF-8.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xc2 && lead < 0xe0 ? 2
                               : lead >= 0xe0 && lead < 0xf0 ? 3
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                                                             : 0;
    if (length == 0 || length > text.size())
        return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
    const bool bad_second = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                            (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f);
    return length > 1 && bad_second ? 0 : length;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        if (length == 0)
            return false;
        text.remove_prefix(length);
    }
    return true;
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; });
}

std::optional<std::string> decode(std::string_view bytes, NS::StringEncoding encoding) {
    if (encoding == NS::UTF8StringEncoding)
        return is_utf8(bytes) ? std::optional(std::string(bytes)) : std::nullopt;
    if (encoding == NS::ASCIIStringEncoding)
        return is_ascii(bytes) ? std::optional(std::string(bytes)) : std::nullopt;
    if (encoding != NS::ISOLatin1StringEncoding)
        return std::nullopt;
    std::string text;
    for (const unsigned char c : bytes) {
        if (c >= 0x80)
            text += static_cast<char>(0xc0 | c >> 6);
        text += static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3f));
    }
    return text;
}

// Well-formed by construction.
std::u16string utf16(std::string_view text) {
    std::u16string units;
    while (!text.empty()) {
        const std::size_t length = std::max<std::size_t>(sequence_length(text), 1);
        std::uint32_t code = static_cast<unsigned char>(text[0]);
        if (length > 1)
            code &= 0xffu >> (length + 1);
        for (std::size_t i = 1; i < length; ++i)
            code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
        if (code >= 0x10000) {
            units += static_cast<char16_t>(0xd800 + ((code - 0x10000) >> 10));
            units += static_cast<char16_t>(0xdc00 + ((code - 0x10000) & 0x3ff));
        } else {
            units += static_cast<char16_t>(code);
        }
        text.remove_prefix(length);
    }
    return units;
}

char16_t lower(char16_t c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char16_t>(c + 32) : c;
}

std::u16string lower(std::u16string text) {
    for (char16_t& c : text)
        c = lower(c);
    return text;
}

const std::string& text(const NS::String* string) {
    return state_of<StringState>(string).text;
}

NS::String* initialized(NS::String* self, std::optional<std::string> text) {
    if (!text) {
        self->release();
        return nullptr;
    }
    state_of<StringState>(self).text = std::move(*text);
    return self;
}

} // namespace
} // namespace metalki::api

namespace NS {

using namespace metalki::api;

String* Private::constantString(const char* utf8, std::size_t length) {
    static std::mutex mutex;
    static auto* constants = new std::unordered_map<std::string, StringState*>;
    std::lock_guard lock(mutex);
    StringState*& state = (*constants)[std::string(utf8, length)];
    if (!state) {
        state = make_string({utf8, length});
        state->make_immortal();
    }
    return public_of<String>(state);
}

String* String::string() {
    return autoreleased_string("");
}

String* String::string(const String* pString) {
    return autoreleased_string(text_of(pString));
}

String* String::string(const char* pString, StringEncoding encoding) {
    String* result = alloc()->init(pString, encoding);
    return result ? result->autorelease() : nullptr;
}

String* String::alloc() {
    return public_of<String>(make_string(""));
}

String* String::init() {
    return this;
}

String* String::init(const String* pString) {
    return initialized(this, text_of(pString));
}

String* String::init(const char* pString, StringEncoding encoding) {
    return initialized(this, pString ? decode(pString, encoding) : std::nullopt);
}

String* String::init(void* pBytes, UInteger len, StringEncoding encoding, bool freeBuffer) {
    auto decoded = pBytes ? decode({static_cast<const char*>(pBytes), len}, encoding) : std::nullopt;
    if (freeBuffer)
        std::free(pBytes);
    return initialized(this, std::move(decoded));
}

unichar String::character(UInteger index) const {
    const std::u16string units = utf16(metalki::api::text(this));
    if (index >= units.size()) {
        violation("NS::String::character",
                  "index " + std::to_string(index) + " is beyond length " + std::to_string(units.size()));
        return 0;
    }
    return units[index];
}

UInteger String::length() const {
    return utf16(metalki::api::text(this)).size();
}

const char* String::cString(StringEncoding encoding) const {
    const std::string& own = metalki::api::text(this);
    const bool same_bytes = encoding == UTF8StringEncoding || is_ascii(own);
    return same_bytes ? own.c_str() : nullptr;
}

const char* String::utf8String() const {
    return metalki::api::text(this).c_str();
}

UInteger String::maximumLengthOfBytes(StringEncoding encoding) const {
    return length() * (encoding == UTF8StringEncoding ? 3 : 1);
}

UInteger String::lengthOfBytes(StringEncoding encoding) const {
    return cString(encoding) ? metalki::api::text(this).size() : 0;
}

bool String::isEqualToString(const String* pString) const {
    return pString && metalki::api::text(this) == metalki::api::text(pString);
}

Range String::rangeOfString(const String* pString, StringCompareOptions options) const {
    std::u16string where = utf16(metalki::api::text(this));
    std::u16string what = utf16(text_of(pString));
    if (options & CaseInsensitiveSearch) {
        where = lower(std::move(where));
        what = lower(std::move(what));
    }
    if (what.empty())
        return Range(NotFound, 0);
    std::size_t at = options & BackwardsSearch ? where.rfind(what) : where.find(what);
    if ((options & AnchoredSearch) && at != (options & BackwardsSearch ? where.size() - what.size() : 0))
        at = std::u16string::npos;
    return at == std::u16string::npos ? Range(NotFound, 0) : Range(at, what.size());
}

const char* String::fileSystemRepresentation() const {
    return utf8String();
}

String* String::stringByAppendingString(const String* pString) const {
    return autoreleased_string(metalki::api::text(this) + text_of(pString));
}

ComparisonResult String::caseInsensitiveCompare(const String* pString) const {
    const int order = lower(utf16(metalki::api::text(this))).compare(lower(utf16(text_of(pString))));
    return order < 0 ? OrderedAscending : order > 0 ? OrderedDescending : OrderedSame;
}

} // namespace NS
