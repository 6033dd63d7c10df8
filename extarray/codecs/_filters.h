/* Byte and bit shuffle: the bytes, or bits, of equal weight of many elements side by side.
 *
 * Of n elements of s bytes, byte shuffle makes s planes: plane j has byte j of each element, as the
 * shuffle of HDF5 and of Blosc.  Bit shuffle makes 8 s planes: plane 8 j + k has bit k of byte j of
 * each element, the first element in the lowest bit, as bitshuffle does in one block.  It leaves
 * the last n % 8 elements as they are.
 *
 * A perfect shuffle turns the order of s vectors of 16 bytes by one bit: vector i and vector
 * i + s / 2, interleaved, give vectors 2 i and 2 i + 1.  4 of these turn 16 elements into planes,
 * log2(s) turn planes into elements.
 */
#ifndef EXTARRAY_FILTERS_H
#define EXTARRAY_FILTERS_H

#include "../_core/_interleave.h"

enum { XA_TILE = 128 }; /* elements of a tile of bit shuffle, whose bits fill a vector each */

#ifdef XA_HAS_SHUFFLE
static inline void xa_interleave(xa_v1 *to, xa_v1 x, xa_v1 y)
{
    to[0] = XA_LOW_1(x, y);
    to[1] = XA_HIGH_1(x, y);
}
#else
typedef struct { uint8_t at[XA_VECTOR]; } xa_v1;

static inline void xa_interleave(xa_v1 *to, xa_v1 x, xa_v1 y)
{
    for (int i = 0; i < XA_VECTOR; i++) {
        to[i / 8].at[2 * (i % 8)] = x.at[i];
        to[i / 8].at[2 * (i % 8) + 1] = y.at[i];
    }
}
#endif

/* Move `count` vectors of each of S planes: from elements to planes, and back.  Planes begin `step`
 * bytes after each other. */
#define XA_DEFINE_SHUFFLE(S, ROUNDS)                                                              \
static inline void xa_turn_##S(xa_v1 *v, int rounds)                                              \
{                                                                                                 \
    xa_v1 w[S];                                                                                   \
    for (int n = 0; n < rounds; n++) {                                                            \
        for (int i = 0; i < S / 2; i++) xa_interleave(w + 2 * i, v[i], v[i + S / 2]);             \
        memcpy(v, w, sizeof w);                                                                   \
    }                                                                                             \
}                                                                                                 \
static inline void xa_to_planes_##S(uint8_t *planes, xa_index step, const uint8_t *elements,      \
                                    xa_index count)                                               \
{                                                                                                 \
    for (xa_index at = 0; at < count; at++) {                                                     \
        xa_v1 v[S];                                                                               \
        memcpy(v, elements + at * (xa_index) sizeof v, sizeof v);                                 \
        xa_turn_##S(v, 4);                                                                        \
        for (int j = 0; j < S; j++) memcpy(planes + j * step + at * XA_VECTOR, &v[j], XA_VECTOR); \
    }                                                                                             \
}                                                                                                 \
static inline void xa_from_planes_##S(uint8_t *elements, const uint8_t *planes, xa_index step,    \
                                      xa_index count)                                             \
{                                                                                                 \
    for (xa_index at = 0; at < count; at++) {                                                     \
        xa_v1 v[S];                                                                               \
        for (int j = 0; j < S; j++) memcpy(&v[j], planes + j * step + at * XA_VECTOR, XA_VECTOR); \
        xa_turn_##S(v, ROUNDS);                                                                   \
        memcpy(elements + at * (xa_index) sizeof v, v, sizeof v);                                 \
    }                                                                                             \
}
XA_DEFINE_SHUFFLE(2, 1)
XA_DEFINE_SHUFFLE(4, 2)
XA_DEFINE_SHUFFLE(8, 3)
XA_DEFINE_SHUFFLE(16, 4)

static inline void xa_gather_bytes(uint8_t *d, const uint8_t *s, xa_index size, xa_index n)
{
    for (xa_index i = 0; i < n; i++) d[i] = s[i * size];
}

static inline void xa_scatter_bytes(uint8_t *d, const uint8_t *s, xa_index size, xa_index n)
{
    for (xa_index i = 0; i < n; i++) d[i * size] = s[i];
}

/* Elements [0, n) to planes `step` bytes apart, or back; element sizes without a network go byte by
 * byte, as do the elements that fill no vectors. */
static inline void xa_bytes_to_planes(uint8_t *d, xa_index step, const uint8_t *s, xa_index n,
                                      xa_index size)
{
    xa_index done = n / XA_VECTOR;
    switch (size) {
    case 1: memcpy(d, s, (size_t) n); return;
    case 2: xa_to_planes_2(d, step, s, done); break;
    case 4: xa_to_planes_4(d, step, s, done); break;
    case 8: xa_to_planes_8(d, step, s, done); break;
    case 16: xa_to_planes_16(d, step, s, done); break;
    default: done = 0;
    }
    done *= XA_VECTOR;
    if (done < n)
        for (xa_index j = 0; j < size; j++)
            xa_gather_bytes(d + j * step + done, s + done * size + j, size, n - done);
}

static inline void xa_bytes_from_planes(uint8_t *d, const uint8_t *s, xa_index step, xa_index n,
                                        xa_index size)
{
    xa_index done = n / XA_VECTOR;
    switch (size) {
    case 1: memcpy(d, s, (size_t) n); return;
    case 2: xa_from_planes_2(d, s, step, done); break;
    case 4: xa_from_planes_4(d, s, step, done); break;
    case 8: xa_from_planes_8(d, s, step, done); break;
    case 16: xa_from_planes_16(d, s, step, done); break;
    default: done = 0;
    }
    done *= XA_VECTOR;
    if (done < n)
        for (xa_index j = 0; j < size; j++)
            xa_scatter_bytes(d + done * size + j, s + j * step + done, size, n - done);
}

static inline void xa_shuffle(uint8_t *d, const uint8_t *s, xa_index n, xa_index size)
{
    xa_bytes_to_planes(d, n, s, n, size);
}

static inline void xa_unshuffle(uint8_t *d, const uint8_t *s, xa_index n, xa_index size)
{
    xa_bytes_from_planes(d, s, n, n, size);
}

/* Byte e, bit k becomes byte k, bit e. */
static inline uint64_t xa_turn_bits(uint64_t x)
{
    uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAu;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCu;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0u;
    return x ^ t ^ (t << 28);
}

/* The 8 planes of bits of one byte of a tile, or, of fewer elements, a multiple of 8. */
static inline void xa_bits_to_planes(uint8_t *d, xa_index step, const uint8_t *s, xa_index n)
{
    uint64_t words[XA_TILE / 8];
    memcpy(words, s, (size_t) n);
    for (xa_index i = 0; i < n / 8; i++) words[i] = xa_turn_bits(words[i]);
    xa_bytes_to_planes(d, step, (const uint8_t *) words, n / 8, 8);
}

static inline void xa_bits_from_planes(uint8_t *d, const uint8_t *s, xa_index step, xa_index n)
{
    uint64_t words[XA_TILE / 8];
    xa_bytes_from_planes((uint8_t *) words, s, step, n / 8, 8);
    for (xa_index i = 0; i < n / 8; i++) words[i] = xa_turn_bits(words[i]);
    memcpy(d, words, (size_t) n);
}

static inline void xa_bit_shuffle(uint8_t *d, const uint8_t *s, xa_index n, xa_index size)
{
    xa_index whole = n / 8 * 8, step = whole / 8;
    uint8_t planes[XA_VECTOR * XA_TILE];
    for (xa_index at = 0; at < whole; at += XA_TILE) {
        xa_index here = whole - at < XA_TILE ? whole - at : XA_TILE;
        for (xa_index j = 0; j < size; j += XA_VECTOR) {
            xa_index some = size - j < XA_VECTOR ? size - j : XA_VECTOR;
            if (some == size)
                xa_bytes_to_planes(planes, XA_TILE, s + at * size, here, size);
            else
                for (xa_index i = 0; i < some; i++)
                    xa_gather_bytes(planes + i * XA_TILE, s + at * size + j + i, size, here);
            for (xa_index i = 0; i < some; i++)
                xa_bits_to_planes(d + 8 * (j + i) * step + at / 8, step, planes + i * XA_TILE, here);
        }
    }
    memcpy(d + whole * size, s + whole * size, (size_t) ((n - whole) * size));
}

static inline void xa_bit_unshuffle(uint8_t *d, const uint8_t *s, xa_index n, xa_index size)
{
    xa_index whole = n / 8 * 8, step = whole / 8;
    uint8_t planes[XA_VECTOR * XA_TILE];
    for (xa_index at = 0; at < whole; at += XA_TILE) {
        xa_index here = whole - at < XA_TILE ? whole - at : XA_TILE;
        for (xa_index j = 0; j < size; j += XA_VECTOR) {
            xa_index some = size - j < XA_VECTOR ? size - j : XA_VECTOR;
            for (xa_index i = 0; i < some; i++)
                xa_bits_from_planes(planes + i * XA_TILE, s + 8 * (j + i) * step + at / 8, step, here);
            if (some == size)
                xa_bytes_from_planes(d + at * size, planes, XA_TILE, here, size);
            else
                for (xa_index i = 0; i < some; i++)
                    xa_scatter_bytes(d + at * size + j + i, planes + i * XA_TILE, size, here);
        }
    }
    memcpy(d + whole * size, s + whole * size, (size_t) ((n - whole) * size));
}

/* Write one element over and over. */
static inline void xa_repeat(uint8_t *d, const uint8_t *element, xa_index size, xa_index n)
{
    xa_index done = size < n ? size : n;
    memcpy(d, element, (size_t) done);
    while (done < n) {
        xa_index some = done < n - done ? done : n - done;
        memcpy(d + done, d, (size_t) some);
        done += some;
    }
}

#endif
