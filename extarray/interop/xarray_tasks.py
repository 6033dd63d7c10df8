"""Elements that dask tasks write, later or on a cluster.

Each task writes elements within the bounds of existing arrays in its own process, and waits for no
lock.
"""

from __future__ import annotations

import pickle
import secrets
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array import creation
from extarray.array.array import ExtArray
from extarray.common.errors import ArgumentError, BoundsError
from extarray.common.extras import require
from extarray.common.system import host_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from extarray.codecs.rounding import Rounding

__all__ = [
    "BEING_FILLED",
    "Part",
    "is_late",
    "new_token",
    "runs_elsewhere",
    "write_later",
    "write_now",
]

#: Attribute of an array that has grown and that tasks fill; its token identifies their write.
BEING_FILLED = "being_filled"


class Part(NamedTuple):
    """A variable of tasks, and the place of its elements."""

    array: ExtArray
    place: tuple[slice, ...]
    variable: Any
    token: str | None = None  # value of the array's attribute while the tasks may write
    rounding: Rounding | None = None  # of the elements


def new_token() -> str:
    """Return a token that distinguishes the tasks of one write from all others."""
    return secrets.token_hex(8)


class _Target:
    """Elements of an array that tasks write in any process, at any time.

    On a host other than that of the opener, a task flushes what it has written: no other process
    can, and other hosts might not see it before.

    Parameters
    ----------
    array : ExtArray
        In files, open for writing.  Another process opens it for writing elements when its first
        task runs, not when the task arrives, since a worker that fails to read a message is lost.
    token : str, optional
        Nothing is written unless the attribute `BEING_FILLED` has this value: another write of the
        same elements may have followed one that was rolled back.
    rounding : Rounding, optional
        Of the elements.
    """

    def __init__(
        self, array: ExtArray, token: str | None = None, rounding: Rounding | None = None
    ) -> None:
        self._array: ExtArray | None = array
        self._token, self._rounding = token, rounding
        self._pickled, self._host = b"", host_name()
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
        # In another process, the array may have moved at its start.  Elements added by a failed
        # write are gone, and an index before the start would count from the end.
        moved = [now - then for now, then in zip(array.origin, self._origin, strict=True)]
        place = tuple(slice(s.start + n, s.stop + n) for s, n in zip(key, moved, strict=True))
        for s, extent in zip(place, array.shape, strict=True):
            if not 0 <= s.start <= s.stop <= extent:
                raise BoundsError(
                    f"elements {place} are no longer in {array.path}, which has shape "
                    f"{array.shape}: their append was rolled back"
                )
        array[place] = values if self._rounding is None else self._rounding(np.asarray(values))
        if host_name() != self._host:
            array.flush()


def is_late(variable: Any) -> bool:
    """Tell whether the elements of a variable are tasks of dask."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(variable)


def runs_elsewhere(variables: Iterable[Any]) -> bool:
    """Tell whether dask's current scheduler would run the tasks in other processes."""
    if not any(map(is_late, variables)):
        return False
    here = require("dask.threaded", "dask").get, require("dask.local", "dask").get_sync
    return require("dask.base", "dask").get_scheduler() not in (None, *here)


def write_later(parts: Sequence[Part], folder: Path | None = None) -> Any:
    """Return a delayed object that writes all parts when it is computed.

    The arrays may be closed; they are opened for writing elements, in `folder` if they have been
    moved there.
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
    """Run the tasks of all parts as one graph, which computes shared results once."""
    if parts:
        _stored(parts, compute=True)
        for part in parts:
            part.array.flush()


def _stored(parts: Sequence[Part], compute: bool) -> Any:
    return require("dask.array", "dask").store(
        [part.variable.data for part in parts],
        [_Target(part.array, part.token, part.rounding) for part in parts],
        regions=[part.place for part in parts],
        lock=False,
        compute=compute,
    )


def _nothing(stored: Any) -> None:
    """Return nothing, after all is written."""
