/* The loops of a query: lists of elements, in order of the chunks that hold them.
 *
 * An entry of a list is one selected element, packed into a word: from the lowest bit up its place
 * in the chunk, in units of the list; its number in the list, in the user's order; and, if the list
 * was sorted by it, the number of its chunk.  Points and masks become such lists, which are moved
 * entry by entry.  Loads and stores go through memcpy, so neither side need be aligned.  (Functions
 * are inline because some modules include this file only for `xa_list`.)
 */
#ifndef EXTARRAY_GATHER_H
#define EXTARRAY_GATHER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_lines.h"
#include "_system.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* How to read the entries of a list: `number & number_mask` after the shift. */
typedef struct {
    uint64_t at_mask, number_mask;
    int shift;                      /* of the number */
    int64_t unit;                   /* of places: bytes, or, if a table gives them, elements */
    int64_t user_step;              /* bytes in the user's memory between numbers ... */
    const int64_t *user;            /* ... or (not NULL) the bytes before each number */
} xa_list;

static inline int64_t xa_place_of(const xa_list *l, uint64_t entry)
{
    return (int64_t) (entry & l->at_mask) * l->unit;
}

static inline int64_t xa_user_of(const xa_list *l, uint64_t entry)
{
    const int64_t number = (int64_t) ((entry >> l->shift) & l->number_mask);
    return l->user ? l->user[number] : number * l->user_step;
}

enum {
    XA_BLOCK = 1024,        /* points located at a time: their keys stay in the first-level cache */
    XA_FEW = 32,            /* up to this many are sorted by insertion */
    XA_DIGIT = 11,          /* bits of a key per sorting pass */
    XA_AHEAD = 64,          /* elements prefetched before their turn: this many to twice as many */
    XA_LEAST_RUN = 64       /* bytes from which elements are runs */
};

/* -- memory ------------------------------------------------------------------------------------- */

/* Memory for a table; `free` gives it back. */
static inline void *xa_table(size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : xa_allocate(bytes);
}

/* -- division by an extent ---------------------------------------------------------------------- */

/* Dividing 64-bit integers is slow.  By a power of two it is a shift; else n / d is the upper half
 * of n * magic, where magic is 2**64 / d rounded up, for all n with n * d < 2**64. */
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

static inline int64_t xa_divide(int64_t v, xa_divisor d)
{
    if (d.shift >= 0) return v >> d.shift;
    if (d.magic) return (int64_t) (((unsigned __int128) (uint64_t) v * d.magic) >> 64);
    return v / d.by;
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
        at[i] += (v - q * d.by) * unit;                                                           \
    }

/* Take one more axis into account: `n` indices, counted from element `offset` of the grid.  Combine
 * the chunk index into the keys, and add the place in the chunk, times `unit`, to the places.
 * Return whether an index is not in [-extent, extent): another thread may have changed it after its
 * check. */
static inline int xa_locate(const char *index, int64_t step, int64_t n, int64_t extent, int64_t offset,
                            xa_divisor d, int64_t grid, int64_t unit, int64_t *key, int64_t *at)
{
    int wrong = 0;
    if (d.shift >= 0) XA_LOCATE(v >> d.shift)
    else if (d.magic) XA_LOCATE((int64_t) (((unsigned __int128) (uint64_t) v * d.magic) >> 64))
    else XA_LOCATE(v / d.by)
    return wrong;
}

/* Whether `n` consecutive indices are all in [-extent, extent), for extents up to 2**62: otherwise
 * one of two sums has its highest bit set.  (Unlike comparisons of 64-bit words, sums are
 * vectorised on every processor.) */
static inline int xa_in_bounds(const char *index, int64_t n, int64_t extent)
{
    uint64_t beyond = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t v;
        memcpy(&v, index + i * (int64_t) sizeof v, sizeof v);
        beyond |= (v + (uint64_t) extent) | ((uint64_t) extent - 1 - v);
    }
    return (int64_t) beyond >= 0;
}

/* Entries of `n` elements, numbered from `first`, with their keys on top. */
static inline void xa_pack(uint64_t *restrict entry, const int64_t *restrict key,
                           const int64_t *restrict at, int64_t n, int64_t first, int shift,
                           int key_shift)
{
    for (int64_t i = 0; i < n; i++)
        entry[i] = (uint64_t) key[i] << key_shift | (uint64_t) (first + i) << shift | (uint64_t) at[i];
}

/* -- sorting ------------------------------------------------------------------------------------ */

#define XA_KEY(i) (keys != NULL ? key[i] : (int64_t) (entry[i] >> shift))

/* Sort entries by keys >= 0, all below 2**bits: those of an array, or (keys NULL) the bits of the
 * entries above `shift`.  The sort is stable.  The arrays may be replaced.  Returns 0, or -1 if
 * there is no memory. */
static inline int xa_sort_by(int64_t **keys, uint64_t **entries, int64_t n, int shift, int bits)
{
    int64_t *key = keys != NULL ? *keys : NULL, *other_key = NULL;
    uint64_t *entry = *entries, *other;
    int64_t i = 1;
    while (i < n && XA_KEY(i) >= XA_KEY(i - 1)) i++;
    if (i >= n) return 0;
    if (n <= XA_FEW) {
        for (i = 1; i < n; i++) {
            const int64_t k = XA_KEY(i);
            const uint64_t e = entry[i];
            int64_t j;
            for (j = i; j > 0 && XA_KEY(j - 1) > k; j--) {
                entry[j] = entry[j - 1];
                if (keys != NULL) key[j] = key[j - 1];
            }
            entry[j] = e;
            if (keys != NULL) key[j] = k;
        }
        return 0;
    }
    const int passes = (bits + XA_DIGIT - 1) / XA_DIGIT;
    const int digit = (bits + passes - 1) / passes;
    const int64_t mask = ((int64_t) 1 << digit) - 1;
    int64_t first[1 << XA_DIGIT];
    other = xa_table((size_t) n, sizeof *other);
    if (keys != NULL) other_key = xa_table((size_t) n, sizeof *other_key);
    if (other == NULL || (keys != NULL && other_key == NULL)) {
        free(other); free(other_key);
        return -1;
    }
    for (int pass = 0; pass < passes; pass++) {
        const int from = pass * digit;
        int64_t sum = 0;
        memset(first, 0, (size_t) (mask + 1) * sizeof *first);
        for (i = 0; i < n; i++) first[(XA_KEY(i) >> from) & mask]++;
        for (i = 0; i <= mask; i++) { const int64_t c = first[i]; first[i] = sum; sum += c; }
        for (i = 0; i < n; i++) {
            const int64_t to = first[(XA_KEY(i) >> from) & mask]++;
            other[to] = entry[i];
            if (keys != NULL) other_key[to] = key[i];
        }
        uint64_t *e = entry; entry = other; other = e;
        int64_t *k = key; key = other_key; other_key = k;
    }
    free(other); free(other_key);
    *entries = entry;
    if (keys != NULL) *keys = key;
    return 0;
}

/* Sort by keys of an array, which is sorted with them. */
static inline int xa_sort(int64_t **keys, uint64_t **entries, int64_t n, int bits)
{
    return xa_sort_by(keys, entries, n, 0, bits);
}

/* Sort by the keys in the entries themselves. */
static inline int xa_sort_packed(uint64_t **entries, int64_t n, int shift, int bits)
{
    return xa_sort_by(NULL, entries, n, shift, bits);
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

/* Entries of the true places of a mask row; returns their end, and stores one entry beyond.
 * `next`, the entry of the first place, were it true, rises by `unit` per place, and by 1 << shift
 * per true place. */
static inline uint64_t *xa_select(const uint8_t *mask, int64_t step, int64_t n, uint64_t next,
                                  uint64_t unit, int shift, uint64_t *entry)
{
    const uint64_t one = UINT64_C(1) << shift;
    int64_t i = 0, stop;
#if defined(__x86_64__)
    while (step == 1 && i + 16 <= n) {
        const __m128i zero = _mm_setzero_si128();
        const int m = n - i < 64 ? (int) (n - i) & ~15 : 64;
        uint64_t trues = 0;
        for (int part = 0; part < m; part += 16) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *) (mask + i + part));
            trues |= (uint64_t) (~_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, zero)) & 0xFFFF) << part;
        }
        stop = i + m;
        if (2 * __builtin_popcountll(trues) <= m) {
            for (; trues; trues &= trues - 1, next += one)
                *entry++ = next + (uint64_t) __builtin_ctzll(trues) * unit;
            i = stop;
            next += (uint64_t) m * unit;
        }
        for (; i < stop; i++, next += unit) {
            const uint64_t here = mask[i] != 0;
            *entry = next;
            entry += here;
            next += here << shift;          /* a branch here would be mispredicted half the time */
        }
    }
#endif
    while (i < n) {
        stop = n;
        if (step == 1 && i + 8 <= n) {
            uint64_t trues = xa_trues(mask + i);
            stop = i + 8;
            if (trues == 0) { i = stop; next += 8 * unit; continue; }
            if (trues == UINT64_C(0x8080808080808080)) {
                for (; i < stop; i++, next += unit + one) *entry++ = next;
                continue;
            }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            if (xa_count_bits(trues) <= 3) {
                for (; trues; trues &= trues - 1, next += one)
                    *entry++ = next + (uint64_t) (__builtin_ctzll(trues) >> 3) * unit;
                i = stop; next += 8 * unit;
                continue;
            }
#endif
        }
        for (; i < stop; i++, next += unit) {
            const uint64_t here = mask[i * step] != 0;
            *entry = next;
            entry += here;
            next += here << shift;
        }
    }
    return entry;
}

/* Positions of the true places of a mask row in which they are rare, counted from `first`; returns
 * their number. */
static inline int64_t xa_positions(const uint8_t *mask, int64_t step, int64_t n, int64_t first,
                                   int64_t *position)
{
    int64_t found = 0, i = 0;
#if defined(__x86_64__)
    if (step == 1) {
        const __m128i zero = _mm_setzero_si128();
        for (; i + 64 <= n; i += 64) {
            uint64_t trues = 0;
            for (int part = 0; part < 4; part++) {
                const __m128i bytes = _mm_loadu_si128((const __m128i *) (mask + i + 16 * part));
                trues |= (uint64_t) _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, zero)) << 16 * part;
            }
            for (trues = ~trues; trues; trues &= trues - 1)
                position[found++] = first + i + __builtin_ctzll(trues);
        }
    }
#elif __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (step == 1)
        for (; i + 32 <= n; i += 32) {
            uint64_t word[4];
            memcpy(word, mask + i, sizeof word);
            if ((word[0] | word[1] | word[2] | word[3]) == 0) continue;
            for (int w = 0; w < 4; w++)
                for (uint64_t trues = xa_trues((const uint8_t *) &word[w]); trues; trues &= trues - 1)
                    position[found++] = first + i + 8 * w + (__builtin_ctzll(trues) >> 3);
        }
#endif
    for (; i < n; i++)
        if (mask[i * step]) position[found++] = first + i;
    return found;
}

/* Prefetch rows of a mask: those of one chunk lie far apart. */
static inline void xa_ask(const uint8_t *row, int64_t step, int64_t n)
{
    const int64_t last = step == 1 ? n - 1 : 0;
    for (int64_t i = 0; i <= last && i < 256; i += 64) __builtin_prefetch(row + i);
    __builtin_prefetch(row + last);
}

/* -- moving lists ------------------------------------------------------------------------------- */

#define XA_MOVE(PLACE, USER, COPY)                                                                \
    for (int64_t i = 0; i < n; i++) {                                                             \
        const uint64_t e = entry[i];                                                              \
        char *c = chunk + (PLACE), *u = user + (USER);                                            \
        COPY                                                                                      \
    }
#define XA_MOVE_SIZED(PLACE, USER, T)                                                             \
    if (write) XA_MOVE(PLACE, USER, { T v; memcpy(&v, u, sizeof v); memcpy(c, &v, sizeof v); })   \
    else XA_MOVE(PLACE, USER, { T v; memcpy(&v, c, sizeof v); memcpy(u, &v, sizeof v); })
#define XA_MOVE_ALL(PLACE, USER)                                                                  \
    switch (size) {                                                                               \
    case 1: XA_MOVE_SIZED(PLACE(1), USER(1), uint8_t) break;                                      \
    case 2: XA_MOVE_SIZED(PLACE(2), USER(2), uint16_t) break;                                     \
    case 4: XA_MOVE_SIZED(PLACE(4), USER(4), uint32_t) break;                                     \
    case 8: XA_MOVE_SIZED(PLACE(8), USER(8), uint64_t) break;                                     \
    case 16: XA_MOVE_SIZED(PLACE(16), USER(16), xa_pair) break;                                   \
    default:                                                                                      \
        if (write) XA_MOVE(PLACE(size), USER(size), memcpy(c, u, (size_t) size);)                 \
        else XA_MOVE(PLACE(size), USER(size), memcpy(u, c, (size_t) size);)                       \
    }

typedef struct { uint64_t low, high; } xa_pair;

/* Move `n` elements of `size` bytes, named by entries, from a chunk to the user's memory, or
 * (write) back. */
static inline void xa_move_all(char *chunk, char *user, const xa_list *l, const uint64_t *entry,
                               int64_t n, int64_t size, int write)
{
    const uint64_t at_mask = l->at_mask, number_mask = l->number_mask;
    const int64_t unit = l->unit, step = l->user_step, *at = l->user;
    const int shift = l->shift;
#define XA_NUMBER ((e >> shift) & number_mask)
#define XA_NEXT_PLACE(SIZE) (e & at_mask) * (uint64_t) (SIZE)
#define XA_NEXT_USER(SIZE) XA_NUMBER * (uint64_t) (SIZE)
#define XA_PLACE(SIZE) (int64_t) (e & at_mask) * unit
#define XA_EVEN_USER(SIZE) (int64_t) XA_NUMBER * step
#define XA_ANY_USER(SIZE) at[XA_NUMBER]
    if (at != NULL) XA_MOVE_ALL(XA_PLACE, XA_ANY_USER)
    else if (unit == size && step == size) XA_MOVE_ALL(XA_NEXT_PLACE, XA_NEXT_USER)
    else XA_MOVE_ALL(XA_PLACE, XA_EVEN_USER)
#undef XA_NUMBER
#undef XA_NEXT_PLACE
#undef XA_NEXT_USER
#undef XA_PLACE
#undef XA_EVEN_USER
#undef XA_ANY_USER
}

/* The same for elements that are runs of bytes, each copied while the next one is prefetched: on both
 * sides, or with `stream`, where stores bypass the caches, at the source. */
static inline void xa_move_runs(char *chunk, char *user, const xa_list *l, const uint64_t *entry,
                                int64_t n, int64_t size, int write, int stream)
{
    char *c = chunk + xa_place_of(l, entry[0]), *u = user + xa_user_of(l, entry[0]);
    for (int64_t i = 1; i <= n; i++) {
        char *const target = write ? c : u, *const source = write ? u : c;
        if (i < n) {
            c = chunk + xa_place_of(l, entry[i]);
            u = user + xa_user_of(l, entry[i]);
            if (!stream || !write) xa_ask_run(c, size);
            if (!stream || write) xa_ask_run(u, size);
        }
        if (stream) xa_stream_row(target, source, size, 0);
        else xa_copy_lines(target, 0, source, 0, size, 1);
    }
}

/* Move elements as they are moved fastest.  Those that are `sparse` in the chunk are prefetched when
 * they are read: the processor looks only some ten elements ahead, so that they would wait for each
 * other. */
static inline void xa_move(char *chunk, char *user, const xa_list *l, const uint64_t *entry, int64_t n,
                           int64_t size, int write, int sparse, int stream)
{
    int64_t asked = 0;
    if (size >= XA_LEAST_RUN) {
        xa_move_runs(chunk, user, l, entry, n, size, write, stream && size >= XA_STREAMED);
        return;
    }
    if (write || !sparse) {
        xa_move_all(chunk, user, l, entry, n, size, write);
        return;
    }
    for (int64_t i = 0; i < n; i += XA_AHEAD) {
        const int64_t stop = i + 2 * XA_AHEAD < n ? i + 2 * XA_AHEAD : n;
        for (; asked < stop; asked++) __builtin_prefetch(chunk + xa_place_of(l, entry[asked]));
        xa_move_all(chunk, user, l, entry + i, i + XA_AHEAD < n ? XA_AHEAD : n - i, size, write);
    }
}

/* As xa_move_all, but a table gives the places, `pitch` bytes apart. */
static inline void xa_move_placed(char *chunk, char *user, const xa_list *l, const uint64_t *entry,
                                  int64_t n, int64_t size, int write, const int64_t *table,
                                  int64_t pitch)
{
#define XA_PLACE(SIZE) table[xa_place_of(l, e)] * pitch
#define XA_USER(SIZE) xa_user_of(l, e)
    XA_MOVE_ALL(XA_PLACE, XA_USER)
#undef XA_PLACE
#undef XA_USER
}

#endif
