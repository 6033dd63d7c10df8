"""A new axis, codec, log or uuid: a fresh ``.xmd`` takes the name of the present one."""

from __future__ import annotations

import contextlib
import errno
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._history import record_at
from extarray.common import system
from extarray.common.errors import LockedError, StorageError
from extarray.common.progress import Progress
from extarray.format.blocks import BlockKind
from extarray.format.constants import BLOCK, CUTS_BYTES, FLUSHED_SLOTS, LIVE_SLOTS, SECTOR
from extarray.format.fresh import Fresh, encode_fresh
from extarray.format.header import Header, new_uuid
from extarray.format.suffixes import blobs_name
from extarray.grid.chunking import chunks_before, place_of
from extarray.storage import lock
from extarray.storage.checksums import Sums, read_sums
from extarray.storage.filesystem import (
    File,
    create_beside,
    family,
    fresh_name,
    real_name,
    sync_folders,
)
from extarray.storage.frozen import HANDED_ON
from extarray.storage.frozen_blobs import NewLog
from extarray.storage.pair import PASSED_ON, Pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.common.arguments import Reported
    from extarray.format.superblock import Superblock
    from extarray.storage.commits import Committer

__all__ = ["add_axis", "recode", "renew_uuid", "repack", "restore_sums", "sums_for"]


def add_axis(
    pair: Pair,
    commits: Committer,
    chunks: tuple[int, ...],
    axial: Axial,
    shape: tuple[int, ...],
    offset: tuple[int, ...],
    attrs: str,
) -> None:
    """Add an axis to a pair of files.

    `chunks`, `axial`, `shape`, `offset` and `attrs` describe the array with the new axis.  On an
    error nothing has changed, except perhaps the number of the last commit.
    """
    if pair.frozen is not None and math.prod(chunks) != math.prod(pair.header.chunks):
        pair.frozen.thaw(np.arange(1))  # chunks become larger only if there is at most one
    header = pair.header._replace(chunks=chunks)
    changes: dict[str, Any] = {"shape": shape, "offset": offset, "grid": axial.grid}
    changes["data_bytes"] = place_of(axial.size, header.chunk_bytes)
    _replace_metadata(
        pair, commits, header, changes, axial, attrs, "cannot add an axis to '{}'",
        "'{}' has the new axis",
    )  # fmt: skip


def recode(pair: Pair, commits: Committer, axial: Axial, encoding: dict[str, Any]) -> None:
    """Change how chunks of a pair of files are frozen from now on; see `Header.freezing`."""
    _replace_metadata(
        pair, commits, pair.header.freezing(encoding), {}, axial, pair.attrs,
        "cannot change the compression of '{}'", "'{}' has the new compression",
    )  # fmt: skip


def repack(pair: Pair, commits: Committer, axial: Axial, progress: Reported) -> None:
    """Copy the blobs of frozen chunks to a new log, unless nothing else is in the present one.

    The caller keeps others from freezing chunks; threads may thaw.
    """
    frozen = pair.frozen
    assert frozen is not None
    what = "cannot repack '{}'"
    with family(what, pair.path):
        total = frozen.used_bytes()
        if total == pair.blobs.length:
            return
    with family(what, pair.path), Progress(total, "repack", progress) as line:
        name = real_name(blobs_name(pair.names[0]))
        temporary = fresh_name(name, pair.header.uuid)
        file = File()
        try:
            file = _create_own(temporary, name)
            log = NewLog(file, new_uuid(), pair.header.uuid, line.add)
            _replace_metadata(
                pair, commits, pair.header, {}, axial, pair.attrs, what,
                "'{}' is repacked", log,
            )  # fmt: skip
        finally:
            # Without its name, the next writer gives it.
            with contextlib.suppress(OSError):
                if pair.blobs is file:
                    # The old log must not go before the new metadata are there to stay.
                    sync_folders(pair.names)
                    system.replace(temporary, name)
                    file.name = name
                else:
                    file.close()  # some systems remove an open file when it closes
                    system.remove(temporary)


@contextlib.contextmanager
def _undisturbed(pair: Pair) -> Iterator[None]:
    """Let nobody freeze, thaw or rewrite frozen chunks but threads that thaw."""
    if pair.frozen is None:
        yield
        return
    with pair.frozen.freezing() as is_alone, pair.frozen.keeping_blobs():
        if not is_alone:
            raise LockedError(
                errno.EAGAIN,
                "other processes have it open to write elements (ranks, or share='elements'), and "
                "could thaw chunks meanwhile; change its metadata when those have closed it",
                str(pair.path),
            )
        yield


def _replace_metadata(
    pair: Pair,
    commits: Committer,
    header: Header,
    changes: dict[str, Any],
    axial: Axial,
    attrs: str,
    what: str,
    done: str,
    log: NewLog | None = None,
) -> None:
    """Replace the ``.xmd`` of a pair by a fresh one, which takes the name when it is whole.

    The fresh file has no older state to fall back on after a power cut, so the elements go to disk
    first.

    Parameters
    ----------
    pair : Pair
    commits : Committer
    header, changes, axial, attrs
        The new header, changes of the state, axial vectors, and attributes.
    what, done : str
        Beginnings of messages, with a place for the path: that it failed, or that it is done.
    log : NewLog, optional
        An empty log, which gets the blobs of frozen chunks.
    """
    with _undisturbed(pair):
        commits.flush()
        with family(what, pair.path):
            name = pair.own_name(what)
            if pair.metadata.stat().st_nlink > 1:  # the other link would keep the old metadata
                raise StorageError(
                    errno.EMLINK,
                    f"{what.replace('{}', str(pair.path), 1)}: its metadata file has a second name "
                    "(a hard link); remove one of the two, or work on a copy of the array",
                    name,
                )
            temporary = fresh_name(name, pair.header.uuid)
            file = File()
            try:
                file = _create_own(temporary, name)
                lock.acquire(file, pair.path, 0)
                state = pair.state._replace(
                    sequence=pair.state.sequence + 2,
                    unclean=pair.unclean,
                    superseded=False,
                    **changes,
                )
                sums = sums_for(pair, header)
                records = [record_at(axial, n) for n in range(axial.segments)]
                slots = (*LIVE_SLOTS, FLUSHED_SLOTS[0])
                blocks = _members(pair)
                fresh = _write_fresh(pair, file, header, state, records, attrs, slots, blocks, log)
                lock.note_holder(file, fresh.header, True, pair.place(header.uuid))
                file.datasync()
                if log is not None:
                    sync_folders(pair.names)
                # Now readers check which file has the name.
                commits.write_superblock(
                    pair.state._replace(sequence=pair.state.sequence + 1, superseded=True)
                )
                if pair.frozen is not None:
                    pair.frozen.hand_on()
                _replace_mapped(pair, temporary, name, what)
                with family(
                    done + ", but its readers could not be notified: refresh them", pair.path
                ):
                    # Readers that must know of cuts see that another ``.xmd`` counts them now.
                    if any(pair.header.fill):
                        pair.write_count(pair.read_cuts() | PASSED_ON)
                _succeed(pair, commits, file, fresh, attrs, sums, log)
            except BaseException:
                if file.closed or not file.is_at(name):
                    with contextlib.suppress(OSError):
                        file.close()
                    with contextlib.suppress(OSError):
                        system.remove(temporary)
                    if pair.frozen is not None:
                        with contextlib.suppress(OSError):  # readers look at the name all the time
                            pair.frozen.take_back()
                    raise
                # Interrupted when all was done, or failed to tell readers.
                _succeed(pair, commits, file, fresh, attrs, sums, log)
                raise
        with contextlib.suppress(OSError):
            pair.sync_names()  # the next flush reports what fails here


def _replace_mapped(pair: Pair, temporary: str, name: str, what: str) -> None:
    """Give fresh metadata the name of the present ones, whose table of frozen chunks is mapped."""
    try:
        system.replace(temporary, name)
    except PermissionError as error:
        if pair.frozen is None or system.MAPS_FREELY:
            raise
        raise StorageError(
            errno.EBUSY,
            f"{what.replace('{}', str(pair.path), 1)}: the table of its compressed chunks is "
            "mapped, and this system does not let mapped files be replaced; make a new array from "
            "it, by copy() or rechunk()",
            name,
        ) from error


def renew_uuid(pair: Pair, commits: Committer, axial: Axial) -> None:
    """Give a pair of files another uuid, in a fresh ``.xmd`` that takes the name when it is whole.

    Those who have the array open keep the old ``.xmd``, which gets no more commits.
    """
    commits.begin_growth()  # removes the seal, which has the old uuid
    with family("cannot replace '{}'", pair.path):
        name = pair.own_name("cannot replace '{}'")
        temporary = fresh_name(name, pair.header.uuid)
        file = _create_own(temporary, name)
        try:
            lock.acquire(file, pair.path, 0)
            header = pair.header._replace(uuid=new_uuid())
            state = pair.state._replace(sequence=pair.state.sequence + 1, superseded=False)
            sums = sums_for(pair, header)
            records = [record_at(axial, n) for n in range(axial.segments)]
            slots = (*LIVE_SLOTS, FLUSHED_SLOTS[0])
            fresh = _write_fresh(pair, file, header, state, records, pair.attrs, slots, {})
            lock.note_holder(file, fresh.header, True, pair.place(header.uuid))
            file.datasync()
            system.replace(temporary, name)
        except BaseException:
            if not file.is_at(name):
                with contextlib.suppress(OSError):
                    system.remove(temporary)
                file.close()
                raise
            _succeed(pair, commits, file, fresh, pair.attrs, sums)
            raise
        _succeed(pair, commits, file, fresh, pair.attrs, sums)


def _create_own(temporary: str, name: str) -> File:
    """Make the file of new metadata under a name that only a holder of the array's lock uses.

    So a file with this name was left by a holder that died, and goes, however young it is.
    """
    with contextlib.suppress(FileNotFoundError):
        system.remove(temporary)
    return create_beside(temporary, name)


def _write_fresh(
    pair: Pair,
    file: File,
    header: Header,
    state: Superblock,
    records: list[tuple[int, int, tuple[int, ...]]],
    attrs: str,
    slots: Sequence[int],
    blocks: dict[BlockKind, bytes],
    log: NewLog | None = None,
) -> Fresh:
    """Write a fresh ``.xmd`` with the table of frozen chunks, if there is one.

    With a new log, copy their blobs to it, and bring it to the disk.
    """
    frozen, places = pair.frozen, []
    if frozen is not None:
        # The table lies behind all else, whose length does not depend on the block.
        blocks = {**blocks, BlockKind.BLOBS: bytes(SECTOR)}
        end = len(encode_fresh(header, state, records, attrs, slots, blocks).image)
        places = frozen.places_behind(end)
        if log is not None:
            frozen.copy_to(file, places, log)
            log.finish()
        blocks[BlockKind.BLOBS] = frozen.block_for(header.uuid, places, log)
    fresh = encode_fresh(header, state, records, attrs, slots, blocks)
    _hand_on(pair, fresh)
    file.write(fresh.image, 0)
    if frozen is not None and log is None:
        frozen.copy_to(file, places)
    return fresh


def _hand_on(pair: Pair, fresh: Fresh) -> None:
    """Copy the numbers of cuts and freezes to a fresh ``.xmd``: readers of the old one may ask."""
    at = fresh.header.cuts_offset
    data = pair.read_cuts().to_bytes(CUTS_BYTES, "little")
    fresh.image[at : at + len(data)] = data
    if pair.frozen is not None:
        at = fresh.header.freezes_offset
        number = pair.frozen.number & ~HANDED_ON
        fresh.image[at : at + CUTS_BYTES] = number.to_bytes(CUTS_BYTES, "little")


def _members(pair: Pair) -> dict[BlockKind, bytes]:
    """Return the block of the members that may ask this array about their last joint commit."""
    group = pair.blocks().get(BlockKind.GROUP)
    if group is None:
        return {}
    return {BlockKind.GROUP: pair.metadata.read(BLOCK, group)}


def sums_for(pair: Pair, header: Header) -> NDArray[np.uint32]:
    """Return the checksums of the chunks that another header leaves unchanged."""
    if pair.sums is None or header.chunk_bytes != pair.header.chunk_bytes:
        return read_sums(pair.metadata, (), 0, 0)
    n_chunks = min(chunks_before(pair.state.data_bytes, header.chunk_bytes), pair.sums.reach)
    return read_sums(pair.metadata, pair.sums.extents, 0, n_chunks)


def restore_sums(pair: Pair, commits: Committer, sums: NDArray[np.uint32]) -> None:
    """Give a pair with an empty table of checksums those that `sums_for` has found."""
    assert pair.sums is not None
    if sums.any():
        state = pair.state._replace(end=commits.free_from)
        pair.sums.make_room(len(sums) - 1, state, commits.write_superblock)
        pair.sums.restore(sums)


def _succeed(
    pair: Pair,
    commits: Committer,
    file: File,
    fresh: Fresh,
    attrs: str,
    sums: NDArray[np.uint32],
    log: NewLog | None = None,
) -> None:
    """Switch to a fresh ``.xmd`` that has taken the name."""
    pair.names_given = True
    if pair.sums is not None:
        pair.sums.in_doubt = True  # other threads must not note doubt in the new file
    before, pair.metadata = pair.metadata, file
    commits.take(fresh)
    if pair.frozen is not None:
        pair.frozen = pair.frozen.successor(None if log is None else log.file)
        if log is not None:
            pair.blobs = log.file  # those who read from the old one still have it
        commits.blocks_end = max([commits.blocks_end, *map(sum, pair.frozen.regions)])
    # The lock of the old file ends with its last descriptor.
    if before is not file:  # equal if an interrupt repeats this step
        with contextlib.suppress(OSError):  # everything that counts is on disk
            before.close()
    pair.attrs = attrs
    commits.durable = {FLUSHED_SLOTS[0]: fresh.state}
    if pair.sums is not None:
        inherited, alone = pair.sums.inherited, pair.sums.alone
        pair.sums = Sums(pair.metadata, pair.header, [], True, pair.path)
        pair.sums.inherited, pair.sums.alone = inherited, alone
        pair.sums.lost = True  # in case the next steps fail
        with contextlib.suppress(OSError):
            restore_sums(pair, commits, sums)
            pair.sums.lost = False
