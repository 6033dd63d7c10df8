"""Growth policies: how many chunks a growth allocates beyond those it needs.

A growth of another axis or side than the last begins a segment.  So an array that grows by small
steps along several axes in turn has a segment for each row of chunks.  Chunks allocated ahead leave
room into which later steps grow without a new segment.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from extarray.common.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["EXACT", "GrowthPolicy", "Policy", "decode_policy", "encode_policy"]

#: Policies as users give and get them.
GrowthPolicy: TypeAlias = (
    Literal["exact", "doubling", "cubical"]
    | tuple[Literal["linear"], int]
    | tuple[Literal["exponential"], float]
)

Step: TypeAlias = tuple[int, int, Literal["end", "start"]]  # axis, chunks, side

EXACT = 0
_KINDS = ("exact", "linear", "exponential", "doubling", "cubical")
_KIND_BITS = 4
_LARGEST = 2**24 - 1
_UNIT = 1000  # of a stored factor


def encode_policy(growth: Any) -> int:
    """Return a policy as stored: the kind in the lowest 4 bits, the parameter in the 24 above.

    Parameters
    ----------
    growth : str or (str, number)
        ``"exact"``, ``("linear", theta)``, ``("exponential", factor)``, ``"doubling"`` or
        ``"cubical"``.

    Returns
    -------
    int
        `EXACT` for "exact".

    Raises
    ------
    ArgumentError, ArgumentTypeError
        A ValueError or a TypeError: no such policy, or an invalid parameter.

    Examples
    --------
    >>> encode_policy("exact"), encode_policy(("linear", 16)), encode_policy(("exponential", 1.5))
    (0, 257, 24002)
    """
    kind, parameters = (growth, ()) if isinstance(growth, str) else _pair(growth)
    if kind not in _KINDS or len(parameters) != (kind in ("linear", "exponential")):
        raise ArgumentError(
            f"growth {growth!r} is not valid; use 'exact', ('linear', theta), ('exponential', "
            "factor), 'doubling' or 'cubical'"
        )
    value = 0
    if kind == "linear":
        value = _theta(*parameters)
    elif kind == "exponential":
        value = _thousandths(*parameters)
    return _KINDS.index(kind) | value << _KIND_BITS


def _pair(growth: Any) -> tuple[Any, tuple[Any, ...]]:
    if not isinstance(growth, (tuple, list)) or not growth or not isinstance(growth[0], str):
        raise ArgumentTypeError(
            f"growth must be a string, or a string and a number, not {growth!r}"
        )
    return growth[0], tuple(growth[1:])


def _theta(value: Any) -> int:
    try:
        theta = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"theta of a linear growth must be an int, not {value!r}") from None
    if isinstance(value, bool) or not 1 <= theta <= _LARGEST:
        raise ArgumentError(f"theta of a linear growth must be 1 to {_LARGEST} chunks, not {value}")
    return theta


def _thousandths(value: Any) -> int:
    try:
        factor = float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"the factor of an exponential growth must be a number, not {value!r}"
        ) from None
    if not 1 < factor <= _LARGEST / _UNIT:
        raise ArgumentError(
            f"the factor of an exponential growth must be above 1 and at most {_LARGEST / _UNIT}, "
            f"not {value}"
        )
    result = round(factor * _UNIT)
    if not math.isclose(result, factor * _UNIT, rel_tol=1e-9):
        raise ArgumentError(
            f"the factor of an exponential growth has at most three decimals; {result / _UNIT} is "
            f"close to {value}"
        )
    return result


def decode_policy(value: int) -> Policy:
    """Return the policy that `encode_policy` encoded.

    Parameters
    ----------
    value : int
        An unknown kind counts as "exact": policies do not change an array's contents.

    Examples
    --------
    >>> decode_policy(257).growth
    ('linear', 16)
    """
    kind = value & (2**_KIND_BITS - 1)
    return Policy(_KINDS[kind] if kind < len(_KINDS) else "exact", value >> _KIND_BITS)


class Policy(NamedTuple):
    """A policy.

    Attributes
    ----------
    kind : str
    parameter : int
        Theta, or the factor in thousandths.
    """

    kind: str
    parameter: int

    @property
    def growth(self) -> GrowthPolicy:
        """The policy as users know it."""
        if self.kind == "linear":
            return "linear", self.parameter
        if self.kind == "exponential":
            return "exponential", self.parameter / _UNIT
        if self.kind == "doubling":
            return "doubling"
        return "cubical" if self.kind == "cubical" else "exact"

    def steps(
        self,
        extents: Sequence[int],
        at_start: Sequence[int],
        at_end: Sequence[int],
        used: Sequence[int],
    ) -> Iterator[Step]:
        """Yield the growths that make room for given numbers of chunks at both ends of each axis.

        Parameters
        ----------
        extents : sequence of int
            Chunks that each axis has.
        at_start, at_end : sequence of int
            Chunks needed there.  Chunks ahead are allocated on the side that needs any.
        used : sequence of int
            Chunks that the bounds span along each axis after the growth; only "cubical" uses it.

        Examples
        --------
        >>> list(Policy("linear", 8).steps((2, 3), (0, 1), (1, 0), (3, 4)))
        [(0, 8, 'end'), (1, 8, 'start')]
        >>> list(Policy("exponential", 1500).steps((4, 4), (0, 0), (1, 3), (5, 7)))
        [(0, 2, 'end'), (1, 3, 'end')]
        >>> list(Policy("doubling", 0).steps((4, 2), (0, 0), (1, 0), (5, 2)))
        [(1, 2, 'end'), (0, 4, 'end')]
        >>> list(Policy("cubical", 0).steps((4, 2), (0, 0), (1, 0), (5, 2)))
        [(0, 1, 'end'), (1, 3, 'end')]
        """
        if self.kind == "doubling":
            yield from _doubling(extents, at_start, at_end)
            return
        cubical = self.kind == "cubical"
        side = max(used, default=0) if cubical else 0
        for axis, (n, first, last) in enumerate(zip(extents, at_start, at_end, strict=True)):
            if not (first or last):
                continue
            ahead = max(0, (side if cubical else n + self._least(n)) - n - first - last)
            if first:
                yield axis, first + (0 if last else ahead), "start"
            if last:
                yield axis, last + ahead, "end"
        if cubical:
            yield from _beside(side, extents, at_start, at_end, used)

    def _least(self, n: int) -> int:
        """Return the fewest chunks that an axis of `n` chunks gains, if it gains any."""
        if self.kind == "linear":
            return self.parameter
        if self.kind == "exponential":
            return -(-n * self.parameter // _UNIT) - n
        return 0


def _beside(
    side: int,
    extents: Sequence[int],
    at_start: Sequence[int],
    at_end: Sequence[int],
    used: Sequence[int],
) -> Iterator[Step]:
    """Lengthen axes that need nothing to the side of the cube, unless they have no elements."""
    for axis, (n, first, last, m) in enumerate(zip(extents, at_start, at_end, used, strict=True)):
        if m and n < side and not first and not last:
            yield axis, side - n, "end"


def _doubling(
    extents: Sequence[int], at_start: Sequence[int], at_end: Sequence[int]
) -> Iterator[Step]:
    """Double the shortest axis, the first of equal ones, until there is room.

    So the axes take turns, and their extents are powers of two, equal up to a factor of two.  If
    that would make the grid much larger than needed, as for a long and thin array, lengthen only
    the axes that grow, each to a power of two.
    """
    axes = [j for j, n in enumerate(extents) if n or at_start[j] or at_end[j]]
    needed = list(map(sum, zip(extents, at_start, at_end, strict=True)))
    most = 2 ** len(axes) * math.prod(needed[j] for j in axes)
    first, last = list(at_start), list(at_end)
    after, steps = list(extents), []
    while any(first) or any(last):
        j = min(axes, key=after.__getitem__)
        by = _to_power(after[j] + 1) - after[j]
        after[j] += by
        if first[j]:
            first[j] = max(0, first[j] - by)
            steps.append((j, by, True))
        else:
            last[j] = max(0, last[j] - by)
            steps.append((j, by, False))
        if math.prod(after[j] for j in axes if after[j]) > most:
            break
    else:
        yield from ((j, by, "start" if start else "end") for j, by, start in steps)
        return
    for j in axes:
        ahead = _to_power(needed[j]) - needed[j]
        if at_start[j]:
            yield j, at_start[j] + (0 if at_end[j] else ahead), "start"
        if at_end[j]:
            yield j, at_end[j] + ahead, "end"


def _to_power(n: int) -> int:
    """Return the least power of two that is at least `n`, itself at least 1."""
    return 1 << (n - 1).bit_length()
