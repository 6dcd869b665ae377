// The one place that instantiates metal-cpp's selectors and classes; part of the build on Apple's systems only.
#define NS_PRIVATE_IMPLEMENTATION
#define MTL_PRIVATE_IMPLEMENTATION
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
