"""Operations of all ranks on global arrays and sections of them."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
from extarray.common.limits import limits
from extarray.mpi.access import OneSidedAccess, label
from extarray.mpi.patches import Section, steps_between
from extarray.mpi.requests import as_item, check_same_kind
from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from numpy.typing import DTypeLike, NDArray

    from extarray.mpi.runtime import Step

__all__ = ["Collectives", "GlobalSection", "Operand"]

# Multiplying fewer columns than this at a time takes longer than fetching them.
_LEAST_PANEL = 128


class Operand:
    """An operand or a result of collective operations: a global array, or a section of one.

    Each rank computes the new elements of its own zones from elements that all ranks have written
    before.  Two steps act as barriers: the step that checks the arguments comes before any rank
    reads, and a second step before any rank writes, as the target may be an operand of other ranks.
    """

    _array: Collectives
    _section: Section
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self._section.shape

    @property
    def T(self) -> GlobalSection:  # noqa: N802 -- as in ndarray
        """The transpose: the same elements, with the axes in reverse."""
        return GlobalSection(self._array, self._section.T)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        # NumPy would wrap the object in an array of one element.
        raise ArgumentTypeError(
            "a global array is spread over all ranks, and cannot become a NumPy array; copy a "
            "selection with get(), or use the local zone with access()"
        )

    def fill(self, value: Any) -> None:
        """Set all elements; collective.

        Parameters
        ----------
        value : scalar
            The same on all ranks; of the kind of the elements or a simpler kind, and in range.

        Raises
        ------
        ShapeError, CastingError, LimitError, ArgumentError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g.fill(1)  # doctest: +SKIP
        """
        with self._start("fill") as step:
            item = as_item(value, self.dtype, "value")
            step.arguments = f"fill with {item[()]!r}"
        self._become([(place, item) for place in self._places()])

    def zero(self) -> None:
        """Set all elements to zero; collective.

        Examples
        --------
        >>> g.zero()  # doctest: +SKIP
        """
        with self._start("zero"):
            zero = np.zeros((), self.dtype)
        self._become([(place, zero) for place in self._places()])

    def scale(self, factor: Any) -> None:
        """Multiply all elements; collective.

        Parameters
        ----------
        factor : scalar
            The same on all ranks.  Products are cast to elements by the rule "same_kind".

        Raises
        ------
        ShapeError, CastingError, ArgumentError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g.scale(0.5)  # doctest: +SKIP
        """
        with self._start("scale") as step:
            step.arguments = f"scale by {_words(factor, 'factor')}"
        self._set(lambda own: own * factor, self)

    def add(self, alpha: Any, a: Operand, beta: Any, b: Operand) -> None:
        """Become ``alpha * a + beta * b``; collective.

        Parameters
        ----------
        alpha, beta : scalar
            The same on all ranks.
        a, b : GlobalArray or GlobalSection
            On the same ranks and of the same shape, however distributed; also this array itself.

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, if one has a reason.

        Notes
        -----
        Sums are cast to elements by the rule "same_kind".

        Examples
        --------
        >>> g.add(1, g, -1, h)  # doctest: +SKIP
        """
        with self._start("add", a, b) as step:
            self._check_shape(a.shape)
            self._check_shape(b.shape)
            factors = f"{_words(alpha, 'alpha')} and {_words(beta, 'beta')}"
            step.arguments = f"{step.arguments} times {factors}"
        self._set(lambda x, y: alpha * x + beta * y, a, b)

    def apply(self, function: Callable[..., Any], *operands: Any) -> None:
        """Become the result of a function of operands, element by element; collective.

        Parameters
        ----------
        function : callable
            A NumPy ufunc, or a function that takes arrays and scalars in the same order and returns
            an array of the same shape; the same on all ranks.  It is called block by block.
        *operands : GlobalArray, GlobalSection or scalar
            Arrays on the same ranks and of the same shape, however distributed; also this array
            itself.  Scalars are the same on all ranks.

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, if one has a reason; nothing is changed.

        Notes
        -----
        Results are cast to elements by the rule "same_kind".  If all are distributed alike, no
        elements move between ranks.

        Examples
        --------
        >>> g.apply(np.maximum, g, 0)  # doctest: +SKIP
        >>> g.apply(np.multiply, g, h)  # doctest: +SKIP
        """
        arrays = [one for one in operands if isinstance(one, Operand)]
        with self._start("apply", *arrays) as step:
            if not callable(function):
                raise ArgumentTypeError(f"function must be callable, not {function!r}")
            words = [getattr(function, "__name__", type(function).__name__)]
            for number, one in enumerate(operands):
                if isinstance(one, Operand):
                    self._check_shape(one.shape)
                    words.append(one._label())
                else:
                    words.append(_words(one, f"operand {number}"))
            step.arguments = f"apply {' '.join(words)}"
        self._set(function, *operands)

    def matmul(self, a: Operand, b: Operand, alpha: Any = 1, beta: Any = 0) -> None:
        """Become ``alpha * a @ b + beta * self``, a product of matrices; collective.

        Parameters
        ----------
        a, b : GlobalArray or GlobalSection
            Matrices on the same ranks, of shapes (m, k) and (k, n) if this one has (m, n), however
            distributed; pass `T` for a transpose.
        alpha, beta : scalar
            The same on all ranks.

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, if one has a reason; nothing is changed.

        Notes
        -----
        As in SRUMMA, each rank computes its own elements of the product from blocks of the factors.
        It reads them one-sided, the next blocks while it multiplies, and copies no blocks from
        memory of its own host.  Products have NumPy's dtype, and are cast to elements by the rule
        "same_kind".

        Examples
        --------
        >>> g.matmul(a, b)  # doctest: +SKIP
        >>> g.matmul(a.T, a, alpha=0.5, beta=1)  # doctest: +SKIP
        """
        with self._start("multiply", a, b) as step:
            shapes = [one.shape for one in (self, a, b)]
            if [len(shape) for shape in shapes] != [2, 2, 2]:
                raise ShapeError(f"a product needs matrices, not shapes {shapes[1:]}")
            (m, n), (m_a, k_a), (k_b, n_b) = shapes
            if (m, n, k_a) != (m_a, n_b, k_b):
                raise ShapeError(
                    f"the product of shapes {shapes[1]} and {shapes[2]} does not have shape "
                    f"{(m, n)}"
                )
            factors = f"{_words(alpha, 'alpha')} and {_words(beta, 'beta')}"
            step.arguments = f"{step.arguments} times {factors}"
            none = [np.empty((0, 0), one.dtype) for one in (a, b, self)]
            sample = _combined(np.matmul(*none[:2]), alpha, beta, none[2])
            check_same_kind(sample.dtype, self.dtype)
        with self._array._agreement.step():
            new = [
                (place, _combined(block, alpha, beta, self._own(place)))
                for place, block in _product(self, a, b)
            ]
        self._become(new)

    def dot(self, b: Operand) -> Any:
        """Return the sum of the products of the elements of two arrays; collective.

        Parameters
        ----------
        b : GlobalArray or GlobalSection
            On the same ranks and of the same shape, however distributed.

        Returns
        -------
        scalar
            The same on all ranks; for integers it has 64 bits.

        Raises
        ------
        ShapeError, ArgumentError, ArgumentTypeError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g.dot(g)  # doctest: +SKIP
        """
        with self._start("dot", b):
            self._check_shape(b.shape)
        with self._array._agreement.step():
            dtype = np.result_type(self.dtype, b.dtype)
            dtype = {"i": np.dtype("i8"), "u": np.dtype("u8")}.get(dtype.kind, dtype)
            total = dtype.type(0)
            for _, (x, y) in self._operate(self, b):
                total += np.multiply(x, y, dtype=dtype).sum(dtype=dtype)
        array = self._array
        total = array.comm.allreduce(total)
        array._window.sync()
        return total

    def transpose(self, a: Operand) -> None:
        """Become the transpose of another array; collective.

        Parameters
        ----------
        a : GlobalArray or GlobalSection
            On the same ranks; its elements are cast by the rule "same_kind".

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g.transpose(h)  # doctest: +SKIP
        """
        with self._start("transpose", a):
            self._check_shape(a.shape[::-1])
        self._set(np.asarray, a.T)

    def copy_to(self, b: Operand) -> None:
        """Copy all elements to another array; collective.

        Parameters
        ----------
        b : GlobalArray or GlobalSection
            On the same ranks and of the same shape, however distributed; elements are cast by the
            rule "same_kind".

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g.copy_to(h)  # doctest: +SKIP
        """
        with self._start("copy to", b):
            b._check_shape(self.shape)
        b._set(np.asarray, self)

    @contextmanager
    def _start(self, name: str, *others: Operand) -> Iterator[Step]:
        """Begin a step that checks arguments; after the block all ranks see what all have written.

        The guarantee covers this array and `others`, which the step checks before the block runs.
        Transfers of files that are under way end after the block, as GA's collective calls sync.
        """
        self._check_there()
        with self._array._agreement.step() as step:
            for other in others:
                if not isinstance(other, Operand):
                    raise ArgumentTypeError(f"a GlobalArray is needed, not {type(other).__name__}")
                other._check_there()
                if not self._array._has_ranks_of(other._array.comm):
                    raise ArgumentError(
                        "the global arrays are on different ranks; create them with the same "
                        "communicator"
                    )
            arrays = {id(one._array): one._array for one in (self, *others)}.values()
            for array in arrays:
                array._window.publish()
            step.arguments = " ".join([name, *(one._label() for one in others)])
            yield step
            if not self._is_whole:
                step.arguments = f"{step.arguments}, for {self._section}"
        for array in arrays:
            array._end_transfers()
            array._window.refresh()

    def _label(self) -> str:
        """Name the operand, for ranks to compare their arguments."""
        array, section = self._array, self._section
        return label(array) if self._is_whole else f"{label(array)} {section}"

    def _check_there(self) -> None:
        """Raise if the elements no longer exist."""
        self._array._check()

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if shape != self.shape:
            raise ShapeError(f"shapes {self.shape} and {shape} do not match")

    def _places(self) -> list[tuple[slice, ...]]:
        """Return where in its memory this rank has elements of the operand."""
        layout, rank = self._array._window.layout, self._array.comm.rank
        sides = layout.sides(self._section.box, rank)
        return list(itertools.product(*([remote for remote, _ in side] for side in sides)))

    def _own(self, place: tuple[slice, ...]) -> NDArray[Any]:
        """Return the elements at a place in this rank's memory, with the axes of the section."""
        return self._section.forwards.of_box(self._array._window.own[place])

    def _operate(self, *operands: Any) -> Iterator[tuple[tuple[slice, ...], list[Any]]]:
        """Yield places in this rank's memory, and the operands' parts for the elements there.

        Parts have the axes of the section, each forwards in memory.
        """
        array, section = self._array, self._section
        layout, rank = array._window.layout, array.comm.rank
        arrays = [one for one in operands if isinstance(one, Operand)]
        if all(self._is_alike(one) for one in (self, *arrays)):
            parts = [one._array.access() if isinstance(one, Operand) else one for one in operands]
            yield layout.inside(rank), parts
            return
        for patch in itertools.product(*layout.sides(section.box, rank)):
            slices = [section.ordered(j, patch[j][1]) for j in section.axes]
            found = iter([one._array._begin(one._section.part(slices)) for one in arrays])
            values = [next(found)() if isinstance(one, Operand) else one for one in operands]
            yield tuple(remote for remote, _ in patch), values

    def _is_alike(self, other: Operand) -> bool:
        """Tell whether an operand is a whole array whose zones are cut like this one's."""
        mine = self._array._window.layout
        return other._is_whole and other._array._window.layout.is_divided_as(mine)

    @property
    def _is_whole(self) -> bool:
        return self._section == Section.whole(self._array.shape)

    def _set(self, function: Callable[..., Any], *operands: Any) -> None:
        """Become the result of a function of operands, whose elements all ranks have written."""
        with self._array._agreement.step():
            new, arrays = [], [one._array for one in operands if isinstance(one, Operand)]
            shown = [memory for one in arrays for memory in one._window.near.values()]
            for place, values in self._operate(*operands):
                made = np.asarray(function(*values))
                if made.shape != (wanted := self._own(place).shape):
                    raise ShapeError(
                        f"the function returned shape {made.shape} for a block of shape {wanted}; "
                        "give an elementwise function"
                    )
                check_same_kind(made.dtype, self.dtype)
                # `made` may show memory that other ranks overwrite before this rank has written it.
                is_shown = any(np.may_share_memory(made, memory) for memory in shown)
                new.append((place, made.copy() if is_shown else made))
        self._become(new)

    def _become(self, new: Iterable[tuple[tuple[slice, ...], NDArray[Any]]]) -> None:
        """Write new elements of this rank; no rank reads the old ones any more."""
        for place, values in new:
            self._own(place)[...] = values
        self._array._window.sync()


class GlobalSection(Operand):
    """A section of a global array, or its transpose, as an operand; it copies no elements.

    Made by `GlobalArray.section` and `GlobalArray.T`.  It has an array's collective operations,
    `fill`, `zero`, `scale`, `add`, `apply`, `dot`, `matmul`, `transpose` and `copy_to`, for its own
    elements only.

    Attributes
    ----------
    dtype : dtype

    Notes
    -----
    It keeps the bounds that the array had: make a new section after the array has grown.

    Examples
    --------
    >>> g.section((slice(0, 5), 3)).fill(1)  # doctest: +SKIP
    >>> h.section((slice(0, 4), slice(0, 4))).add(1, g.section((slice(4, 8), slice(0, 4))), 2, g.T)
    ... # doctest: +SKIP
    """

    def __init__(self, array: Collectives, section: Section) -> None:
        self._array, self._section = array, section
        self._bounds = array.shape
        self.dtype = array.dtype

    def __repr__(self) -> str:
        return f"<extarray.mpi.GlobalSection: shape {self.shape}, of {self._array!r}>"

    def _check_there(self) -> None:
        self._array._check()
        if self._array.shape != self._bounds:
            raise ArgumentError(
                f"the section was made for shape {self._bounds}, but the global array has "
                f"{self._array.shape} now; make a new section"
            )


class Collectives(OneSidedAccess, Operand):
    """The collective part of `GlobalArray`."""

    @property
    def _array(self) -> Self:  # type: ignore[override]
        return self

    @property
    def _section(self) -> Section:  # type: ignore[override]
        return Section.whole(self.shape)

    def section(self, selection: Any) -> GlobalSection:
        """Return a part of the array, for collective operations; no other rank takes part.

        Parameters
        ----------
        selection : int, slice, Ellipsis, or a tuple of them
            The same on all ranks.

        Returns
        -------
        GlobalSection

        Raises
        ------
        BoundsError, SelectionError, ClosedError

        Examples
        --------
        >>> g.section((slice(0, 5), 3)).scale(2)  # doctest: +SKIP
        """
        self._check()
        return GlobalSection(self, Section.of(selection, self.shape, self.dtype))

    def sync(self) -> None:
        """Show all ranks what all have written; collective.

        Raises
        ------
        ArgumentError
            A ValueError, on all ranks: some of them call something else.
        StorageError
            An OSError, on all ranks: a transfer of files failed on one.

        Notes
        -----
        Transfers of files that `extarray.pexta` has begun for this array end first, as `GA_Sync`
        ends a pending `PEXTA_IRead`; those of other arrays go on.  All other collective calls of
        the array do the same.  If a transfer fails, its error is raised, and those that began later
        are still under way: the next call ends them.

        Examples
        --------
        >>> g.sync()  # doctest: +SKIP
        """
        with self._start("sync"):
            pass

    def _end_transfers(self) -> None:
        """End the transfers of files under way, in the order in which they began; collective."""
        for end in tuple(self._under_way):
            end()

    def _has_ranks_of(self, comm: Any) -> bool:
        MPI = library()
        return bool(MPI.Comm.Compare(comm, self.comm) != MPI.UNEQUAL)


class _Side(NamedTuple):
    """One block of this rank's part of a product, along one axis."""

    memory: slice  # in this rank's memory of the product
    section: slice
    place: slice  # in the block that this rank computes


def _product(
    target: Operand, a: Operand, b: Operand
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Yield places in this rank's memory, and the elements of a product there.

    The summed axis is cut into steps; the next step is fetched while one is multiplied.
    """
    rank, size = target._array.comm.rank, target._array.comm.size
    section = target._section
    sides = target._array._window.layout.sides(section.box, rank)
    if not all(sides):
        return
    rows, columns = (_sides_of(section, j, sides[j]) for j in section.axes)
    shape = tuple(side[-1].place.stop for side in (rows, columns))
    dtype = np.result_type(a.dtype, b.dtype)
    most = max(_LEAST_PANEL, limits.panel_bytes // (sum(shape) * dtype.itemsize))
    edges = [one._array._window.layout.edges(one._section, j) for one, j in ((a, 1), (b, 0))]
    steps = steps_between({*edges[0], *edges[1]}, _LEAST_PANEL, most)
    # Ranks begin at different steps, so that they do not all ask the same rank at once.
    first = len(steps) * rank // size
    steps = steps[first:] + steps[:first]

    def fetch(step: slice) -> tuple[Callable[[], NDArray[Any]], Callable[[], NDArray[Any]]]:
        return (
            _fetch(a, [(side.section, step) for side in rows], 0),
            _fetch(b, [(step, side.section) for side in columns], 1),
        )

    made = np.zeros(shape, dtype)
    term = np.empty(shape, dtype) if len(steps) > 1 else made
    under_way = fetch(steps[0]) if steps else None
    for number in range(len(steps)):
        assert under_way is not None
        left, right = under_way
        under_way = fetch(steps[number + 1]) if number + 1 < len(steps) else None
        np.matmul(left(), right(), out=term)
        if term is not made:
            made += term
    for row, column in itertools.product(rows, columns):
        place = [side[0][0] for side in sides]  # axes that the section lacks
        place[section.axes[0]], place[section.axes[1]] = row.memory, column.memory
        yield tuple(place), made[row.place, column.place]


def _sides_of(section: Section, axis: int, side: list[tuple[slice, slice]]) -> list[_Side]:
    """Return this rank's parts along an axis of an array, placed side by side."""
    ends = [0, *itertools.accumulate(local.stop - local.start for _, local in side)]
    return [
        _Side(memory, section.ordered(axis, local), slice(start, stop))
        for (memory, local), (start, stop) in zip(side, itertools.pairwise(ends), strict=True)
    ]


def _fetch(
    factor: Operand, parts: list[tuple[slice, slice]], axis: int
) -> Callable[[], NDArray[Any]]:
    """Begin to read parts of a factor; the returned call joins them along an axis."""
    waits = [factor._array._begin(factor._section.part(part)) for part in parts]
    if len(waits) == 1:
        return waits[0]
    return lambda: np.concatenate([wait() for wait in waits], axis)


def _combined(product: NDArray[Any], alpha: Any, beta: Any, own: NDArray[Any]) -> NDArray[Any]:
    """Return ``alpha * product + beta * own``."""
    made = product if _is_plainly(alpha, 1) else alpha * product
    return made if _is_plainly(beta, 0) else made + beta * own


def _is_plainly(scalar: Any, value: int) -> bool:
    return type(scalar) in (int, float) and scalar == value


def _words(scalar: Any, name: str) -> str:
    """Return a scalar in words that ranks compare; raise for anything else."""
    if np.ndim(scalar):  # an array in files, too: never read one here
        raise ShapeError(f"{name} has shape {np.shape(scalar)}; give a scalar")
    return repr(np.asarray(scalar)[()])
