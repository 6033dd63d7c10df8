"""Packed files: pack the files of arrays into one, check it, and unpack it.

``.xta`` is packed as it is.  If chunks are to be compressed, or to have another order than that of
their addresses, they are packed as blobs, in ``.xtz``, and ``.xta`` as its seal alone: readers of
format 2 then find a pair whose version they refuse.

Where the system has nameless files (Linux), a packed file has no name before it is whole, so an
interruption leaves nothing.  The metadata of an array follow its chunks: only after copying them is
it known whether their checksums can be trusted.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._history import record_at
from extarray.codecs.codec import Codec
from extarray.common.arguments import NOT_GIVEN, check_flag, check_progress
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ChecksumError,
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    StorageError,
)
from extarray.common.hints import hint
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.common.progress import Progress
from extarray.common.system import name_nameless, open_nameless, problem_of_name, remove, sync_file
from extarray.common.threads import ThreadPool
from extarray.fetched.paths import local_or_remote, refuse_writing
from extarray.format.archive import (
    ATTRS_NAME,
    Member,
    check_member_name,
    crc_of_zeros,
    encode_directory,
    encode_member,
)
from extarray.format.blobs import encode_blobs_block, fits_blob
from extarray.format.blocks import BlockKind, sums_capacity
from extarray.format.constants import LIVE_SLOTS
from extarray.format.fresh import encode_fresh
from extarray.format.header import BLOBS_VERSION, decode_header, encode_seal, without_blobs
from extarray.format.suffixes import BLOBS, DATA, METADATA, file_names
from extarray.format.superblock import Superblock
from extarray.grid.chunking import place_of
from extarray.maintenance.blob_packing import (
    ADDRESS,
    BlobWriter,
    axis_of,
    check_order,
    empty_chunks,
    most_bytes,
    refused,
    sequence_of,
    truncated,
)
from extarray.maintenance.group_files import making_folder
from extarray.storage import lock
from extarray.storage.checksums import Comparison, read_sums, read_table
from extarray.storage.file_store import FileStore
from extarray.storage.filesystem import (
    File,
    absolute_names,
    close_all,
    create_beside,
    family,
    followed_name,
    publish,
    random_name,
    replaced_name,
    resolve_path,
    sync_folders,
    take_after,
)
from extarray.storage.names import (
    Packed,
    Publication,
    making_file,
    remove_left_of,
    remove_seldom,
)
from extarray.storage.pair import Pair
from extarray.storage.report import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import Self

    from extarray._core._axial import Axial
    from extarray.common.arguments import Reported
    from extarray.format.header import Header
    from extarray.grid.bounds import Bounds
    from extarray.storage.store import Present

__all__ = [
    "Part",
    "Snapshot",
    "check_order",
    "check_packed",
    "codec_of",
    "unpack",
    "write_packed",
]

_PIECE = 1 << 22
# Damaged chunks to report one by one.
_MOST_DAMAGED = 100


class Snapshot(NamedTuple):
    """The state of an array at a moment; equal snapshots mean no commit in between."""

    header: Header
    state: Bounds | Superblock
    attrs: str
    growth: int
    unclean: bool
    cuts: int
    n_chunks: int
    records: tuple[Any, ...]

    @classmethod
    def of(cls, now: Present, axial: Axial) -> Self:
        """Take a snapshot of an array."""
        cuts = now.read_count() if isinstance(now, Pair) and any(now.header.fill) else 0
        records = tuple(record_at(axial, n) for n in range(axial.segments))
        facts = now.header, now.state, now.attrs, now.growth, now.unclean
        return cls(*facts, cuts, axial.size, records)


class Part(NamedTuple):
    """An array to pack: its path in the packed file, its snapshot, and access to its chunks."""

    name: str
    snapshot: Snapshot
    opened: Callable[[], AbstractContextManager[Present]]


# -- packing -------------------------------------------------------------------------------------


def write_packed(
    parts: Sequence[Part],
    groups: Mapping[str, bytes | None],
    path: Path,
    overwrite: bool,
    progress: Reported = True,
    order: str | int = ADDRESS,
    codec: Codec | None = NOT_GIVEN,
) -> None:
    """Pack snapshots of arrays, and the attributes of groups, with chunks in an order.

    An axis as the order concerns the arrays that have it.  A codec compresses all chunks; if it is
    not given, arrays that are compressed stay so.
    """
    name = os.path.abspath(path)
    orders = [_order_of(part.snapshot, order) for part in parts]
    if orders and all(found is None for found in orders):
        raise refused(order)
    with family("cannot pack '{}'", path):
        if os.path.lexists(name) and not overwrite:
            raise ExistsError(
                errno.EEXIST, "it already exists; give overwrite=True to replace it", name
            )
        target = replaced_name(name) if overwrite else name
        shots = [part.snapshot for part in parts]
        total = sum(place_of(shot.n_chunks, shot.header.chunk_bytes) for shot in shots)
        with (
            _nameless(target, overwrite) as file,
            Progress(max(1, total), "pack", check_progress(progress)) as line,
        ):
            packing = _Packing(file, line, codec)
            for part, found in zip(parts, orders, strict=True):
                packing.add_array(part, found)
            for group, attrs in groups.items():
                if attrs is not None:
                    packing.add(f"{group}/{ATTRS_NAME}".lstrip("/"), attrs)
                else:
                    packing.add(f"{group}/", b"")
            packing.end()
        sync_folders([target])


def _order_of(was: Snapshot, order: str | int) -> str | int | None:
    """Return the order for an array; None if it lacks the axis that the order names."""
    dims = json.loads(was.attrs).get("dims")
    return axis_of(order, was.header.ndim, dims)


@contextlib.contextmanager
def _nameless(name: str, overwrite: bool) -> Iterator[File]:
    """Make a file that has no name before the block ends, where the system can."""
    is_there = os.path.exists(name)
    made = open_nameless(os.path.dirname(name), 0o600 if is_there else 0o666)
    if made is None:
        with making_file(name, overwrite) as file:
            yield file
            file.datasync()
        return
    fresh, file = random_name(name), File(made, name)
    with contextlib.closing(file):
        if is_there:
            take_after(file, name)
            remove_left_of(name)
        yield file
        file.datasync()
        if lock.can_tell():
            lock.claim(file, is_made=True)  # until the file has its name
        with file as fd:
            name_nameless(fd, fresh if overwrite else name)
        if overwrite:
            with OnError(_unlink_quietly, fresh):
                publish(fresh, name, overwrite)


def _unlink_quietly(name: str) -> None:
    with contextlib.suppress(OSError):
        remove(name)


class _Packing:
    def __init__(self, file: File, progress: Progress, codec: Codec | None) -> None:
        self._file, self._codec = file, codec
        self._members: list[Member] = []
        self._at = 0
        self._progress = progress

    def add(self, name: str, data: bytes) -> None:
        """Add a file, with its bytes."""
        self._file.write(data, self._begin(name, len(data), zlib.crc32(data)))

    def _begin(self, name: str, size: int, crc: int) -> int:
        """Write the head of a member, whose bytes follow; return where they begin."""
        problem = check_member_name(name)
        if problem is not None:
            raise FormatError(f"cannot pack {name!r}: {problem}")
        head = encode_member(name, size, crc, self._at)
        start = self._at + len(head)
        self._file.write(head, self._at)
        self._members.append(Member(name, self._at, start, size, crc))
        self._at = start + size
        return start

    def _amend(self, size: int, crc: int) -> None:
        """Write the head of the last member again, which has become shorter or has a sum now."""
        name, at, start, _, _ = self._members[-1]
        self._file.write(encode_member(name, size, crc, at, start), at)
        self._members[-1] = Member(name, at, start, size, crc)
        self._at = start + size

    def end(self) -> None:
        """Write the directory."""
        self._file.write(encode_directory(self._members, self._at), self._at)

    def add_array(self, part: Part, order: str | int | None) -> None:
        """Add the files of an array: its chunks, then fresh metadata."""
        was = part.snapshot
        header = without_blobs(was.header._replace(work=b""))
        sequence = None
        if order is None:  # an axis that this array lacks
            order = ADDRESS
        if order != ADDRESS:
            sequence = sequence_of(order, was.records, was.state.grid)
            if np.array_equal(sequence, np.arange(was.n_chunks)):
                sequence = None
        codec = codec_of(was.header) if self._codec is NOT_GIVEN else self._codec
        if sequence is None and codec is not None:
            sequence = np.arange(was.n_chunks)
        blocks: dict[BlockKind, bytes] = {}
        with part.opened() as now:
            if now.header.facts != was.header.facts:
                raise StorageError(
                    errno.EAGAIN, f"'{now.path}' was replaced while it was packed; pack it again"
                )
            sums = _Sums(now, was.n_chunks)
            if sequence is None:  # nothing to gain from blobs
                self._add_data(part.name, now, was)
            else:
                note: dict[str, Any] = {"order": order}
                if codec is not None:
                    note["compression"] = str(codec)
                header = header._replace(version=BLOBS_VERSION, blobs=json.dumps(note))
                blocks[BlockKind.BLOBS] = self._add_blobs(
                    part.name, header, now, was, sequence, codec
                )
            table = sums.still_right()
        data_bytes = place_of(was.n_chunks, header.chunk_bytes)
        image = fresh_image(was, header, data_bytes, table, blocks)
        self.add(part.name + METADATA, bytes(image))

    def _add_data(self, name: str, now: Present, was: Snapshot) -> None:
        """Add ``.xta`` as it is."""
        data_bytes = place_of(was.n_chunks, was.header.chunk_bytes)
        seal = encode_seal(was.header.uuid)
        size = data_bytes + len(seal)
        start = self._begin(name + DATA, size, 0)
        crc = self._copy(now, was, data_bytes, start)
        self._file.write(seal, start + data_bytes)
        self._amend(size, zlib.crc32(seal, crc))

    def _add_blobs(
        self,
        name: str,
        header: Header,
        now: Present,
        was: Snapshot,
        sequence: np.ndarray[Any, Any],
        codec: Codec | None,
    ) -> bytes:
        """Add ``.xta`` as a seal alone, and chunks as blobs; return the block about them."""
        self.add(name + DATA, encode_seal(header.uuid))
        size = header.chunk_bytes
        start = self._begin(name + BLOBS, most_bytes(was.n_chunks, size), 0)
        writer = BlobWriter(
            lambda data, at: self._file.write(data, start + at),
            header,
            codec,
            f"'{now.path or name}'",
            self._progress.add,
        )
        runs = now.written(place_of(was.n_chunks, size))
        block = writer.write(now, sequence, empty_chunks(runs, was.n_chunks, size))
        self._check_cuts(now, was)
        self._amend(writer.size, writer.crc)
        return encode_blobs_block(block, header.uuid)

    def _copy(self, now: Present, was: Snapshot, stop: int, to: int) -> int:
        """Copy bytes of chunks, keep holes as holes, and return the CRC-32 of all bytes."""
        at = 0
        pieces = itertools.cycle([memoryview(bytearray(_PIECE)) for _ in range(2)])
        helps = config.threads > 1 and stop >= 2 * limits.share_bytes
        with ThreadPool(1 if helps else 0) as pool:
            crc = _RunningCRC(pool)
            for first, last in now.written(stop):
                crc.add_zeros(first - at)
                self._progress.add(first - at)
                while first < last:
                    # End pieces where large folios of the page cache end.
                    size = min(_PIECE - (to + first) % _PIECE, last - first)
                    some = next(pieces)[:size]
                    if now.read_into(some, first) < len(some):
                        raise truncated(now)
                    crc.add(some)
                    self._file.write(some, to + first)
                    first += len(some)
                    self._progress.add(len(some))
                at = last
            crc.add_zeros(stop - at)
        self._check_cuts(now, was)
        return crc.value

    def _check_cuts(self, now: Present, was: Snapshot) -> None:
        """Raise if chunks may have been copied as holes that a cut has made."""
        if isinstance(now, Pair) and any(now.header.fill) and now.read_count() != was.cuts:
            raise StorageError(
                errno.EAGAIN,
                f"elements of '{now.path}' were cut off while it was packed; refresh() and pack "
                "it again",
            )


class _RunningCRC:
    """The CRC-32 of bytes that follow each other, counted beside reads and writes.

    A piece must stay as it is until the next one has been added.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self.value = 0
        self._pool = pool

    def add(self, piece: memoryview) -> None:
        self._take(self._pool.rest())
        self._take(self._pool.call(partial(zlib.crc32, piece, self.value)))

    def add_zeros(self, n: int) -> None:
        self._take(self._pool.rest())
        self.value = crc_of_zeros(n, self.value)

    def _take(self, found: list[int]) -> None:
        for value in found:
            self.value = value


def codec_of(header: Header) -> Codec | None:
    """Return the codec of an array's chunks, packed or frozen, if they fit into blobs."""
    if not fits_blob(header.chunk_bytes):
        return None
    return Codec.parse(header.encoding.get("codec", header.compression))


def fresh_image(
    was: Snapshot,
    header: Header,
    data_bytes: int,
    sums: bytes | None,
    blocks: Mapping[BlockKind, bytes],
) -> bytearray:
    """Return an ``.xmd`` that holds a snapshot alone, sealed."""
    state = Superblock.first(
        was.state.shape, was.state.grid, data_bytes, unclean=was.unclean, growth=was.growth
    )._replace(offset=was.state.offset, sealed=True)
    return encode_fresh(header, state, was.records, was.attrs, LIVE_SLOTS[:1], blocks, sums).image


class _Sums:
    """The checksums of the chunks of an array that is packed; doubtful ones are left out."""

    def __init__(self, now: Present, n_chunks: int) -> None:
        self._now = now
        self._n_chunks = n_chunks
        found = self._table()
        self._entries: np.ndarray[Any, Any] | None = None
        if found is None:
            return
        assert isinstance(now, Pair)
        extents = found
        reach = sum(map(sums_capacity, range(len(extents))))
        self._entries = read_sums(now.metadata, extents, 0, min(self._n_chunks, reach))
        if now.verify == "never":
            return
        comparison = Comparison(
            now.metadata, now.data, now.header, None, now.sums, now.supply, now.frozen
        )
        wrong = comparison.run(self._n_chunks, None)
        if wrong.size and not comparison.in_doubt:
            how = hint(
                "find its elements with extarray.check, or pack it unverified with verify='never'",
                "find its elements with extarray check --data, or set EXTARRAY_VERIFY=never to "
                "pack it unverified",
            )
            error = ChecksumError(
                f"cannot pack '{now.path}': chunk {wrong[0]} does not match its checksum: it is "
                f"damaged; {how}"
            )
            error.chunk = int(wrong[0])
            raise error

    def _table(self) -> list[int] | None:
        """Return the extents of the table, if it can be trusted."""
        now = self._now
        if not isinstance(now, Pair) or not now.header.checksum:
            return None
        if now.sums is not None:
            right = not (now.sums.in_doubt or now.sums.inherited or now.sums.lost)
            return now.sums.extents if right else None
        found = read_table(now.metadata, now.header, None)
        return None if found is None or found[0] else found[1]

    def still_right(self) -> bytes | None:
        """Return the table's entries, or None if they may no longer match the chunks."""
        if self._entries is None or self._table() is None:
            return None
        return self._entries.astype("<u4").tobytes()


# -- checking ------------------------------------------------------------------------------------


def check_packed(packed: Packed, path: Path, data: bool, progress: Reported) -> Report:
    """Compare a packed file, or the array that the path names in it, with its checksums."""
    inner = packed.inner(path)

    def is_asked(name: str) -> bool:
        return inner in ("", name) or name.startswith(f"{inner}/")

    members = [
        member
        for name, pair in packed.arrays.items()
        if is_asked(name)
        for member in (packed.members_of(name) if data else pair[:1])
    ]
    members += [m for group, m in packed.groups.items() if m and is_asked(group)]
    problems = []
    if not any(map(is_asked, (*packed.arrays, *packed.groups))):
        what, remedy = f"it has no {inner!r}", "extarray ls lists its content"
        problems.append(Problem("file", what, packed.name, None, "error", remedy))
    with Progress(max(1, sum(m.size for m in members)), "check", check_progress(progress)) as line:
        for member in members:
            try:
                packed.copy(member, done=line.add)
            except CorruptError as error:
                what, remedy = str(error), "restore the file from a copy"
                problems.append(Problem("chunk", what, packed.name, member.start, "error", remedy))
    for name in packed.blobs if data else ():
        if is_asked(name):
            problems += _damaged_chunks(packed, name)
    how = hint("extarray.check(path, data=True)", "extarray check --data")
    unseen = [] if data else [f"chunks in '{packed.path}'; {how} reads them"]
    return Report(path, problems, unseen=unseen)


def _damaged_chunks(packed: Packed, name: str) -> Iterator[Problem]:
    """Yield what is lost of an array with chunks in blobs."""
    remedy = "restore the file from a copy"
    more = 0
    try:
        with _opened(packed, name) as (store, _):
            for n, error in enumerate(store.blobs.damaged()):
                if n < _MOST_DAMAGED:
                    what = str(error).partition("; restore")[0]
                    boxes = (error.box,)
                    yield Problem("chunk", what, packed.name, None, "error", remedy, boxes)
                else:
                    more += 1
    except FormatError as error:
        yield Problem("file", str(error), packed.name, None, "error", remedy)
    if more:
        what = f"{more} more chunks in '{packed.path}/{name}' are damaged"
        yield Problem("chunk", what, packed.name, None, "error", remedy)


# -- unpacking -----------------------------------------------------------------------------------


def unpack(
    file: str | PathLike[str],
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Unpack an array into a pair of files, or a group into a folder, where arrays can grow.

    Parameters
    ----------
    file : str or PathLike
        A packed file, as `extarray.pack` makes it.
    path : str or PathLike
        Path of the pair of files, or of the folder if a group was packed.
    overwrite : bool
        Replace an existing pair of files; a folder is never replaced.
    progress : bool or callable
        Show the progress on a terminal or in a notebook; or a function that is called with the
        number of bytes done and the total.

    Raises
    ------
    MissingError
        A FileNotFoundError: the packed file does not exist.
    ExistsError
        A FileExistsError: the path is taken.
    FormatError
        A ValueError: `file` is no packed file.  CorruptError: it is damaged, or malicious.
    AccessError, StorageError

    Notes
    -----
    All bytes are compared with the CRC-32 sums in the packed file.  Whatever interrupts the call,
    the path then has either the whole result, on disk, or what it had before.  Among concurrent
    calls for one new path, one succeeds.  The arrays keep the history, attributes and identity of
    the packed ones.  A sparse array stays sparse; all others get their disk space allocated.  Any
    program that unpacks ZIP files makes the same files.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.from_array([1, 2, 3])
    >>> xa.pack(a, "three.xap")
    >>> xa.unpack("three.xap", "three")
    >>> with xa.open("three", "r+") as b:
    ...     b.append([4])
    ...     b[...]
    array([1, 2, 3, 4])
    """
    check_flag(overwrite, "overwrite")
    for given, act in ((file, "unpack '{}' from there"), (path, "unpack to '{}'")):
        there = local_or_remote(given)
        if there is not None:
            raise refuse_writing(there, act)
    try:
        source = Path(os.fsdecode(file))
    except TypeError:
        raise ArgumentTypeError(
            f"file must be a str or a path, not {type(file).__name__}"
        ) from None
    with family("cannot unpack '{}'", source):
        os.stat(source)
        with Packed.find(source) as packed:
            if packed is None or packed.path != source:
                raise FormatError(
                    f"'{source}' is not a packed file: it does not begin as a ZIP file"
                )
            total = sum(packed.members_of(name)[-1].size for name in packed.arrays)
            with Progress(max(1, total), "unpack", check_progress(progress)) as line:
                if packed.alone is not None:
                    _unpack_array(packed, packed.alone, resolve_path(path), overwrite, line)
                else:
                    _unpack_group(packed, Path(os.fsdecode(path)), line)


def _unpack_array(
    packed: Packed, name: str, path: Path, overwrite: bool, progress: Progress
) -> None:
    """Make a pair of files that takes its names once it is whole."""
    names = absolute_names(path)
    for there in names:
        if os.path.lexists(there) and not overwrite:
            raise ExistsError(
                errno.EEXIST, "it already exists; give overwrite=True to replace it", there
            )
    found = _metadata_of(packed, name)
    uuid = found[0].uuid
    if overwrite:
        names = replaced_name(names[0]), replaced_name(names[1])
    making = Publication((random_name(names[0]), random_name(names[1])), names, overwrite, uuid)
    metadata = data = File()
    with contextlib.ExitStack() as stack:
        if overwrite and os.path.exists(names[0]):
            stack.enter_context(_held(making, path))
        remove_seldom(names, making.old_header)
        try:
            data = create_beside(making.fresh[1], names[1])
            metadata = create_beside(making.fresh[0], names[0])
            # Anyone searching for left-overs sees that somebody is at work.
            lock.acquire(metadata, path, 0)
            lock.claim(data)
            _unpack_pair(packed, name, found, (metadata, data), progress)
            making.publish(path)
            sync_folders(names)
        except BaseException:
            making.withdraw(metadata, data)
            raise
        finally:
            making.release()
            close_all(metadata, data)


@contextlib.contextmanager
def _held(making: Publication, path: Path) -> Iterator[None]:
    """Keep others from writing to the pair about to be replaced, for the length of a block."""
    with contextlib.ExitStack() as stack:
        try:
            there, _ = FileStore.open(path, "r+", 0, "auto", "flush")
        except (FormatError, MissingError):  # damaged, and may be replaced
            making.old = File.open(making.names[0], os.O_RDWR)
            lock.acquire(making.old, path, 0)
        else:
            stack.enter_context(contextlib.closing(there))
            there.group.conclude_members()
            if there.now.header.uuid == making.uuid:  # perhaps the array that was packed
                there.renew_uuid()
            with there.now.metadata as fd:
                making.old = File(os.dup(fd), making.names[0])
            making.old_header = there.now.header
        yield


def _metadata_of(packed: Packed, name: str) -> tuple[Header, bytes]:
    """Return the header of an array and the ``.xmd`` to unpack, once its CRC was compared."""
    member = packed.arrays[name][0]
    image = packed.read(member)
    try:
        header = decode_header(image)
    except FormatError as error:
        raise type(error)(f"'{packed.path}', '{member.name}': {error}") from None
    if not header.has_blobs:
        return header, image
    with _opened(packed, name) as (store, axial):
        now = store.now
        header = without_blobs(now.header)
        found = read_table(now.metadata, now.header, None) if header.checksum else None
        sums = None
        if found is not None and not found[0]:
            sums = read_sums(now.metadata, found[1], 0, axial.size).astype("<u4").tobytes()
        was, data_bytes = Snapshot.of(now, axial), now.state.data_bytes
        return header, bytes(fresh_image(was, header, data_bytes, sums, {}))


@contextlib.contextmanager
def _opened(packed: Packed, name: str) -> Iterator[tuple[FileStore, Axial]]:
    """Open an array of a packed file for the length of a block."""
    path = Path(packed.name) / name
    store, axial = FileStore.open(path, "r", 0, "pread", "flush", "write")
    with contextlib.closing(store):
        yield store, axial


def _unpack_pair(
    packed: Packed,
    name: str,
    found: tuple[Header, bytes],
    files: tuple[File, File],
    progress: Progress,
) -> None:
    """Write the bytes of a pair of files and bring them to the disk."""
    (header, image), (metadata, data) = found, files
    if name in packed.blobs:
        _unpack_blobs(packed, name, header, data, progress)
    else:
        chunks = packed.arrays[name][1]
        _make_room(data, chunks.size, header)
        packed.copy(chunks, lambda at, piece: data.write(piece, at), progress.add)
    data.datasync()
    metadata.write(image, 0)
    metadata.datasync()


def _make_room(data: File, size: int, header: Header) -> None:
    """Give ``.xta`` its length."""
    if header.sparse:
        data.truncate(size)
    elif size:
        data.extend(0, size)  # so that later writes never find the disk full


def _unpack_blobs(
    packed: Packed, name: str, header: Header, data: File, progress: Progress
) -> None:
    """Write each chunk to the place that its address gives."""
    size, seal = header.chunk_bytes, encode_seal(header.uuid)
    rest = packed.blobs[name].size

    def put(address: int, chunk: memoryview | None) -> None:
        at = place_of(address, size)
        if chunk is not None:
            data.write(chunk, at)
        elif any(header.fill):
            data.fill(header.fill, at, at + size)

    with _opened(packed, name) as (store, axial):
        end = place_of(axial.size, size)
        _make_room(data, end + len(seal), header)
        share = rest // max(1, axial.size)
        for n_chunks in store.blobs.all_chunks(put):
            progress.add(n_chunks * share)
            rest -= n_chunks * share
        data.write(seal, end)
    progress.add(rest)


def _unpack_group(packed: Packed, path: Path, progress: Progress) -> None:
    """Make a folder that takes its name once it is whole."""
    name = os.path.abspath(path)
    if os.path.lexists(name) and not (os.path.isdir(name) and not os.listdir(name)):
        raise ExistsError(errno.EEXIST, "it already exists; give the path of a new folder", name)
    for key in [*packed.groups, *packed.arrays]:
        for part in filter(None, key.split("/")):
            if problem := problem_of_name(part):
                raise ArgumentError(f"cannot unpack {key!r} here: {problem}")
    with making_folder(followed_name(name)) as fresh:
        folders = []
        for group, member in sorted(packed.groups.items()):
            folders.append(os.path.join(fresh, group, ATTRS_NAME))
            if group:
                os.mkdir(os.path.dirname(folders[-1]))
            if member is not None:
                with open(folders[-1], "xb") as target:
                    target.write(packed.read(member))
                sync_file(folders[-1])
        for array in packed.arrays:
            with contextlib.ExitStack() as pair:
                metadata, data = (
                    pair.enter_context(contextlib.closing(_made(fresh, name)))
                    for name in file_names(array)
                )
                found = _metadata_of(packed, array)
                _unpack_pair(packed, array, found, (metadata, data), progress)
        sync_folders(folders)


def _made(folder: str, name: str) -> File:
    return File.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_EXCL)
