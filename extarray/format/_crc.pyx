"""CRC-32C (Castagnoli), the checksum of all metadata; reading the growth log, with its checks."""

import os

import numpy as np

from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from extarray.common.errors import CorruptError

cdef extern from "_crc.h":
    ctypedef uint32_t (*xa_crc_function)(uint32_t, const uint8_t *, size_t) noexcept nogil
    ctypedef size_t (*xa_first_wrong_function)(
        const uint8_t *, Py_ssize_t, size_t, size_t, uint32_t) noexcept nogil
    xa_crc_function xa_crc_best() noexcept
    xa_first_wrong_function xa_first_wrong_best() noexcept
    uint32_t xa_crc_bytewise(uint32_t, const uint8_t *, size_t) noexcept nogil

cdef extern from "../_core/_system.h":
    ctypedef int64_t off_t "xa_offset"
    Py_ssize_t xa_read_at(int fd, void *to, size_t n, off_t offset) noexcept nogil

cdef xa_crc_function update = xa_crc_best()
cdef xa_first_wrong_function first_wrong = xa_first_wrong_best()

cdef enum:
    PIECE = 1 << 18         # bytes to read at once, and check while they are in the caches
    # The growth log.
    FIRST_EXTENT = 8        # records; each extent has twice as many as the one before
    HEAD_BYTES = 16         # before an extent's records: the next extent, a checksum, zeros
    NEXT_BYTES = 8
    SIDE_AT = 4             # offset in a record, behind its checksum


def crc32c(const uint8_t[::1] data not None, uint32_t crc=0):
    """CRC-32C of bytes, continuing from the checksum of the bytes before.

    Parameters
    ----------
    data : buffer of bytes
    crc : int
        Checksum of the bytes before these; 0 at the start.

    Returns
    -------
    int
        In [0, 2**32).

    Examples
    --------
    >>> crc32c(b"123456789") == 0xE3069283
    True
    >>> crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    True
    """
    return crc if data.shape[0] == 0 else checksum(&data[0], data.shape[0], crc)


cdef uint32_t checksum(const uint8_t *data, size_t n, uint32_t crc) noexcept nogil:
    return ~update(~crc, data, n)


def crc32c_rows(const uint8_t[:, :] rows not None, uint32_t crc=0):
    """CRC-32C of each row of bytes, each continuing from the same checksum.

    Parameters
    ----------
    rows : (n, m) array of uint8
        Contiguous along axis 1.
    crc : int
        Checksum of the bytes that precede every row.

    Returns
    -------
    (n,) array of uint32

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.frombuffer(b"123456789" * 2, np.uint8).reshape(2, 9)
    >>> [hex(c) for c in crc32c_rows(rows)]
    ['0xe3069283', '0xe3069283']
    """
    cdef Py_ssize_t i, n = rows.shape[0], m = rows.shape[1]
    if m > 1 and rows.strides[1] != 1:
        raise ValueError("rows must be contiguous along axis 1")
    out = np.empty(n, np.uint32)
    cdef uint32_t[::1] crcs = out
    with nogil:
        for i in range(n):
            crcs[i] = crc if m == 0 else checksum(&rows[i, 0], m, crc)
    return out


def crc32c_first_wrong(const uint8_t[:, :] rows not None, uint32_t crc=0):
    """Return the first row that does not begin with the CRC-32C of its rest.

    Parameters
    ----------
    rows : (n, m) array of uint8
        Contiguous along axis 1; the checksums, of 4 bytes, are little-endian.
    crc : int
        Checksum of the bytes that precede the rest of every row.

    Returns
    -------
    int
        n if all rows are right.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.frombuffer(bytes.fromhex("839206e3") + b"123456789", np.uint8).reshape(1, 13)
    >>> crc32c_first_wrong(rows), crc32c_first_wrong(rows, 1)
    (1, 0)
    """
    cdef Py_ssize_t i = 0, n = rows.shape[0], m = rows.shape[1]
    if m < 4 or rows.strides[1] != 1:
        raise ValueError("rows must have a checksum, and be contiguous along axis 1")
    if n:
        with nogil:
            i = first_wrong(&rows[0, 0], rows.strides[0], n, m, crc)
    return i


def crc32c_ranges(int fd, const int64_t[::1] offsets not None, int64_t length):
    """CRC-32C of parts of a file, all of one length.

    Parameters
    ----------
    fd : int
    offsets : (n,) array of int64
        Offsets of the parts.
    length : int
        Bytes of each part.

    Returns
    -------
    (n,) array of uint32

    Raises
    ------
    OSError
        EIO also if the file ends inside a part.

    Notes
    -----
    Reads pieces of at most 256 KiB, without the GIL.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryFile() as file:
    ...     _ = file.write(b"..123456789"), file.flush()
    ...     crc32c_ranges(file.fileno(), np.array([2]), 9) == crc32c(b"123456789")
    array([ True])
    """
    cdef Py_ssize_t i, n = offsets.shape[0]
    cdef int failure = 0
    out = np.empty(n, np.uint32)
    cdef uint32_t[::1] crcs = out
    cdef uint8_t *stage = <uint8_t *> malloc(min(length, <int64_t> PIECE))
    if stage == NULL:
        raise MemoryError("not enough memory to read a part of a file")
    with nogil:
        for i in range(n):
            failure = crc_of_range(fd, offsets[i], length, stage, &crcs[i])
            if failure:
                break
        free(stage)
    if failure:
        raise OSError(failure, os.strerror(failure))
    return out


cdef int crc_of_range(int fd, int64_t offset, int64_t length, uint8_t *stage, uint32_t *crc) noexcept nogil:
    """CRC-32C of a part of a file; returns 0 or an errno."""
    cdef uint32_t c = ~<uint32_t> 0
    cdef Py_ssize_t n
    while length > 0:
        n = xa_read_at(fd, stage, min(length, <int64_t> PIECE), <off_t> offset)
        if n < 0 and errno == EINTR:
            continue
        if n <= 0:
            return errno if n < 0 else EIO
        c = update(c, stage, n)
        offset += n
        length -= n
    crc[0] = ~c
    return 0


def crc32c_bytewise(const uint8_t[::1] data not None):
    """CRC-32C by table look-up: the reference in tests of `crc32c`.

    Examples
    --------
    >>> crc32c_bytewise(b"123456789") == crc32c(b"123456789")
    True
    """
    if data.shape[0] == 0:
        return 0
    return <uint32_t> ~xa_crc_bytewise(~<uint32_t> 0, &data[0], data.shape[0])


# -- reading the growth log from a file, with its checks -------------------------------------------


def read_log(
    int fd, int64_t start, int64_t length, const uint8_t[::1] uuid not None, known,
    uint8_t[::1] data not None, Py_ssize_t size, int64_t first
):
    """Read records of the growth log from number `first` on, and the extents up to them.

    Parameters
    ----------
    fd : int
    start, length : int
        Offset and bytes of the metadata in the file.
    uuid : buffer of bytes
        UUID of the array, which checksums cover.
    known : sequence of int
        Offsets of the known extents in the metadata; at least that of the first.
    data : buffer of bytes
        Room for the head of an extent, then for the records.
    size : int
        Bytes of a record.
    first : int

    Returns
    -------
    list of int
        Offsets of the extents.

    Raises
    ------
    CorruptError
        The log is cut off or damaged.
    OSError
    """
    cdef int64_t n = (data.shape[0] - HEAD_BYTES) // size, stop = first + n
    cdef int64_t before = 0, capacity = FIRST_EXTENT       # records before an extent, and in it
    cdef int64_t low, high, at, some, offset, following
    cdef Py_ssize_t number = 0, extra, wrong
    cdef uint32_t crc = checksum(&uuid[0], uuid.shape[0], 0)
    cdef uint8_t head[HEAD_BYTES]
    cdef uint8_t spared[HEAD_BYTES]
    cdef uint8_t *place
    cdef bint has_head
    extents = list(known)
    while before < stop:
        offset = extents[number]
        low = max(first, before)
        high = min(stop, before + capacity)
        has_head = low == before and low < high
        at = low
        while at < high:
            some = min(high - at, max(PIECE // size, 1))
            place = &data[HEAD_BYTES] + (at - first) * size
            # Read the head together with its records; it overwrites other records for a moment.
            extra = HEAD_BYTES if at == before else 0
            memcpy(spared, place - HEAD_BYTES, HEAD_BYTES)
            read_all(
                fd, place - extra, some * size + extra,
                start + offset + HEAD_BYTES - extra + (at - before) * size, start + length)
            if extra:
                memcpy(head, place - HEAD_BYTES, HEAD_BYTES)
                memcpy(place - HEAD_BYTES, spared, HEAD_BYTES)
            wrong = first_wrong(place, size, some, size, crc)
            if wrong < some:
                raise CorruptError(f"record {at + wrong} of the growth log is damaged")
            if has_unknown_kind(place, size, some):
                raise CorruptError("the growth log has a record of an unknown kind")
            at += some
        before += capacity
        capacity *= 2
        number += 1
        if before < stop and number == len(extents):
            if not has_head:
                read_all(fd, head, HEAD_BYTES, start + offset, start + length)
            if little(head + NEXT_BYTES, 4) != checksum(head, NEXT_BYTES, crc):
                raise CorruptError("the growth log is damaged: the head of an extent")
            following = <int64_t> little(head, NEXT_BYTES)
            if not 0 < following < length:
                raise CorruptError("the growth log is shorter than the superblock says")
            extents.append(following)
    return extents


cdef int read_all(int fd, uint8_t *target, int64_t n, int64_t offset, int64_t end) except -1:
    """Read n bytes of a file that ends at `end`, whatever follows there."""
    cdef ssize_t done
    cdef int failure
    if n > end - offset:
        raise CorruptError("the growth log is truncated")
    while n > 0:
        with nogil:
            done = xa_read_at(fd, target, n, <off_t> offset)
            failure = errno
        if done > 0:
            target += done
            offset += done
            n -= done
        elif done == 0:
            raise CorruptError("the growth log is truncated")
        elif failure != EINTR:
            raise OSError(failure, os.strerror(failure))
    return 0


cdef bint has_unknown_kind(const uint8_t *record, Py_ssize_t size, int64_t n) noexcept nogil:
    """Tell whether any record grows neither the end nor the start of an axis."""
    cdef uint8_t sides = 0
    cdef const uint8_t *side = record + SIDE_AT
    cdef const uint8_t *end = side + n * size
    while side != end:
        sides |= side[0]
        side += size
    return sides > 1


cdef uint64_t little(const uint8_t *at, int n) noexcept nogil:
    """Return a number of n bytes, little-endian."""
    cdef uint64_t number = 0
    cdef int i
    for i in range(n):
        number |= <uint64_t> at[i] << (8 * i)
    return number
