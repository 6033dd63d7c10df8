# Integers of the core, and the arithmetic on them that must not go wrong.

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


cdef inline index_t floor_div(index_t a, index_t b) noexcept nogil:
    # b > 0.
    return a // b if a >= 0 else ~(~a // b)


cdef inline index_t ceil_div(index_t a, index_t b) noexcept nogil:
    # b > 0.  C rounds towards zero, which is wrong for negative a.
    return a // b + (1 if a % b > 0 else 0)
