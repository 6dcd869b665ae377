// Its contents come with the precompiled standard library.
#ifndef METALKI_SIMD_MATRIX_H_INCLUDED
#define METALKI_SIMD_MATRIX_H_INCLUDED
#pragma clang system_header
#include <metalki_prefix.h>
#endif
