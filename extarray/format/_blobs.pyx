"""Blobs of a log, read, checked and decoded without the GIL, many at a time."""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc

from extarray.codecs._frames cimport decode_frame, frame_room_t, free_frame_room
from ._crc cimport checksum

cnp.import_array()

cdef extern from "../_core/_system.h":
    ctypedef int64_t off_t "xa_offset"
    Py_ssize_t xa_read_at(int fd, void *to, size_t n, off_t offset) noexcept nogil

cdef enum:
    # As in `blobs`.
    UNIT = 64
    LENGTH_BITS = 24
    HEAD_BYTES = 32
    CHECKSUM_BYTES = 4
    MIXED = 0xFFFF

# What is to be filled.
cdef struct target_t:
    uint64_t word
    int64_t address
    uint8_t *chunk


@cython.final
cdef class BlobReader:
    """Reads blobs of a log and decodes those whose payload is one frame.

    It keeps its memory from one call to the next, and serves one thread at a time.

    Parameters
    ----------
    uuid : bytes
        Of the log.
    codec : int
        The codec of all blobs, or `MIXED`.
    itemsize, chunk_bytes : int
    """

    cdef frame_room_t room
    cdef uint8_t *blob
    cdef int64_t n_blob, itemsize, chunk_bytes
    cdef uint32_t seed
    cdef int codec

    def __cinit__(self, bytes uuid not None, int codec, int64_t itemsize, int64_t chunk_bytes):
        if itemsize < 1 or chunk_bytes < 1:
            raise ValueError(f"chunks of {chunk_bytes} bytes, elements of {itemsize}")
        self.codec, self.itemsize, self.chunk_bytes = codec, itemsize, chunk_bytes
        self.seed = checksum(<const uint8_t *> <const char *> uuid, len(uuid), 0)

    def __dealloc__(self):
        free(self.blob)
        free_frame_room(&self.room)

    def read(self, int fd, list words not None, list addresses not None, list chunks not None, bint verify):
        """Decode the chunks that words lead to, each into an array of bytes of its own.

        Return the numbers of those for which this must be done another way, since they are not
        plainly right: `blobs` tells why, or can do it.  Their arrays may have been changed.
        """
        cdef Py_ssize_t i, n = len(words)
        cdef cnp.ndarray chunk
        cdef list left = []
        if len(addresses) != n or len(chunks) != n:
            raise ValueError("words, addresses and chunks differ in number")
        cdef target_t *targets = <target_t *> malloc(max(1, n) * sizeof(target_t))
        if targets == NULL:
            raise MemoryError(f"no memory to read {n} blobs")
        try:
            for i in range(n):
                chunk = chunks[i]
                if (cnp.PyArray_NBYTES(chunk) != self.chunk_bytes
                        or not cnp.PyArray_IS_C_CONTIGUOUS(chunk) or not cnp.PyArray_ISWRITEABLE(chunk)):
                    raise ValueError(f"chunk {addresses[i]} has no writable array of its bytes")
                targets[i].word, targets[i].address = words[i], addresses[i]
                targets[i].chunk = <uint8_t *> cnp.PyArray_DATA(chunk)
            with nogil:
                for i in range(n):
                    if self.fill(fd, &targets[i], verify):
                        targets[i].chunk = NULL
            for i in range(n):
                if targets[i].chunk != NULL:
                    left.append(i)
        finally:
            free(targets)
        return left

    cdef bint fill(self, int fd, const target_t *target, bint verify) noexcept nogil:
        """Read and decode a blob; False if that fails in any way."""
        cdef int64_t offset = <int64_t> (target.word >> LENGTH_BITS) * UNIT
        cdef int64_t size = <int64_t> (target.word & ((1 << LENGTH_BITS) - 1)) * UNIT
        cdef uint64_t n_payload
        cdef int codec
        if offset == 0 or size < HEAD_BYTES or size - UNIT >= HEAD_BYTES + self.chunk_bytes:
            return False
        if self.n_blob < size:
            found = realloc(self.blob, size)
            if found == NULL:
                return False
            self.blob, self.n_blob = <uint8_t *> found, size
        cdef const uint8_t *blob = self.blob
        size = xa_read_at(fd, self.blob, size, offset)     # the last blob may end before its unit
        if size < HEAD_BYTES:
            return False
        # Checksum, bytes of the payload, address, number, codec, filter, 0, number of blocks.
        n_payload, codec = number(blob + 4, 4), <int> number(blob + 24, 2)
        if (number(blob + 8, 8) != <uint64_t> target.address
                or n_payload > <uint64_t> (size - HEAD_BYTES)
                or (self.codec != MIXED and self.codec != codec) or blob[27] or number(blob + 28, 4)):
            return False
        if verify and number(blob, CHECKSUM_BYTES) != checksum(
                blob + CHECKSUM_BYTES, HEAD_BYTES + n_payload - CHECKSUM_BYTES, self.seed):
            return False
        return decode_frame(
            target.chunk, self.chunk_bytes, codec, blob[26], blob + HEAD_BYTES, n_payload,
            self.itemsize, &self.room)


cdef inline uint64_t number(const uint8_t *bytes, int n) noexcept nogil:
    """Return a number of n bytes, the lowest one first."""
    cdef uint64_t found = 0
    while n:
        n -= 1
        found = found << 8 | bytes[n]
    return found
