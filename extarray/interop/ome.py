"""Arrays in place as images of OME-Zarr: a group with metadata, the array, and its pyramid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from extarray.array.array import ExtArray
from extarray.array.h5py_compat import attrs_of_view
from extarray.array.lazy import everything
from extarray.array.pyramid import SHARED, Pyramid, pyramid_beside
from extarray.common.errors import ArgumentError, ArgumentTypeError, LossyWarning
from extarray.common.hints import hint
from extarray.format.images import (
    OMERO,
    ImageAxes,
    axes_of_image,
    channels_of,
    image_metadata,
    labels_of,
    range_in,
)
from extarray.interop.described import Described, described_array, group_metadata, path_steps
from extarray.streaming.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.interop.described import Node

__all__ = ["Image", "image_nodes"]


class Image:
    """The group of an image, whose metadata are made when they are asked for.

    Parameters
    ----------
    array : ExtArray
    levels : sequence of Described
        The array and its smaller levels, as Zarr sees them.
    pyramid : Pyramid, optional
    """

    def __init__(
        self, array: ExtArray, levels: Sequence[Described], pyramid: Pyramid | None
    ) -> None:
        self.array, self._levels, self._pyramid = array, list(levels), pyramid
        self._ranges: list[tuple[float, float] | None] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and self._levels == other._levels

    __hash__ = None  # type: ignore[assignment]

    def axes(self, lost: list[str]) -> ImageAxes:
        """Return the axes as they are now; `lost` collects what OME-Zarr cannot express."""
        top = self._levels[0]
        names = top.dims
        view = everything(self.array)
        if names is not None and names != self.array.dims and self.array.dims is not None:
            view = view.lazy.split()
        labels = labels_of(attrs_of_view(self.array, view, lost), view.dims or names or (), lost)
        return axes_of_image(names, top.bounds(), labels, lost)

    def refresh(self) -> None:
        """Take up growth of the array and of its levels."""
        for level in self._levels:
            level.array.refresh()

    def metadata(self) -> dict[str, Any]:
        """Return the present content of ``zarr.json``."""
        image = self.axes([])
        top = self._levels[0].bounds()
        about = [("0", (1,) * len(top), (0,) * len(top))]
        for number, level in enumerate(self._levels[1:], start=1):
            assert isinstance(level.shown, _Cover)
            about.append((str(number), level.shown.factors, level.shown.offsets()))
        omero = None
        place = image.channel
        kept = self.array.attrs.get(OMERO)
        if image.channels is not None or isinstance(kept, dict):
            n = 1 if place is None else top[place]
            omero = channels_of(
                image.channels, n, self.array.dtype, self._found_ranges(image, n), kept
            )
        said, path = self.array.attrs.get("name"), self.array.path
        name = said if isinstance(said, str) else "image" if path is None else path.name
        how = None if self._pyramid is None else self._pyramid.how
        return group_metadata({"ome": image_metadata(image, about, name, how, omero)})

    def _found_ranges(self, image: ImageAxes, n: int) -> list[tuple[float, float] | None]:
        """Return the range of elements in one plane of each channel, once there is one."""
        if len(self._ranges) != n or None in self._ranges:
            level = self._levels[-1].array
            view = everything(level)
            if len(image.axes) != level.ndim:
                view = view.lazy.split()
            self._ranges = [range_in(view, image, j) for j in range(n)]
        return self._ranges


class _Cover:
    """The shape of a level: that of the array, halved, although the level may be behind.

    Chunks that it does not have yet are missing, and Zarr reads their fill value.

    Parameters
    ----------
    top : Described
        The array, as Zarr sees it.
    factors : tuple of int
        For each axis how many elements one of the level stands for.
    """

    def __init__(self, top: Described, factors: tuple[int, ...]) -> None:
        self._top, self.factors = top, factors

    def offsets(self) -> tuple[int, ...]:
        """Return how many of the elements of the first one lie before the array."""
        first = self._top.first
        if len(first) != len(self.factors):
            return (0,) * len(self.factors)  # frames, which begin at 0
        return tuple(n % f for n, f in zip(first, self.factors, strict=True))

    def __call__(self) -> tuple[int, ...]:
        return tuple(
            -(-(n + o) // f) if n else 0
            for n, o, f in zip(self._top.bounds(), self.offsets(), self.factors, strict=True)
        )


def image_nodes(array: Any, name: str | None, ome: Any) -> dict[str, Node | Image]:
    """Return what Zarr sees of an array as an image: its group, the array, and smaller levels.

    Parameters
    ----------
    array : ExtArray
    name : str or None
        Path of the group in groups that are made up for it; None: it is the root.
    ome : True or Pyramid
        The levels; True: those of the pyramid beside the array, if there is one.
    """
    if not isinstance(array, ExtArray):
        raise ArgumentTypeError(
            f"ome=True shows an array as an image, not a {type(array).__name__}"
        )
    top = described_array(array)
    if isinstance(ome, Pyramid):
        if ome.array is not array:
            raise ArgumentError(f"the pyramid is of {ome.array!r}, not of {array!r}")
        pyramid: Pyramid | None = ome
    else:
        pyramid = pyramid_beside(array)
    image = Image(array, [top], None)
    lost: list[str] = []
    axes = image.axes(lost)
    if axes.order != tuple(range(len(axes.order))):
        raise ArgumentError(
            f"OME-Zarr has axes in the order {axes.names}, and {top.name} has {top.dims}; "
            + hint(
                "extarray.to_ome_zarr writes it in that order, as does a copy: "
                f"np.transpose(a, {axes.order}).copy(path)",
                "extarray export to a file .ome.zarr writes it in that order",
            )
        )
    top.names = axes.names
    top.told, unkept = _plain(top)
    lost += [f"attribute {each!r}" for each in unkept]
    levels = [top]
    for number, level in enumerate([] if pyramid is None else pyramid.levels, start=1):
        assert pyramid is not None
        halved = [each if isinstance(each, str) else axes.names[each] for each in pyramid.axes]
        try:
            below = described_array(level)
        except ArgumentError:
            if isinstance(ome, Pyramid):
                raise
            break  # it grew at its start by less than a chunk: the levels are not needed
        below.names = axes.names
        # Stored numbers mean the same at every level.
        below.told = {key: value for key, value in top.told.items() if key in SHARED}
        below.pad_with(level.fill_value)
        below.shown = _Cover(top, tuple(1 << number if n in halved else 1 for n in axes.names))
        levels.append(below)
    steps = path_steps(name)
    nodes: dict[str, Node | Image] = {"/".join(steps[:n]): {} for n in range(len(steps))}
    root = "/".join(steps)
    nodes[root] = Image(array, levels, pyramid)
    for number, each in enumerate(levels):
        nodes[f"{root}/{number}".lstrip("/")] = each
    if lost:
        warn(f"OME-Zarr does not have {'; '.join(lost)} of {top.name}", LossyWarning)
    return nodes


def _plain(top: Described) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes of the array beside those that the group tells."""
    plain, lost = top.attributes(3)
    plain.pop(OMERO, None)
    return plain, [name for name in lost if name != "coords"]
