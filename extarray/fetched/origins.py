"""The objects from which chunks come: one that never changes, or one that a writer changes.

Chunks of a pair come from ``.xta`` as it was when the newest state was taken up.  If it has changed
since, they come from it as it is now, and the metadata are read once more after that: as long as
they belong to the same array, so did the chunks, since whoever replaces a pair names the metadata
first.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from extarray.common.config import config
from extarray.common.errors import ReplacedError, ResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from extarray.remote.objects import RemoteObject

__all__ = ["Changing", "Fixed"]

# Times of changes, of which many servers make tags, count seconds; clocks differ a little.
_SECONDS_OF_TAGS = 2.5


class Fixed:
    """The chunks in an object that never changes.

    Parameters
    ----------
    found : RemoteObject
    base : int
        Offset of the first chunk in it.
    chunk_bytes : int
    """

    version: object

    def __init__(self, found: RemoteObject, base: int, chunk_bytes: int) -> None:
        self.version = object()
        self.object, self._base, self._size = found, base, chunk_bytes

    def _ranges(self, addresses: NDArray[Any]) -> tuple[list[int], list[int]]:
        if len(addresses) * self._size > config.max_result:
            raise ResultError(
                f"{len(addresses)} chunks of {self._size} bytes, which are needed at a time, "
                "exceed config.max_result"
            )
        return (self._base + addresses * self._size).tolist(), [self._size] * len(addresses)

    def fetch(self, addresses: NDArray[Any]) -> tuple[Sequence[Any], object]:
        """Return chunks, and their version."""
        return self.object.read_ranges(*self._ranges(addresses)), self.version

    def start(self, addresses: NDArray[Any]) -> Any:
        """Begin to fetch chunks."""
        return self.object.start(*self._ranges(addresses))


class Changing(Fixed):
    """The chunks in ``.xta`` of a pair that may have a writer.

    Parameters
    ----------
    found, chunk_bytes
        As for `Fixed`.
    confirm : callable
        Called after chunks were fetched from a later version; raises if the array was replaced.
    is_cut : bool
        Chunks may become holes, which do not hold the fill value.

    Attributes
    ----------
    version : int or None
        None: chunks come from whatever version there is.
    """

    def __init__(
        self, found: RemoteObject, chunk_bytes: int, confirm: Callable[[], None], is_cut: bool
    ) -> None:
        super().__init__(found, 0, chunk_bytes)
        self._confirm, self._is_cut = confirm, is_cut
        self.take(found)

    def take(self, found: RemoteObject) -> None:
        """Take chunks from a later version from now on."""
        self.object = found
        # Servers may tell times of changes by the second, so equal tags do not prove equality.
        self.version = None if found.tag is None else object()
        self._sure_from = time.monotonic() + _SECONDS_OF_TAGS if self._is_cut else 0.0

    def _look_for_cuts(self) -> None:
        """Confirm the metadata, as long as a tag may hide that chunks became holes."""
        if self._sure_from:
            is_last = time.monotonic() > self._sure_from
            self._confirm()
            if is_last:
                self._sure_from = 0.0

    def fetch(self, addresses: NDArray[Any]) -> tuple[Sequence[Any], object]:
        """Return chunks, and their version."""
        version, now = self.version, self.object
        if version is not None:
            try:
                found = now.read_ranges(*self._ranges(addresses))
                self._look_for_cuts()
                return found, version
            except ReplacedError:
                if self.object is now:
                    self.version = None
        chunks = self.object.any_version().read_ranges(*self._ranges(addresses))
        self._confirm()
        return chunks, None

    def start(self, addresses: NDArray[Any]) -> Any:
        """Begin to fetch chunks."""
        if self.version is not None:
            return _Confirmed(super().start(addresses), self._look_for_cuts)
        return _Confirmed(self.object.any_version().start(*self._ranges(addresses)), self._confirm)


class _Confirmed:
    """Chunks on their way, whose version is looked at when they have come."""

    def __init__(self, handle: Any, confirm: Callable[[], None]) -> None:
        self._handle, self._confirm = handle, confirm

    def result(self) -> Sequence[Any]:
        """Wait for the chunks, and return them."""
        found: Sequence[Any] = self._handle.result()
        self._confirm()
        return found

    def cancel(self) -> None:
        """Give them up."""
        self._handle.cancel()
