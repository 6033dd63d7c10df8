"""The bytes of a superblock, which every commit writes and every opening reads.

Here a superblock is a tuple of the fields of `extarray.format.superblock.Superblock`, in order.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from extarray.format._crc cimport checksum

cdef enum:
    HEAD_BYTES = 88             # everything before the extents
    CRC_BYTES = 4
    GROUP_BYTES = 16
    # Flags; the growth policy follows them.
    SEALED = 1
    UNCLEAN = 2
    SUPERSEDED = 4
    GROWTH_BIT = 4


cpdef Py_ssize_t superblock_bytes(Py_ssize_t ndim) noexcept:
    """Bytes of a superblock of an array of `ndim` axes.

    Parameters
    ----------
    ndim : int

    Returns
    -------
    int
    """
    return HEAD_BYTES + 24 * ndim


cdef inline object checked(block):
    if not isinstance(block, tuple):    # the casts below assume a tuple
        raise TypeError(f"not a superblock: {block!r}")
    return block


def encode_superblock(block not None):
    """Bytes of a superblock.

    Parameters
    ----------
    block : Superblock

    Returns
    -------
    bytes
    """
    cdef uint64_t sequence, n_segments, data_bytes, attrs_offset, spare_offset, end
    cdef uint32_t attrs_bytes, attrs_capacity, attrs_crc, spare_capacity, growth
    cdef bint sealed, unclean, superseded
    cdef bytes group
    cdef tuple shape, offset, grid
    (
        sequence, sealed, unclean, n_segments, data_bytes, attrs_offset, attrs_bytes,
        attrs_capacity, attrs_crc, spare_offset, spare_capacity, end, group, shape, offset, grid,
        superseded, growth,
    ) = <tuple> checked(block)
    cdef Py_ssize_t ndim = len(shape), size = superblock_bytes(ndim)
    if not len(group) == GROUP_BYTES or not len(offset) == len(grid) == ndim:
        raise ValueError(f"not a superblock: {block!r}")
    if growth >> (32 - GROWTH_BIT):
        raise OverflowError(f"not a growth policy: {growth}")
    data = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *first = <uint8_t *> PyBytes_AS_STRING(data)
    cdef uint8_t *at = first + CRC_BYTES
    put(&at, 4, SEALED * sealed | UNCLEAN * unclean | SUPERSEDED * superseded | growth << GROWTH_BIT)
    put(&at, 8, sequence)
    put(&at, 8, n_segments)
    put(&at, 8, data_bytes)
    put(&at, 8, attrs_offset)
    put(&at, 4, attrs_bytes)
    put(&at, 4, attrs_capacity)
    put(&at, 8, spare_offset)
    put(&at, 4, spare_capacity)
    put(&at, 4, attrs_crc)
    put(&at, 8, end)
    memcpy(at, PyBytes_AS_STRING(group), GROUP_BYTES)
    at += GROUP_BYTES
    put_extents(&at, shape)
    put_extents(&at, offset)
    put_extents(&at, grid)
    at = first
    put(&at, CRC_BYTES, checksum(first + CRC_BYTES, size - CRC_BYTES, 0))
    return data


def superblock_fields(const uint8_t[::1] data not None, Py_ssize_t ndim):
    """Return the fields of a superblock; None for other bytes (torn, or never written).

    Parameters
    ----------
    data : buffer of bytes
        Bytes behind the superblock are ignored.
    ndim : int

    Returns
    -------
    tuple or None
    """
    cdef Py_ssize_t size = superblock_bytes(ndim)
    if data.shape[0] < size:
        return None
    cdef const uint8_t *at = &data[0]
    if take(&at, CRC_BYTES) != checksum(at, size - CRC_BYTES, 0):
        return None
    cdef uint64_t flags = take(&at, 4)
    cdef uint64_t sequence = take(&at, 8)
    cdef uint64_t n_segments = take(&at, 8)
    cdef uint64_t data_bytes = take(&at, 8)
    cdef uint64_t attrs_offset = take(&at, 8)
    cdef uint64_t attrs_bytes = take(&at, 4)
    cdef uint64_t attrs_capacity = take(&at, 4)
    cdef uint64_t spare_offset = take(&at, 8)
    cdef uint64_t spare_capacity = take(&at, 4)
    cdef uint64_t attrs_crc = take(&at, 4)
    cdef uint64_t end = take(&at, 8)
    group = PyBytes_FromStringAndSize(<const char *> at, GROUP_BYTES)
    at += GROUP_BYTES
    shape = take_extents(&at, ndim)
    offset = take_extents(&at, ndim)
    grid = take_extents(&at, ndim)
    return (
        sequence, flags & SEALED != 0, flags & UNCLEAN != 0, n_segments, data_bytes, attrs_offset,
        attrs_bytes, attrs_capacity, attrs_crc, spare_offset, spare_capacity, end, group, shape,
        offset, grid, flags & SUPERSEDED != 0, flags >> GROWTH_BIT,
    )


def next_superblock(
    block not None, unclean, n_segments, data_bytes, end, tuple shape, tuple offset, tuple grid
):
    """Return the superblock of the next commit, with other bounds.

    Parameters
    ----------
    block : Superblock
    unclean, n_segments, data_bytes, end, shape, offset, grid
        Fields of the new superblock.

    Returns
    -------
    Superblock
    """
    (
        sequence, sealed, _, _, _, attrs_offset, attrs_bytes, attrs_capacity, attrs_crc,
        spare_offset, spare_capacity, _, group, _, _, _, _, growth,
    ) = <tuple> checked(block)
    return tuple.__new__(type(block), (
        sequence + 1, sealed, unclean, n_segments, data_bytes, attrs_offset, attrs_bytes,
        attrs_capacity, attrs_crc, spare_offset, spare_capacity, end, group, shape, offset, grid,
        False, growth,
    ))


# -- numbers, little-endian --------------------------------------------------------------------


cdef inline void put(uint8_t **at, int n, uint64_t number) noexcept:
    """Write a number as n bytes, and advance behind it."""
    cdef int i
    for i in range(n):
        at[0][i] = <uint8_t> (number >> (8 * i))
    at[0] += n


cdef inline uint64_t take(const uint8_t **at, int n) noexcept:
    """Read a number of n bytes, and advance behind it."""
    cdef uint64_t number = 0
    cdef int i
    for i in range(n):
        number |= <uint64_t> at[0][i] << (8 * i)
    at[0] += n
    return number


cdef int put_extents(uint8_t **at, tuple extents) except -1:
    cdef int64_t extent
    for extent in extents:
        put(at, 8, <uint64_t> extent)
    return 0


cdef tuple take_extents(const uint8_t **at, Py_ssize_t ndim):
    cdef Py_ssize_t _axis
    return tuple([<int64_t> take(at, 8) for _axis in range(ndim)])
