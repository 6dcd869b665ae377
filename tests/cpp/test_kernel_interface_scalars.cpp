// Conversion of host numbers to MSL's element types, and extents.
#include <cmath>
#include <cstring>
#include <limits>

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
// Faults of kernels are caught by the library's handlers, which the framework's would replace.
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include <doctest/doctest.h>

#include "metalki/metalki.hpp"

using namespace metalki;

namespace {

template <class T> T encoded(ScalarType type, ScalarValue value) {
    alignas(8) std::byte bytes[8]{};
    const std::size_t written = encode_scalar(type, value, bytes, "test");
    REQUIRE(written == sizeof(T));
    T result;
    std::memcpy(&result, bytes, sizeof result);
    return result;
}

ScalarValue integer(std::int64_t value) {
    return value;
}

} // namespace

TEST_CASE("integers must fit") {
    CHECK(encoded<std::int8_t>(ScalarType::int8, integer(-128)) == -128);
    CHECK(encoded<std::uint32_t>(ScalarType::uint32, integer(4294967295)) == 4294967295u);
    CHECK_THROWS_AS(encoded<std::uint32_t>(ScalarType::uint32, integer(-1)), ArgumentError);
    CHECK_THROWS_AS(encoded<std::int8_t>(ScalarType::int8, integer(128)), ArgumentError);
    CHECK_THROWS_AS(encoded<std::int32_t>(ScalarType::int32, 1.0), ArgumentError);
    CHECK_THROWS_AS(encoded<std::uint8_t>(ScalarType::bool_, integer(2)), ArgumentError);
}

TEST_CASE("half and bfloat round to nearest even") {
    CHECK(encoded<std::uint16_t>(ScalarType::float16, 1.0) == 0x3c00);
    CHECK(encoded<std::uint16_t>(ScalarType::float16, -2.0) == 0xc000);
    CHECK(encoded<std::uint16_t>(ScalarType::float16, 65504.0) == 0x7bff);
    CHECK(encoded<std::uint16_t>(ScalarType::float16, 1.0 + std::ldexp(1.0, -11)) == 0x3c00);
    CHECK(encoded<std::uint16_t>(ScalarType::float16, 1.0 + std::ldexp(3.0, -11)) == 0x3c02);
    CHECK(encoded<std::uint16_t>(ScalarType::float16, std::ldexp(1.0, -24)) == 0x0001);
    CHECK(encoded<std::uint16_t>(ScalarType::float16, std::ldexp(1.0, -14)) == 0x0400);
    CHECK(encoded<std::uint16_t>(ScalarType::bfloat16, 1.0) == 0x3f80);
    CHECK(encoded<std::uint16_t>(ScalarType::bfloat16, 1.0 + std::ldexp(1.0, -8)) == 0x3f80);
    CHECK(encoded<std::uint16_t>(ScalarType::float16, std::numeric_limits<double>::infinity()) == 0x7c00);
    CHECK_THROWS_AS(encoded<std::uint16_t>(ScalarType::float16, 70000.0), ArgumentError);
    CHECK_THROWS_AS(encoded<float>(ScalarType::float32, 1e300), ArgumentError);
}

TEST_CASE("extents") {
    CHECK_FALSE(Extents().given());
    CHECK(Extents(3, 4).y() == 4);
    CHECK(Extents(3, 4).z() == 1);
    CHECK(Extents(3, 0, 1).empty());
    CHECK_THROWS_AS(Extents(-1), ArgumentError);
}
