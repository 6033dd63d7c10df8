# Integers of the core, the arithmetic on them that must not overflow, and variables that threads
# share: plain with the GIL, locks and atomics without it.

from libc.stdint cimport int32_t, int64_t

ctypedef int64_t index_t

# NumPy's limit on dimensions; small vectors over the axes live on the stack.
cdef enum:
    MAX_NDIM = 32

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define xa_mul_overflows(a, b, r) __builtin_mul_overflow((a), (b), (r))
    #define xa_add_overflows(a, b, r) __builtin_add_overflow((a), (b), (r))
    #else
    #error "extarray needs GCC or Clang (checked integer arithmetic)"
    #endif
    _Static_assert(sizeof(void *) == 8, "extarray needs a 64-bit system");
    """
    bint xa_mul_overflows(index_t a, index_t b, index_t *r) noexcept nogil
    bint xa_add_overflows(index_t a, index_t b, index_t *r) noexcept nogil

cdef extern from "_shared.h":
    const bint FREE_THREADS "XA_FREE_THREADS"   # there is no GIL; a compile-time constant
    ctypedef struct lock_t "xa_lock_t":
        pass
    ctypedef struct apart_t "xa_apart_t":
        pass
    void acquire "xa_lock"(lock_t *lock) noexcept
    void release "xa_unlock"(lock_t *lock) noexcept
    void make_lock "xa_make_lock"(lock_t *lock) noexcept
    index_t count_of "xa_number"(const index_t *p) noexcept
    void add_to "xa_add"(index_t *p, index_t n) noexcept
    size_t bytes_of "xa_number"(const size_t *p) noexcept
    void add_bytes "xa_add"(size_t *p, size_t n) noexcept
    void *shown_at "xa_shown"(void **p) noexcept
    void show_at "xa_show"(void **p, void *what) noexcept
    int hint_of "xa_hint"(const int *p) noexcept
    void set_hint "xa_set_hint"(int *p, int n) noexcept
    void fence "xa_fence"() noexcept


cdef inline index_t floor_div(index_t a, index_t b) noexcept nogil:
    # b > 0.
    return a // b if a >= 0 else ~(~a // b)


cdef inline index_t ceil_div(index_t a, index_t b) noexcept nogil:
    # b > 0.  C rounds towards zero, which is wrong for negative a.
    return a // b + (1 if a % b > 0 else 0)
