// Macros of the Metal headers.
#pragma once

#include "../Foundation/Foundation.hpp"

#define _MTL_EXPORT _NS_EXPORT
#define _MTL_EXTERN _NS_EXTERN
#define _MTL_INLINE _NS_INLINE
