"""Elements that dask computes, written by its tasks: later, or by the workers of a cluster.

The tasks write elements inside the bounds of arrays that are there, each in the process where it
runs, and wait for nobody.
"""

from __future__ import annotations

import pickle
import secrets
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from extarray.array import creation
from extarray.array.array import ExtArray
from extarray.common.errors import ArgumentError, BoundsError
from extarray.common.extras import require
from extarray.storage.lock import own_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = [
    "BEING_FILLED",
    "Part",
    "is_late",
    "new_token",
    "runs_elsewhere",
    "write_later",
    "write_now",
]

#: The attribute of an array that has grown and that tasks fill: what tells their write from others.
BEING_FILLED = "being_filled"


class Part(NamedTuple):
    """A variable of tasks, and where its elements go."""

    array: ExtArray
    place: tuple[slice, ...]
    variable: Any
    token: str | None = None  # of the array's attribute while the tasks may write


def new_token() -> str:
    """Return what tells the tasks of one write from those of all others."""
    return secrets.token_hex(8)


class _Target:
    """Elements of an array, which tasks write in any process, at any time.

    On another host than the one that has the array, what a task has written is brought to the disk
    by the task: nobody else can, and other hosts may not see it before.

    Parameters
    ----------
    array : ExtArray
        In files, open for writing; another process opens it to write elements, when its first task
        runs: not when the task arrives, since a worker that cannot read a message is lost.
    token : str, optional
        Nothing is written unless the array's attribute `BEING_FILLED` is this one: a write that
        was taken back may have been followed by another, of the same elements.
    """

    def __init__(self, array: ExtArray, token: str | None = None) -> None:
        self._array: ExtArray | None = array
        self._token = token
        self._pickled, self._host = b"", own_host()
        self._origin = array.origin
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getstate__(self) -> dict[str, Any]:
        return {
            **vars(self),
            "_array": None,
            "_pickled": self._pickled or pickle.dumps(self._array),
        }

    def __setitem__(self, key: tuple[slice, ...], values: Any) -> None:
        array = self._array
        if array is None:
            array = self._array = pickle.loads(self._pickled)
        if self._token is not None:
            array.refresh()
            if array.attrs.get(BEING_FILLED) != self._token:
                raise ArgumentError(
                    f"elements {key} of {array.path} were not written: their append has ended or "
                    "was rolled back"
                )
        # Where it is opened in another process, the array may have moved at its start.  What a
        # write that failed has added is gone, and an index before the start would count from the
        # end.
        moved = [now - then for now, then in zip(array.origin, self._origin, strict=True)]
        place = tuple(slice(s.start + n, s.stop + n) for s, n in zip(key, moved, strict=True))
        for s, extent in zip(place, array.shape, strict=True):
            if not 0 <= s.start <= s.stop <= extent:
                raise BoundsError(
                    f"elements {place} are no longer in {array.path}, which has shape "
                    f"{array.shape}: their append was rolled back"
                )
        array[place] = values
        if own_host() != self._host:
            array.flush()


def is_late(variable: Any) -> bool:
    """Tell whether the elements of a variable are tasks of dask."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(variable)


def runs_elsewhere(variables: Iterable[Any]) -> bool:
    """Tell whether tasks of variables would run in other processes: dask's setting at present."""
    if not any(map(is_late, variables)):
        return False
    here = require("dask.threaded", "dask").get, require("dask.local", "dask").get_sync
    return require("dask.base", "dask").get_scheduler() not in (None, *here)


def write_later(parts: Sequence[Part], folder: Path | None = None) -> Any:
    """Return a delayed object that writes all parts when it is computed.

    The arrays may be closed, and are opened for writing elements: in the folder to which they have
    been moved since, if one is given.
    """
    delayed = require("dask", "dask").delayed
    opened = []
    for part in parts:
        path = part.array.path
        assert path is not None
        array = creation.open(folder / path.name if folder else path, "r+", share="elements")
        opened.append(part._replace(array=array))
    return delayed(_nothing, pure=False)(_stored(opened, compute=False) if opened else None)


def write_now(parts: Sequence[Part]) -> None:
    """Let the tasks of all parts run, as one graph: what they have in common is computed once."""
    if parts:
        _stored(parts, compute=True)
        for part in parts:
            part.array.flush()


def _stored(parts: Sequence[Part], compute: bool) -> Any:
    return require("dask.array", "dask").store(
        [part.variable.data for part in parts],
        [_Target(part.array, part.token) for part in parts],
        regions=[part.place for part in parts],
        lock=False,
        compute=compute,
    )


def _nothing(stored: Any) -> None:
    """Return nothing: all is written."""
