// The little of CoreFoundation that metal-cpp names, for type-checking off a Mac.
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef double CFTimeInterval;
typedef const void* CFTypeRef;
