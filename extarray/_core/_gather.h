/* The loops of a query: lists of elements, in order of the chunks that hold them.
 *
 * An entry says where one selected element lies in its chunk and where in the user's memory.  Points
 * and masks are turned into such lists; the lists are moved entry by entry.  Loads and stores go
 * through memcpy, so neither side need be aligned.  (Functions are inline because modules that run
 * queries include this file for `xa_entry` alone.)
 */
#ifndef EXTARRAY_GATHER_H
#define EXTARRAY_GATHER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* `at` counts bytes, or, where a table says the places, elements in C order. */
typedef struct { int64_t at, user; } xa_entry;

enum {
    XA_BLOCK = 1024,        /* points located at a time: their keys stay in the first-level cache */
    XA_FEW = 32,            /* so few are sorted by insertion */
    XA_DIGIT = 11           /* bits of a key that one pass sorts by */
};

/* -- memory ------------------------------------------------------------------------------------- */

/* Memory for a table; `free` gives it back.  In huge pages a large one costs the system far fewer
 * faults, which would otherwise take longer than all that is done with it. */
static inline void *xa_table(size_t n, size_t size)
{
    enum { HUGE = 1 << 21 };
    void *table = NULL;
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * HUGE) {
        if (posix_memalign(&table, HUGE, bytes)) return NULL;
        (void) madvise(table, bytes, MADV_HUGEPAGE);
        return table;
    }
#endif
    return malloc(bytes ? bytes : 1);
}

/* -- division by an extent ---------------------------------------------------------------------- */

/* Dividing 64-bit integers is slow.  By a power of two it is a shift; and n / d is the upper half of
 * n * magic, where magic is 2**64 / d rounded up, for all n with n * d < 2**64. */
typedef struct { int64_t by; uint64_t magic; int shift; } xa_divisor;

static inline xa_divisor xa_make_divisor(int64_t by, int64_t most)
{
    xa_divisor d = {by, 0, -1};
    int64_t product;
    if ((by & (by - 1)) == 0)
        for (d.shift = 0; (int64_t) 1 << d.shift < by;) d.shift++;
    else if (!__builtin_mul_overflow(by, most, &product))
        d.magic = UINT64_MAX / (uint64_t) by + 1;
    return d;
}

/* -- points ------------------------------------------------------------------------------------- */

#define XA_LOCATE(QUOTIENT)                                                                       \
    for (int64_t i = 0; i < n; i++, index += step) {                                              \
        int64_t v;                                                                                \
        memcpy(&v, index, sizeof v);                                                              \
        v += v < 0 ? extent : 0;                                                                  \
        const int beyond = (uint64_t) v >= (uint64_t) extent;                                     \
        wrong |= beyond;                                                                          \
        v = offset + (beyond ? 0 : v);                                                            \
        const int64_t q = (QUOTIENT);                                                             \
        key[i] = key[i] * grid + q;                                                               \
        entry[i].at += (v - q * d.by) * unit;                                                     \
    }

/* Take one more axis into account: `n` indices, counted from element `offset` of the grid.  Appends
 * the chunk index to the keys, and adds the place in the chunk, in units of `unit`, to the entries.
 * Returns whether one of the indices is not in [-extent, extent): whoever checked them before,
 * others may have changed them since. */
static inline int xa_locate(const char *index, int64_t step, int64_t n, int64_t extent, int64_t offset,
                     xa_divisor d, int64_t grid, int64_t unit, int64_t *key, xa_entry *entry)
{
    int wrong = 0;
    if (d.shift >= 0) XA_LOCATE(v >> d.shift)
    else if (d.magic) XA_LOCATE((int64_t) (((unsigned __int128) (uint64_t) v * d.magic) >> 64))
    else XA_LOCATE(v / d.by)
    return wrong;
}

static inline int xa_is_sorted(const int64_t *key, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (key[i] < key[i - 1]) return 0;
    return 1;
}

/* Sort entries by keys >= 0, all below 2**bits; equal keys keep their order.  The arrays may be
 * replaced by others.  Returns 0, or -1 where there is no memory. */
static inline int xa_sort(int64_t **keys, xa_entry **entries, int64_t n, int bits)
{
    int64_t *key = *keys, *other_key;
    xa_entry *entry = *entries, *other;
    if (xa_is_sorted(key, n)) return 0;
    if (n <= XA_FEW) {
        for (int64_t i = 1, j; i < n; i++) {
            const int64_t k = key[i];
            const xa_entry e = entry[i];
            for (j = i; j > 0 && key[j - 1] > k; j--) { key[j] = key[j - 1]; entry[j] = entry[j - 1]; }
            key[j] = k; entry[j] = e;
        }
        return 0;
    }
    const int passes = (bits + XA_DIGIT - 1) / XA_DIGIT;
    const int digit = (bits + passes - 1) / passes;
    const int64_t mask = ((int64_t) 1 << digit) - 1;
    int64_t first[1 << XA_DIGIT];
    other_key = xa_table((size_t) n, sizeof *other_key);
    other = xa_table((size_t) n, sizeof *other);
    if (other_key == NULL || other == NULL) { free(other_key); free(other); return -1; }
    for (int pass = 0; pass < passes; pass++) {
        const int shift = pass * digit;
        int64_t sum = 0;
        memset(first, 0, (size_t) (mask + 1) * sizeof *first);
        for (int64_t i = 0; i < n; i++) first[(key[i] >> shift) & mask]++;
        for (int64_t v = 0; v <= mask; v++) { const int64_t c = first[v]; first[v] = sum; sum += c; }
        for (int64_t i = 0; i < n; i++) {
            const int64_t to = first[(key[i] >> shift) & mask]++;
            other_key[to] = key[i];
            other[to] = entry[i];
        }
        int64_t *k = key; key = other_key; other_key = k;
        xa_entry *e = entry; entry = other; other = e;
    }
    free(other_key); free(other);
    *keys = key; *entries = entry;
    return 0;
}

/* -- masks -------------------------------------------------------------------------------------- */

/* Eight bytes of a mask: the highest bit of each byte that is not 0. */
static inline uint64_t xa_trues(const uint8_t *mask)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t word;
    memcpy(&word, mask, sizeof word);
    return (((word & low) + low) | word) & ~low;
}

static inline int64_t xa_count_bits(uint64_t trues)
{
    return (int64_t) (((trues >> 7) * UINT64_C(0x0101010101010101)) >> 56);
}

static inline int64_t xa_count(const uint8_t *mask, int64_t step, int64_t n)
{
    int64_t total = 0, i = 0;
    if (step == 1)
        for (; i + 8 <= n; i += 8) total += xa_count_bits(xa_trues(mask + i));
    for (; i < n; i++) total += mask[i * step] != 0;
    return total;
}

/* Entries of the true places of a row of a mask; returns what follows the last.  One more entry than
 * that is written to.  `at` and `user` are those of the first place and of the first true one. */
static inline xa_entry *xa_select(const uint8_t *mask, int64_t step, int64_t n, int64_t at,
                                  int64_t unit, int64_t user, int64_t user_step, xa_entry *entry)
{
    int64_t i = 0, stop;
    while (i < n) {
        stop = n;
        if (step == 1 && i + 8 <= n) {
            uint64_t trues = xa_trues(mask + i);
            stop = i + 8;
            if (trues == 0) { i = stop; at += 8 * unit; continue; }
            if (trues == UINT64_C(0x8080808080808080)) {
                for (; i < stop; i++, at += unit, user += user_step, entry++) {
                    entry->at = at;
                    entry->user = user;
                }
                continue;
            }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            if (xa_count_bits(trues) <= 3) {
                for (; trues; trues &= trues - 1, entry++, user += user_step) {
                    entry->at = at + (__builtin_ctzll(trues) >> 3) * unit;
                    entry->user = user;
                }
                i = stop; at += 8 * unit;
                continue;
            }
#endif
        }
        for (; i < stop; i++, at += unit) {
            const int64_t here = mask[i * step] != 0;
            entry->at = at;
            entry->user = user;
            entry += here;
            user += here ? user_step : 0;
        }
    }
    return entry;
}

/* Positions of the true places of a short row of a mask in which they are rare; returns how many. */
static inline int64_t xa_positions(const uint8_t *mask, int64_t step, int64_t n, int64_t *position)
{
    int64_t found = 0, i = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (step == 1)
        for (; i + 32 <= n; i += 32) {
            uint64_t word[4];
            memcpy(word, mask + i, sizeof word);
            if ((word[0] | word[1] | word[2] | word[3]) == 0) continue;
            for (int w = 0; w < 4; w++)
                for (uint64_t trues = xa_trues(mask + i + 8 * w); trues; trues &= trues - 1)
                    position[found++] = i + 8 * w + (__builtin_ctzll(trues) >> 3);
        }
#endif
    for (; i < n; i++)
        if (mask[i * step]) position[found++] = i;
    return found;
}

/* Ask for rows of a mask before their turn: those of one chunk lie far apart. */
static inline void xa_ask(const uint8_t *row, int64_t step, int64_t n)
{
    const int64_t last = step == 1 ? n - 1 : 0;
    for (int64_t i = 0; i <= last && i < 256; i += 64) __builtin_prefetch(row + i);
    __builtin_prefetch(row + last);
}

/* -- moving lists ------------------------------------------------------------------------------- */

#define XA_MOVE(PLACE, COPY)                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                             \
        char *c = chunk + (PLACE), *u = user + e[i].user;                                         \
        COPY                                                                                      \
    }
#define XA_MOVE_SIZED(PLACE, T)                                                                   \
    if (write) XA_MOVE(PLACE, { T v; memcpy(&v, u, sizeof v); memcpy(c, &v, sizeof v); })         \
    else XA_MOVE(PLACE, { T v; memcpy(&v, c, sizeof v); memcpy(u, &v, sizeof v); })
#define XA_MOVE_ALL(PLACE)                                                                        \
    switch (size) {                                                                               \
    case 1: XA_MOVE_SIZED(PLACE, uint8_t) break;                                                  \
    case 2: XA_MOVE_SIZED(PLACE, uint16_t) break;                                                 \
    case 4: XA_MOVE_SIZED(PLACE, uint32_t) break;                                                 \
    case 8: XA_MOVE_SIZED(PLACE, uint64_t) break;                                                 \
    case 16: XA_MOVE_SIZED(PLACE, xa_pair) break;                                                 \
    default:                                                                                      \
        if (write) XA_MOVE(PLACE, memcpy(c, u, (size_t) size);)                                   \
        else XA_MOVE(PLACE, memcpy(u, c, (size_t) size);)                                         \
    }

typedef struct { uint64_t low, high; } xa_pair;

/* Move `n` elements of `size` bytes from a chunk to the user's memory, or (write) back. */
static inline void xa_move(char *chunk, char *user, const xa_entry *e, int64_t n, int64_t size, int write)
{
    XA_MOVE_ALL(e[i].at)
}

/* The same where a table tells the places: they are `pitch` bytes apart. */
static inline void xa_move_placed(char *chunk, char *user, const xa_entry *e, int64_t n, int64_t size,
                           int write, const int64_t *place, int64_t pitch)
{
    XA_MOVE_ALL(place[e[i].at] * pitch)
}

#endif
