"""An array on a server or in a bucket, as its readers know it: what the protocol `Reader` asks for.

Metadata are fetched whole, into a file in memory that has their places.  Chunks are fetched when
they are needed, into another one (`Supply`).  To the code that reads files, a newer state is a
change of that file.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._supply import Supply, Trust
from extarray.common.arguments import check_choice
from extarray.common.choices import VERIFICATIONS
from extarray.common.config import config
from extarray.common.errors import (
    CorruptError,
    FormatError,
    MissingError,
    NotVisibleError,
    PartnerError,
    RecoveryWarning,
    ReplacedError,
    StorageError,
)
from extarray.common.forks import in_children
from extarray.common.hints import hint
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.fetched.blobs import InBlobs
from extarray.fetched.cache import DiskCache
from extarray.fetched.chunks import Chunks
from extarray.fetched.frozen import Log, Mixed
from extarray.fetched.heads import PublishedHere, find_group, read_place
from extarray.fetched.metadata import Content
from extarray.fetched.origins import Changing, Fixed
from extarray.fetched.packs import InPack, RemotePack
from extarray.fetched.pairs import (
    Found,
    RemotePair,
    RemoteStates,
    read_pair,
    read_seal,
)
from extarray.fetched.paths import NOT_THERE
from extarray.fetched.shadow import shadow_of
from extarray.format.constants import LIMIT, SEAL_BYTES, SPARED_SLOTS
from extarray.format.header import encode_seal
from extarray.remote.objects import Counts, RemoteObject
from extarray.storage.filesystem import choose_engine, family
from extarray.storage.following import Follower, Update
from extarray.storage.reading import PairReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.fetched.metadata import Words
    from extarray.fetched.paths import RemotePath
    from extarray.fetched.shadow import Shadow
    from extarray.format.blobs import Stored
    from extarray.format.groups import Pending
    from extarray.format.superblock import Superblock
    from extarray.storage.pair import Pair
    from extarray.storage.states import StateReader, WholeState

__all__ = ["RemoteStore"]

# Looks at files that do not fit each other before they count as damaged.
_ATTEMPTS = 5
# Comparisons of chunks with their checksums, while a writer is at work.
_LOOKS = 5


class _DataFollower(Follower):
    """Updates that take up the data as well.

    The data are looked at after a state was chosen, so they are not older: other threads, which
    read, may fetch newer metadata at any time.
    """

    def __init__(self, pair: Pair, states: StateReader, take_data: Callable[[], None]) -> None:
        super().__init__(pair, states)
        self._take_data = take_data
        self._looks = _ATTEMPTS

    def take_up(self, axial: Axial) -> Axial | None:
        """Adopt later commits; see `Follower.take_up`, which looks often, as at files here."""
        self._looks = _ATTEMPTS
        try:
            return super().take_up(axial)
        finally:
            self._looks = _ATTEMPTS

    def read_update(self, state: Superblock, axial: Axial, cuts: int) -> Update:
        """Read the new parts of a state; see `Follower.read_update`."""
        if self._looks:
            self._looks -= 1
            with family("cannot refresh '{}'", self.pair.path):
                self._take_data()
        return super().read_update(state, axial, cuts)


class RemoteStore(PairReader):
    """The store of an array on a server or in a bucket; `RemoteStore.open` returns one.

    Parameters
    ----------
    path : RemotePath
    verify : {"never", "write", "read"}
        "write" is like "read": what comes from elsewhere is compared when it comes.

    Attributes
    ----------
    origin : Fixed or Changing
        Where chunks come from.
    """

    now: RemotePair
    origin: Fixed
    provider: Any = None  # until the array is open

    def __init__(self, path: RemotePath, verify: str) -> None:
        pair = RemotePair(path)
        pair.verify = verify
        super().__init__(pair, RemoteStates(pair))
        self.following = _DataFollower(pair, self.states, partial(self._take_data, True))
        self._given = path
        self._found: Found | None = None  # for pairs: the newest metadata that were fetched
        self._successor: Found | None = None  # the same with another number of axes
        self._is_replaced = False
        self._recover: bool | None = None
        self._is_recovered = False
        self._lock = threading.RLock()
        self.counts = Counts()
        self._file_bytes = 0

    # -- opening ---------------------------------------------------------------------------------

    @classmethod
    def open(
        cls, path: RemotePath, engine: str, verify: str | None, recover: bool | None = None
    ) -> tuple[Self, Axial]:
        """Open an array: one request for most packed files, two for a pair of files.

        `recover` as for `extarray.open`.
        """
        verify = config.verify if verify is None else check_choice(verify, "verify", VERIFICATIONS)
        self = cls(path, verify)
        self._recover = recover
        with OnError(self.now.close), family("cannot open '{}'", path):
            packed = path.packed()
            if packed is not None:
                file, inner = packed
                found = self._open_packed(path.pack or RemotePack(file), inner)
            else:
                found = self._open_files()
            self._begin(found, engine)
        in_children(self, cls._forked)
        return self, found.axial

    def _open_packed(self, pack: RemotePack, inner: str) -> WholeState:
        pair = self.now
        self.counts = pack.object.counts
        part = pack.open_pair(inner, pair.verify)
        pair.path = pack.path / part.name
        pair.names = str(pack.path), str(pack.path)
        pair.packed_as = f"{pack.path}/{part.name}"
        self._file_bytes = part.size
        if part.has_blobs:
            return self._open_blobs(pack, part)
        content = Content(len(part.metadata), ((0, part.metadata),))
        found = self._read_state(content, part.size, part.last)
        if pair.header.has_blobs:
            raise PartnerError(f"'{pair.path}.xtz' is missing in the packed file")
        problem = self.states.check_data(found.state)
        if problem is not None:
            found = self._recovered(found, problem)
        self.origin = Fixed(pack.object, part.start, pair.header.chunk_bytes)
        return found

    def _open_blobs(self, pack: RemotePack, part: InPack) -> WholeState:
        """Open an array whose chunks are in blobs; their own checksums stand for the seal."""
        pair = self.now
        content = Content(len(part.metadata), ((0, part.metadata),))
        found = self._read_state(content, 0, b"")
        if not pair.header.has_blobs or not found.state.sealed:
            raise CorruptError(f"'{pair.path}': the state of a packed array is not sealed")
        seal = encode_seal(pair.header.uuid)
        self._take_end(found.state.data_bytes + len(seal), seal)
        try:
            self.origin = InBlobs(pack.object, part.start, part.size, pair, found)
        except CorruptError as error:
            raise type(error)(f"'{pair.path}': {error}") from None
        return found

    def _open_files(self) -> WholeState:
        pair, log = self.now, None
        try:
            for _ in range(_ATTEMPTS):
                self._found = metadata = read_pair(pair.path, self.counts)
                assert metadata is not None
                pair.header = metadata.header
                data, seal = read_seal(pair, self.counts)
                found = self._read_state(metadata.content, data.size, seal)
                # A writer may have been at work between the files.
                problem = self.states.check_data(found.state)
                if problem is None and metadata.words is not None:
                    log, problem = self._open_log(metadata.words)
                if problem is None:
                    break
        except NOT_THERE as error:
            if self._found is not None:  # the data are not there
                raise
            return self._open_unnamed(error)
        if self._recover is False:
            self.states.check_visible(found)
        if problem is not None:
            if pair.header.has_blobs and isinstance(problem, PartnerError):
                raise problem
            found = self._recovered(found, problem)
        if pair.header.has_blobs:
            self._log = log or Log(pair, self.counts)
        self._begin_origin(data, found.axial)
        return found

    def _begin_origin(self, data: RemoteObject, axial: Axial) -> None:
        """Let chunks come from the files of a pair."""
        pair = self.now
        if pair.header.has_blobs:
            table = self._words, self._confirm, self._renew_words
            self.origin = Mixed(data, pair, self._log, *table, axial)
        else:
            is_cut = any(pair.header.fill)
            self.origin = Changing(data, pair.header.chunk_bytes, self._confirm, is_cut)

    def _open_log(self, words: Words) -> tuple[Log, PartnerError | None]:
        """Open ``.xtz``; return the error if it is another array's."""
        log = Log(self.now, self.counts)
        try:
            log.look(words.block.uuid)
        except PartnerError as error:
            return log, error
        return log, None

    def _words(self) -> Words:
        """Return the words of frozen chunks in the newest metadata that were fetched."""
        known = self._successor or self._found
        assert known is not None and known.words is not None
        return known.words

    def _recovered(self, found: WholeState, problem: Exception) -> WholeState:
        """Return an older state that the data fit, if the user wants it; else raise `problem`."""
        recovered = self.states.recovered(found.state) if self._recover else None
        if recovered is None:
            raise problem
        self._is_recovered = True
        return recovered

    def _open_unnamed(self, error: StorageError) -> WholeState:
        """Open a packed file with an unusual name; raise an error if there is none."""
        path = self._given
        with contextlib.suppress(*NOT_THERE):
            raise PublishedHere(read_place(path, self.counts), "")
        with contextlib.suppress(*NOT_THERE, FormatError):
            return self._open_packed(RemotePack(path.as_file()), "")
        group = find_group(path, self.counts)
        if group is not None and group[1] in group[0].index.arrays:
            raise PublishedHere(*group)
        if not isinstance(error, MissingError):
            raise error
        raise MissingError(
            errno.ENOENT,
            f"no array '{path}': there is no '{path.name}.xmd', and no packed file of this name; "
            + hint(
                f"open a folder of arrays with extarray.open_group('{path}')",
                "extarray tree lists a folder of arrays",
            ),
            error.filename,
        )

    def _read_state(self, content: Content, size: int, seal: bytes) -> WholeState:
        """Take in metadata, and return their newest state; `size` and `seal` are those of data."""
        pair = self.now
        pair.metadata.close()
        pair.data.close()
        pair.metadata = content.shadow(pair.names[0])
        pair.data = shadow_of(pair.names[1])
        self._take_end(size, seal)
        try:
            pair.read_header()
            pair.cuts_known = pair.read_count()
            return self.states.newest_state()
        except FormatError as error:
            raise type(error)(f"'{pair.path}.xmd': {error}") from None

    def _take_end(self, size: int, seal: bytes) -> None:
        """Give the shadow of the data the length of the original, and its last bytes."""
        data: Any = self.now.data
        data.length, data.last = size, seal

    def _begin(self, found: WholeState, engine: str) -> None:
        """Adopt a state, and begin without chunks."""
        pair = self.now
        if self.states.orphaned is not None:
            place, fault = self.states.orphaned
            warnings.warn(
                f"'{pair.path}' has an unfinished commit with other arrays, and the one that "
                f"decides whether it counts ({place}) is "
                f"{'out of reach' if fault is None else 'damaged'}: opened in the previous state",
                RecoveryWarning,
                stacklevel=5,
            )
        if self._is_recovered or found.slot in SPARED_SLOTS:
            warnings.warn(
                f"'{pair.path}' is incomplete, as after a power failure: opened in its newest "
                f"complete state, of shape {found.state.shape}",
                RecoveryWarning,
                stacklevel=5,
            )
        pair.state, pair.attrs, pair.extents = found.state, found.attrs, found.extents
        pair.unclean = found.state.unclean
        pair.engine = choose_engine(engine, pair.data, False)
        # Blobs have checksums of their own.
        in_blobs = self.is_packed and pair.header.has_blobs
        if pair.header.checksum and pair.verify != "never" and not in_blobs:
            pair.trust = Trust(LIMIT - 1)
            pair.verify = "read"
        pair.watch_cuts()
        self._begin_chunks()

    def _begin_chunks(self) -> None:
        pair, size, bound = self.now, self.now.header.chunk_bytes, config.chunk_cache
        data: Any = pair.data
        self.provider = Chunks(data, size, self.origin)
        pair.supply = Supply(
            self.provider, size, bound, pair.trust, bytes_ahead=self.provider.bytes_ahead
        )
        self._begin_cache()
        pair.map(pair.state.data_bytes)

    def _begin_cache(self) -> None:
        """Keep the chunks of the present version on the disk, if that is asked for.

        A pair that has a writer, or an object without a tag, has no version to rely on.  A writer
        notes itself in the metadata before it changes anything.
        """
        pair, provider, found = self.now, self.provider, self.origin.object
        before, provider.cache = provider.cache, None
        if before is not None:
            before.close()
        folder = self._given.cache
        has_writer = not self.is_packed and (pair.notes_writer() or not pair.state.sealed)
        now = self.origin.version
        if folder is not None and found.tag is not None and now is not None and not has_writer:
            key: list[object] = [pair.absolute, found.tag, found.size, pair.header.uuid.hex()]
            key.append(self.sequence)
            if self._found is not None and self._found.words is not None:
                block = self._found.words.block  # whole chunks may be written to the log alone
                key += [block.uuid.hex(), block.given]
            provider.cache = DiskCache(folder, key, pair.header.chunk_bytes, now.number)

    def _forked(self) -> None:
        """Give a forked child files, chunks and connections of its own."""
        pair = self.now
        if pair.metadata.closed:
            return
        self._lock = threading.RLock()
        self.chunk_sums.healing = threading.Lock()
        length, seal = pair.data.length, b""
        with contextlib.suppress(OSError):
            seal = pair.data.read(SEAL_BYTES, max(0, length - SEAL_BYTES))
            pair.metadata = self._own_copy()
            pair.data = shadow_of(pair.names[1])
            self._take_end(length, seal)
            pair.watch_cuts()
            self._begin_chunks()

    def _own_copy(self) -> Shadow:
        """Return a copy of the metadata that the parent of a forked child does not share."""
        before, size = self.now.metadata, self.now.metadata.length
        runs = [(start, stop - start) for start, stop in before.written(size)]
        parts = tuple((start, before.read(n_bytes, start)) for start, n_bytes in runs)
        return Content(size, parts).shadow(self.now.names[0])

    # -- updates ---------------------------------------------------------------------------------

    @property
    def is_packed(self) -> bool:
        """True for an array in a packed file, which never changes."""
        return bool(self.now.packed_as)

    def _fetch(self) -> bool:
        """Fetch the metadata, and take them in if they are newer; tell whether they are there.

        Those of another array are not taken in.
        """
        pair = self.now
        assert self._found is not None
        try:
            newer = read_pair(pair.path, self.counts, self._found.content)
        except MissingError:
            return False
        if newer is None:
            return True
        if newer.header.uuid != pair.header.uuid:
            return False
        with self._lock:
            known = self._successor or self._found
            numbers, newest = newer.numbers, known.numbers
            if numbers < newest or (newer.is_torn and numbers == newest):
                return True  # a proxy has kept older ones, or those of a moment
            if newer.header.ndim != pair.header.ndim:
                self._successor = newer
                return True
            self._found = newer
            # Superblocks come last: what they refer to is there by then.
            shadow: Any = pair.metadata
            first, end = newer.header.header_bytes, newer.header.directory_offset
            shadow.length = newer.content.size
            newer.content.write(shadow, end, newer.content.size)
            newer.content.write(shadow, first, end)
        return True

    def _renew_words(self) -> None:
        """Let pieces of a long table of frozen chunks come anew."""
        with self._lock:
            for name in ("_found", "_successor"):
                known: Found | None = getattr(self, name)
                if known is not None and known.words is not None:
                    setattr(self, name, known._replace(words=known.words.renewed()))

    def _confirm(self) -> None:
        """Raise ReplacedError unless the pair is still the one that was opened."""
        if not self._fetch():
            self._is_replaced = True
            raise ReplacedError(
                errno.ENOENT,
                f"'{self.now.path}' was replaced or removed while it was read; open it again",
                str(self.now.path),
            )

    def _take_data(self, is_newer: bool) -> None:
        """Take up the present version of the data, and renew chunks that may have changed.

        `is_newer`: there is a commit that this process has not adopted.
        """
        pair, origin, supply = self.now, self.origin, self.now.supply
        assert isinstance(origin, Changing)
        assert supply is not None
        data, seal = read_seal(pair, self.counts)
        self._take_end(data.size, seal)
        if is_newer or not origin.is_same(data):
            origin.take(data)
            self.provider.forget_coming()
        supply.settle()
        present = supply.present
        # Chunks that were cut off are kept as they were for those who still see them.
        known = present[present < data.size // pair.header.chunk_bytes]
        supply.renew(np.array(origin.changed(known, self.provider.brought), np.int64))

    def refresh(self, axial: Axial) -> Axial | None:
        """Adopt later commits; elements that were overwritten since are fetched again, too."""
        pair = self.now
        if self.is_packed:
            self._is_replaced = self.origin.object.refreshed() is not None
            return None
        with family("cannot refresh '{}'", pair.path):
            if not self._fetch():
                self._is_replaced = True
                return None
            self._is_replaced = False
            self._renew_words()
            if self._successor is not None:
                return self._adopt_successor()
            adopted = self.following.refresh(axial)
            if adopted is None:  # elements may have been overwritten
                self._take_data(False)
        self._begin_cache()
        return adopted

    def _adopt_successor(self) -> Axial | None:
        """Adopt metadata with other axes; see `Follower`."""
        pair, newer = self.now, self._successor
        assert newer is not None
        # A single chunk may have become a part of a larger one.
        is_same_size = newer.header.chunk_bytes == pair.header.chunk_bytes
        if is_same_size:
            self._take_data(True)
        else:
            data, seal = read_seal(pair, self.counts)
            self._take_end(data.size, seal)
        other = RemotePair(pair.path)
        try:
            other.metadata = newer.content.shadow(pair.names[0])
            other.data = pair.data
            other.read_header()
            cuts = other.read_count()
            states = RemoteStates(other)
            found = states.newest_state()
            problem = states.check_data(found.state)
            if problem is not None:
                raise problem
            pair.cover(found.state.data_bytes)
            with self._lock:
                pair.metadata, other.metadata = other.metadata, pair.metadata
                pair.header = other.header
                self._found, self._successor = newer, None
            pair.watch_cuts()
            self.following.adopt(Update(found.state, None, found.extents, found.attrs, cuts))
            if not is_same_size:
                self._begin_origin(data, found.axial)
                self._begin_chunks()
            elif isinstance(self.origin, Mixed):
                self.origin.axial = found.axial
            self._begin_cache()
            return found.axial
        finally:
            other.data = type(other.data)(-1, "")
            other.close()

    def inner_box(self, axial: Axial) -> tuple[int, tuple[list[int], list[int]]]:
        """Return the number of cuts and the bounds after them."""
        if not self.is_packed:
            self._confirm()
        return super().inner_box(axial)

    @property
    def replaced(self) -> bool:
        """True if the name led to another array, or nowhere, when last looked at."""
        return self._is_replaced

    def look(self) -> tuple[int, bytes, bytes]:
        """Fetch the bytes that commits write."""
        if not self.is_packed:
            with family("cannot refresh '{}'", self.now.path):
                self._confirm()
        return super().look()

    def was_superseded(self) -> bool:
        """Tell whether the array has gained an axis since the state that is known."""
        return self._successor is not None

    def coordinator_of(self, pending: Pending) -> Any:
        """Return the path of the array that decides a pending state."""
        return self.states.coordinator_of(pending)

    # -- contents --------------------------------------------------------------------------------

    def unfit_chunks(
        self, addresses: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which chunks mismatch their checksums, and those of which nobody can tell.

        Sums and chunks of a pair are fetched at different times: those that mismatch are fetched
        again, while the metadata change.
        """
        wrong, untold = super().unfit_chunks(addresses)
        if self.is_packed:
            return wrong, untold
        for _ in range(_LOOKS):
            if not len(wrong):
                break
            before = self._found
            self._confirm()
            assert self.now.supply is not None
            self.now.supply.renew(wrong)
            wrong, more = super().unfit_chunks(wrong)
            untold = np.union1d(untold, more)
            if self._found is before:
                break
        return wrong, untold

    def stored(self, addresses: NDArray[np.int64]) -> list[Stored | None]:
        """Return where chunks lie, and how they are encoded; None for those of the fill value."""
        return self.origin.stored(addresses)

    @property
    def may_freeze(self) -> bool:
        """True if chunks that lie in ``.xta`` are frozen without being asked."""
        return self.origin.may_freeze

    def url_of(self, suffix: str) -> str | None:
        """Return the URL of a file, or of the packed file; None if no URL leads to it alone.

        It has no user, password and query.
        """
        place = self.origin.object.location if self.is_packed else self.now.path.object(suffix)
        return place.url if place.is_public else None

    def all_holes(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> bool:
        """Return False: nobody tells about holes of an object."""
        return False

    @property
    def generation(self) -> tuple[int, Any]:
        """Number of the commit, and the version of the object."""
        return self.now.state.sequence, self.origin.object.tag

    @property
    def file_bytes(self) -> int:
        """Bytes of the file of the chunks."""
        return self._file_bytes if self.is_packed else self.now.data.length

    @property
    def disk_bytes(self) -> int:
        """Bytes of the file of the chunks; nobody tells about its holes."""
        return self.file_bytes

    @property
    def traffic(self) -> dict[str, int]:
        """Requests that were made so far, and bytes that came."""
        return {"requests": self.counts.requests, "fetched_bytes": self.counts.bytes}

    # -- ends ------------------------------------------------------------------------------------

    @property
    def _age(self) -> float:
        """The number of the commit; of a packed file, which has none, when it was changed last."""
        return self.origin.object.modified if self.is_packed else self.sequence

    def reduced(self, reopen: Callable[..., Any]) -> tuple[Any, ...]:
        """Return the pickle of the array."""
        pair = self.now
        place = self._given, pair.header.uuid, pair.engine
        return reopen, (*place, None, None, pair.verify, self._age)

    def wait_for(self, sequence: float, refresh: Callable[[], object]) -> None:
        """Wait for a state that another process has seen, but a cache in between may hide.

        A packed file is not waited for: only opening it again shows another one.
        """
        pause, path = limits.remote_pause, self.now.path
        end = time.monotonic() + limits.visibility_patience
        while self._age < sequence:
            if self.is_packed and not self._age:  # the server no longer tells
                return
            if self.is_packed or time.monotonic() + pause > end:
                raise NotVisibleError(
                    errno.ESTALE,
                    f"'{path}' was pickled in a newer state than its server shows here, perhaps "
                    "from a cache; try again later, or open it anew",
                    str(path),
                )
            time.sleep(pause)
            pause *= 2
            refresh()

    def warn_if_writer(self) -> None:
        """Do nothing: there is no writer."""

    def close(self) -> None:
        """Let go of the chunks."""
        if not self.now.metadata.closed and self.provider is not None:
            self.provider.forget_coming()
            if self.provider.cache is not None:
                self.provider.cache.close()
        self.now.close()
