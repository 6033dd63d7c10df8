"""Replicas: what the ranks that do not commit have of the store.

Rank 0 has the store: the lock, the metadata, and the file of the chunks.  The others have the file
of the chunks, and follow the metadata by what rank 0 sends: `StateUpdate`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import record_at, replay_log, replay_more
from extarray._core._state import Trust
from extarray.common.errors import CorruptError, FormatError, PartnerError
from extarray.common.on_error import OnError
from extarray.format.blocks import decode_sums, encode_sums
from extarray.format.constants import CELL, LIMIT
from extarray.format.header import Header, decode_header, encode_header
from extarray.format.superblock import decode_superblock, encode_superblock
from extarray.storage.checksums import Sums
from extarray.storage.file_store import FileStore
from extarray.storage.filesystem import File, choose_engine, family, file_names, holes_take_space
from extarray.storage.names import open_data
from extarray.storage.pair import Pair

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "NewSegments",
    "OpenPair",
    "ReplicaStore",
    "StateUpdate",
    "is_behind",
    "pair_of",
    "segments_since",
    "update_since",
]

# Axes, sides and grids of segments.
_Columns = tuple["NDArray[np.uint8]", "NDArray[np.uint8]", "NDArray[np.int64]"]


class NewSegments(NamedTuple):
    """The segments that axial vectors have gained, and what these are then.

    Attributes
    ----------
    records : tuple
        Axis, side, and grid before it, of each segment that is new.
    grid : tuple of int
    """

    records: tuple[tuple[int, int, tuple[int, ...]], ...]
    grid: tuple[int, ...]

    def replay(self, axial: Axial) -> None:
        """Let other axial vectors gain them.

        Parameters
        ----------
        axial : Axial
            As the first ones were before.
        """
        replay_more(axial, *self.columns(len(self.grid)), self.grid)

    def columns(self, ndim: int) -> _Columns:
        """Return axes, sides and grids as arrays."""
        axes = np.array([axis for axis, _, _ in self.records], np.uint8)
        sides = np.array([side for _, side, _ in self.records], np.uint8)
        grids = np.array([grid for _, _, grid in self.records], np.int64)
        return axes, sides, grids.reshape(len(self.records), ndim)


def segments_since(axial: Axial, segments: int) -> NewSegments:
    """Return the segments that axial vectors have beyond a number of them."""
    records = [record_at(axial, n) for n in range(segments, axial.segments)]
    return NewSegments(tuple(records), axial.grid)


class StateUpdate(NamedTuple):
    """A committed state, for those who know an older one.

    Attributes
    ----------
    state : bytes
        The superblock.
    segments : NewSegments
    attrs : str or None
        The attributes as a JSON text, where they are new.
    header : bytes or None
        Where there are other axes than before; `segments` are then all that there are.
    cuts : int
        Cuts that were made before, as the file counts them, at least.
    """

    state: bytes
    segments: NewSegments
    attrs: str | None
    header: bytes | None
    cuts: int


def update_since(store: FileStore, axial: Axial, segments: int, attrs: str | None) -> StateUpdate:
    """Return the update for a rank that has a number of segments, and these attributes.

    Parameters
    ----------
    segments : int
        0: none, and no axes either.
    """
    now = store.now
    return StateUpdate(
        encode_superblock(now.state),
        segments_since(axial, segments),
        None if now.attrs == attrs else now.attrs,
        None if segments else encode_header(now.header),
        now.cuts_known,
    )


class RankSums(Sums):
    """The checksums for a rank that commits nothing: all that it does is to say they are in doubt.

    Parameters
    ----------
    name : str
        Of ``.xmd``.
    header : Header
    """

    def __init__(self, name: str, header: Header) -> None:
        super().__init__(File(), header, [], False, os.path.splitext(name)[0])
        self._name = name
        self.alone = False

    def take(self, header: Header) -> None:
        """Take up the header of an array with an axis more."""
        self._header, self._offset = header, header.sums_offset

    @property
    def file(self) -> File:
        """The file of the table: opened when it is first needed, and where another has the name."""
        if self._file.closed or not self._file.is_at(self._name):
            before, self._file = self._file, File.open(self._name, os.O_RDWR)
            before.close()
        return self._file

    def doubt(self) -> None:
        """Let the files say that sums are in doubt, as `Sums.doubt`: any rank may be the first."""
        with self._lock, family("cannot mark the checksums of '{}' as in doubt", self._path):
            if self.in_doubt:
                return
            file, uuid = self.file, self._header.uuid
            found = decode_sums(file.read(CELL, self._offset), uuid)
            if found is None:
                raise CorruptError(f"'{self._name}': the block of the checksums is damaged")
            # Rank 0 changes the rest of it in the midst of a flush only.
            file.write(encode_sums(True, found[1], uuid), self._offset)
            file.datasync()
            self.in_doubt = True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class OpenPair(NamedTuple):
    """A pair of files that rank 0 has open, for those who open it after it.

    Attributes
    ----------
    path : str
        Absolute, without suffix.
    mode : str
    number : int
        Of the inode of the file of the chunks.
    hidden : str or None
        Name of that file in a new pair, until the pair takes its names.
    is_durable : bool
    verify : str
    n_stored : int or None
        Chunks that can be verified; None: none can.
    update : StateUpdate
    """

    path: str
    mode: str
    number: int
    hidden: str | None
    is_durable: bool
    verify: str
    n_stored: int | None
    update: StateUpdate


def pair_of(store: FileStore, axial: Axial) -> OpenPair:
    """Return the pair of files of a store."""
    now, making = store.now, store.making
    return OpenPair(
        now.absolute,
        now.mode,
        now.data.stat().st_ino,
        None if making is None else making.fresh[1],
        now.is_durable,
        now.verify,
        None if now.trust is None else LIMIT if now.mode == "r" else axial.size,
        update_since(store, axial, 0, None),
    )


class ReplicaStore(FileStore):
    """The store of a rank that commits nothing: no lock, and of the metadata only updates.

    It is a `FileStore` because its chunks are those of any pair of files: views, epochs, cuts and
    `Committer.sync_elements` are the same parts, which a parallel array calls on whichever rank it
    is.  It differs in where its state comes from, and in how it ends.  A store that held the parts
    would only hand on all of their operations.

    Parameters
    ----------
    path : Path
        As the user gave it.
    opened : OpenPair
    engine : {"auto", "mmap", "pread"}
    """

    axial: Axial

    def __init__(self, path: Path, opened: OpenPair, engine: str) -> None:
        super().__init__(pair := Pair(path))
        self._rank_sums: RankSums | None = None
        pair.names = file_names(Path(opened.path))
        pair.mode = opened.mode
        pair.is_durable = opened.is_durable
        pair.attrs = "{}"
        pair.verify = opened.verify
        self._take_header(opened.update)
        writable = pair.mode == "r+"
        if opened.n_stored is not None:
            pair.trust = Trust(opened.n_stored)
        if writable and pair.header.checksum:
            pair.sums = self._rank_sums = RankSums(pair.names[0], pair.header)
        with OnError(pair.close):
            with family("cannot open '{}'", path):
                flags = os.O_RDWR if writable else os.O_RDONLY
                if opened.hidden is None:
                    pair.data = open_data(pair.names, pair.header.uuid, flags)
                else:
                    pair.data = File.open(opened.hidden, flags)
            self.watch_file()
            if pair.data.stat().st_ino != opened.number:
                raise PartnerError(
                    f"'{path}' was overwritten during opening, or differs between this host and "
                    "that of rank 0; open it from a file system that all hosts share"
                )
            pair.engine = choose_engine(engine, pair.data, writable)
            pair.hollow = (pair.header.sparse or not writable) and holes_take_space(pair.data)
            self._take_state(opened.update)

    def take(self, update: StateUpdate) -> None:
        """Take up what rank 0 has committed.

        Parameters
        ----------
        update : StateUpdate
            `axial` are other ones then, if the array has other axes.
        """
        if update.header is None:
            update.segments.replay(self.axial)
        else:
            self._take_header(update)
        self._take_state(update)

    def _take_header(self, update: StateUpdate) -> None:
        assert update.header is not None
        header = self.now.header = decode_header(update.header)
        if self._rank_sums is not None:
            self._rank_sums.take(header)
        segments = update.segments
        self.axial = replay_log(Axial, *segments.columns(header.ndim), segments.grid)

    def watch_file(self) -> None:
        """Open what tells of cuts that a writer outside makes, and of checksums.

        Of cuts where holes do not hold the fill value.  Anew where there are other axes: then the
        metadata are another file.
        """
        pair = self.now
        if pair.mode != "r" or not (any(pair.header.fill) or pair.trust is not None):
            return
        header = pair.header
        with family("cannot watch '{}'", pair.path):
            before, pair.metadata = pair.metadata, File.open(pair.names[0], os.O_RDONLY)
            before.close()
            pair.read_header()
            if pair.header != header:
                pair.header = header
                raise PartnerError(f"'{pair.path}' was overwritten or has changed; open it again")
            pair.watch_cuts()

    def _take_state(self, update: StateUpdate) -> None:
        pair = self.now
        state = decode_superblock(update.state, pair.header.ndim)
        assert state is not None
        pair.state = state
        pair.unclean = state.unclean
        pair.cuts_known = update.cuts
        if update.attrs is not None:
            pair.attrs = update.attrs
        self.now.cover(state.data_bytes)

    @property
    def metadata_bytes(self) -> int:
        """Bytes of ``.xmd``, as far as the last commit tells."""
        return self.now.state.end

    def close(self) -> None:
        """Close the files.  Rank 0 seals and unlocks."""
        self.now.close()
        if self._rank_sums is not None:
            self._rank_sums.close()


def is_behind(array: Any) -> bool:
    """Tell whether a parallel array may be behind its files, as far as this rank can see.

    Only rank 0 looks, and takes up nothing.  A collective call that has a step of its own asks in
    that step, and is spared those of `ParallelArray.refresh` where there is nothing to take up.
    """
    store = array._pair
    if array._replica is not None or store.now.mode != "r":
        return False
    try:
        newest, pendings = store.following.parse(store.following.look())
    except FormatError:  # in the midst of a commit; `refresh` reads again
        return True
    return newest.sequence > store.now.state.sequence or bool(pendings)
