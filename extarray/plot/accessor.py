"""`Plots`: the pictures of an array, as ``a.plot``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from extarray.common.lazy import Upward
from extarray.plot.elements import elements, slice_image
from extarray.plot.growth import growth_map
from extarray.plot.layout import layout
from extarray.plot.plans import rechunk_passes
from extarray.plot.zones import Zone, zones

__all__ = ["Plots"]

_upward = Upward({"extarray.mpi.zones": "Distribution Zones"})


@final
class Plots:
    """Pictures of an array: ``a.plot()`` draws its elements, the methods draw how they are stored.

    Each picture is a matplotlib figure, which notebooks show and ``plt.show()`` shows; ``path=``
    saves it and shows it nowhere.  ``ax=`` draws into your axes, and returns them.

    Parameters
    ----------
    array : ExtArray

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.create(None, (4, 3), dims=("y", "x"), chunks=1)
    >>> a.attrs["units"] = "m"
    >>> figure = a.plot()
    >>> [ax.get_ylabel() for ax in figure.axes]
    ['y', '[m]']
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __call__(self, ax: Any = None, **options: Any) -> Any:
        """Draw the elements: a line of one axis, an image of two, several images of three or more.

        Parameters
        ----------
        ax, **options
            As for `extarray.plot.elements`: ``axes=("y", "x")``, ``at={"time": 3}``,
            ``panels="time"``.

        Returns
        -------
        matplotlib.figure.Figure
            Given axes are returned in its place.
        """
        return elements(self._array, ax, **options)

    def growth(self, ax: Any = None, **options: Any) -> Any:
        """Draw the grid of chunks: each cell has its address, coloured by segment.

        Parameters
        ----------
        ax, **options
            As for `extarray.plot.growth_map`.

        Returns
        -------
        matplotlib.figure.Figure
            Given axes are returned in its place.
        """
        return growth_map(self._array, ax, **options)

    def slice(self, ax: Any = None, **options: Any) -> Any:
        """Draw a plane of elements as an image, or a line of an array of one axis.

        Parameters
        ----------
        ax, **options
            As for `extarray.plot.slice_image`: ``axes=("y", "x")``, ``at={"time": 3}``.

        Returns
        -------
        matplotlib.figure.Figure
            Given axes are returned in its place.
        """
        return slice_image(self._array, ax, **options)

    def layout(self, selection: Any = None, ax: Any = None, **options: Any) -> Any:
        """Draw the place of each chunk in the file, and the extents that a selection touches.

        Parameters
        ----------
        selection : index, optional
            Integers, slices, ``...`` and lists of integers.
        ax, **options
            As for `extarray.plot.layout`.

        Returns
        -------
        matplotlib.figure.Figure
            Given axes are returned in its place.
        """
        return layout(self._array, selection, ax, **options)

    def zones(
        self,
        n: int,
        ax: Any = None,
        *,
        kind: str = "block",
        block: Any = 1,
        process_grid: Sequence[int] | None = None,
        **options: Any,
    ) -> Any:
        """Draw which of n MPI ranks has which chunks.

        Parameters
        ----------
        n : int
            Number of ranks.
        ax : matplotlib Axes or sequence of them, optional
        kind : {"block", "block_cyclic"}
            As for `extarray.mpi.ParallelArray.distribute`.
        block : int or sequence of int
            Chunks of a block, for "block_cyclic".
        process_grid : sequence of int, optional
            Ranks along each axis.
        **options
            As for `extarray.plot.zones`.

        Returns
        -------
        matplotlib.figure.Figure
            Given axes are returned in its place.
        """
        return zones(self._array, self.boxes(n, kind, block, process_grid), ax, **options)

    def boxes(
        self,
        n: int,
        kind: str = "block",
        block: Any = 1,
        process_grid: Sequence[int] | None = None,
    ) -> Sequence[Sequence[Zone]]:
        """Return the boxes of elements of each of n ranks, which `zones` draws.

        Parameters
        ----------
        n, kind, block, process_grid
            As for `zones`.

        Returns
        -------
        sequence of sequence of tuple of slice
        """
        array = self._array
        chosen = _upward.Distribution.of(kind, block, process_grid, array.ndim, n)
        low, offset = (0,) * array.ndim, array.info()["offset"]
        zones = _upward.Zones(chosen, low, array.shape, offset, array.chunks, n)
        return [zones.of(rank) for rank in range(n)]

    def plan(self, plan: Any, ax: Any = None, **options: Any) -> Any:
        """Draw the passes of a plan of `extarray.rechunk_plan`.

        Parameters
        ----------
        plan : RechunkPlan
        ax, **options
            As for `extarray.plot.rechunk_passes`; axes have the names of the array's if the new
            array has them in the same order.

        Returns
        -------
        matplotlib.figure.Figure
            Given axes are returned in its place.
        """
        if "names" not in options and plan.shape == self._array.shape:
            options["names"] = self._array.dims
        return rechunk_passes(plan, ax, **options)
