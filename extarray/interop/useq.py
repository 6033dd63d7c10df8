"""Recordings of a useq-schema sequence: each frame has its place by the index of its event.

::

    from extarray.interop.useq import record

    with record(sequence, "run", (512, 512), "uint16") as recording:
        for event in sequence:
            recording.append(camera(event), event)

Needs useq-schema, which comes with the extra ``[ome-writers]``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
from extarray.common.extras import require
from extarray.interop.recording import Recording, labels, steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from numpy.typing import ArrayLike, DTypeLike

__all__ = ["SequenceRecording", "lengths_of", "record"]

useq: Any = require("useq", "ome-writers", "a recording of a sequence")


class SequenceRecording(Recording):
    """A recording whose frames have their places by events; `record` makes one."""

    def append(self, frame: ArrayLike, event: Any, **about: Any) -> None:
        """Record the frame of an event, with what is known about it.

        The frames of events that were skipped before, or that the sequence leaves out, read as
        zero, and take no space.

        Parameters
        ----------
        frame : array_like
        event : useq.MDAEvent
        **about
            Numbers, each of which becomes an element of the array of its name; and values of other
            kinds that JSON can represent.

        Raises
        ------
        ArgumentError
            A ValueError: the sequence has no such event.
        ClosedError
        """
        index = {str(name): i for name, i in event.index.items()}
        if not index.keys() <= self.lengths.keys():
            raise ArgumentError(
                f"cannot record a frame at {index}: the recording has the axes "
                f"{', '.join(self.lengths)}; give cameras, for an axis 'cam', to record"
            )
        place = self.place([index.get(name, 0) for name in self.lengths])
        self.write(place, frame, about)


def record(
    sequence: Any,
    path: str | PathLike[str],
    frame: Sequence[int],
    dtype: DTypeLike,
    *,
    pixel_size: float | None = None,
    cameras: int = 1,
    overwrite: bool = False,
    **options: Any,
) -> SequenceRecording:
    """Make a group for the frames of a sequence.

    Parameters
    ----------
    sequence : useq.MDASequence
    path : str or PathLike
        Name of the new folder.
    frame : sequence of int
        Rows and columns of a frame.
    dtype : dtype
    pixel_size : float, optional
        Size of an element, in µm.
    cameras : int
        Number of frames of each event: the axis ``cam``.
    overwrite : bool
        Replace an existing group.
    **options
        As for `extarray.create`, such as ``compression``.

    Returns
    -------
    SequenceRecording
        Its array ``frames`` stands for the axes of the sequence, in the sequence's order.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    ArgumentError
        A ValueError: a position has a sequence of its own, and time has no end, or several events
        have the same index, or there is no camera.
    ShapeError
        A ValueError: a frame has other axes than rows and columns.
    ArgumentTypeError
        A TypeError: no sequence.

    Examples
    --------
    >>> import numpy as np, useq, extarray as xa
    >>> from extarray.interop.useq import record
    >>> sequence = useq.MDASequence(
    ...     axis_order="tcz",
    ...     time_plan={"interval": 2, "loops": 3},
    ...     channels=["DAPI", {"config": "GFP", "acquire_every": 2}],
    ...     z_plan={"range": 2, "step": 1},
    ... )
    >>> with record(sequence, "cells", (4, 6), "uint16", pixel_size=0.1) as recording:
    ...     for i, event in enumerate(sequence):
    ...         recording.append(np.full((4, 6), i + 1, "u2"), event, exposure=10)
    >>> with xa.open("cells/frames") as frames:
    ...     view = frames.lazy.split()
    ...     view.dims, view[:, :, 1, 0, 0]
    (('t', 'c', 'z', 'y', 'x'), array([[ 2,  5],
           [ 8,  0],
           [11, 14]], dtype=uint16))
    """
    lengths = lengths_of(sequence)
    if cameras < 1:
        raise ArgumentError(f"cameras must be at least 1, not {cameras}")
    if len(frame) != 2:
        raise ShapeError(f"a frame has rows and columns, not the shape {tuple(frame)}")
    if cameras > 1:
        lengths["cam"] = cameras
    coords = dict(_coordinates(sequence, lengths))
    if pixel_size is not None:
        for name, count in zip("yx", frame, strict=True):
            coords[name] = steps(name, count, pixel_size, unit="micrometer")
    about = sequence.model_dump(mode="json", exclude_unset=True)
    return SequenceRecording(
        path,
        lengths,
        frame,
        dtype,
        coords=coords,
        attrs={"useq": about},
        overwrite=overwrite,
        **options,
    )


def lengths_of(sequence: Any) -> dict[str, int | None]:
    """Return the lengths of a sequence's axes, by name, in the order of its events.

    A position may have a sequence of its own.  An axis is as long as the longest of all positions,
    and one that other positions do not have is there for all.

    Parameters
    ----------
    sequence : useq.MDASequence

    Returns
    -------
    dict
        None is the length of a time without an end.

    Raises
    ------
    ArgumentError
        A ValueError: a position has a sequence of its own, and time has no end, or several events
        have the same index.
    ArgumentTypeError
        A TypeError: no sequence.

    Examples
    --------
    >>> import useq
    >>> from extarray.interop.useq import lengths_of
    >>> slices = {"range": 4, "step": 1}
    >>> lengths_of(useq.MDASequence(axis_order="cz", channels=["a", "b"], z_plan=slices))
    {'c': 2, 'z': 5}
    """
    if not isinstance(sequence, useq.MDASequence):
        raise ArgumentTypeError(
            f"cannot record a {type(sequence).__name__}; give a useq.MDASequence"
        )
    lengths: dict[str, int | None]
    try:
        lengths = {str(name): n for name, n in sequence.sizes.items() if n}
        has_end = True
    except ZeroDivisionError:  # useq-schema divides a duration by an interval of 0
        sizes = sequence.replace(time_plan=None).sizes
        lengths = {
            str(name): None if name == "t" else sizes[name]
            for name in sequence.axis_order
            if sizes[name] or name == "t"
        }
        has_end = False
    own = [p.sequence for p in sequence.stage_positions if getattr(p, "sequence", None)]
    if not any(each.used_axes for each in own):
        return lengths
    if not has_end:
        raise ArgumentError(
            "cannot record a sequence without an end, of which a position has a sequence of its "
            "own; give the time plan a number of loops"
        )
    found: dict[str, int] = {}
    seen = set()
    for event in sequence:
        if not isinstance(event.action, useq.AcquireImage):
            continue
        index = tuple(sorted((str(name), i) for name, i in event.index.items()))
        if index in seen:
            raise ArgumentError(
                f"cannot record the sequence: it has several events at {dict(index)}, as a "
                "position has a plan of its own for an axis of the whole sequence; give the plan "
                "to one of the two"
            )
        seen.add(index)
        for name, i in index:
            found[name] = max(found.get(name, 0), i + 1)
    order = dict.fromkeys((*map(str, sequence.axis_order), *found))
    return {name: found[name] for name in order if name in found}


def _coordinates(sequence: Any, lengths: dict[str, int | None]) -> Iterator[tuple[str, Any]]:
    """Yield the coordinates of a sequence, by name, where all positions have the same."""
    if lengths.get("t") is not None and sequence.time_plan:
        times = [float(t) for t in sequence.time_plan]
        if len(times) == lengths["t"]:
            yield "t", labels("t", times, "second")
    if sequence.channels and len(sequence.channels) == lengths.get("c"):
        yield "c", labels("c", [channel.config for channel in sequence.channels])
    if sequence.z_plan and len(planes := list(sequence.z_plan)) == lengths.get("z"):
        yield "z", labels("z", planes, "micrometer")
    positions = list(sequence.stage_positions)
    if positions and len(positions) == lengths.get("p"):
        yield "p", labels("p", [p.name or str(i) for i, p in enumerate(positions)])
        for name in "xyz":
            values = [getattr(p, name) for p in positions]
            if any(value is not None for value in values):
                known = [math.nan if value is None else value for value in values]
                yield f"{name}_coord", labels("p", known, "micrometer")
