// The type that metal-cpp's texture functions name, for type-checking off a Mac.
#pragma once

typedef struct __IOSurface* IOSurfaceRef;
