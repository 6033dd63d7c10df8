/* Copying rows of bytes: short ones in the widest registers of the processor that runs the program,
 * and those of large results past its caches.
 *
 * Neither side need be aligned.
 */
#ifndef EXTARRAY_LINES_H
#define EXTARRAY_LINES_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    XA_STREAMED = 192,      /* bytes of a row from which stores bypass the caches */
    XA_SHORT_ROW = 2048,    /* bytes up to which a row is copied here, not by memcpy */
    XA_RUN_LINES = 16       /* lines of a run that are prefetched: then the processor goes on */
};

/* Rows are copied in registers of WIDTH bytes, the last of which ends at the row's end: a call of
 * memcpy takes as long as copying a short row.  Functions are aligned and not inlined, because so
 * short a loop is slower across two cache lines.
 *
 * xa_copy_lines: `rows` rows of `n` bytes, at least WIDTH.
 * xa_copy_pieces: `rows` rows that are contiguous in the user's memory and cut into pieces, one in
 * each of a row of chunks; piece p has bytes[p] bytes, at chunk[p] + offset. */
#define XA_COPY_LINE(WIDTH, d, s, n)                                                              \
    do {                                                                                          \
        for (int64_t i = 0; i < (n) - WIDTH; i += WIDTH)                                          \
            *(xa_register_##WIDTH *) ((d) + i) = *(const xa_register_##WIDTH *) ((s) + i);        \
        *(xa_register_##WIDTH *) ((d) + (n) - WIDTH) =                                            \
            *(const xa_register_##WIDTH *) ((s) + (n) - WIDTH);                                   \
    } while (0)
#define XA_DEFINE_COPY_LINES(WIDTH, TARGET)                                                       \
typedef char xa_register_##WIDTH __attribute__((vector_size(WIDTH), aligned(1), may_alias));      \
__attribute__((aligned(64), noinline)) TARGET                                                     \
static void xa_copy_lines_##WIDTH(char *d, int64_t d_next, const char *s, int64_t s_next,         \
                                  int64_t n, int64_t rows)                                        \
{                                                                                                 \
    for (; rows > 0; rows--, d += d_next, s += s_next) XA_COPY_LINE(WIDTH, d, s, n);              \
}
#define XA_DEFINE_COPY_PIECES(WIDTH, TARGET)                                                      \
__attribute__((aligned(64), noinline)) TARGET                                                     \
static void xa_copy_pieces_##WIDTH(char *user, int64_t user_next, char *const *chunk,             \
                                   int64_t offset, int64_t next, const int64_t *bytes,            \
                                   int n_pieces, int64_t rows, int write)                         \
{                                                                                                 \
    for (; rows > 0; rows--, user += user_next, offset += next) {                                 \
        char *u = user;                                                                           \
        for (int p = 0; p < n_pieces; p++) {                                                      \
            const int64_t n = bytes[p];                                                           \
            char *c = chunk[p] + offset;                                                          \
            if (n < 16 || n > XA_SHORT_ROW) memcpy(write ? c : u, write ? u : c, (size_t) n);     \
            else if (n < WIDTH) XA_COPY_LINE(16, write ? c : u, write ? u : c, n);                \
            else if (write) XA_COPY_LINE(WIDTH, c, u, n);                                         \
            else XA_COPY_LINE(WIDTH, u, c, n);                                                    \
            u += n;                                                                               \
        }                                                                                         \
    }                                                                                             \
}
XA_DEFINE_COPY_LINES(16, )
XA_DEFINE_COPY_PIECES(16, )
#if defined(__x86_64__)
XA_DEFINE_COPY_LINES(32, __attribute__((target("avx2"))))
XA_DEFINE_COPY_LINES(64, __attribute__((target("avx512f"))))
XA_DEFINE_COPY_PIECES(32, __attribute__((target("avx2"))))
XA_DEFINE_COPY_PIECES(64, __attribute__((target("avx512f"))))
#endif

static inline void xa_copy_lines(char *d, int64_t d_next, const char *s, int64_t s_next, int64_t n,
                                 int64_t rows)
{
    if (n < 16 || n > XA_SHORT_ROW) {
        for (; rows > 0; rows--, d += d_next, s += s_next) memcpy(d, s, (size_t) n);
        return;
    }
#if defined(__x86_64__)
    if (n >= 64 && __builtin_cpu_supports("avx512f"))
        xa_copy_lines_64(d, d_next, s, s_next, n, rows);
    else if (n >= 32 && __builtin_cpu_supports("avx2"))
        xa_copy_lines_32(d, d_next, s, s_next, n, rows);
    else
#endif
    xa_copy_lines_16(d, d_next, s, s_next, n, rows);
}

static inline void xa_copy_pieces(char *user, int64_t user_next, char *const *chunk, int64_t offset,
                                  int64_t next, const int64_t *bytes, int n_pieces, int64_t rows,
                                  int write)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        xa_copy_pieces_64(user, user_next, chunk, offset, next, bytes, n_pieces, rows, write);
    else if (__builtin_cpu_supports("avx2"))
        xa_copy_pieces_32(user, user_next, chunk, offset, next, bytes, n_pieces, rows, write);
    else
#endif
    xa_copy_pieces_16(user, user_next, chunk, offset, next, bytes, n_pieces, rows, write);
}

/* Stores past the caches, for results too large to stay there: a plain store first reads the line
 * that it overwrites.  `d` is aligned to a 64-byte line, `n` a multiple of 64; `ahead` is the
 * offset of a later source row to prefetch. */
#if defined(__x86_64__)
static inline void xa_stream_lines_sse2(char *d, const char *s, int64_t n, int64_t ahead)
{
    for (; n >= 64; n -= 64, d += 64, s += 64) {
        _mm_prefetch(s + ahead, _MM_HINT_T0);
        __m128i a = _mm_loadu_si128((const __m128i *) s);
        __m128i b = _mm_loadu_si128((const __m128i *) (s + 16));
        __m128i c = _mm_loadu_si128((const __m128i *) (s + 32));
        __m128i e = _mm_loadu_si128((const __m128i *) (s + 48));
        _mm_stream_si128((__m128i *) d, a);
        _mm_stream_si128((__m128i *) (d + 16), b);
        _mm_stream_si128((__m128i *) (d + 32), c);
        _mm_stream_si128((__m128i *) (d + 48), e);
    }
}

__attribute__((target("avx512f")))
static void xa_stream_lines_avx512(char *d, const char *s, int64_t n, int64_t ahead)
{
    for (; n >= 64; n -= 64, d += 64, s += 64) {
        _mm_prefetch(s + ahead, _MM_HINT_T0);
        _mm512_stream_si512((__m512i *) d, _mm512_loadu_si512((const void *) s));
    }
}

static inline void xa_stream_lines(char *d, const char *s, int64_t n, int64_t ahead)
{
    if (__builtin_cpu_supports("avx512f")) xa_stream_lines_avx512(d, s, n, ahead);
    else xa_stream_lines_sse2(d, s, n, ahead);
}

/* Only a fence orders streaming stores with later ones. */
static inline void xa_stream_end(void) { _mm_sfence(); }
#else
static inline void xa_stream_lines(char *d, const char *s, int64_t n, int64_t ahead)
{
    (void) ahead;
    memcpy(d, s, (size_t) n);
}
static inline void xa_stream_end(void) {}
#endif

/* One row of bytes, past the caches. */
static inline void xa_stream_row(char *d, const char *s, int64_t n, int64_t ahead)
{
    if (n >= XA_STREAMED) {
        int64_t head = (int64_t) ((64 - ((uintptr_t) d & 63)) & 63), lines;
        memcpy(d, s, (size_t) head);
        d += head; s += head; n -= head;
        lines = n & ~(int64_t) 63;
        xa_stream_lines(d, s, lines, ahead);
        d += lines; s += lines; n -= lines;
    }
    memcpy(d, s, (size_t) n);
}

/* Prefetch the first lines of a run of `n` bytes: the processor's own prefetching begins anew in
 * each. */
static inline void xa_ask_run(const char *run, int64_t n)
{
#if defined(__x86_64__)
    if (n > XA_RUN_LINES * 64) n = XA_RUN_LINES * 64;
    for (int64_t i = 0; i < n; i += 64) _mm_prefetch(run + i, _MM_HINT_T0);
#else
    (void) run; (void) n;
#endif
}

#endif
