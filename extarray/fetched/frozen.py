"""Frozen chunks of a pair of files elsewhere, beside raw ones.

A server shows ``.xmd``, ``.xta`` and ``.xtz`` at different moments, while a writer freezes and
thaws chunks.  Words come with the metadata, behind the number of freezes.  A raw chunk counts if
metadata that were fetched after it have the same number: a writer raises it before it makes holes.
A blob never changes; one that is not there, or not whole, may be on its way.
"""

from __future__ import annotations

import errno
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.config import config
from extarray.common.errors import (
    ChecksumError,
    CorruptError,
    ExtArrayError,
    MissingError,
    NotVisibleError,
    PartnerError,
    RecoveryWarning,
    ReplacedError,
    ResultError,
    ShapeError,
)
from extarray.common.limits import limits
from extarray.fetched.chunks import Arrived, Version
from extarray.fetched.origins import Changing, read_stored, start_blobs
from extarray.fetched.paths import NOT_THERE
from extarray.format.blobs import (
    FILE_HEAD_BYTES,
    FILL,
    BlobPlaces,
    blob_bytes,
    check_blob,
    damaged_entry,
    decode_blob,
)
from extarray.format.frozen import RAW, check_log_head, places_of_words
from extarray.format.suffixes import BLOBS
from extarray.remote.objects import RemoteObject
from extarray.storage.blobs import decoding_threads, name_elements
from extarray.storage.filesystem import fresh_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.fetched.chunks import Handle
    from extarray.fetched.metadata import Words
    from extarray.fetched.pairs import RemotePair
    from extarray.format.blobs import BlobsBlock, Stored
    from extarray.remote.objects import Counts, Reading

__all__ = ["Log", "Mixed"]

# Looks at the same metadata before a blob that is not whole counts as lost, and the seconds before
# the first of them; each further one waits twice as long.
_LOOKS, _PAUSE = 5, 0.05


class Log:
    """The file ``.xtz`` of a pair elsewhere.  It only grows, but another one may take its name."""

    def __init__(self, pair: RemotePair, counts: Counts) -> None:
        self._pair, self._counts = pair, counts
        self._uuid = b""
        self.object: Any = None
        self.size = 0

    def knows(self, uuid: bytes, end: int) -> bool:
        """Tell whether the log of this uuid had so many bytes when it was last looked at."""
        return uuid == self._uuid and end <= self.size

    def look(self, uuid: bytes) -> None:
        """Look how long the log is, and whose.

        Raises
        ------
        MissingError, PartnerError
            There is none, or another one.
        """
        pair = self._pair
        name = f"{pair.path}{BLOBS}"
        try:
            found, head = self._open(BLOBS)
        except NOT_THERE as error:
            try:
                found, head = self._open(fresh_name(BLOBS, pair.header.uuid))
            except NOT_THERE:
                if not isinstance(error, MissingError):
                    raise error from None
                raise MissingError(
                    errno.ENOENT,
                    f"cannot open '{pair.path}': the metadata file exists, but its file of frozen "
                    "chunks is missing; put all three files in the same place",
                    name,
                ) from None
        try:
            check_log_head(head, uuid)
        except CorruptError:
            raise PartnerError(
                f"'{name}' is not the partner of '{pair.path}.xmd': it is another file of frozen "
                "chunks, or damaged; put the files of one array in the same place"
            ) from None
        self.object, self.size, self._uuid = found.any_version(), found.size, uuid

    def _open(self, suffix: str) -> tuple[RemoteObject, bytes]:
        place = self._pair.path.object(suffix)
        return RemoteObject.read_head(place, FILE_HEAD_BYTES, self._counts)


class _Missed(NamedTuple):
    """A chunk whose blob has not come: its number, and the damage; None if it is not there."""

    number: int
    problem: ExtArrayError | None


class Mixed(Changing):
    """The chunks of a pair, each raw in ``.xta``, or frozen in ``.xtz``.

    Parameters
    ----------
    found : RemoteObject
        ``.xta``.
    pair : RemotePair
    log : Log
    words : callable
        Returns the words of the newest metadata that were fetched.
    confirm : callable
        As for `Changing`; fetches the metadata.
    renew : callable
        Lets pieces of a long table come anew.
    axial : Axial
        For messages about damaged chunks.

    Attributes
    ----------
    axial : Axial
    """

    def __init__(
        self,
        found: RemoteObject,
        pair: RemotePair,
        log: Log,
        words: Callable[[], Words],
        confirm: Callable[[], None],
        renew: Callable[[], None],
        axial: Axial,
    ) -> None:
        self._pair, self._log, self._words, self.axial = pair, log, words, axial
        self._renew = renew
        # The words that count where the blobs of others are lost: those of the last flush.
        self._given_way: dict[tuple[bytes, int, int], int] = {}
        super().__init__(found, pair.header.chunk_bytes, confirm, True)
        self.filled = pair.header.fill * (self._size // max(1, len(pair.header.fill)))

    # -- versions --------------------------------------------------------------------------------

    def is_same(self, found: RemoteObject) -> bool:
        """Tell whether chunks are those that come now; see `Changing.is_same`."""
        return super().is_same(found) and self._words() is self._taken

    def take(self, found: RemoteObject) -> None:
        """Take chunks from a later version from now on."""
        super().take(found)
        self._taken = self._words()

    def look(self, addresses: NDArray[np.int64]) -> tuple[Words, NDArray[np.uint64]]:
        """Return the newest words, and those of chunks that count."""
        words, live, _ = self._look(addresses)
        if self._given_way:
            for i, key in enumerate(zip(addresses.tolist(), live.tolist(), strict=True)):
                live[i] = self._given_way.get((words.block.uuid, *key), live[i])
        return words, live

    def _look(
        self, addresses: NDArray[np.int64]
    ) -> tuple[Words, NDArray[np.uint64], NDArray[np.uint64]]:
        """Return words of the newest metadata, and the live and durable ones of chunks."""
        while True:
            words = self._words()
            if words.chunk_bytes != self._size:
                raise ShapeError(
                    f"'{self._pair.path}' has gained an axis with larger chunks; refresh to read it"
                )
            pieces = words.missing(addresses)
            if pieces:
                found = words.fetch(pieces)
                self._confirm()
                if self._words().identity != words.identity:
                    continue  # they may come from another file
                words.put(pieces, found)
            live, durable = words.of(addresses)
            return words, live, durable

    def changed(self, addresses: NDArray[Any], brought: Mapping[int, Version | None]) -> list[int]:
        """Return the addresses of chunks that may not be as they were when they were brought."""
        words, live = self.look(addresses)
        log = words.block.uuid
        known = [brought.get(address) for address in addresses.tolist()]
        stays = [
            word != RAW and version is not None and (version.word, version.log) == (word, log)
            for word, version in zip(live.tolist(), known, strict=True)
        ]
        return sorted(
            [
                *super().changed(addresses[live == RAW], brought),
                *addresses[(live != RAW) & ~np.array(stays, bool)].tolist(),
            ]
        )

    def stored(self, addresses: NDArray[np.int64]) -> list[Stored | None]:
        """Return where chunks lie, and how they are encoded; see `Fixed.stored`."""
        self._confirm()
        words, live = self.look(addresses)
        found = super().stored(addresses)
        for i in np.flatnonzero(live == FILL).tolist():
            found[i] = None
        places = BlobPlaces(*places_of_words(live))
        here = np.flatnonzero(live > FILL)
        if len(here):
            ends = (places.offsets + places.sizes)[here]
            if not self._log.knows(words.block.uuid, int(ends.max())):
                self._log.look(words.block.uuid)
            some = addresses[here].tolist()
            coded = BlobPlaces(places.offsets[here], places.sizes[here])
            header = self._pair.header
            try:
                blobs = read_stored(self._log.object, words.block, some, coded, header)
            except ChecksumError as error:
                raise self.told(error) from None
            for i, blob in zip(here.tolist(), blobs, strict=True):
                found[i] = blob
        return found

    @property
    def may_freeze(self) -> bool:
        """True if raw chunks are frozen without being asked."""
        return bool(self._pair.header.encoding.get("freeze", "never") != "never")

    def n_threads(self, n_chunks: int) -> int:
        """Return how many threads are worth it to decode so many chunks."""
        return decoding_threads(self._words().block, n_chunks * self._size)

    # -- chunks ----------------------------------------------------------------------------------

    def fetch(self, addresses: NDArray[Any]) -> Iterator[Arrived]:
        """Yield all chunks, as they come."""
        left, at_once = np.arange(len(addresses)), len(addresses)
        end, n_same = float("inf"), 0
        while len(left):
            words, live = self.look(addresses[left])
            missed: list[_Missed] = []
            came: list[int] = []
            if (live != RAW).any():
                blobs = self._start_blobs(addresses, left, words, live, True)
                for arrived in blobs.arrivals(left[live != RAW].tolist()):
                    came += [number for number, _ in arrived.chunks]
                    yield arrived
                missed = blobs.missed
            # A writer may freeze more quickly than many chunks come.
            raw = left[live == RAW][:at_once]
            if len(raw):
                ((chunks, version),) = super().fetch(addresses[raw])  # all at once
                if self._words().number == words.number:
                    yield Arrived([(int(raw[i]), chunk) for i, chunk in chunks], version)
                    came += raw.tolist()
                else:
                    at_once = max(1, len(raw) // 2)
            left = np.setdiff1d(left, came)
            if missed:
                end = min(end, time.monotonic() + limits.visibility_patience)
                n_same = self._wait(words, n_same, end, addresses, missed)

    def start(self, addresses: NDArray[Any]) -> Handle:
        """Begin to fetch chunks."""
        words, live = self.look(addresses)
        raw = np.flatnonzero(live == RAW)
        blobs = self._start_blobs(addresses, np.arange(len(addresses)), words, live, False)
        handle = super().start(addresses[raw]) if len(raw) else None
        return _Ahead(self._words, words, blobs, raw.tolist(), handle)

    def _start_blobs(
        self,
        addresses: NDArray[Any],
        numbers: NDArray[Any],
        words: Words,
        live: NDArray[np.uint64],
        waits: bool,
    ) -> _Blobs:
        """Begin to fetch the blobs of some chunks, by number; `live` has their words.

        `waits`: look first whether the log is long enough, if it was not.
        """
        offsets, sizes = places_of_words(live)
        if int(sizes.sum()) > config.max_result:
            raise ResultError(
                f"{len(addresses)} chunks, which are needed at a time, exceed config.max_result"
            )
        missed = []
        ends = offsets + sizes
        possible = (sizes > 0) & (sizes <= blob_bytes(self._size)) & (offsets >= FILE_HEAD_BYTES)
        for i in np.flatnonzero((live > FILL) & ~possible).tolist():
            address = int(addresses[numbers[i]])
            missed.append(_Missed(int(numbers[i]), damaged_entry(address)))
        log, uuid = self._log, words.block.uuid
        problem: ExtArrayError | None = None
        if waits and possible.any() and not log.knows(uuid, int(ends[possible].max())):
            try:
                log.look(uuid)
            except (MissingError, PartnerError) as error:  # a writer may have replaced it
                problem = error
        for i in np.flatnonzero(possible).tolist():
            if not log.knows(uuid, int(ends[i])):
                possible[i] = False
                missed.append(_Missed(int(numbers[i]), problem))
        here = np.flatnonzero(possible)
        reading = None
        if len(here):
            n_axes = len(self._pair.header.chunks)
            reading = start_blobs(log.object, offsets[here].tolist(), sizes[here].tolist(), n_axes)
        blobs = {
            int(numbers[i]): (blob, int(addresses[numbers[i]]), int(live[i]), int(sizes[i]))
            for blob, i in enumerate(here.tolist())
        }
        filled = set(numbers[live == FILL].tolist())
        return _Blobs(self, words, reading, blobs, filled, missed)

    def _wait(
        self,
        words: Words,
        n_same: int,
        end: float,
        addresses: NDArray[Any],
        missed: list[_Missed],
    ) -> int:
        """Look at the metadata again, as blobs were not whole; return how often they stayed.

        If they stay as they are, blobs that no flush has brought to the disk are lost, and words of
        the last flush count.  Errors tell of others.
        """
        if n_same:
            time.sleep(_PAUSE * 2.0 ** (n_same - 1))
        self._confirm()
        self._renew()
        some = np.array([addresses[number] for number, _ in missed], np.int64)
        now, live, durable = self._look(some)
        if now.content is not words.content:
            if time.monotonic() > end:
                raise self._problem(addresses, missed)
            return 1
        n_same += 1
        if n_same < _LOOKS and now.may_change:
            return n_same
        offsets, sizes = places_of_words(live)
        is_lost = (live != durable) & (offsets + sizes > now.block.size)
        is_lost &= [m.problem is None or isinstance(m.problem, ChecksumError) for m in missed]
        if not is_lost.all():
            raise self._problem(
                addresses, [m for m, ok in zip(missed, is_lost, strict=True) if not ok]
            )
        if not self._given_way:
            warnings.warn(
                f"'{self._pair.path}' has chunks whose newest elements are lost, as after a power "
                "failure: they are read as of the last flush",
                RecoveryWarning,
                stacklevel=2,
            )
        for address, word, last in zip(*map(np.ndarray.tolist, (some, live, durable)), strict=True):
            self._given_way[now.block.uuid, address, word] = last
        return 0

    def _problem(self, addresses: NDArray[Any], missed: list[_Missed]) -> Exception:
        """Return the error for chunks whose blobs do not come."""
        for _, problem in missed:
            if isinstance(problem, ChecksumError):
                return self.told(problem)
            if problem is not None:
                return problem
        name = f"{self._pair.path}{BLOBS}"
        return NotVisibleError(
            errno.ESTALE,
            f"the server has no blob of chunk {int(addresses[missed[0].number])} in '{name}' yet, "
            "to which the metadata lead; try again later, and upload .xtz before .xmd",
            name,
        )

    def decoded(
        self, address: int, blob: memoryview, block: BlobsBlock, threads: int, room: memoryview
    ) -> memoryview:
        """Return a chunk from a blob that is whole, perhaps in `room`."""
        itemsize = self._pair.header.dtype.itemsize
        try:
            return decode_blob(blob, address, block, room, itemsize, False, threads)
        except ChecksumError as error:
            raise self.told(error) from None

    def check(self, address: int, blob: memoryview, words: Words, word: int) -> None:
        """Raise ChecksumError unless a blob is whole.

        Unless a flush brought it to the disk, its checksum counts, whether or not users want it.
        """
        is_flushed = word == int(words.of(np.array([address]))[1][0])
        check_blob(blob, address, words.block, self._pair.verify != "never" or not is_flushed)

    def told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a chunk that tells which elements are lost."""
        pair = self._pair
        return name_elements(error, pair.header, pair.state, self.axial, f"{pair.path}{BLOBS}")


class _Blobs:
    """Blobs on their way, by the numbers of their chunks.

    Attributes
    ----------
    missed : list of _Missed
        Chunks that have not come.
    """

    def __init__(
        self,
        origin: Mixed,
        words: Words,
        reading: Reading | None,
        blobs: dict[int, tuple[int, int, int, int]],
        filled: set[int],
        missed: list[_Missed],
    ) -> None:
        self._origin, self._words, self._reading = origin, words, reading
        # Number of the blob, address, word and bytes of the blob of a chunk.
        self._blobs, self._filled, self.missed = blobs, filled, missed
        self._numbers = {blob: number for number, (blob, *_) in blobs.items()}
        version = origin.version
        self._number = -1 if version is None else version.number

    def arrivals(self, wanted: Iterable[int]) -> Iterator[Arrived]:
        """Yield chunks of the fill value, and functions that decode others, as they come."""
        origin, block = self._origin, self._words.block
        wanted = list(wanted)
        filled = [number for number in wanted if number in self._filled]
        if filled:
            chunks = [(number, origin.filled) for number in filled]
            yield Arrived(chunks, Version(self._number, True, FILL, block.uuid))
        left = {self._blobs[number][0] for number in wanted if number in self._blobs}
        if self._reading is None or not left:
            return
        try:
            for found in self._reading.arrivals(left):
                # Threads share chunks, or the parts of a single one.
                threads = origin.n_threads(1) if len(found) == 1 else 1
                for number, blob in found:
                    left.discard(number)
                    chunk = self._numbers[number]
                    _, address, word, size = self._blobs[chunk]
                    if len(blob) < size:
                        self.missed.append(_Missed(chunk, None))
                        continue
                    try:
                        origin.check(address, blob, self._words, word)
                    except ChecksumError as error:
                        self.missed.append(_Missed(chunk, error))
                        continue
                    decode = partial(origin.decoded, address, blob, block, threads)
                    yield Arrived([(chunk, decode)], Version(self._number, True, word, block.uuid))
        except ReplacedError:
            self.missed += [_Missed(self._numbers[number], None) for number in left]

    def cancel(self) -> None:
        """Give them up."""
        if self._reading is not None:
            self._reading.cancel()


class _Ahead:
    """Chunks on their way that are left out if they do not come whole."""

    def __init__(
        self,
        now: Callable[[], Words],
        words: Words,
        blobs: _Blobs,
        raw: list[int],
        handle: Handle | None,
    ) -> None:
        self._now, self._words, self._blobs, self._handle = now, words, blobs, handle
        self._raw = {number: place for place, number in enumerate(raw)}
        self._numbers = raw

    def arrivals(self, wanted: Iterable[int]) -> Iterator[Arrived]:
        """Yield chunks as they come."""
        wanted = list(wanted)
        yield from self._blobs.arrivals(wanted)
        places = [self._raw[number] for number in wanted if number in self._raw]
        if self._handle is None or not places:
            return
        for chunks, version in self._handle.arrivals(places):
            if self._now().number == self._words.number:
                yield Arrived([(self._numbers[place], chunk) for place, chunk in chunks], version)

    def cancel(self) -> None:
        """Give them up."""
        self._blobs.cancel()
        if self._handle is not None:
            self._handle.cancel()
