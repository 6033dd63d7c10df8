"""The objects from which chunks come: one that never changes, or one that a writer changes.

Chunks of a pair come from ``.xta`` as it was when the newest state was taken up.  If it has changed
since, they come from it as it is now, and the metadata are read once more after that: as long as
they belong to the same array, so did the chunks, since whoever replaces a pair names the metadata
first.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from extarray.codecs.codec import CodecId
from extarray.common.config import config
from extarray.common.errors import ReplacedError, ResultError
from extarray.fetched.chunks import Arrived, Version
from extarray.format.blobs import BLOB_HEAD_BYTES, Stored, decode_stored, read_of_blob
from extarray.format.suffixes import BLOBS, DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from extarray.fetched.chunks import Handle
    from extarray.format.blobs import BlobPlaces, BlobsBlock
    from extarray.format.header import Header
    from extarray.remote.objects import Reading, RemoteObject

__all__ = ["Changing", "Fixed", "read_stored", "start_blobs"]

# Times of changes, of which many servers make tags, count seconds; clocks differ a little.
_SECONDS_OF_TAGS = 2.5

# Most bytes read, in terms of those wanted.  A box no larger than a chunk meets two along each axis
# at most, which lie close together.  What crosses more chunks, as planes and series do, lies in
# pieces all along the file: reading gaps saves requests there.
_FEW, _MANY = 1.3, 2.6
# From here on, the bytes take longer than the requests, 16 of which are made at a time.
_LARGE = 16 << 20


def start_blobs(found: RemoteObject, offsets: list[int], sizes: list[int], n_axes: int) -> Reading:
    """Begin to read blobs of chunks of an array with so many axes."""
    is_spread = len(offsets) > 2**n_axes and sum(sizes) < _LARGE
    return found.start(offsets, sizes, waste=_MANY if is_spread else _FEW)


def read_stored(
    found: RemoteObject,
    block: BlobsBlock,
    addresses: list[int],
    places: BlobPlaces,
    header: Header,
    base: int = 0,
) -> list[Stored | None]:
    """Return where chunks lie in blobs, and how they are encoded; None for those without a blob.

    ``.xtz`` begins at `base` of the object.
    """
    size, itemsize = header.chunk_bytes, header.dtype.itemsize
    offsets, sizes = places.offsets.tolist(), places.sizes.tolist()
    wanted = [read_of_blob(room, itemsize) for room in sizes]
    if block.codec == CodecId.RAW:
        return [
            Stored(BLOBS, base + offset + BLOB_HEAD_BYTES, size) if room else None
            for offset, room in zip(offsets, sizes, strict=True)
        ]
    # Some megabytes take less time than a request for each blob.
    waste = max(_MANY, _LARGE / max(1, sum(wanted)))
    heads = found.read_ranges([base + offset for offset in offsets], wanted, waste=waste)
    stored: list[Stored | None] = []
    for address, head, offset, room in zip(addresses, heads, offsets, sizes, strict=True):
        one = decode_stored(head, address, block, offset, room) if room else None
        stored.append(one and one._replace(offset=base + one.offset))
    return stored


class Fixed:
    """The chunks in an object that never changes.

    Parameters
    ----------
    found : RemoteObject
    base : int
        Offset of the first chunk in it.
    chunk_bytes : int
    """

    def __init__(self, found: RemoteObject, base: int, chunk_bytes: int) -> None:
        self.object, self._base, self._size = found, base, chunk_bytes

    @property
    def may_freeze(self) -> bool:
        """True if raw chunks are frozen without being asked."""
        return False

    @property
    def version(self) -> Version | None:
        """The only version."""
        return Version(0, True)

    def _ranges(self, addresses: NDArray[Any]) -> tuple[list[int], list[int]]:
        if len(addresses) * self._size > config.max_result:
            raise ResultError(
                f"{len(addresses)} chunks of {self._size} bytes, which are needed at a time, "
                "exceed config.max_result"
            )
        return (self._base + addresses * self._size).tolist(), [self._size] * len(addresses)

    def stored(self, addresses: NDArray[np.int64]) -> list[Stored | None]:
        """Return where chunks lie in the object, and how they are encoded.

        None stands for those of the fill value.
        """
        return [
            Stored(DATA, self._base + address * self._size, self._size)
            for address in addresses.tolist()
        ]

    def fetch(self, addresses: NDArray[Any]) -> Iterator[Arrived]:
        """Yield all chunks, as they come."""
        handle: Handle = self.start(addresses)
        yield from handle.arrivals(range(len(addresses)))

    def start(self, addresses: NDArray[Any]) -> Handle:
        """Begin to fetch chunks."""
        return _OfVersion(self.object.start(*self._ranges(addresses)), self.version)

    def changed(self, addresses: NDArray[Any], brought: Mapping[int, Version | None]) -> list[int]:
        """Return the addresses of chunks that may not be as they were when they were brought."""
        version = self.version
        return [
            address
            for address in addresses.tolist()
            if version is None or not version.vouches_for(brought.get(address))
        ]

    def n_threads(self, n_chunks: int) -> int:
        """Return how many threads are worth it to decode so many chunks: none beside the caller."""
        return 1


class _OfVersion:
    """Chunks on their way, all of one version."""

    def __init__(self, reading: Reading, version: Version | None) -> None:
        self._reading, self._version = reading, version

    def arrivals(self, wanted: Iterable[int]) -> Iterator[Arrived]:
        """Yield chunks as they come."""
        for chunks in self._reading.arrivals(wanted):
            yield Arrived(chunks, self._version)

    def cancel(self) -> None:
        """Give them up."""
        self._reading.cancel()


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
    """

    def __init__(
        self, found: RemoteObject, chunk_bytes: int, confirm: Callable[[], None], is_cut: bool
    ) -> None:
        super().__init__(found, 0, chunk_bytes)
        self._confirm, self._is_cut = confirm, is_cut
        self._number, self._is_any = 0, False
        self.take(found)

    @property
    def version(self) -> Version | None:
        """The version whose chunks come next; None: whatever there is."""
        if self._is_any:
            return None
        return Version(self._number, time.monotonic() > self._sure_from)

    def is_same(self, found: RemoteObject) -> bool:
        """Tell whether an object is the version of which chunks come, by its tag."""
        now = self.object
        return not self._is_any and (found.tag, found.size) == (now.tag, now.size)

    def take(self, found: RemoteObject) -> None:
        """Take chunks from a later version from now on."""
        self.object = found
        self._number += 1
        self._is_any = found.tag is None
        # Servers may tell times of changes by the second, so equal tags do not prove equality.
        self._sure_from = time.monotonic() + _SECONDS_OF_TAGS
        self._looks = self._is_cut

    def _look_for_cuts(self) -> None:
        """Confirm the metadata, as long as a tag may hide that chunks became holes."""
        if self._looks:
            is_last = time.monotonic() > self._sure_from
            self._confirm()
            self._looks = not is_last

    def fetch(self, addresses: NDArray[Any]) -> Iterator[Arrived]:
        """Yield all chunks at once, when it is sure that they belong together."""
        version, now = self.version, self.object
        found = None
        if version is not None:
            try:
                found = now.read_ranges(*self._ranges(addresses))
                self._look_for_cuts()
            except ReplacedError:
                found = version = None
                self._is_any |= self.object is now
        if found is None:
            found = self.object.any_version().read_ranges(*self._ranges(addresses))
            self._confirm()
        yield Arrived(list(enumerate(found)), version)

    def start(self, addresses: NDArray[Any]) -> Handle:
        """Begin to fetch chunks."""
        # A version that is taken up in between has chunks that are newer than it says.
        version = self.version
        found = self.object if version is not None else self.object.any_version()
        reading = found.start(*self._ranges(addresses))
        confirm = self._confirm if version is None else self._look_for_cuts
        return _Confirmed(reading, version, confirm)


class _Confirmed(_OfVersion):
    """Chunks on their way, whose version is looked at when they have come."""

    def __init__(
        self, reading: Reading, version: Version | None, confirm: Callable[[], None]
    ) -> None:
        super().__init__(reading, version)
        self._confirm = confirm

    def arrivals(self, wanted: Iterable[int]) -> Iterator[Arrived]:
        """Yield all chunks at once."""
        found = list(itertools.chain.from_iterable(self._reading.arrivals(wanted)))
        self._confirm()
        yield Arrived(found, self._version)
