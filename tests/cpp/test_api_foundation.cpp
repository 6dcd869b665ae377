// Ownership, pools, strings, numbers and collections.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "api_fixture.hpp"

#include <thread>

using api_test::string;

TEST_CASE("objects live as long as somebody holds a reference") {
    const auto before = MTL::liveObjectCount();
    auto* text = NS::String::alloc()->init("abc", NS::UTF8StringEncoding);
    CHECK(text->retainCount() == 1);
    CHECK(text->retain() == text);
    CHECK(text->retainCount() == 2);
    text->release();
    {
        auto shared = NS::TransferPtr(text);
        auto copy = shared;
        CHECK(text->retainCount() == 2);
        copy = nullptr;
        NS::SharedPtr<NS::Object> base = std::move(shared);
        CHECK(!shared);
        CHECK(base->retainCount() == 1);
    }
    CHECK(MTL::liveObjectCount() == before);
}

TEST_CASE("pools nest and release what was autoreleased in them") {
    const auto before = MTL::liveObjectCount();
    auto* outer = NS::AutoreleasePool::alloc()->init();
    auto* kept = string("outer");
    auto* inner = NS::AutoreleasePool::alloc()->init();
    string("inner");
    CHECK(MTL::liveObjectCount() == before + 4);
    inner->release();
    CHECK(MTL::liveObjectCount() == before + 2);
    CHECK(kept->isEqualToString(MTLSTR("outer")));
    auto* forgotten = NS::AutoreleasePool::alloc()->init(); // ends with the outer one
    string("in the forgotten pool");
    outer->drain();
    CHECK(MTL::liveObjectCount() == before + 1);
    forgotten->release();
    CHECK(MTL::liveObjectCount() == before);
}

TEST_CASE("an object autoreleased without a pool is counted") {
    const auto before = MTL::unpooledAutoreleaseCount();
    NS::String* leaked = nullptr;
    std::thread([&] { leaked = string("leaks"); }).join();
    CHECK(MTL::unpooledAutoreleaseCount() == before + 1);
    leaked->release();
}

TEST_CASE("strings") {
    api_test::Fixture fixture;
    auto* text = string("Gr\xc3\xb6\xc3\x9f"
                        "e \xf0\x9f\x98\x80");
    CHECK(text->length() == 8);
    CHECK(text->character(2) == 0xf6);
    CHECK(text->cString(NS::ASCIIStringEncoding) == nullptr);
    CHECK(string("\xff") == nullptr);
    CHECK(string("Hello")->caseInsensitiveCompare(string("hELLO")) == NS::OrderedSame);
    CHECK(string("a-b-a")->rangeOfString(string("a"), NS::BackwardsSearch).location == 4);
    CHECK(std::string(string("a")->stringByAppendingString(string("b"))->utf8String()) == "ab");
    CHECK(MTLSTR("same") == MTLSTR("same"));
    CHECK(string("x")->isEqual(string("x")));
    CHECK_THROWS_AS(text->character(8), MTL::ValidationError);
}

TEST_CASE("arrays, dictionaries, numbers and errors") {
    api_test::Fixture fixture;
    const NS::Object* items[] = {string("a"), NS::Number::number(7)};
    auto* array = NS::Array::array(items, 2);
    CHECK(array->count() == 2);
    CHECK(array->object<NS::Number>(1)->intValue() == 7);
    CHECK_THROWS_AS(array->object(2), MTL::ValidationError);
    auto* dictionary = NS::Dictionary::dictionary(items[1], items[0]);
    CHECK(dictionary->object<NS::Number>(string("a"))->isEqualToNumber(NS::Number::number(7.0)));
    CHECK(dictionary->object(string("b")) == nullptr);
    auto* keys = dictionary->keyEnumerator<NS::String>();
    CHECK(keys->nextObject()->isEqualToString(string("a")));
    CHECK(keys->nextObject() == nullptr);
    CHECK(NS::Number::number(-1)->compare(NS::Number::number(1u)) == NS::OrderedAscending);
    auto* error =
        NS::Error::error(string("domain"), 3, NS::Dictionary::dictionary(string("text"), NS::LocalizedDescriptionKey));
    CHECK(error->localizedDescription()->isEqualToString(string("text")));
    CHECK(error->code() == 3);
}
