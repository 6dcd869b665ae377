// Comparisons, as samplers use them.
#pragma once

#include "MTLDefines.hpp"

namespace MTL {

enum CompareFunction : NS::UInteger {
    CompareFunctionNever = 0,
    CompareFunctionLess = 1,
    CompareFunctionEqual = 2,
    CompareFunctionLessEqual = 3,
    CompareFunctionGreater = 4,
    CompareFunctionNotEqual = 5,
    CompareFunctionGreaterEqual = 6,
    CompareFunctionAlways = 7,
};

} // namespace MTL
