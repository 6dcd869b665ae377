// Macros of the Metal headers.
#pragma once

#include "../Foundation/Foundation.hpp"

#define _MTL_EXPORT _NS_EXPORT
#define _MTL_EXTERN _NS_EXTERN
#define _MTL_INLINE _NS_INLINE

// Handlers written as blocks need a compiler that has them (clang -fblocks) and the blocks run-time library.
#if defined(__BLOCKS__) && __has_include(<Block.h>)
#define METALKI_HAS_BLOCKS 1
#else
#define METALKI_HAS_BLOCKS 0
#endif
