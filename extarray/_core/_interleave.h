/* Vectors of 16 bytes, and two interleaved, where the compiler has a builtin for that. */
#ifndef EXTARRAY_INTERLEAVE_H
#define EXTARRAY_INTERLEAVE_H

#include <stdint.h>
#include <string.h>

typedef int64_t xa_index;

enum { XA_VECTOR = 16 };

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define XA_HAS_SHUFFLE 1
#endif
#endif

#ifdef XA_HAS_SHUFFLE
typedef uint8_t xa_v1 __attribute__((vector_size(16)));
typedef uint16_t xa_v2 __attribute__((vector_size(16)));
typedef uint32_t xa_v4 __attribute__((vector_size(16)));
typedef uint64_t xa_v8 __attribute__((vector_size(16)));

#define XA_LOW_1(x, y)                                                                            \
    __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define XA_HIGH_1(x, y)                                                                           \
    __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define XA_LOW_2(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define XA_HIGH_2(x, y) __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#define XA_LOW_4(x, y) __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define XA_HIGH_4(x, y) __builtin_shufflevector(x, y, 2, 6, 3, 7)
#define XA_LOW_8(x, y) __builtin_shufflevector(x, y, 0, 2)
#define XA_HIGH_8(x, y) __builtin_shufflevector(x, y, 1, 3)
#endif

#endif
