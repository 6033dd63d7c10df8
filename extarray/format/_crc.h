/* CRC-32C (Castagnoli): by table, and by processor instructions. */
#ifndef EXTARRAY_CRC_H
#define EXTARRAY_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../_core/_system.h"

/* Find the first row whose first four bytes are not the checksum of the rest.  Rows of the growth
 * log have 8 bytes, and 8 for each axis: for few axes, the length is a constant. */
#define XA_FIRST_WRONG(target, name, update)                                                  \
    target static inline __attribute__((always_inline)) size_t                                \
    name##_of(const uint8_t *row, ptrdiff_t step, size_t n, size_t m, uint32_t crc) {         \
        size_t i;                                                                             \
        for (i = 0; i < n; i++, row += step) {                                                \
            uint32_t told = row[0] | row[1] << 8 | row[2] << 16 | (uint32_t) row[3] << 24;    \
            if (told != ~update(~crc, row + 4, m - 4)) break;                                 \
        }                                                                                     \
        return i;                                                                             \
    }                                                                                         \
    target static size_t                                                                      \
    name(const uint8_t *row, ptrdiff_t step, size_t n, size_t m, uint32_t crc) {              \
        switch (m) {                                                                          \
        case 16: return name##_of(row, step, n, 16, crc);                                     \
        case 24: return name##_of(row, step, n, 24, crc);                                     \
        case 32: return name##_of(row, step, n, 32, crc);                                     \
        case 40: return name##_of(row, step, n, 40, crc);                                     \
        }                                                                                     \
        return name##_of(row, step, n, m, crc);                                               \
    }

/* One table look-up a byte, on any machine. */
static uint32_t xa_crc_table[256];

static void xa_crc_prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int j = 0; j < 8; j++) c = (c >> 1) ^ (0x82F63B78u & (0u - (c & 1u)));
        xa_crc_table[i] = c;
    }
}

static uint32_t xa_crc_bytewise(uint32_t crc, const uint8_t *p, size_t n) {
    while (n--) crc = (crc >> 8) ^ xa_crc_table[(crc ^ *p++) & 255];
    return crc;
}

XA_FIRST_WRONG(, xa_first_wrong_bytewise, xa_crc_bytewise)

/* Use instructions that the processor may lack at run time. */
#if defined(__x86_64__)
#include <nmmintrin.h>
/* Clang builds may leave these instructions out of SSE 4.2, and older GCCs know no name for them. */
#if defined(__clang_major__) && __clang_major__ >= 14
#define XA_CRC_TARGET __attribute__((target("sse4.2,crc32")))
#else
#define XA_CRC_TARGET __attribute__((target("sse4.2")))
#endif
#define xa_crc_u64 (uint32_t) _mm_crc32_u64
#define xa_crc_u32 _mm_crc32_u32
#define xa_crc_u8 _mm_crc32_u8
#define XA_CRC_HAS_HARDWARE() __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__) && !defined(__AARCH64EB__) && (defined(__linux__) || defined(__APPLE__))
/* Without arm_acle.h, which some compilers leave empty unless the whole file may use them. */
#define XA_CRC_ARM(name, mnemonic, type, size)                                                \
    static inline uint32_t name(uint32_t crc, type data) {                                    \
        __asm__(".arch_extension crc\n\t" mnemonic " %w0, %w0, %" size "1"                    \
                : "+r"(crc) : "r"(data));                                                     \
        return crc;                                                                           \
    }
XA_CRC_ARM(xa_crc_u64, "crc32cx", uint64_t, "x")
XA_CRC_ARM(xa_crc_u32, "crc32cw", uint32_t, "w")
XA_CRC_ARM(xa_crc_u8, "crc32cb", uint32_t, "w")
#define XA_CRC_TARGET
#if defined(__linux__)
#define XA_CRC_HAS_HARDWARE() (xa_processor_features() >> 7 & 1)
#else
#define XA_CRC_HAS_HARDWARE() 1
#endif
#endif

#if defined(XA_CRC_TARGET)
XA_CRC_TARGET
static inline __attribute__((always_inline)) uint32_t
xa_crc_hardware(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        crc = xa_crc_u64(crc, w);
    }
    if (n >= 4) {
        uint32_t w;
        memcpy(&w, p, 4);
        crc = xa_crc_u32(crc, w);
        n -= 4;
        p += 4;
    }
    while (n--) crc = xa_crc_u8(crc, *p++);
    return crc;
}
XA_FIRST_WRONG(XA_CRC_TARGET, xa_first_wrong_hardware, xa_crc_hardware)
#else
#define xa_crc_hardware xa_crc_bytewise
#define xa_first_wrong_hardware xa_first_wrong_bytewise
#define XA_CRC_HAS_HARDWARE() 0
#endif

typedef uint32_t (*xa_crc_function)(uint32_t, const uint8_t *, size_t);
static xa_crc_function xa_crc_best(void) {
    xa_crc_prepare();
    return XA_CRC_HAS_HARDWARE() ? xa_crc_hardware : xa_crc_bytewise;
}

typedef size_t (*xa_first_wrong_function)(const uint8_t *, ptrdiff_t, size_t, size_t, uint32_t);
static xa_first_wrong_function xa_first_wrong_best(void) {
    return XA_CRC_HAS_HARDWARE() ? xa_first_wrong_hardware : xa_first_wrong_bytewise;
}

#endif
