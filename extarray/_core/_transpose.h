/* Transposing: d[b][a] = s[a][b], where d is contiguous along a and s along b.
 *
 * Both sides are accessed in whole cache lines: each step writes as many rows of d as one line of s
 * has elements, one vector of each at a time.  Vectors are transposed in registers by interleaving:
 * of n = 16 / size vectors, the i-th and the one n / 2 after it give two new ones, log2(n) times.
 */
#ifndef EXTARRAY_TRANSPOSE_H
#define EXTARRAY_TRANSPOSE_H

#include "_interleave.h"

typedef struct { uint64_t low, high; } xa_16;

enum {
    XA_LINE = 64,
    /* Rows of s processed at a time: with more, the addresses of their pages fall out of the TLB
     * before the next line of each is read. */
    XA_STRIP = 512,
};

#ifdef XA_HAS_SHUFFLE
/* A square of one vector's width. */
#define XA_DEFINE_SQUARE(SIZE)                                                                    \
static inline void xa_square_##SIZE(char *d, xa_index ds, const char *s, xa_index ss)             \
{                                                                                                 \
    enum { N = XA_VECTOR / SIZE };                                                                \
    xa_v##SIZE v[N], w[N];                                                                        \
    for (int i = 0; i < N; i++) memcpy(&v[i], s + i * ss, sizeof v[i]);                           \
    for (int n = N; n > 1; n /= 2) {                                                              \
        for (int i = 0; i < N / 2; i++) {                                                         \
            w[2 * i] = XA_LOW_##SIZE(v[i], v[i + N / 2]);                                         \
            w[2 * i + 1] = XA_HIGH_##SIZE(v[i], v[i + N / 2]);                                    \
        }                                                                                         \
        memcpy(v, w, sizeof v);                                                                   \
    }                                                                                             \
    for (int i = 0; i < N; i++) memcpy(d + i * ds, &v[i], sizeof v[i]);                           \
}
#else
#define XA_DEFINE_SQUARE(SIZE)                                                                    \
static inline void xa_square_##SIZE(char *d, xa_index ds, const char *s, xa_index ss)             \
{                                                                                                 \
    enum { N = XA_VECTOR / SIZE };                                                                \
    for (int i = 0; i < N; i++)                                                                   \
        for (int j = 0; j < N; j++) memcpy(d + i * ds + j * SIZE, s + j * ss + i * SIZE, SIZE);   \
}
#endif

XA_DEFINE_SQUARE(1)
XA_DEFINE_SQUARE(2)
XA_DEFINE_SQUARE(4)
XA_DEFINE_SQUARE(8)

static inline void xa_square_16(char *d, xa_index ds, const char *s, xa_index ss)
{
    (void) ds; (void) ss;
    memcpy(d, s, 16);
}

/* One element of any size.  A call of memcpy for each would cost more than the bytes: an element
 * that two vectors or two words cover is moved as those two, which may overlap. */
#define XA_COPY_ENDS(T)                                                                           \
    {                                                                                             \
        T v, w;                                                                                   \
        memcpy(&v, s, sizeof v);                                                                  \
        memcpy(&w, s + size - (xa_index) sizeof w, sizeof w);                                     \
        memcpy(d, &v, sizeof v);                                                                  \
        memcpy(d + size - (xa_index) sizeof w, &w, sizeof w);                                     \
    }
static inline void xa_copy_element(char *d, const char *s, xa_index size)
{
    if (size > 4 * XA_VECTOR) {
        memcpy(d, s, (size_t) size);
    } else if (size >= XA_VECTOR) {
        xa_16 v;
        for (xa_index i = 0; i < size - XA_VECTOR; i += XA_VECTOR) {
            memcpy(&v, s + i, sizeof v);
            memcpy(d + i, &v, sizeof v);
        }
        memcpy(&v, s + size - XA_VECTOR, sizeof v);
        memcpy(d + size - XA_VECTOR, &v, sizeof v);
    } else if (size >= 8) XA_COPY_ENDS(uint64_t)
    else if (size >= 4) XA_COPY_ENDS(uint32_t)
    else if (size >= 2) XA_COPY_ENDS(uint16_t)
    else if (size) *d = *s;
}

/* Call one of NAME_1 to NAME_16 by the `size` of an element, or run the general ANY. */
#define XA_BY_SIZE(NAME, ARGUMENTS, ANY)                                                          \
    switch (size) {                                                                               \
    case 1: NAME##_1 ARGUMENTS; break;                                                            \
    case 2: NAME##_2 ARGUMENTS; break;                                                            \
    case 4: NAME##_4 ARGUMENTS; break;                                                            \
    case 8: NAME##_8 ARGUMENTS; break;                                                            \
    case 16: NAME##_16 ARGUMENTS; break;                                                          \
    default: ANY;                                                                                 \
    }

/* Copy a rectangle one element at a time: the rows and columns that fill no square. */
static inline void xa_transpose_edge(char *d, xa_index ds, const char *s, xa_index ss, xa_index na,
                                     xa_index nb, xa_index size)
{
    for (xa_index b = 0; b < nb; b++)
        for (xa_index a = 0; a < na; a++)
            xa_copy_element(d + b * ds + a * size, s + a * ss + b * size, size);
}

/* A tile of squares, at most a line wide on both sides.  It is assembled in a buffer: if rows are a
 * power of two apart, the lines of a tile evict each other from the cache, so each is best accessed
 * only once. */
#define XA_DEFINE_TRANSPOSE(SIZE)                                                                 \
static inline void xa_transpose_tile_##SIZE(char *d, xa_index ds, const char *s, xa_index ss,     \
                                            xa_index na, xa_index nb)                             \
{                                                                                                 \
    enum { N = XA_VECTOR / SIZE };                                                                \
    char tile[XA_LINE / SIZE * XA_LINE];                                                          \
    for (xa_index a = 0; a < na; a += N)                                                          \
        for (xa_index b = 0; b < nb; b += N)                                                      \
            xa_square_##SIZE(tile + b * XA_LINE + a * SIZE, XA_LINE, s + a * ss + b * SIZE, ss);  \
    for (xa_index b = 0; b < nb; b++)                                                             \
        for (xa_index a = 0; a < na * SIZE; a += XA_VECTOR)                                       \
            memcpy(d + b * ds + a, tile + b * XA_LINE + a, XA_VECTOR);                            \
}                                                                                                 \
static inline void xa_transpose_lines_##SIZE(char *d, xa_index ds, const char *s, xa_index ss,    \
                                             xa_index na, xa_index nb)                            \
{                                                                                                 \
    enum { N = XA_VECTOR / SIZE, LINE = XA_LINE / SIZE };                                         \
    const xa_index a1 = na - na % N, b1 = nb - nb % N;                                            \
    xa_index a = 0;                                                                               \
    if (nb == LINE)                                                                               \
        for (; a + LINE <= na; a += LINE)                                                         \
            xa_transpose_tile_##SIZE(d + a * SIZE, ds, s + a * ss, ss, LINE, LINE);               \
    for (; a < a1; a += LINE)                                                                     \
        xa_transpose_tile_##SIZE(d + a * SIZE, ds, s + a * ss, ss,                                \
                                 a1 - a < LINE ? a1 - a : LINE, b1);                              \
    xa_transpose_edge(d + a1 * SIZE, ds, s + a1 * ss, ss, na - a1, b1, SIZE);                     \
    xa_transpose_edge(d + b1 * ds, ds, s + b1 * SIZE, ss, na, nb - b1, SIZE);                     \
}

XA_DEFINE_TRANSPOSE(1)
XA_DEFINE_TRANSPOSE(2)
XA_DEFINE_TRANSPOSE(4)
XA_DEFINE_TRANSPOSE(8)
XA_DEFINE_TRANSPOSE(16)

/* Transpose a rectangle of elements of `size` bytes; `ds` and `ss` are the row strides. */
static void xa_transpose(char *d, xa_index ds, const char *s, xa_index ss, xa_index na, xa_index nb,
                         xa_index size)
{
    const xa_index line = size < XA_LINE ? XA_LINE / size : 1;
    for (xa_index a = 0; a < na; a += XA_STRIP) {
        const xa_index n = na - a < XA_STRIP ? na - a : XA_STRIP;
        for (xa_index b = 0; b < nb; b += line) {
            const xa_index m = nb - b < line ? nb - b : line;
            char *to = d + b * ds + a * size;
            const char *from = s + a * ss + b * size;
            XA_BY_SIZE(xa_transpose_lines, (to, ds, from, ss, n, m),
                       xa_transpose_edge(to, ds, from, ss, n, m, size))
        }
    }
}

#endif
