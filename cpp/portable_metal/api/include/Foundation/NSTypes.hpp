// The integer and time types of Foundation.
#pragma once

#include <cstdint>

#include "NSDefines.hpp"

// CoreFoundation's name for a duration or a point in time, in seconds.
using CFTimeInterval = double;

namespace NS {

using TimeInterval = double;
using Integer = std::intptr_t;
using UInteger = std::uintptr_t;

constexpr Integer IntegerMax = INTPTR_MAX;
constexpr Integer IntegerMin = INTPTR_MIN;
constexpr UInteger UIntegerMax = UINTPTR_MAX;
constexpr Integer NotFound = IntegerMax;

enum ComparisonResult : Integer { OrderedAscending = -1, OrderedSame = 0, OrderedDescending = 1 };

} // namespace NS
