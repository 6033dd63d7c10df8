"""Orders of the elements inside a chunk: C, Fortran, Morton ("Z") and Hilbert ("H").

`positions` turns a chunk shape and an order into the permutation that readers and writers apply.
The two curve orders sort elements by a key: their place on the curve through the smallest enclosing
cube whose side is a power of two.  `morton_key` and `hilbert_key` compute the keys.  Everything
here is pure NumPy and keeps no state.

A *point* is the index of an element in its chunk.  With k axes and m bits a coordinate, each level
m - 1 down to 0 of a point gives one *digit* of k bits: the level's bit from every axis, axis 0 in
the most significant place.  Both keys are m digits of k bits, up to k * m bits, held in 64-bit
words.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from extarray.common.choices import ORDERS
from extarray.common.errors import ArgumentError, ArgumentTypeError, ChunksError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Words: TypeAlias = NDArray[np.uint64]
    _Digits: TypeAlias = Iterable[_Words]

__all__ = [
    "check_order",
    "has_strides",
    "hilbert_key",
    "morton_key",
    "positions",
    "slow_to_fast",
    "table_bytes",
]

_MAX_NDIM = 32
_WORD = 64
# Points whose keys are computed at a time, so that temporaries stay in the processor's cache and
# take memory independent of the number of levels.
_BLOCK = 1 << 14


def check_order(order: str) -> str:
    """Return `order` if it names an order of elements in a chunk: "C", "F", "Z" or "H"."""
    if not isinstance(order, str):
        raise ArgumentTypeError(
            f"order must be a str, one of {_one_of_orders()}, not {type(order).__name__}"
        )
    if order not in ORDERS:
        raise ArgumentError(f"unknown order {order!r}; use one of {_one_of_orders()}")
    return order


def has_strides(order: str) -> bool:
    """Tell whether strides locate the elements of a chunk; other orders need a table.

    Examples
    --------
    >>> [has_strides(order) for order in ORDERS]
    [True, True, False, False]
    """
    return check_order(order) in _AXES


def slow_to_fast(order: str, ndim: int) -> tuple[int, ...]:
    """Return the axes of a chunk by falling stride.

    An order without strides has the axes of C order, in which tables of positions count.

    Examples
    --------
    >>> [slow_to_fast(order, 3) for order in ORDERS]
    [(0, 1, 2), (2, 1, 0), (0, 1, 2), (0, 1, 2)]
    """
    return _AXES.get(check_order(order), _AXES["C"])(ndim)


def sides_in_memory(chunks: Sequence[int], order: str) -> tuple[int, ...]:
    """Return the sides of a chunk by falling stride; without strides, its elements are in a line.

    Examples
    --------
    >>> [sides_in_memory((2, 3, 5), order) for order in ORDERS]
    [(2, 3, 5), (5, 3, 2), (30,), (30,)]
    """
    if not has_strides(order):
        return (math.prod(chunks),)
    return tuple(chunks[axis] for axis in slow_to_fast(order, len(chunks)))


def table_bytes(chunks: Sequence[int], order: str) -> int:
    """Return the bytes of the table of positions with which readers and writers apply an order.

    Orders with strides (`has_strides`) have no table.  Making a table (`positions`) takes three
    times its size.

    Examples
    --------
    >>> table_bytes((64, 64), "Z"), table_bytes((64, 64), "C")
    (32768, 0)
    """
    return 0 if has_strides(order) else 8 * math.prod(chunks)


def positions(chunks: Sequence[int], order: str) -> NDArray[np.int64]:
    """Return the stored position of every element of a chunk of 0 to 32 extents, each at least 1.

    Entry i is the stored position, in elements from the start of the chunk, of the element whose
    C-order index in the chunk is i.  The entries are a permutation of ``0 ... prod(chunks) - 1``:
    no order pads.

    Notes
    -----
    "Z" and "H" leave out axes of extent 1, enclose the rest in the smallest cube whose side is a
    power of two, and number the elements by increasing key (`morton_key`, `hilbert_key`) on the
    cube's curve.  If the chunk is such a cube, the keys are the positions; otherwise it costs a
    sort, and about three times the result in memory.  (Keys of more than 128 bits need chunks of at
    least 2**21 elements, and take 8 more bytes an element for each further 64 bits.)

    Examples
    --------
    >>> positions((2, 3), "F").reshape(2, 3)
    array([[0, 2, 4],
           [1, 3, 5]])
    >>> positions((3, 3), "H").reshape(3, 3)
    array([[0, 3, 4],
           [1, 2, 5],
           [8, 7, 6]])
    """
    is_strided = has_strides(order)
    shape = _check_chunks(chunks)
    count = math.prod(shape)
    if is_strided:
        axes = slow_to_fast(order, len(shape))
        stored = np.arange(count, dtype=np.int64).reshape([shape[axis] for axis in axes])
        return stored.transpose(np.argsort(axes)).ravel()
    # An axis of extent 1 has a single coordinate, 0, and takes no part in a curve.
    shape = tuple(extent for extent in shape if extent > 1)
    if len(shape) <= 1:
        return np.arange(count, dtype=np.int64)

    bits = (max(shape) - 1).bit_length()
    words = _chunk_keys(shape, bits, _KEYS[order])
    result: NDArray[np.int64]
    if count == 1 << bits * len(shape):
        result = words[0].view(np.int64)
        return result
    by_key = np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    del words
    result = np.empty(count, dtype=np.int64)
    result[by_key] = np.arange(count, dtype=np.int64)
    return result


def morton_key(points: _Words, bits: int) -> _Words:
    """Return the Morton ("Z order") keys of points: the bits of their coordinates, interleaved.

    The points are (k, n): one row of coordinates in ``[0, 2**bits)`` for each axis; `bits` is at
    most 63.  The keys are (words, n), numbers of ``k * bits`` bits in at least one 64-bit word, the
    most significant first.

    Notes
    -----
    The most significant bit is the top bit of axis 0, then come those of axes 1 to k - 1, then the
    next lower bit of axis 0, and so on.  So the last axis varies fastest within a cell, as in C
    order.

    References
    ----------
    G. M. Morton, A computer oriented geodetic data base and a new technique in file sequencing,
    IBM, 1966.

    Examples
    --------
    >>> morton_key(np.array([[5], [3]], np.uint64), bits=3)     # 101 and 011 give 10 01 11
    array([[39]], dtype=uint64)
    """
    return _pack(_digits(points, bits), points, bits)


def hilbert_key(points: _Words, bits: int) -> _Words:
    """Return the Hilbert keys of points: how many points precede each on the Hilbert curve.

    Points and keys are as for `morton_key`; the order of the curve is `bits`.

    Notes
    -----
    There are many Hilbert curves in more than two axes; this is Butz's.  It starts at the origin,
    and consecutive points differ by one in one coordinate.  The documentation page on orders has
    the steps.  Costs O(k * bits) for a point.

    References
    ----------
    A. R. Butz, Alternative algorithm for Hilbert's space-filling curve, IEEE Transactions on
    Computers C-20 (1971) 424-426.  J. K. Lawder, Calculation of mappings between one and
    n-dimensional values using the Hilbert space-filling curve, Birkbeck College, report JL1/00,
    2000.  G. Nimako, PhD thesis, University of the Witwatersrand, 2014, section 5.4.1.

    Examples
    --------
    >>> hilbert_key(np.array([[5], [3]], np.uint64), bits=3)    # 11 01 00
    array([[52]], dtype=uint64)
    """
    return _pack(_hilbert_digits(_digits(points, bits), len(points)), points, bits)


# An order has either strides, and then lists its axes by falling stride, or a key by which
# `positions` sorts the elements.
_AXES: dict[str, Callable[[int], tuple[int, ...]]] = {
    "C": lambda ndim: tuple(range(ndim)),
    "F": lambda ndim: tuple(reversed(range(ndim))),
}
_KEYS: dict[str, Callable[[_Words, int], _Words]] = {"Z": morton_key, "H": hilbert_key}


def _one_of_orders() -> str:
    return ", ".join(repr(order) for order in ORDERS)


def _check_chunks(chunks: Sequence[int]) -> tuple[int, ...]:
    shape = tuple(operator.index(extent) for extent in chunks)
    if len(shape) > _MAX_NDIM:
        raise ChunksError(
            f"chunks has {len(shape)} extents; at most {_MAX_NDIM} axes are supported"
        )
    if any(extent < 1 for extent in shape):
        raise ChunksError(f"chunks={shape}: every extent of a chunk must be at least 1")
    return shape


def _chunk_keys(shape: tuple[int, ...], bits: int, key: Callable[[_Words, int], _Words]) -> _Words:
    """Return the keys of all elements of a chunk in C order, (words, n), computed in blocks."""
    count = math.prod(shape)
    words = np.empty((_word_count(len(shape), bits), count), dtype=np.uint64)
    for start in range(0, count, _BLOCK):
        stop = min(start + _BLOCK, count)
        index = np.unravel_index(np.arange(start, stop), shape)
        words[:, start:stop] = key(np.array(index, dtype=np.uint64), bits)
    return words


def _digits(coordinates: _Words, bits: int) -> Iterator[_Words]:
    """Yield the Morton digits of (k, n) coordinates, the most significant first."""
    one = np.uint64(1)
    for level in reversed(range(bits)):
        digit = np.zeros(coordinates.shape[1], dtype=np.uint64)
        for coordinate in coordinates:
            digit <<= one
            digit |= (coordinate >> np.uint64(level)) & one
        yield digit


def _hilbert_digits(digits: _Digits, ndim: int) -> Iterator[_Words]:
    """Yield the Hilbert digits of points from their Morton digits.

    The curve traverses the cell of a level along a Gray code of its corners, reflected and rotated
    so that the curve enters where it left the previous cell: `entry` is the corner where it enters
    (a digit), `turn` the rotation of the axes.  In Butz's letters, `digit`, `entry`, `gray`,
    `number` and `corner` are alpha, omega, sigma, rho and tau; `turn` is minus the sum of his
    (J - 1).  The Gray code of `even` follows his rule for tau: complement the last bit of sigma,
    then, if the number of ones is odd, the bit at the principal position J.
    """
    if ndim == 0:
        return  # a digit without bits adds nothing to the key
    one, two, k = np.uint64(1), np.uint64(2), np.uint64(ndim)
    mask = np.uint64((1 << ndim) - 1)
    top = np.uint64(1 << (ndim - 1))
    entry: np.uint64 | _Words = np.uint64(0)
    turn: np.uint64 | _Words = entry
    for digit in digits:
        back = k - turn
        gray = digit ^ entry
        gray = ((gray >> turn) | (gray << back)) & mask
        number = gray.copy()
        shift = 1
        while shift < ndim:
            number ^= number >> np.uint64(shift)
            shift *= 2
        yield number
        even = ((np.maximum(number, one) - one) >> one) << one
        corner = even ^ (even >> one)
        entry = entry ^ (((corner << turn) | (corner >> back)) & mask)
        # The lowest bit of `number` that differs from its last bit stands one place above the
        # lowest bit set in `gray`, apart from the top bit of `gray`.  Forcing the top bit on turns
        # "all bits of `number` are equal" into place k, which as a rotation is place 0.
        low = gray | top
        low &= ~low + one
        place = np.bitwise_count(low - one).astype(np.uint64)
        turn = (turn + place + two) % k


def _word_count(ndim: int, bits: int) -> int:
    return max(1, -(-ndim * bits // _WORD))


def _pack(digits: _Digits, coordinates: _Words, bits: int) -> _Words:
    """Concatenate digits, the most significant first, into keys: (words, n), high word first."""
    ndim, count = coordinates.shape
    words = np.zeros((_word_count(ndim, bits), count), dtype=np.uint64)
    if ndim == 0:
        return words
    last = len(words) - 1
    place = ndim * bits
    for digit in digits:
        place -= ndim
        word, low = divmod(place, _WORD)
        words[last - word] |= digit << np.uint64(low)
        if low + ndim > _WORD:  # the digit straddles two words
            words[last - word - 1] |= digit >> np.uint64(_WORD - low)
    return words
