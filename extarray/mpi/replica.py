"""Replicas: the stores of the ranks that do not commit.

Rank 0 has the store: the lock, the metadata, and the chunk file.  The other ranks have the chunk
file, and follow the metadata through the `StateUpdate` objects that rank 0 sends.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import records_from, replay_log, replay_more
from extarray._core._supply import Trust
from extarray.common.errors import CorruptError, FormatError, PartnerError
from extarray.common.on_error import OnError
from extarray.format.blocks import decode_sums, encode_sums
from extarray.format.constants import CELL, LIMIT
from extarray.format.header import Header, decode_header, encode_header
from extarray.format.records import decode_records, pack_records, record_bytes
from extarray.format.suffixes import blobs_name, file_names
from extarray.format.superblock import decode_superblock, encode_superblock
from extarray.storage import lock
from extarray.storage.checksums import Sums
from extarray.storage.filesystem import (
    File,
    choose_engine,
    family,
    holes_take_space,
)
from extarray.storage.frozen import FrozenTable
from extarray.storage.names import open_data, open_log
from extarray.storage.other_hosts import see_newest
from extarray.storage.pair import Pair
from extarray.storage.reading import PairReader
from extarray.storage.steady import write_steadily

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.storage.file_store import FileStore

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
    """The segments that axial vectors have gained, and the grid after them.

    Attributes
    ----------
    records : bytes
        Their records, in the bytes of the growth log but for the checksums.
    grid : tuple of int
    """

    records: bytes
    grid: tuple[int, ...]

    def replay(self, axial: Axial) -> None:
        """Append them to other axial vectors.

        Parameters
        ----------
        axial : Axial
            In the state that the first ones had before.
        """
        replay_more(axial, *self.columns(), self.grid)

    def columns(self) -> _Columns:
        """Return axes, sides and grids as arrays."""
        rows = np.frombuffer(self.records, np.uint8)
        return decode_records(rows.reshape(-1, record_bytes(len(self.grid))))


def segments_since(axial: Axial, segments: int) -> NewSegments:
    """Return the segments that axial vectors have after the first `segments`."""
    return NewSegments(pack_records(*records_from(axial, segments)), axial.grid)


class StateUpdate(NamedTuple):
    """A committed state, for ranks that know an older one.

    Attributes
    ----------
    state : bytes
        The superblock.
    segments : NewSegments
    attrs : str or None
        The attributes as JSON text, if they are new.
    header : bytes or None
        Given if the axes are new; `segments` are then all segments.
    cuts : int
        At least the number of cuts made before, as the file counts them.
    """

    state: bytes
    segments: NewSegments
    attrs: str | None
    header: bytes | None
    cuts: int


def update_since(store: PairReader, axial: Axial, segments: int, attrs: str | None) -> StateUpdate:
    """Return the update for a rank that has so many segments, and these attributes.

    Parameters
    ----------
    segments : int
        0: the rank has no axes yet either.
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
    """The checksums of a rank that does not commit: it can only mark them as in doubt.

    Parameters
    ----------
    name : str
        Path of ``.xmd``.
    header : Header
    """

    def __init__(self, name: str, header: Header) -> None:
        super().__init__(File(), header, [], False, os.path.splitext(name)[0])
        self._name = name
        self.alone = False

    def take(self, header: Header) -> None:
        """Adopt the header of an array that has gained an axis."""
        self._header, self._offset = header, header.sums_offset

    @property
    def file(self) -> File:
        """The file of the table: opened on first use, and again if the name passes to another."""
        if self._file.closed or not self._file.is_at(self._name):
            before, self._file = self._file, File.open(self._name, os.O_RDWR)
            before.close()
        return self._file

    def doubt(self) -> None:
        """Mark sums in the files as in doubt, as `Sums.doubt` does: any rank may be the first."""
        with self._lock, family("cannot mark the checksums of '{}' as in doubt", self._path):
            if self.in_doubt:
                return
            file, uuid = self.file, self._header.uuid
            if file.keeps_copies:
                see_newest(file, True, 0, self._path)  # rank 0 may be on another host
            found = decode_sums(file.read(CELL, self._offset), uuid)
            if found is None:
                raise CorruptError(f"'{self._name}': the block of the checksums is damaged")
            # Rank 0 changes the rest of the block only during a flush.
            file.write(encode_sums(True, found[1], uuid), self._offset)
            file.datasync()
            self.in_doubt = True

    def close(self) -> None:
        self._file.close()


class OpenPair(NamedTuple):
    """A pair of files that rank 0 has open, for ranks that open it next.

    Attributes
    ----------
    path : str
        Absolute, without suffix.
    mode : str
    elements_only : bool
        Others commit; the ranks write elements inside the bounds.
    number : int
        Inode number of the chunk file.
    hidden : tuple of str or None
        Hidden names of the files of a new pair, until the pair takes its names.
    is_durable, is_steady : bool
    verify : str
    n_stored : int or None
        Number of chunks that can be verified; None: none can.
    update : StateUpdate
    """

    path: str
    mode: str
    elements_only: bool
    number: int
    hidden: tuple[str, ...] | None
    is_durable: bool
    is_steady: bool
    verify: str
    n_stored: int | None
    update: StateUpdate


def pair_of(store: FileStore, axial: Axial) -> OpenPair:
    """Describe the open pair of files of a store."""
    now, making = store.now, store.making
    return OpenPair(
        now.absolute,
        now.mode,
        now.elements_only,
        now.data.stat().st_ino,
        None if making is None else making.fresh,
        now.is_durable,
        now.is_steady,
        now.verify,
        None if now.trust is None else LIMIT if now.follows else axial.size,
        update_since(store, axial, 0, None),
    )


class ReplicaStore(PairReader):
    """The store of a rank that does not commit: no lock, and metadata only from updates.

    Its state comes from rank 0.  It has the file of the chunks, and opens that of the metadata only
    to watch for cuts and to read checksums.

    Parameters
    ----------
    path : Path
        As given by the user.
    opened : OpenPair
    engine : {"auto", "mmap", "pread"}
    """

    axial: Axial

    def __init__(self, path: Path, opened: OpenPair, engine: str) -> None:
        super().__init__(pair := Pair(path))
        self._rank_sums: RankSums | None = None
        pair.names = file_names(Path(opened.path))
        pair.mode = opened.mode
        pair.elements_only = opened.elements_only
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
                    pair.data = File.open(opened.hidden[1], flags)
            self.watch_file()
            if pair.data.stat().st_ino != opened.number:
                raise PartnerError(
                    f"'{path}' was overwritten during opening, or differs between this host and "
                    "that of rank 0; open it from a file system that all hosts share"
                )
            is_beside = pair.header.has_blobs and writable
            if pair.elements_only or is_beside:
                lock.begin_elements(pair.data, path)  # closing the file drops it
            if pair.elements_only:
                pair.engine = "pread"
            else:
                pair.engine = choose_engine(engine, pair.data, writable)
            pair.hollow = (pair.header.sparse or not writable) and holes_take_space(pair.data)
            self._take_state(opened.update)
            if pair.header.has_blobs:
                self._open_table(opened.hidden)
        if opened.is_steady:
            write_steadily(pair)

    def _open_table(self, hidden: tuple[str, ...] | None) -> None:
        """Open the table of frozen chunks, and the file of their blobs.

        This rank thaws chunks like a process that writes elements beside the writer, rank 0.
        """
        pair = self.now
        flags = self._flags
        names = (*pair.names, blobs_name(pair.names[0])) if hidden is None else hidden
        with family("cannot open '{}'", pair.path):
            before, pair.metadata = pair.metadata, File.open(names[0], flags)
            before.close()
            found = FrozenTable.block_of(pair)
            if found is None:
                raise CorruptError(f"'{names[0]}' has no table of frozen chunks")
            if hidden is None:
                # Rank 0 gives the log its name.
                pair.blobs = open_log(names, pair.header.uuid, found[1].uuid, os.O_RDONLY)
            else:
                pair.blobs = File.open(names[2], flags)
            joins = pair.mode == "r+"  # rank 0 has taken it over
            pair.frozen = FrozenTable.load(pair, *found, self.axial.size, joins)
            pair.frozen.may_freeze = False

    @property
    def _flags(self) -> int:
        return os.O_RDWR if self.now.mode == "r+" else os.O_RDONLY

    def take(self, update: StateUpdate) -> None:
        """Adopt the state that rank 0 has committed.

        Parameters
        ----------
        update : StateUpdate
            It replaces `axial` if the array has other axes.
        """
        if update.header is None:
            update.segments.replay(self.axial)
        else:
            self._take_header(update)
        self._take_state(update)
        if self.now.frozen is not None:
            self.now.frozen.refresh()

    def _take_header(self, update: StateUpdate) -> None:
        assert update.header is not None
        header = self.now.header = decode_header(update.header)
        if self._rank_sums is not None:
            self._rank_sums.take(header)
        segments = update.segments
        self.axial = replay_log(Axial, *segments.columns(), segments.grid)

    def watch_file(self) -> None:
        """Open the metadata file, to see cuts and checksums of a writer outside.

        Cuts matter only if holes lack the fill value.  Call again after the array gains an axis:
        the metadata file is then a new one.
        """
        pair = self.now
        is_needed = any(pair.header.fill) or pair.trust is not None or pair.frozen is not None
        if not pair.follows or not is_needed:
            return
        header = pair.header
        with family("cannot watch '{}'", pair.path):
            before, pair.metadata = pair.metadata, File.open(pair.names[0], self._flags)
            before.close()
            pair.read_header()
            if pair.header.facts != header.facts:
                pair.header = header
                raise PartnerError(f"'{pair.path}' was overwritten or has changed; open it again")
            pair.watch_cuts()
            if pair.frozen is not None:
                pair.frozen = pair.frozen.for_reader()

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
        """Bytes of ``.xmd`` after the last commit that this rank knows."""
        return self.now.state.end

    def close(self) -> None:
        """Close the files.  Rank 0 seals and unlocks."""
        data = self.now.data
        if self.now.is_steady and not data.closed:
            lock.end_elements(data)  # the thread that writes may keep it open for a while
        super().close()
        if self._rank_sums is not None:
            self._rank_sums.close()


def is_behind(array: Any) -> bool:
    """Tell whether a parallel array may be behind its files, as far as this rank can see.

    Only rank 0 looks, without adopting anything.  A collective call asks in its own step, and skips
    the steps of `ParallelArray.refresh` if there is no news.
    """
    store = array._pair
    if array._replica is not None or not (store.now.follows or store.now.others):
        return False
    try:
        newest, pendings = store.parse(store.look())
    except FormatError:  # in the middle of a commit; `refresh` reads again
        return True
    return newest.sequence > store.now.state.sequence or bool(pendings)
