"""Steady writing: elements go to the disk in the background, soon after they were made.

Left alone, the system lets dirty pages take a tenth of its memory before it writes any, and lets
writers wait from three twentieths on.  What it has not written by then is room that a recorder
lacks while the disk is slow.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from typing import TYPE_CHECKING

from extarray.common.errors import ClosedError, ReserveError

if TYPE_CHECKING:
    from extarray.storage.pair import Pair

__all__ = ["write_steadily"]

# Seconds between two rounds.  A page that every append writes to goes to the disk once a round.
_PERIOD = 0.2


def write_steadily(pair: Pair) -> None:
    """Begin to write dirty pages of an open pair of files all the time, until it is closed.

    ``.xmd`` is left to the system: its few pages change with each commit.
    """
    pair.is_steady = True
    if pair.mode != "r+":
        return
    given = (weakref.ref(pair),)
    thread = threading.Thread(target=_write, args=given, name="extarray-steady", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise ReserveError(
            f"cannot write '{pair.path}' with durability 'steady': the system has no more threads; "
            "leave it out, or end some"
        ) from error


def _write(found: weakref.ref[Pair]) -> None:
    while True:
        time.sleep(_PERIOD)
        pair = found()
        # A disk that has enough to do lets the thread wait, and nobody else.
        if pair is None or not _write_once(pair):
            return
        del pair


def _write_once(pair: Pair) -> bool:
    """Begin to write what is dirty; return False if the pair is closed."""
    if pair.data.closed:
        return False
    for file in (pair.data, pair.blobs):
        with contextlib.suppress(ClosedError):  # just now, or there are no blobs
            file.write_back()
    return True
