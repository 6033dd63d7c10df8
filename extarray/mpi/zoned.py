"""Arrays of which each rank of a communicator has a part: its zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.resizing import count, is_start
from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError, BoundsError, ShapeError
from extarray.mpi.runtime import check_rank
from extarray.mpi.zones import Distribution, Zones, shifted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.array.resizing import Side
    from extarray.mpi.agreement import Agreement

__all__ = ["ZonedArray"]


class ZonedArray(ExtArray):
    """Part of `ParallelArray`: which rank has which part of the array, and of a growth."""

    __slots__ = ("_agreement", "_distribution", "comm")

    comm: Any
    _agreement: Agreement
    _distribution: Distribution | None  # None: no axes

    def distribute(
        self,
        kind: Literal["block", "block_cyclic"] = "block",
        block: SupportsIndex | Sequence[SupportsIndex] = 1,
        process_grid: Sequence[SupportsIndex] | None = None,
    ) -> None:
        """Choose how the array is cut into zones; collective.

        Parameters
        ----------
        kind : {"block", "block_cyclic"}
            "block": one box a rank, as even as whole chunks allow, the larger ones first, as
            ``np.array_split`` cuts.  "block_cyclic": blocks of chunks, dealt out in turn.
        block : int or sequence of int
            Chunks of a block (along each axis), for "block_cyclic".
        process_grid : sequence of int, optional
            Ranks along each axis, row-major; None: the zones are as near to cubes of chunks as
            possible.

        Raises
        ------
        ArgumentError, ArgumentTypeError, ShapeError, ClosedError

        Notes
        -----
        An array begins with "block", and anew where it gains an axis.  Zones follow the bounds:
        what `zone` says is computed anew when the array has grown.

        Examples
        --------
        >>> a.distribute("block_cyclic", block=2)  # doctest: +SKIP
        """
        self._check()
        with self._agreement.step() as step:
            chosen = Distribution.of(kind, block, process_grid, self.ndim, self.comm.size)
            step.arguments = f"distribute {chosen}"
        self._distribution = chosen

    def zone(self, rank: SupportsIndex | None = None) -> Any:
        """Part of the array that belongs to a rank.

        Parameters
        ----------
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice, or list of tuple of slice
            For "block" one box, empty where there are no chunks for the rank; for "block_cyclic"
            all boxes, in increasing order.

        Raises
        ------
        BoundsError, ArgumentError

        Examples
        --------
        >>> a.zone(1)  # doctest: +SKIP
        (slice(0, 6, None), slice(6, 12, None))
        """
        return self._of_rank(self._zones(), rank)

    def owner(self, index: SupportsIndex | Sequence[SupportsIndex]) -> int:
        """Rank to whose zone an element belongs.

        Parameters
        ----------
        index : sequence of int
            An index of each axis.

        Returns
        -------
        int

        Raises
        ------
        BoundsError, ShapeError

        Examples
        --------
        >>> a.owner((7, 2))  # doctest: +SKIP
        2
        """
        given = index if isinstance(index, (tuple, list, np.ndarray)) else (index,)
        if len(given) != self.ndim:
            raise ShapeError(f"an index has {self.ndim} entries here, not {len(given)}")
        places = [as_int(i, "an index") for i in given]
        for j, (i, n) in enumerate(zip(places, self.shape, strict=True)):
            if not -n <= i < n:
                raise BoundsError(f"index {i} is out of bounds for axis {j} with size {n}")
        return self._zones().owner([i % n for i, n in zip(places, self.shape, strict=True)])

    def zone_of_growth(
        self,
        axis: SupportsIndex,
        by: SupportsIndex,
        side: Side = "end",
        rank: SupportsIndex | None = None,
    ) -> Any:
        """Part of a rank in what a growth adds, for `append_zone`.

        Parameters
        ----------
        axis, by, side
            As for `extend`.
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice, or list of tuple of slice
            As for `zone`, in the array as it will be.

        Notes
        -----
        The new part is cut like an array of its own, with a process grid that suits it, so that all
        ranks have something to write.

        Examples
        --------
        >>> a.zone_of_growth(axis=0, by=8)  # doctest: +SKIP
        (slice(10, 12, None), slice(0, 12, None))
        """
        j, n, first = self._axis(axis), count(by), is_start(side)
        parts = self._of_rank(self._zones_of_growth(j, n, first), rank)
        if not first:
            return parts
        # Indices count from the new start.
        if isinstance(parts, tuple):
            return shifted(parts, j, n)
        return [shifted(part, j, n) for part in parts]

    def _zones(self) -> Zones:
        """The zones of the array."""
        distribution = self._distributed()
        low, n = (0,) * self.ndim, self.comm.size
        return Zones(distribution, low, self.shape, self._store.offset, self.chunks, n)

    def _zones_of_growth(self, axis: int, by: int, at_start: bool) -> Zones:
        """The zones of what a growth adds, as elements are counted before it."""
        given = self._distributed()
        low, high = [0] * self.ndim, list(self.shape)
        low[axis], high[axis] = (-by, 0) if at_start else (high[axis], high[axis] + by)
        distribution = Distribution(given.kind, given.block, None)
        return Zones(distribution, low, high, self._store.offset, self.chunks, self.comm.size)

    def _first_distribution(self) -> Distribution | None:
        n = self.ndim
        return Distribution("block", (1,) * n, None) if n else None

    def _distributed(self) -> Distribution:
        self._check()
        if self._distribution is None:
            raise ArgumentError("an array without axes has no zones")
        return self._distribution

    def _of_rank(self, zones: Zones, rank: SupportsIndex | None) -> Any:
        parts = zones.of(check_rank(rank, self.comm))
        return parts[0] if zones.distribution.kind == "block" else parts
