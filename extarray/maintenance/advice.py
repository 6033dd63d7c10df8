"""Advice on chunk shapes: which one needs the fewest chunks for the expected requests.

A request is a box of given extents that lies anywhere in the array with equal probability.  Its
positions along different axes are independent, so the expected number of chunks it meets is a
product over the axes.  The cost of several requests is the weighted mean.

Arrays of ours read the elements of a request from the chunks that it meets.  HDF5 reads whole
chunks, through a cache, and appends one index cheaply where the cache holds all chunks that await
more.
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, TypeAlias

import numpy as np

from extarray.common.arguments import as_axis, check_choice, parse_bytes
from extarray.common.errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError
from extarray.common.formatting import format_bytes
from extarray.common.limits import limits
from extarray.format.dtypes import check_dtype
from extarray.grid.chunking import check_shape, choose_chunks, grid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from numpy.typing import DTypeLike, NDArray

__all__ = ["Advice", "Alternative", "advise_chunks"]

_PAGE = 4096
_MEASURES = ("chunks", "bytes", "pages", "work")
_STORES = ("extarray", "hdf5")

#: Bytes that HDF5 reads in the time that it takes to find a chunk and to ask for it.
#: `benchmarks/hdf5_chunks.py` measures it.
_OVERHEAD = 64 << 10

#: Slots of HDF5's chunk cache by default; chunks in the same slot evict each other.
_SLOTS = 521


class Alternative(NamedTuple):
    """Another chunk shape.

    Attributes
    ----------
    chunks : tuple of int
    cost : float
        As `Advice.cost`.
    reason : str
        Why one might choose it.
    """

    chunks: tuple[int, ...]
    cost: float
    reason: str


class Advice(tuple[int, ...]):  # noqa: SLOT001 -- a tuple of any length has no slots
    """A chunk shape and the reasons for it, as `extarray.advise_chunks` returns them.

    Attributes
    ----------
    cost : float
        Expected number of chunks that a request reads (or of bytes, pages, or bytes of work).
    alternatives : tuple of Alternative
        Smaller chunks and, for arrays of ours, what `extarray.create` chooses, by rising cost.
    explanation : str
        The same in words.
    """

    cost: float
    alternatives: tuple[Alternative, ...]
    explanation: str

    def __new__(
        cls,
        chunks: Iterable[int],
        cost: float,
        alternatives: tuple[Alternative, ...],
        explanation: str,
    ) -> Self:
        """Create a shape with its reasons."""
        self = super().__new__(cls, chunks)
        self.cost, self.alternatives, self.explanation = cost, alternatives, explanation
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self), self.cost, self.alternatives, self.explanation


def advise_chunks(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: DTypeLike = float,
    access: Any = (),
    grow: SupportsIndex | Sequence[SupportsIndex] = (),
    block_bytes: int | str | None = None,
    measure: Literal["chunks", "bytes", "pages", "work"] | str | None = None,
    *,
    store: Literal["extarray", "hdf5"] | str = "extarray",
    chunk_cache: int | str = "1 MiB",
) -> Advice:
    """Return the chunk shape for which the expected requests read the fewest chunks.

    For HDF5 it is the shape for which they take the least work.

    Parameters
    ----------
    shape : int or sequence of int
        Array shape, in elements.
    dtype : dtype_like
    access : sequence of (request, weight), or AccessLog
        What is read, and in which proportions.  A request gives the extent along each axis (None
        for the whole axis), or is ``("plane", axis)``: one index of that axis and all of the
        others.  Requests lie anywhere, with equal probability.  ``("append", axis)`` writes one
        index behind the others, along an axis that grows.
    grow : int or sequence of int
        Axes that will grow.
    block_bytes : int or str, optional
        Largest size of a chunk in bytes, or a text such as ``"256 KiB"``, the default.  For HDF5 it
        is `chunk_cache`, by default and at most.
    measure : {"chunks", "bytes", "pages", "work"}, optional
        What to minimize: chunks, the default; the bytes of these chunks; their pages of 4096 bytes;
        or, the default for HDF5, their bytes and 64 KiB more for each chunk, since the library
        takes about as long to find one.
    store : {"extarray", "hdf5"}
        Where the chunks will lie.
    chunk_cache : int or str
        HDF5's cache for the chunks of a dataset (``rdcc_nbytes``).  The default is that of HDF5
        before 2.0; 2.0 has 8 MiB.

    Returns
    -------
    Advice
        The shape, a tuple with the attributes `cost`, `alternatives` and `explanation`.

    Raises
    ------
    ArgumentError
        A ValueError: no request, an impossible weight or measure, or `block_bytes` below the size
        of an element.
    ShapeError
        A ValueError: a request with another number of axes, or beyond the array.
    AxisError, ArgumentTypeError, DTypeError

    Notes
    -----
    Along an axis of N elements in chunks of c, a request of r elements has ``N - r + 1`` positions;
    the cost averages the chunks it meets over all of them.  A growing axis has no fixed end, so its
    mean is ``1 + (r - 1) / c``.  On average it also allocates ``(c - 1) / 2`` indices ahead of the
    elements (the ghost region): the search multiplies the cost by allocated over used space, for
    the present length of the axis or the longest request, whichever is larger.

    HDF5 reads and writes whole chunks if its cache has room for one.  An append along axis j meets
    n chunks across the other axes.  If the cache holds all of them (up to 521, its slots), they are
    written once in ``c_j`` appends.  Otherwise each append writes n chunks, and all but the first
    of ``c_j`` appends read them before.

    Up to some ten thousand rows along the last axis, every shape is tried.  Beyond that the search
    samples shapes, then moves from the best to better neighbours.  Among shapes of equal cost, the
    one with the fewest pages wins, then the one that wastes the least space.

    References
    ----------
    [nimako2014]_ (section 5.2), [otoo2007]_

    Examples
    --------
    >>> import extarray as xa
    >>> best = xa.advise_chunks((365, 512, 512), "f4", access=[((365, 1, 1), 0.5),
    ...                         (("plane", 0), 0.5)], block_bytes="64 KiB")
    >>> best, round(best.cost, 1)
    ((5, 19, 171), 77.0)
    >>> xa.create(None, (0, 512, 512), chunks=best).chunks
    (5, 19, 171)

    An image a day, read as series of one place as often as it is appended:

    >>> xa.advise_chunks((365, 128, 128), "f4", access=[((365, 1, 1), 1), (("append", 0), 1)],
    ...                  store="hdf5")
    (16, 8, 128)
    """
    extents = check_shape(shape)
    itemsize = check_dtype(dtype).itemsize
    check_choice(store, "store", _STORES)
    cache = parse_bytes(chunk_cache) if store == "hdf5" else None
    if block_bytes is None:
        block_bytes = "256 KiB" if cache is None else cache
    bounds = {"chunk_cache": cache, "block_bytes": parse_bytes(block_bytes)}
    given = {name: most for name, most in bounds.items() if most is not None}
    name, most = min(given.items(), key=operator.itemgetter(1))
    limit = most // itemsize
    if limit < 1:
        raise ArgumentError(
            f"{name} of {most!r} is less than one element of {itemsize} bytes; give {itemsize} or "
            "more"
        )
    if measure is None:
        measure = "chunks" if cache is None else "work"
    check_choice(measure, "measure", _MEASURES)
    growing = _axes(grow, len(extents))
    kinds = _requests(access, extents, growing)
    problem = _Problem(extents, itemsize, kinds, growing | kinds.appended, measure, cache)
    if not extents:
        return Advice((), problem.cost(()), (), "an array without axes has one chunk")
    best = problem.solve(limit)
    alternatives = []
    # HDF5 reads whole chunks, so the best ones may be far smaller than the limit.
    largest = limit if cache is None else math.prod(best)
    for part in (2, 4):
        if largest // part:
            smaller = problem.solve(largest // part)
            reason = f"chunks of at most {format_bytes(largest // part * itemsize)}"
            alternatives.append(Alternative(smaller, problem.cost(smaller), reason))
    if cache is None:
        usual = choose_chunks(extents, itemsize)
        alternatives.append(Alternative(usual, problem.cost(usual), "what create chooses"))
    others = {other.chunks: other for other in reversed(alternatives) if other.chunks != best}
    ranked = tuple(sorted(others.values(), key=lambda other: other.cost))
    return Advice(best, problem.cost(best), ranked, problem.explain(best))


# -- requests ------------------------------------------------------------------------------------


def _axes(grow: Any, ndim: int) -> frozenset[int]:
    try:
        axes = [operator.index(grow)]
    except TypeError:
        try:
            axes = [operator.index(axis) for axis in grow]
        except TypeError:
            raise ArgumentTypeError(f"grow must be a sequence of axes, not {grow!r}") from None
    return frozenset(as_axis(axis, ndim) for axis in axes)


@dataclass
class _Kinds:
    """Kinds of requests and their weights, which sum to 1."""

    #: Extents, a row each.
    extents: NDArray[np.int64]
    weights: NDArray[np.float64]
    #: Axes of those that append one index; -1 for those that read.
    along: list[int]

    @property
    def appended(self) -> frozenset[int]:
        """Axes that grow by appends."""
        return frozenset(self.along) - {-1}

    def only(self, i: int) -> _Kinds:
        """Return one kind alone."""
        return _Kinds(self.extents[i : i + 1], np.ones(1), self.along[i : i + 1])


def _requests(access: Any, shape: tuple[int, ...], growing: frozenset[int]) -> _Kinds:
    """Return the kinds of requests."""
    try:
        pairs = list(getattr(access, "access", access))
    except TypeError:
        raise ArgumentTypeError(
            f"access must be a sequence of (request, weight) pairs or a log, not {access!r}"
        ) from None
    if not pairs:
        raise ArgumentError(
            "access is empty; give pairs such as ((1, 5, 4), 0.7), or a log of record_access "
            "that has recorded reads"
        )
    rows: list[list[int]] = []
    weights: list[float] = []
    along = [_appended(pair, len(shape)) for pair in pairs]
    growing = growing.union(along)
    for pair in pairs:
        try:
            request, weight = pair
            weights.append(float(weight))
            rows.append(_extents(request, shape, growing))
        except (TypeError, ValueError) as error:
            if isinstance(error, (ArgumentError, ArgumentTypeError, AxisError)):
                raise
            raise ArgumentTypeError(
                f"access has {pair!r}, which is not a (request, weight) pair"
            ) from None
    total = sum(weights)
    if not (min(weights) >= 0 and 0 < total < math.inf):
        raise ArgumentError(f"weights must be positive numbers, not {weights}")
    extents = np.array(rows, np.int64).reshape(len(rows), len(shape))
    return _Kinds(extents, np.array(weights) / total, along)


def _appended(pair: Any, ndim: int) -> int:
    """Return the axis along which a (request, weight) pair appends, or -1."""
    match pair:
        case (["append", axis], _):
            return as_axis(axis, ndim)
    return -1


#: Requests for one index of an axis and the whole of the others.
_ACROSS = (("plane",), ["plane"], ("append",), ["append"])


def _extents(request: Any, shape: tuple[int, ...], growing: frozenset[int]) -> list[int]:
    # An empty axis counts as one index.
    whole = [max(n, 1) for n in shape]
    if isinstance(request, (tuple, list)) and request[:1] in _ACROSS:
        _, axis = request
        whole[as_axis(axis, len(shape))] = 1
        return whole
    extents = list(request) if isinstance(request, (tuple, list)) else [request]
    if len(extents) != len(shape):
        raise ShapeError(
            f"the request {request!r} has {len(extents)} extents for {len(shape)} axes; give one "
            "for each axis, or None for a whole axis"
        )
    result = []
    for j, extent in enumerate(extents):
        n = whole[j] if extent is None else operator.index(extent)
        if n < 1 or (n > whole[j] and j not in growing):
            raise ShapeError(
                f"the request {request!r} has {n} elements along axis {j} with size {shape[j]}; "
                f"give 1 to {whole[j]}"
            )
        result.append(n)
    return result


# -- costs ---------------------------------------------------------------------------------------


def _chunks_met(extent: int, request: int, chunks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean number of chunks along an axis that a request meets, over all positions.

    Sum, over the positions, the chunk of the last element minus the chunk of the first; sums of
    ``i // c`` have a closed form.
    """
    places = extent - request + 1
    met = _floors(extent, chunks) - _floors(request - 1, chunks) - _floors(places, chunks)
    return 1 + met / places


def _floors(n: int, c: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of ``i // c`` for i in 0 ... n - 1."""
    whole, rest = n // c, n % c
    # Floats: the sums of long axes exceed 63 bits, and a mean needs no more digits.
    return whole * (c * (whole - 1.0) / 2 + rest)


def _rounded(cost: float) -> float:
    """Round a cost, so that costs that differ only in the last digits compare equal."""
    return float(f"{cost:.12g}")


#: Mean numbers of chunks and the waste, for the extents tried along an axis.
_Table: TypeAlias = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


@dataclass
class _Problem:
    """The search for the cheapest chunk shape."""

    shape: tuple[int, ...]
    itemsize: int
    kinds: _Kinds
    growing: frozenset[int]
    measure: str
    #: Size of HDF5's chunk cache; None for arrays of ours.
    cache: int | None

    def __post_init__(self) -> None:
        along = np.array(self.kinds.along, int)
        # Appends to arrays of ours cost as much as reads of the same elements.
        self.read_weights = np.where((along >= 0) & (self.cache is not None), 0, self.kinds.weights)
        self.appends = [
            (j, weight)
            for j, weight in zip(self.kinds.along, self.kinds.weights.tolist(), strict=True)
            if j >= 0 and self.cache is not None
        ]

    def met(self, j: int, chunks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean numbers of chunks along an axis, (requests, extents of chunks)."""
        extent = max(self.shape[j], 1)
        if j in self.growing:
            return 1 + (self.kinds.extents[:, j, np.newaxis] - 1) / chunks
        # Few extents are distinct, and equal ones cost the same.
        kinds, which = np.unique(self.kinds.extents[:, j], return_inverse=True)
        rows = [_chunks_met(extent, int(r), np.minimum(chunks, extent)) for r in kinds]
        return np.array(rows)[which.reshape(-1)]

    def waste(self, j: int, chunks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean ratio of allocated to used space along a growing axis."""
        if j not in self.growing:
            return np.ones(len(chunks))
        horizon = max(self.shape[j], int(self.kinds.extents[:, j].max()))
        return 1 + (chunks - 1) / (2 * horizon)

    def size(self, elements: Any) -> Any:
        """Return how much one chunk counts in the chosen measure."""
        if self.measure == "chunks":
            return np.ones_like(elements, float)
        nbytes = elements * self.itemsize
        if self.measure == "pages":
            return -(-nbytes // _PAGE)
        return nbytes + (_OVERHEAD if self.measure == "work" else 0)

    def appended(self, chunks: Sequence[Any]) -> Any:
        """Return the mean number of chunks that appends read and write through HDF5's cache.

        A chunk in the cache takes no input or output, but about as much work to find; where work is
        measured, such a chunk counts as a part of one.
        """
        result: Any = 0.0
        elements = math.prod(chunks)
        for j, weight in self.appends:
            # Floats: the product may exceed 63 bits.
            across = math.prod(
                -(-max(n, 1) // c) * 1.0
                for i, (n, c) in enumerate(zip(self.shape, chunks, strict=True))
                if i != j
            )
            stay = (across <= _SLOTS) & (across * elements * self.itemsize <= self.cache)
            moved = np.where(stay, 1 / chunks[j], 2 - 1 / chunks[j])
            if self.measure == "work":
                size = elements * self.itemsize
                moved = (moved * size + _OVERHEAD) / (size + _OVERHEAD)
            result = result + weight * across * moved
        return result

    def cost(self, chunks: tuple[int, ...]) -> float:
        """Return the expected number of chunks (or bytes, or pages) that a request reads."""
        met = self.read_weights.copy()
        for j, c in enumerate(chunks):
            met *= self.met(j, np.array([c]))[:, 0]
        return float((met.sum() + self.appended(chunks)) * self.size(np.array(math.prod(chunks))))

    def rest(
        self, head: tuple[int, ...], last: NDArray[np.int64]
    ) -> Iterable[tuple[int, float, int]]:
        """Return tie-breakers of equal costs: pages, allocated elements, larger chunks first."""
        elements = math.prod(head) * last
        pages = -(-elements * self.itemsize // _PAGE)
        *shape, end = [max(n, 1) for n in self.shape]
        # Floats: the product may exceed 63 bits.
        allocated = elements * float(math.prod(grid_of(shape, head))) * -(-end // last)
        return zip(pages.tolist(), allocated.tolist(), (-elements).tolist(), strict=True)

    def compared(self, chunks: tuple[int, ...]) -> tuple[float, int, float, int]:
        """Return the sort key of a shape."""
        waste = math.prod(float(self.waste(j, np.array([c]))[0]) for j, c in enumerate(chunks))
        (rest,) = self.rest(chunks[:-1], np.array(chunks[-1:]))
        return (_rounded(self.cost(chunks) * waste), *rest)

    def solve(self, limit: int) -> tuple[int, ...]:
        """Return the best shape of at most `limit` elements."""
        tried = self._candidates(limit)
        tables = [(self.met(j, values), self.waste(j, values)) for j, values in enumerate(tried)]
        everything = [range(len(values)) for values in tried[:-1]]
        if math.prod(map(len, everything)) <= limits.advice_together:
            return self._descend(self._best(limit, tried, tables, everything), limit)
        return self._descend(self._by_pairs(limit, tried, tables), limit)

    def _by_pairs(
        self, limit: int, tried: list[NDArray[np.int64]], tables: list[_Table]
    ) -> tuple[int, ...]:
        """Return a shape that no change of two leading axes, or of one and the last, improves."""
        found: tuple[int, ...] = (1,) * len(tried)
        while True:
            before = found
            for pair in itertools.combinations(range(len(tried) - 1), 2):
                places = [
                    range(len(values)) if j in pair else np.searchsorted(values, [c]).tolist()
                    for j, (values, c) in enumerate(zip(tried[:-1], found, strict=False))
                ]
                found = self._best(limit, tried, tables, places)
            if found == before:
                return found

    def _best(
        self,
        limit: int,
        tried: list[NDArray[np.int64]],
        tables: list[_Table],
        places: Sequence[Sequence[int]],
    ) -> tuple[int, ...]:
        """Return the best shape from some extents of the leading axes and any of the last."""
        last = tried[-1]
        *firsts, (met_last, waste_last) = tables
        best = (math.inf, 0, 0.0, 0)
        found: tuple[int, ...] = ()
        for place in itertools.product(*places):
            head = tuple(int(values[i]) for values, i in zip(tried, place, strict=False))
            elements = math.prod(head)
            n = int(np.searchsorted(last, limit // elements, side="right"))
            if n == 0:
                continue
            chosen = list(zip(firsts, place, strict=True))
            row = self.read_weights * math.prod(met[:, i] for (met, _), i in chosen)
            factor = math.prod(waste[i] for (_, waste), i in chosen)
            met = row @ met_last[:, :n] + self.appended((*head, last[:n]))
            costs = met * waste_last[:n] * factor
            costs = costs * self.size(last[:n] * elements)
            low = costs.min()
            if low > best[0] * (1 + 1e-11):
                continue
            same = last[:n][costs <= low * (1 + 1e-12)]
            rest, c = min(zip(self.rest(head, same), same.tolist(), strict=True))
            if (_rounded(low), *rest) < best:
                best, found = (_rounded(low), *rest), (*head, c)
        return found

    def longest(self, limit: int) -> list[int]:
        """Return the longest useful chunk extent along each axis."""
        return [
            limit if j in self.growing else min(limit, max(n, 1)) for j, n in enumerate(self.shape)
        ]

    def _candidates(self, limit: int) -> list[NDArray[np.int64]]:
        """Return the chunk extents to try along each axis, in rising order."""
        lengths = self.longest(limit)
        rows = len(lengths) - 1
        most = limits.advice_rows if rows <= 1 else max(4, int(limits.advice_rows ** (1 / rows)))
        all_rows = math.prod(lengths[:-1]) <= limits.advice_rows
        result = []
        for j, length in enumerate(lengths):
            along = limits.advice_along if j == rows else most
            if length <= along or (all_rows and length <= limits.advice_rows):
                result.append(np.arange(1, length + 1))
                continue
            values = {1, length, *np.unique(self.kinds.extents[:, j]).tolist()[:along]}
            values.update(int(v) for v in np.geomspace(1, length, along // 2))
            n = max(self.shape[j], 1)
            # Equal parts of the axis leave no small last chunk.
            values.update(-(-n // parts) for parts in range(1, along // 4 + 1))
            result.append(np.array(sorted(v for v in values if 1 <= v <= length)))
        return result

    def _descend(self, chunks: tuple[int, ...], limit: int) -> tuple[int, ...]:
        """Move to better neighbours until there are none, and return that shape."""
        best = (self.compared(chunks), chunks)
        longest = self.longest(limit)
        while True:
            here = best
            for move in itertools.product((-1, 0, 1), repeat=min(len(chunks), 6)):
                moved = [c + d for c, d in zip(chunks, move, strict=False)]
                other = (*moved, *chunks[len(moved) :])
                possible = all(1 <= c <= n for c, n in zip(other, longest, strict=True))
                if possible and math.prod(other) <= limit:
                    best = min(best, (self.compared(other), other))
            if best == here:
                return best[1]
            chunks = best[1]

    def told(self, chunks: tuple[int, ...]) -> str:
        """Return the cost of a request in words."""
        cost = self.cost(chunks)
        if self.measure != "work":
            return f"reads {cost:.4g} {self.measure}"
        each = format_bytes(_OVERHEAD)
        return f"costs as much as reading {format_bytes(round(cost))} (of it {each} for each chunk)"

    def explain(self, chunks: tuple[int, ...]) -> str:
        """Return the reasons for a shape as text."""
        grid = grid_of([max(n, 1) for n in self.shape], chunks)
        nbytes = math.prod(chunks) * self.itemsize
        lines = [f"chunks of {chunks}, {format_bytes(nbytes)} each, in a grid of {grid}"]
        lines.append(f"a request {self.told(chunks)} on average")
        order = np.argsort(-self.kinds.weights, kind="stable")
        for i in order[:8]:
            alone = _Problem(
                self.shape,
                self.itemsize,
                self.kinds.only(i),
                self.growing,
                self.measure,
                self.cache,
            )
            j = self.kinds.along[i]
            request = (
                f"append along axis {j}" if j >= 0 else str(tuple(self.kinds.extents[i].tolist()))
            )
            share = float(self.kinds.weights[i])
            cost = alone.cost(chunks)
            amount = format_bytes(round(cost)) if self.measure == "work" else f"{cost:.4g}"
            lines.append(f"  {request}: {amount} ({share:.0%} of the requests)")
        if len(order) > 8:
            lines.append(f"  and {len(order) - 8} more kinds of requests")
        for j in sorted(self.growing):
            ahead = (chunks[j] - 1) / 2
            lines.append(f"  axis {j} grows: {ahead:.4g} indices are allocated ahead on average")
        return "\n".join(lines)
