"""Frames of zstd, decoded by functions of the library without an object for each frame.

A decoder of Python's module serves one frame, and takes some microseconds to make: on virtual
machines, as long as 20 KiB take to decode.  Contexts of the library serve frame after frame, and
write where the bytes belong.
"""

from libc.stdint cimport uint8_t, uintptr_t

cdef extern from *:
    """
    #include <stddef.h>
    typedef void *(*xa_create_t)(void);
    typedef size_t (*xa_free_t)(void *);
    typedef size_t (*xa_decode_t)(void *, void *, size_t, const void *, size_t);
    typedef size_t (*xa_length_t)(const void *, size_t);
    """
    ctypedef void *(*xa_create_t)() noexcept nogil
    ctypedef size_t (*xa_free_t)(void *) noexcept nogil
    ctypedef size_t (*xa_decode_t)(void *, void *, size_t, const void *, size_t) noexcept nogil
    ctypedef size_t (*xa_length_t)(const void *, size_t) noexcept nogil

cdef enum:
    DESCRIPTOR = 4              # the byte behind the magic
    SINGLE_SEGMENT = 1 << 5     # the frame asks for no memory beyond its own bytes
    MOST_KEPT = 64

# The magic of RFC 8878.
cdef const uint8_t *MAGIC = b"\x28\xb5\x2f\xfd"


cdef class Contexts:
    """Contexts for decoding, each used by one thread at a time.

    Parameters
    ----------
    create, free, decode, length : int
        Addresses of ``ZSTD_createDCtx``, ``ZSTD_freeDCtx``, ``ZSTD_decompressDCtx`` and
        ``ZSTD_findFrameCompressedSize``.
    """

    cdef xa_create_t create
    cdef xa_free_t free
    cdef xa_decode_t decode
    cdef xa_length_t length
    cdef list idle              # a list of Python's: appending and popping are atomic

    def __init__(self, uintptr_t create, uintptr_t free, uintptr_t decode, uintptr_t length):
        self.create = <xa_create_t> create
        self.free = <xa_free_t> free
        self.decode = <xa_decode_t> decode
        self.length = <xa_length_t> length
        self.idle = []

    def __dealloc__(self):
        cdef uintptr_t context
        if self.idle is not None:
            for context in self.idle:
                self.free(<void *> context)

    def decode_into(self, uint8_t[::1] out not None, const uint8_t[::1] frame not None):
        """Write the bytes of one frame; return False, unless it is a plain one of so many bytes.

        Then another decoder has to judge; `out` may have been changed.
        """
        cdef size_t n = frame.shape[0], size = out.shape[0], found
        cdef uintptr_t context
        cdef int i
        if n <= DESCRIPTOR or size == 0 or not frame[DESCRIPTOR] & SINGLE_SEGMENT:
            return False
        for i in range(DESCRIPTOR):
            if frame[i] != MAGIC[i]:
                return False
        if self.length(&frame[0], n) != n:
            return False
        try:
            context = self.idle.pop()
        except IndexError:
            context = <uintptr_t> self.create()
            if context == 0:
                raise MemoryError("no memory for a decoder of zstd") from None
        with nogil:
            found = self.decode(<void *> context, &out[0], size, &frame[0], n)
        if len(self.idle) < MOST_KEPT:
            self.idle.append(context)
        else:
            self.free(<void *> context)
        return found == size
