// Marks what the shared library shows; everything else in it is hidden.
#pragma once

#if defined(_WIN32)
#define METALKI_API
#else
#define METALKI_API __attribute__((visibility("default")))
#endif
