/* Copying one box of elements between two strided blocks of memory.
 *
 * This is the innermost loop: one side is (part of) a chunk, the other the user's array.  Strides
 * are in bytes and may be negative, or 0 in the source.  Loads and stores go through memcpy, so
 * neither side need be aligned.
 */
#ifndef EXTARRAY_BLOCK_H
#define EXTARRAY_BLOCK_H

#include <stdint.h>
#include <string.h>

#include "_lines.h"
#include "_transpose.h"

enum {
    XA_MAX_NDIM = 32,
    XA_LINES = 48           /* cache lines that are prefetched */
};

/* Whether to assemble rows from a row of chunks line by line.  Measured: saves a third of the time
 * on Intel's processors; AMD's lose as much, and go chunk by chunk. */
static inline int xa_reads_by_rows(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("intel");
#else
    return 0;
#endif
}

/* A row in pieces, one from each chunk of a row of chunks.  Lines at the joints are assembled
 * first, so that each line inside the row is stored once and whole. */
typedef struct {
    char *at;               /* where the next byte of the row goes */
    int held;               /* bytes of its line that wait in `line`, starting at `from` */
    int from;
    char line[64];
} xa_row_writer;

static inline void xa_row_begin(xa_row_writer *w, char *d)
{
    w->at = d;
    w->from = w->held = (int) ((uintptr_t) d & 63);
}

static inline void xa_row_flush(xa_row_writer *w)
{
    char *line = w->at - w->held;
    memcpy(line + w->from, w->line + w->from, (size_t) (w->held - w->from));
    w->from = w->held;
}

static inline void xa_row_put(xa_row_writer *w, const char *s, xa_index n, xa_index ahead)
{
    if (w->held) {
        xa_index part = 64 - w->held < n ? 64 - w->held : n;
        memcpy(w->line + w->held, s, (size_t) part);
        w->held += (int) part; w->at += part; s += part; n -= part;
        if (w->held < 64) return;
        if (w->from) xa_row_flush(w);
        else xa_stream_lines(w->at - 64, w->line, 64, 0);
        w->held = w->from = 0;
    }
    xa_index lines = n & ~(xa_index) 63;
    xa_stream_lines(w->at, s, lines, ahead);
    w->at += lines; s += lines; n -= lines;
    memcpy(w->line, s, (size_t) n);
    w->held = (int) n; w->from = 0; w->at += n;
}

/* Prefetch rows of scattered elements some rows early: the processor's own prefetching stops at the
 * end of a row. */
typedef struct {
    xa_index first;         /* bytes from the first element of a row to its lowest one */
    xa_index span, step;    /* bytes of a row, and between its prefetches */
    xa_index next;          /* bytes from row to row */
    xa_index ahead;         /* rows */
    xa_index after;         /* bytes from a block of rows to the one after it, or 0 */
} xa_asking;

/* For blocks of `rows` rows of `n` elements, at least one. */
static inline xa_asking xa_asking_for(xa_index stride, xa_index next, xa_index n, xa_index rows,
                                      xa_index after)
{
    const xa_index apart = stride < 0 ? -stride : stride, step = apart < 64 ? 64 : apart;
    const xa_index lines = apart * n / step + 1;
    xa_asking a = {stride < 0 ? stride * (n - 1) : 0, apart * n, step, next,
                   XA_LINES / lines > 2 ? XA_LINES / lines : 2, after};
    if (after && a.ahead > rows) a.ahead = rows;
    return a;
}

static inline void xa_ask_row(const xa_asking *a, const char *row)
{
#if defined(__x86_64__)
    for (xa_index i = 0; i < a->span; i += a->step) _mm_prefetch(row + a->first + i, _MM_HINT_T0);
#else
    (void) a; (void) row;
#endif
}

static inline void xa_ask_rows(const xa_asking *a, const char *row, xa_index rows)
{
    const xa_index n = rows < a->ahead ? rows : a->ahead;
    for (xa_index i = 0; i < n; i++) xa_ask_row(a, row + i * a->next);
}

/* Prefetch the row `ahead` rows after one that has `rows` rows left, itself included: one at a
 * time, as the processor has only some dozens of lines in flight. */
static inline void xa_ask_ahead(const xa_asking *a, const char *row, xa_index rows, xa_index n_rows)
{
    if (rows > a->ahead) xa_ask_row(a, row + a->ahead * a->next);
    else if (a->after) xa_ask_row(a, row + (a->ahead - n_rows) * a->next + a->after);
}

/* Loops for one element size: `rows` rows of `n` elements. */
#define XA_DEFINE_LOOPS(NAME, T)                                                                  \
static void xa_rows_##NAME(char *d, xa_index ds, xa_index d_next, const char *s, xa_index ss,     \
                           xa_index s_next, xa_index n, xa_index rows, const xa_asking *a,        \
                           const char *ask)                                                       \
{                                                                                                 \
    T v, v1, v2, v3;                                                                              \
    const xa_index n_rows = rows;                                                                 \
    for (; rows > 0; rows--, d += d_next, s += s_next, ask += a->next) {                          \
        xa_ask_ahead(a, ask, rows, n_rows);                                                       \
        char *to = d;                                                                             \
        const char *from = s;                                                                     \
        xa_index i = 0;                                                                           \
        if (ss == 0 && ds == (xa_index) sizeof v) {                                               \
            memcpy(&v, s, sizeof v);                                                              \
            for (; i < n; i++) memcpy(to + i * (xa_index) sizeof v, &v, sizeof v);                \
        }                                                                                         \
        for (; i + 4 <= n; i += 4, to += 4 * ds, from += 4 * ss) {                                \
            memcpy(&v, from, sizeof v);                                                           \
            memcpy(&v1, from + ss, sizeof v);                                                     \
            memcpy(&v2, from + 2 * ss, sizeof v);                                                 \
            memcpy(&v3, from + 3 * ss, sizeof v);                                                 \
            memcpy(to, &v, sizeof v);                                                             \
            memcpy(to + ds, &v1, sizeof v);                                                       \
            memcpy(to + 2 * ds, &v2, sizeof v);                                                   \
            memcpy(to + 3 * ds, &v3, sizeof v);                                                   \
        }                                                                                         \
        for (; i < n; i++, to += ds, from += ss) {                                                \
            memcpy(&v, from, sizeof v);                                                           \
            memcpy(to, &v, sizeof v);                                                             \
        }                                                                                         \
    }                                                                                             \
}                                                                                                 \
/* Elements of a row whose places in the chunk a table gives. */                                  \
static void xa_gather_##NAME(char *d, xa_index ds, const char *chunk, const xa_index *place,      \
                             xa_index step, xa_index n)                                           \
{                                                                                                 \
    T v;                                                                                          \
    for (xa_index i = 0; i < n; i++, d += ds, place += step) {                                    \
        memcpy(&v, chunk + *place * (xa_index) sizeof v, sizeof v);                               \
        memcpy(d, &v, sizeof v);                                                                  \
    }                                                                                             \
}                                                                                                 \
static void xa_scatter_##NAME(char *chunk, const xa_index *place, xa_index step, const char *s,   \
                              xa_index ss, xa_index n)                                            \
{                                                                                                 \
    T v;                                                                                          \
    for (xa_index i = 0; i < n; i++, s += ss, place += step) {                                    \
        memcpy(&v, s, sizeof v);                                                                  \
        memcpy(chunk + *place * (xa_index) sizeof v, &v, sizeof v);                               \
    }                                                                                             \
}

XA_DEFINE_LOOPS(1, uint8_t)
XA_DEFINE_LOOPS(2, uint16_t)
XA_DEFINE_LOOPS(4, uint32_t)
XA_DEFINE_LOOPS(8, uint64_t)
XA_DEFINE_LOOPS(16, xa_16)

static void xa_rows_any(char *d, xa_index ds, xa_index d_next, const char *s, xa_index ss,
                        xa_index s_next, xa_index n, xa_index rows, xa_index size, const xa_asking *a,
                        const char *ask)
{
    const xa_index n_rows = rows;
    for (; rows > 0; rows--, d += d_next, s += s_next, ask += a->next) {
        xa_ask_ahead(a, ask, rows, n_rows);
        for (xa_index i = 0; i < n; i++) xa_copy_element(d + i * ds, s + i * ss, size);
    }
}

/* `ask`: the first row of the side (source or target) to prefetch as `a` says. */
static inline void xa_rows(char *d, xa_index ds, xa_index d_next, const char *s, xa_index ss,
                           xa_index s_next, xa_index n, xa_index rows, xa_index size,
                           const xa_asking *a, const char *ask)
{
    XA_BY_SIZE(xa_rows, (d, ds, d_next, s, ss, s_next, n, rows, a, ask),
               xa_rows_any(d, ds, d_next, s, ss, s_next, n, rows, size, a, ask))
}

static inline void xa_gather(char *d, xa_index ds, const char *chunk, const xa_index *place,
                             xa_index step, xa_index n, xa_index size)
{
    XA_BY_SIZE(xa_gather, (d, ds, chunk, place, step, n),
               for (; n > 0; n--, d += ds, place += step)
                   xa_copy_element(d, chunk + *place * size, size))
}

static inline void xa_scatter(char *chunk, const xa_index *place, xa_index step, const char *s,
                              xa_index ss, xa_index n, xa_index size)
{
    XA_BY_SIZE(xa_scatter, (chunk, place, step, s, ss, n),
               for (; n > 0; n--, s += ss, place += step)
                   xa_copy_element(chunk + *place * size, s, size))
}

static inline xa_index xa_abs(xa_index x) { return x < 0 ? -x : x; }

/* Copy a box of `count` elements (ndim >= 0 axes) of `size` bytes each.  With `stream`, long rows
 * bypass the caches, and the caller must call xa_stream_end() before others may see them. */
static void xa_copy_block(char *d, const xa_index *d_stride, const char *s, const xa_index *s_stride,
                          const xa_index *count, int ndim, xa_index size, int stream)
{
    xa_index n[XA_MAX_NDIM], ds[XA_MAX_NDIM], ss[XA_MAX_NDIM], at[XA_MAX_NDIM];
    int k = 0, i, j;

    /* Sort axes by falling stride of the target, to write it in memory order. */
    for (j = 0; j < ndim; j++) {
        if (count[j] == 0) return;
        if (count[j] == 1) continue;
        for (i = k; i > 0; i--) {
            xa_index a = xa_abs(ds[i - 1]), b = xa_abs(d_stride[j]);
            if (a > b || (a == b && xa_abs(ss[i - 1]) >= xa_abs(s_stride[j]))) break;
            n[i] = n[i - 1]; ds[i] = ds[i - 1]; ss[i] = ss[i - 1];
        }
        n[i] = count[j]; ds[i] = d_stride[j]; ss[i] = s_stride[j];
        k++;
    }
    /* Merge axes that are contiguous in both blocks. */
    for (i = k - 1; i > 0; i--)
        if (ds[i - 1] == n[i] * ds[i] && ss[i - 1] == n[i] * ss[i]) {
            n[i - 1] *= n[i]; ds[i - 1] = ds[i]; ss[i - 1] = ss[i];
            for (j = i; j < k - 1; j++) { n[j] = n[j + 1]; ds[j] = ds[j + 1]; ss[j] = ss[j + 1]; }
            k--;
        }
    /* Short contiguous rows count as elements: complex parts, the colours of a pixel. */
    if (k > 1 && ds[k - 1] == size && ss[k - 1] == size && n[k - 1] * size <= XA_LINE)
        size *= n[--k];
    if (k == 0) { memcpy(d, s, (size_t) size); return; }

    const int last = k - 1;
    int outer = last, turned = -1;
    stream = stream && n[last] * size >= XA_STREAMED;
    const int whole_rows = ds[last] == size && ss[last] == size;
    if (!whole_rows && ds[last] == size)
        for (i = 0; i < last; i++)
            if (ss[i] == size) turned = i;
    if (turned >= 0 && turned != last - 1) {
        /* Bring the axis along which the source is contiguous next to the last one. */
        xa_index tn = n[turned], td = ds[turned], ts = ss[turned];
        for (i = turned; i < last - 1; i++) { n[i] = n[i + 1]; ds[i] = ds[i + 1]; ss[i] = ss[i + 1]; }
        n[last - 1] = tn; ds[last - 1] = td; ss[last - 1] = ts;
    }
    if (outer > 0 && (turned >= 0 || !whole_rows || !stream)) outer = last - 1;

    for (i = 0; i < outer; i++) at[i] = 0;
    const xa_index row = n[last] * size;
    const xa_index ahead = outer > 0 ? 4 * ss[outer - 1] : 2048;
    if (whole_rows && last == 1 && !stream) {
        /* The common small case, without the odometer. */
        xa_copy_lines(d, ds[0], s, ss[0], row, n[0]);
        return;
    }
    const xa_index rows = last ? n[last - 1] : 1;
    /* Prefetch the side with scattered elements: the target, or else the source. */
    const int asks_target = ds[last] != size && (ss[last] == size || ss[last] == 0);
    const xa_index *as = asks_target ? ds : ss;
    const xa_asking asking = xa_asking_for(as[last], last ? as[last - 1] : 0, n[last], rows,
                                           outer > 0 ? as[outer - 1] : 0);
    if (!whole_rows && turned < 0) xa_ask_rows(&asking, asks_target ? d : s, rows);
    for (;;) {
        if (whole_rows) {
            if (stream) xa_stream_row(d, s, row, ahead);
            else xa_copy_lines(d, last ? ds[last - 1] : 0, s, last ? ss[last - 1] : 0, row, rows);
        } else if (turned >= 0) {
            xa_transpose(d, ds[last - 1], s, ss[last], n[last], n[last - 1], size);
        } else {
            const char *ask = asks_target ? d : s;
            xa_rows(d, ds[last], last ? ds[last - 1] : 0, s, ss[last], last ? ss[last - 1] : 0,
                    n[last], rows, size, &asking, ask);
        }
        for (i = outer - 1; i >= 0; i--) {
            d += ds[i]; s += ss[i];
            if (++at[i] < n[i]) break;
            d -= n[i] * ds[i]; s -= n[i] * ss[i]; at[i] = 0;
        }
        if (i < 0) return;
    }
}

/* Rows of a box, each in `n_pieces` pieces: piece p is in a chunk, at chunk[p] plus the row's offset,
 * and has bytes[p] bytes of elements `step` bytes apart.  A row is contiguous in the user's
 * memory, which is so accessed in long runs, not chunk by chunk.  With `stream`, the target is not
 * kept in the caches; without, elements must be contiguous in the chunks. */
static void xa_copy_rows(char *user, const xa_index *user_stride, char *const *chunk,
                         const xa_index *bytes, int n_pieces, const xa_index *chunk_stride,
                         xa_index step, const xa_index *count, int ndim, xa_index size, int write,
                         int stream)
{
    xa_index at[XA_MAX_NDIM], offset = 0;
    const xa_index next = ndim > 0 ? chunk_stride[ndim - 1] : 0;
    const xa_index user_next = ndim > 0 ? user_stride[ndim - 1] : 0;
    const int outer = stream || ndim == 0 ? ndim : ndim - 1;
    xa_row_writer w;
    int j, p;
    for (j = 0; j < outer; j++) at[j] = 0;
    for (;;) {
        char *u = user;
        if (!stream) {
            xa_copy_pieces(user, user_next, chunk, offset, next, bytes, n_pieces,
                           ndim > 0 ? count[ndim - 1] : 1, write);
        } else if (step == size && !write) {
            xa_row_begin(&w, u);
            for (p = 0; p < n_pieces; p++) xa_row_put(&w, chunk[p] + offset, bytes[p], 4 * next);
            xa_row_flush(&w);
        } else if (step == size) {
            for (p = 0; p < n_pieces; u += bytes[p++])
                xa_stream_row(chunk[p] + offset, u, bytes[p], 2 * user_next);
        } else {
            for (p = 0; p < n_pieces; u += bytes[p++]) {
                char *c = chunk[p] + offset;
                const xa_index n = bytes[p] / size;
                const xa_asking asking = xa_asking_for(step, next, n, 1, 0);
                xa_ask_row(&asking, c + asking.ahead * next);
                if (write) xa_rows(c, step, 0, u, size, 0, n, 1, size, &asking, c);
                else xa_rows(u, size, 0, c, step, 0, n, 1, size, &asking, c);
            }
        }
        for (j = outer - 1; j >= 0; j--) {
            user += user_stride[j]; offset += chunk_stride[j];
            if (++at[j] < count[j]) break;
            user -= count[j] * user_stride[j]; offset -= count[j] * chunk_stride[j]; at[j] = 0;
        }
        if (j < 0) return;
    }
}

#endif
