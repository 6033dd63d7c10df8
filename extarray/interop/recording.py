"""A recording of a microscope: a group with frames, and what is known about each of them.

Frames are appended to one array, ``frames``, in the order in which they come; its attribute
``"split"`` says for which time points, channels and slices they stand.  A number that comes with
frames, such as the time of each, has an array of its own along the same axis, where NaN stands for
those without.  Whatever else comes with a frame is a line of JSON in the bytes of ``notes``.  A
frame and all that comes with it count in one commit.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.folders import open_group
from extarray.array.group import commit
from extarray.array.growth import check_kind
from extarray.common.errors import ArgumentError, ClosedError, LossyWarning, ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Self

    from numpy.typing import ArrayLike, DTypeLike

    from extarray.array.folders import Group

__all__ = ["FRAMES", "NOTES", "Recording", "labels", "steps"]

#: Names of the arrays of frames, and of the lines of JSON.
FRAMES, NOTES = "frames", "notes"

# Elements in a chunk of numbers, and bytes in a chunk of notes: a page.
_NUMBERS, _NOTES = 512, 4096


class Recording:
    """A new group for frames, open for writing.

    Parameters
    ----------
    path : str or PathLike
        Name of the folder.
    lengths : mapping
        Lengths of the axes for which frames stand, by name, in the order of their coming: the last
        runs fastest.  That of the first may be None, for as many as will come.
    frame : sequence of int
        Shape of a frame.
    dtype : dtype
    dims : sequence of str
        Names of the axes of a frame.
    coords : mapping
        Coordinates, as in the attribute ``"coords"``.
    attrs : mapping
        Attributes of the group.
    overwrite : bool
        Replace an existing group.
    **options
        As for `extarray.create`, such as ``compression``.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        lengths: Mapping[str, int | None],
        frame: Sequence[int],
        dtype: DTypeLike,
        *,
        dims: Sequence[str] = ("y", "x"),
        coords: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        **options: Any,
    ) -> None:
        self.path = os.fspath(path)
        self.lengths = dict(lengths)
        if any(n is None for n in list(lengths.values())[1:]):
            raise ArgumentError(
                f"cannot record {_text(lengths)}: only the first axis may be without an end"
            )
        names = list(self.lengths)
        # An axis that stands for one alone has its name.
        self.axis = names[0] if len(names) == 1 else "frame"
        if self.axis == "frame" and "frame" in names:
            raise ArgumentError(
                f"cannot record {_text(lengths)}: 'frame' is the name of the axis of all frames; "
                "give the axis another"
            )
        if len(names) > 1:
            # An end that is known is no reason to show what has not come.
            own = {name: -1 if i == 0 else n for i, (name, n) in enumerate(self.lengths.items())}
            self._split: dict[str, Any] = {"split": {self.axis: own}}
        else:
            self._split = {}
        self._shape = tuple(frame)
        self._steps: dict[str, tuple[float, float, str]] = {}
        self._rows: dict[str, ExtArray] = {}
        # A dataset has one variable of a name: an array, or a coordinate.
        taken = (FRAMES, NOTES, self.axis, *dims, *names, *(coords or ()))
        self._taken = {name.lower() for name in taken}
        self._closed = False
        options = {"chunks": (1, *self._shape), "sparse": True, **options}
        group = open_group(self.path, "w" if overwrite else "w-")
        self._group: Group = group
        try:
            if attrs:
                group.attrs.update(attrs)
            self._frames = group.create(
                FRAMES,
                (0, *self._shape),
                dtype,
                dims=(self.axis, *dims),
                attrs={"coords": dict(coords)} if coords else None,
                **self._split,
                **options,
            )
        except BaseException:
            group.close()
            raise

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._frames)} frames"
        return f"<Recording '{self.path}': {_text(self.lengths)}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """True if no more frames can come."""
        return self._closed

    @property
    def group(self) -> Group:
        """The group; once the recording is closed, open for reading."""
        if self._group.closed:
            self._group = open_group(self.path)
        return self._group

    @property
    def frames(self) -> ExtArray:
        """The array of all frames."""
        if not self._closed:
            return self._frames
        frames = self.group[FRAMES]
        assert isinstance(frames, ExtArray)
        return frames

    def label_steps(self, axis: str, step: float, first: float, unit: str) -> None:
        """Label an axis without an end when the recording is closed, by even steps."""
        self._steps[axis] = (step, first, unit)

    def place(self, index: Sequence[int]) -> int:
        """Return the number of the frame at an index of the axes."""
        place = 0
        for i, (name, n) in zip(index, self.lengths.items(), strict=True):
            if i < 0 or (n is not None and i >= n):
                raise ArgumentError(
                    f"cannot record a frame at {dict(zip(self.lengths, index, strict=True))}: "
                    f"axis {name!r} has a length of {n}"
                )
            place = place * (n or 1) + i
        return place

    def write(self, place: int, frame: ArrayLike, about: Mapping[str, Any] | None = None) -> None:
        """Write a frame at its place, with what is known about it.

        Places between the last frame and this one are skipped.
        """
        frames = self._open_frames()
        here = len(frames)
        row = np.asarray(frame)[None]
        if row.shape[1:] != self._shape:
            raise ShapeError(
                f"cannot record a frame of shape {row.shape[1:]}: those of '{self.path}' have the "
                f"shape {self._shape}"
            )
        check_kind(frames, row)
        numbers, note = self._parted(place, about) if about else ({}, b"")
        if place < here:
            frames[place] = row[0]
            for name, number in numbers.items():
                self._rows[name][place] = number
            self._add_note(note)
            return
        rows = self._rows
        if not rows and place == here:
            frames.append(row)
            return
        with commit([frames, *rows.values()]):
            self._extend(place - here)
            frames.append(row)
            for name, array in rows.items():
                if name != NOTES:
                    array.append([numbers.get(name, math.nan)])
            self._add_note(note)

    def skip(self, place: int) -> None:
        """Let frames before a place be skipped: they read as the fill value."""
        frames = self._open_frames()
        by = place - len(frames)
        if by > 0:
            with commit([frames, *self._rows.values()]) if self._rows else nullcontext():
                self._extend(by)

    def close(self) -> None:
        """Label axes whose end is known now, and close the files."""
        if self._closed:
            return
        if self._steps:
            self._label_ends()
        self._closed = True
        self._rows.clear()
        self._group.close()

    def _open_frames(self) -> ExtArray:
        if self._closed:
            raise ClosedError(f"cannot record: '{self.path}' is closed")
        return self._frames

    def _extend(self, by: int) -> None:
        if by:
            self._frames.extend(self.axis, by)
            for name, array in self._rows.items():
                if name != NOTES:
                    array.extend(self.axis, by)

    def _label_ends(self) -> None:
        frames = self._frames
        block = math.prod(n for n in self.lengths.values() if n is not None)
        count = -(-len(frames) // block)
        coords = dict(frames.attrs.get("coords", {}))
        for axis, (step, first, unit) in self._steps.items():
            coords[axis] = steps(axis, count, step, first, unit)
        frames.attrs["coords"] = coords

    # -- what is known about frames ----------------------------------------------------------------

    def _parted(self, place: int, about: Mapping[str, Any]) -> tuple[dict[str, float], bytes]:
        """Part what is known about a frame into numbers, each with its array, and a note."""
        numbers: dict[str, float] = {}
        others: dict[str, Any] = {}
        for name, value in about.items():
            number = _as_number(value)
            if number is not None and self._has_row(name):
                numbers[name] = number
            else:
                others[name] = value
        if not others:
            return numbers, b""
        kept = {}
        for name, value in others.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                warnings.warn(
                    f"{name!r} of frame {place} is left out: JSON cannot represent {value!r:.80}",
                    LossyWarning,
                    stacklevel=4,
                )
            else:
                kept[name] = value
        if not kept:
            return numbers, b""
        if NOTES not in self._rows:
            self._rows[NOTES] = self._group.create(NOTES, 0, "u1", dims=("byte",), chunks=(_NOTES,))
        return numbers, json.dumps({"frame": place, **kept}).encode() + b"\n"

    def _has_row(self, name: str) -> bool:
        """Tell whether numbers of a name have an array; make it if they may."""
        if name in self._rows:
            return name != NOTES
        # On some file systems, names that differ in case alone are the same.
        if not name.isidentifier() or name.lower() in self._taken:
            return False
        self._taken.add(name.lower())
        self._rows[name] = self._group.create(
            name,
            len(self._frames),
            "f8",
            dims=(self.axis,),
            chunks=(_NUMBERS,),
            fill_value=math.nan,
            **self._split,
        )
        return True

    def _add_note(self, note: bytes) -> None:
        if note:
            self._rows[NOTES].append(np.frombuffer(note, np.uint8))


def _as_number(value: Any) -> float | None:
    """Return a number that a float holds; None: it is none."""
    if isinstance(value, (bool, np.bool)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number == value or number != number else None


def _text(lengths: Mapping[str, int | None]) -> str:
    return ", ".join(f"{name}={n}" for name, n in lengths.items()) or "one frame"


def labels(axis: str, data: Any, unit: str = "") -> dict[str, Any]:
    """Return a coordinate of labels along an axis.

    Examples
    --------
    >>> labels("z", [0.0, 0.5], "micrometer")
    {'dims': ['z'], 'data': array([0. , 0.5]), 'attrs': {'units': 'µm'}}
    """
    form: dict[str, Any] = {"dims": [axis], "data": np.asarray(data)}
    return {**form, "attrs": {"units": _symbol(unit)}} if unit else form


def steps(axis: str, count: int, step: float, first: float = 0.0, unit: str = "") -> dict[str, Any]:
    """Return a coordinate of even steps along an axis.

    Examples
    --------
    >>> steps("x", 3, 0.5)
    {'dims': ['x'], 'data': array([0. , 0.5, 1. ])}
    """
    return labels(axis, first + step * np.arange(count), unit)


# Names of NGFF, and symbols of OME-XML.
_PREFIXES = (
    "yotta=Y zetta=Z exa=E peta=P tera=T giga=G mega=M kilo=k hecto=h deci=d centi=c milli=m "
    "micro=µ nano=n pico=p femto=f atto=a zepto=z yocto=y"
)
_OTHERS = (
    "meter=m second=s minute=min hour=h day=d angstrom=Å inch=in foot=ft yard=yd mile=mi parsec=pc"
)
_UNITS = dict(pair.split("=") for pair in _OTHERS.split())
for _name, _letter in [pair.split("=") for pair in _PREFIXES.split()]:
    _UNITS |= {f"{_name}meter": f"{_letter}m", f"{_name}second": f"{_letter}s"}


def _symbol(unit: str) -> str:
    """Return the symbol of a unit that has one, as OME-XML names it.

    >>> _symbol("micrometer"), _symbol("minute"), _symbol("counts")
    ('µm', 'min', 'counts')
    """
    return _UNITS.get(unit, unit)
