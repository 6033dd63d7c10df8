"""Filters that make chunks smaller for codecs: byte and bit shuffle; chunks of one element."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

cdef extern from "_filters.h":
    void xa_shuffle(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil
    void xa_unshuffle(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil
    void xa_bit_shuffle(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil
    void xa_bit_unshuffle(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil
    void xa_repeat(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil

ctypedef void (*filter_t)(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil


cdef int apply(filter_t function, uint8_t[::1] out, const uint8_t[::1] data, Py_ssize_t size) except -1:
    cdef Py_ssize_t n = data.shape[0]
    if out.shape[0] != n:
        raise ValueError(f"out has {out.shape[0]} bytes in place of {n}")
    if size < 1 or n % size:
        raise ValueError(f"{n} bytes are no elements of {size} bytes each")
    if n:
        with nogil:
            function(&out[0], &data[0], n // size, size)
    return 0


def shuffle(uint8_t[::1] out not None, const uint8_t[::1] data not None, Py_ssize_t itemsize):
    """Put byte j of all elements side by side, for each j, as HDF5's shuffle does.

    Parameters
    ----------
    out : writable buffer of bytes
        As many as `data`, and not the same.
    data : buffer of bytes
        Elements.
    itemsize : int
        Bytes of an element.

    Examples
    --------
    >>> out = bytearray(6)
    >>> shuffle(out, b"aAbBcC", 2)
    >>> bytes(out)
    b'abcABC'
    """
    apply(xa_shuffle, out, data, itemsize)


def unshuffle(uint8_t[::1] out not None, const uint8_t[::1] data not None, Py_ssize_t itemsize):
    """Undo `shuffle`."""
    apply(xa_unshuffle, out, data, itemsize)


def bit_shuffle(uint8_t[::1] out not None, const uint8_t[::1] data not None, Py_ssize_t itemsize):
    """Put bit k of byte j of all elements side by side, for each j and each k.

    The first element is the lowest bit.  The last elements, as far as their number exceeds a
    multiple of 8, stay as they are.  Parameters are those of `shuffle`.

    Examples
    --------
    >>> out = bytearray(8)
    >>> bit_shuffle(out, bytes([1, 0, 0, 3, 0, 0, 0, 1]), 1)
    >>> list(out)
    [137, 8, 0, 0, 0, 0, 0, 0]
    """
    apply(xa_bit_shuffle, out, data, itemsize)


def bit_unshuffle(uint8_t[::1] out not None, const uint8_t[::1] data not None, Py_ssize_t itemsize):
    """Undo `bit_shuffle`."""
    apply(xa_bit_unshuffle, out, data, itemsize)


def repeat(uint8_t[::1] out not None, const uint8_t[::1] element not None):
    """Write one element over and over.

    Examples
    --------
    >>> out = bytearray(6)
    >>> repeat(out, b"ab")
    >>> bytes(out)
    b'ababab'
    """
    cdef Py_ssize_t n = out.shape[0], size = element.shape[0]
    if size < 1 or n % size:
        raise ValueError(f"{n} bytes are no elements of {size} bytes each")
    if n:
        with nogil:
            xa_repeat(&out[0], &element[0], size, n)


def is_constant(const uint8_t[::1] data not None, Py_ssize_t itemsize):
    """Tell whether all elements have the same bytes.

    Examples
    --------
    >>> is_constant(b"ababab", 2), is_constant(b"abab", 1)
    (True, False)
    """
    cdef Py_ssize_t n = data.shape[0]
    cdef int found
    if itemsize < 1 or n % itemsize:
        raise ValueError(f"{n} bytes are no elements of {itemsize} bytes each")
    if n <= itemsize:
        return True
    with nogil:
        found = memcmp(&data[0], &data[itemsize], n - itemsize)
    return found == 0
