"""One-sided access: a rank alone reads, writes and adds to any part of a global array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from extarray._core._array import check_destination
from extarray.common.errors import (
    CastingError,
    ClosedError,
    ReadOnlyError,
    SelectionError,
    ShapeError,
)
from extarray.mpi import windows
from extarray.mpi.patches import Plan, Section, as_points, numbers
from extarray.mpi.requests import as_elements, as_item, scaled, spread
from extarray.mpi.zones import as_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from extarray.mpi.patches import ZoneLayout
    from extarray.mpi.requests import Request
    from extarray.mpi.runtime import Agreement
    from extarray.mpi.zones import Zone

__all__ = ["OneSidedAccess", "label"]


class OneSidedAccess:
    """The one-sided part of `GlobalArray`, whose elements are in a window.

    The number lets ranks check that they mean the same array.
    """

    def __init__(self, agreement: Agreement, layout: ZoneLayout, number: int) -> None:
        self._number = number
        self._agreement = agreement
        self.comm = agreement.comm
        self.dtype, self.ghosts = layout.dtype, layout.ghosts
        self._window = windows.Window(agreement, layout)
        # Calls that end the transfers of files under way; on all ranks in the same order.
        self._under_way: list[Callable[[], None]] = []
        # Windows that the array has left, and whose memory arrays of some rank still show.
        self._left: list[windows.Window] = []
        self._is_open = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self._window.layout.shape

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of chunks; zones are cut between chunks."""
        return self._window.layout.zones.chunks

    @property
    def process_grid(self) -> tuple[int, ...]:
        """Ranks along each axis."""
        return self._window.layout.zones.process_grid

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, of all ranks."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, of all ranks."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        what = f"extarray.mpi.GlobalArray: shape {self.shape}, {self.dtype}"
        if not self._is_open:
            return f"<{what}, destroyed>"
        zones = self._window.layout.zones.of(self.comm.rank)
        if len(zones) == 1:
            part = f"zone ({', '.join(f'{s.start}:{s.stop}' for s in zones[0])})"
        else:
            part = f"{len(zones)} zones"
        return f"<{what}, {part}, rank {self.comm.rank} of {self.comm.size}>"

    def distribution(self, rank: SupportsIndex | None = None) -> Any:
        """Return the zone of a rank, as `ParallelArray.zone` does.

        Parameters
        ----------
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice, or list of tuple of slice
            One box, empty if the rank has no elements; for "block_cyclic" all boxes, in increasing
            order.

        Raises
        ------
        BoundsError, ClosedError

        Examples
        --------
        >>> g.distribution(1)  # doctest: +SKIP
        (slice(0, 5, None), slice(6, 12, None))
        """
        self._check()
        return self._window.layout.zones.of_rank(rank, self.comm)

    def locate(self, index: SupportsIndex | Sequence[SupportsIndex]) -> int:
        """Return the rank whose zone has an element, as `ParallelArray.owner` does.

        Parameters
        ----------
        index : sequence of int

        Returns
        -------
        int

        Raises
        ------
        BoundsError, ShapeError, ClosedError

        Examples
        --------
        >>> g.locate((7, 2))  # doctest: +SKIP
        2
        """
        self._check()
        return self._window.layout.zones.owner(as_index(index, self.shape))

    def locate_region(self, selection: Any = ...) -> list[tuple[int, Zone]]:
        """Return the ranks whose zones have parts of a selection, each with its part.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them

        Returns
        -------
        list of tuple
            Ranks and boxes, in the order of the elements; for "block_cyclic" a rank appears once
            for each of its blocks.

        Raises
        ------
        BoundsError, SelectionError, ClosedError

        Examples
        --------
        >>> g.locate_region((slice(3, 8), 0))  # doctest: +SKIP
        [(0, (slice(3, 5, 1), slice(0, 1, 1))), (2, (slice(5, 8, 1), slice(0, 1, 1)))]
        """
        return list(self._window.layout.owners(self._plan(selection).box))

    def access(self, ghosts: bool = False) -> NDArray[Any]:
        """Return the zone of this rank, without a copy.

        Parameters
        ----------
        ghosts : bool
            Include the ghosts around it.  A rank without elements has none.

        Returns
        -------
        ndarray
            Writable; others see changes of the zone after `sync`.  For "block_cyclic" the boxes of
            the rank lie side by side along each axis, in increasing order, as in ScaLAPACK's local
            arrays.

        Notes
        -----
        When the zones are cut anew (`extend`, `distribute`, `extarray.pexta.read` and `write`), the
        elements move, and a result from before shows a copy that nobody uses.  Call `access` again.

        Examples
        --------
        >>> g.access()[...] += 1  # doctest: +SKIP
        """
        self._check()
        own = self._window.own
        return own if ghosts else own[self._window.layout.inside(self.comm.rank)]

    def get(self, selection: Any = ..., out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read a selection, one-sided.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        out : ndarray, optional
            Array to read into, also a part of `access`; None: a new array.

        Returns
        -------
        ndarray
            A copy; `out` if it was given.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, CastingError

        Examples
        --------
        >>> g.get((slice(None), 0))  # doctest: +SKIP
        """
        plan = self._plan(selection)
        patch = plan.only
        near = self._window.near.get(patch.rank) if patch else None
        if patch and near is not None:  # no request to wait for
            if out is None:
                found: NDArray[Any] = near[patch.remote].copy()
                return found
            np.copyto(self._as_out(out, plan.box.shape), near[patch.remote], "same_kind")
            return out
        result = self._get(plan, out).wait()
        assert result is not None
        return result

    def iget(self, selection: Any = ..., out: NDArray[Any] | None = None) -> Request:
        """Begin to read a selection, one-sided.

        Parameters
        ----------
        selection, out
            As for `get`.

        Returns
        -------
        Request
            Its ``wait()`` gives the array.

        Notes
        -----
        Elements in memory that this rank shares are copied at once.

        Examples
        --------
        >>> request = g.iget((slice(None), 0))  # doctest: +SKIP
        >>> request.wait().shape  # doctest: +SKIP
        (10,)
        """
        return self._get(self._plan(selection), out, testable=True)

    def _get(self, plan: Plan, out: NDArray[Any] | None, testable: bool = False) -> Request:
        shape = plan.box.shape
        if out is None:
            return self._read(plan, np.empty(shape, self.dtype), testable)
        result = self._as_out(out, shape)
        # a read into `out` could overwrite elements still to be read
        if np.may_share_memory(result, self._window.own):
            return self._read(plan, np.empty(shape, self.dtype), testable, into=result)
        return self._read(plan, result, testable)

    def _begin(self, section: Section) -> Callable[[], NDArray[Any]]:
        """Begin to read a section; the returned call waits for its values.

        Values are no copy if the section is one block in memory that this rank shares.
        """
        box, window = section.box, self._window
        patches = list(window.layout.patches(box))
        if len(patches) == 1 and patches[0].rank in window.near:
            shown = section.of_box(window.near[patches[0].rank][patches[0].remote])
            return lambda: shown
        block = np.empty(box.shape, self.dtype)
        request = windows.get(window, patches, block, lambda: block)

        def wait() -> NDArray[Any]:
            request.wait()
            return section.of_box(block)

        return wait

    def _read(
        self,
        plan: Plan,
        values: NDArray[Any],
        testable: bool = False,
        into: NDArray[Any] | None = None,
    ) -> Request:
        """Begin to read a selection into `values`, and copy them to `into` at the end if given."""

        def result() -> NDArray[Any]:
            if into is None:
                return values
            into[...] = values
            return into

        return windows.get(self._window, plan.patches, plan.view(values), result, testable)

    def put(self, selection: Any, values: ArrayLike) -> None:
        """Write to a selection, one-sided.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        values : array_like
            Broadcast to the selection, and cast as NumPy's assignment does.

        Raises
        ------
        BoundsError, SelectionError, ShapeError

        Examples
        --------
        >>> g.put((slice(0, 2), 3), 5)  # doctest: +SKIP
        """
        plan = self._plan(selection)
        patch = plan.only
        if patch and type(values) is np.ndarray and values.shape == plan.box.shape:
            near = self._window.near.get(patch.rank)
            if near is not None:  # as in `get`
                near[patch.remote] = values
                return
        self._put(plan, values).wait()

    def iput(self, selection: Any, values: ArrayLike) -> Request:
        """Begin to write to a selection, one-sided.

        Parameters
        ----------
        selection, values
            As for `put`.  Do not change an array of values before ``wait()``.

        Returns
        -------
        Request

        Examples
        --------
        >>> g.iput((slice(0, 2), 3), 5).wait()  # doctest: +SKIP
        """
        return self._put(self._plan(selection), values, testable=True)

    def _put(self, plan: Plan, values: ArrayLike, testable: bool = False) -> Request:
        block = plan.view(self._values(as_elements(values, self.dtype), plan.box.shape))
        return windows.put(self._window, plan.patches, block, testable)

    def accumulate(self, selection: Any, values: ArrayLike, alpha: Any = 1) -> None:
        """Add to a selection, one-sided: ``g[selection] += alpha * values``, element by element.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        values : array_like
            Broadcast to the selection, and cast by the rule "same_kind", as ``+=`` does.
        alpha : scalar
            Has the kind of the elements or a simpler kind: an integer for integers.

        Raises
        ------
        BoundsError, SelectionError, ShapeError
        DTypeError
            A TypeError: MPI does not add elements of this type.
        CastingError
            A TypeError: values or `alpha` do not fit the elements.

        Notes
        -----
        No addition to an element is lost, whichever ranks add.  Integers wrap around.

        Examples
        --------
        >>> g.accumulate(..., 1, alpha=0.5)  # doctest: +SKIP
        """
        plan = self._plan(selection)
        if plan.only and type(alpha) is int and alpha == 1 and type(values) is np.ndarray:
            flags = values.flags
            if (
                values.shape == plan.box.shape
                and values.dtype == self.dtype
                and flags.c_contiguous
                and flags.owndata  # no part of it is in the window
            ):
                windows.add(self._window, plan.only, values)
                return
        self._accumulate(plan, values, alpha).wait()

    def iaccumulate(self, selection: Any, values: ArrayLike, alpha: Any = 1) -> Request:
        """Begin to add to a selection, one-sided.

        Parameters
        ----------
        selection, values, alpha
            As for `accumulate`.  Do not change an array of values before ``wait()``.

        Returns
        -------
        Request

        Examples
        --------
        >>> g.iaccumulate(..., 1, alpha=0.5).wait()  # doctest: +SKIP
        """
        return self._accumulate(self._plan(selection), values, alpha, testable=True)

    def _accumulate(
        self, plan: Plan, values: ArrayLike, alpha: Any, testable: bool = False
    ) -> Request:
        block = plan.view(self._values(scaled(values, alpha, self.dtype), plan.box.shape))
        return windows.accumulate(self._window, plan.patches, block, testable)

    def gather(self, indices: ArrayLike) -> NDArray[Any]:
        """Read a list of elements, one-sided.

        Parameters
        ----------
        indices : (n, k) array_like of int
            For each element, an index along each of the k axes.

        Returns
        -------
        (n,) ndarray

        Raises
        ------
        BoundsError, SelectionError, ShapeError

        Examples
        --------
        >>> g.gather([(0, 0), (9, 11), (9, -1)])  # doctest: +SKIP
        array([1., 2., 2.])
        """
        self._check()
        points = as_points(indices, self.shape)
        values = np.empty(len(points), self.dtype)
        patches = self._window.layout.points(points)
        windows.get(self._window, patches, values, lambda: values).wait()
        return values

    def scatter(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Write a list of elements, one-sided.

        Parameters
        ----------
        indices : (n, k) array_like of int
            As for `gather`; if an element occurs several times, its last value is written.
        values : array_like
            Broadcast to (n,), and cast as NumPy's assignment does.

        Raises
        ------
        BoundsError, SelectionError, ShapeError

        Examples
        --------
        >>> g.scatter([(0, 0), (9, 11)], [1, 2])  # doctest: +SKIP
        """
        self._check()
        points = as_points(indices, self.shape)
        given = self._values(as_elements(values, self.dtype), (len(points),))
        # One call of MPI may write an element only once.
        _, back = np.unique(numbers(points, self.shape)[::-1], return_index=True)
        last = len(points) - 1 - back
        patches = self._window.layout.points(points[last])
        windows.put(self._window, patches, given[last]).wait()

    def scatter_acc(self, indices: ArrayLike, values: ArrayLike, alpha: Any = 1) -> None:
        """Add to a list of elements, one-sided.

        Parameters
        ----------
        indices : (n, k) array_like of int
            As for `gather`; all values for one element are added.
        values : array_like
            Broadcast to (n,), and cast by the rule "same_kind".
        alpha : scalar
            As for `accumulate`.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, DTypeError, CastingError

        Examples
        --------
        >>> g.scatter_acc([(0, 0), (0, 0)], [1, 2])  # doctest: +SKIP
        """
        self._check()
        points = as_points(indices, self.shape)
        given = self._values(scaled(values, alpha, self.dtype), (len(points),))
        # One call of MPI may add to an element only once.
        _, first, places = np.unique(
            numbers(points, self.shape), return_index=True, return_inverse=True
        )
        sums = np.zeros(len(first), self.dtype)
        np.add.at(sums, places, given)
        patches = self._window.layout.points(points[first])
        windows.accumulate(self._window, patches, sums).wait()

    def read_inc(self, index: Any, inc: Any = 1) -> Any:
        """Add to one element and return its old value, atomically among all ranks.

        Parameters
        ----------
        index : sequence of int
        inc : scalar
            Has the kind of the elements or a simpler kind, and is in their range.

        Returns
        -------
        scalar
            The element before the addition; sums of integers wrap around.

        Raises
        ------
        BoundsError, SelectionError, DTypeError
        ShapeError, CastingError, LimitError
            `inc` is no scalar, of another kind, or out of range.

        Examples
        --------
        >>> task = g.read_inc((0, 0))  # doctest: +SKIP
        """
        plan = self._plan(index)
        if plan.box.shape:
            raise SelectionError(
                f"{index!r} does not select a single element; give an integer for each axis"
            )
        (patch,) = plan.patches
        windows.number_of(self.dtype)
        return windows.fetch_and_add(self._window, patch, as_item(inc, self.dtype, "inc"))[()]

    def _check(self) -> None:
        if not self._is_open:
            raise ClosedError("the global array was destroyed; create another one")

    def _plan(self, selection: Any) -> Plan:
        self._check()
        return self._window.layout.plan(selection)

    def _as_out(self, out: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Check an array to read into."""
        if (
            type(out) is np.ndarray
            and out.dtype == self.dtype
            and out.shape == shape
            and out.flags.writeable
        ):
            return out
        check_destination(out, "C")
        if out.shape != shape:
            raise ShapeError(f"out has shape {out.shape}, but the selection has {shape}")
        if not out.flags.writeable:
            raise ReadOnlyError("out is read-only; give a writable array")
        if not np.can_cast(self.dtype, out.dtype, "same_kind"):
            raise CastingError(
                f"cannot cast {self.dtype} to {out.dtype} of out under the rule 'same_kind'; give "
                "out another dtype, or call get and then astype"
            )
        return out

    def _values(self, given: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Spread elements over a shape; copy them first if they show this rank's own memory."""
        apart = given.copy() if np.may_share_memory(given, self._window.own) else given
        return spread(apart, shape)


def label(array: OneSidedAccess) -> str:
    """Name a global array, for ranks to compare their arguments."""
    return f"global array {array._number}"
