"""CRC-32C (Castagnoli), the checksum of every part of the metadata."""

import os

import numpy as np

from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from posix.types cimport off_t
from posix.unistd cimport pread

cdef extern from "_crc.h":
    ctypedef uint32_t (*xa_crc_function)(uint32_t, const uint8_t *, size_t) noexcept nogil
    ctypedef size_t (*xa_first_wrong_function)(
        const uint8_t *, Py_ssize_t, size_t, size_t, uint32_t) noexcept nogil
    xa_crc_function xa_crc_best() noexcept
    xa_first_wrong_function xa_first_wrong_best() noexcept
    uint32_t xa_crc_bytewise(uint32_t, const uint8_t *, size_t) noexcept nogil

cdef xa_crc_function update = xa_crc_best()
cdef xa_first_wrong_function first_wrong = xa_first_wrong_best()

cdef enum:
    PIECE = 1 << 18         # bytes that are read at once


def crc32c(const uint8_t[::1] data not None, uint32_t crc=0):
    """CRC-32C of bytes, continuing from the checksum of what came before.

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
    """The first row that does not begin with the CRC-32C of the rest of it.

    Parameters
    ----------
    rows : (n, m) array of uint8
        Contiguous along axis 1; the checksums, of 4 bytes, are little-endian.
    crc : int
        Checksum of the bytes that precede the rest of every row.

    Returns
    -------
    int
        n where all are right.

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
        Where the parts begin.
    length : int
        Bytes of each.

    Returns
    -------
    (n,) array of uint32

    Raises
    ------
    OSError
        EIO also where the file ends before a part does.

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
        raise MemoryError("no memory to read a part of a file")
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
        n = pread(fd, stage, min(length, <int64_t> PIECE), <off_t> offset)
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
    """CRC-32C by table look-up: the reference that tests hold `crc32c` against.

    Examples
    --------
    >>> crc32c_bytewise(b"123456789") == crc32c(b"123456789")
    True
    """
    if data.shape[0] == 0:
        return 0
    return <uint32_t> ~xa_crc_bytewise(~<uint32_t> 0, &data[0], data.shape[0])
