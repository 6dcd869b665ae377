// Macros shared by the Foundation and Metal headers: symbol visibility and inlining.
#pragma once

#define METALKI_API __attribute__((visibility("default")))

// Names that code written against metal-cpp may use.
#define _NS_EXPORT METALKI_API
#define _NS_EXTERN extern "C" METALKI_API
#define _NS_INLINE inline __attribute__((always_inline))
