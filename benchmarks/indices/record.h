/* Records of growth: what all of the index structures have in common. */

#ifndef RECORD_H
#define RECORD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NDIM = 32 };

/* What one growth leaves behind. As M* = C_axis N*, the address of a chunk inside the segment is
 * sum_j coefficients[j] * index[j]. */
typedef struct {
    int64_t axis;
    int64_t start_index;    /* N* */
    int64_t start_address;  /* M*; -1: the null record of an axis that has not grown */
    int64_t coefficients[]; /* C, one an axis */
} record_t;

/* Room for a record of any number of axes. */
typedef union {
    record_t record;
    char bytes[sizeof(record_t) + MAX_NDIM * sizeof(int64_t)];
} room_t;

static inline size_t record_bytes(int ndim)
{
    return sizeof(record_t) + (size_t)ndim * sizeof(int64_t);
}

static inline const record_t *record_at(const char *records, size_t i, size_t bytes)
{
    return (const record_t *)(records + i * bytes);
}

/* The last of n ascending keys that is not above one; the first where all are. */
static inline size_t last_not_above(const int64_t *keys, size_t n, int64_t key)
{
    size_t low = 0;
    while (n > 1) { /* no branch depends on the keys: the compiler selects */
        size_t half = n / 2;
        low = keys[low + half] <= key ? low + half : low;
        n -= half;
    }
    return low;
}

#endif
