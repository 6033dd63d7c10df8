"""Disk space of the chunks: growth takes it, and cuts give it back."""

from __future__ import annotations

import contextlib
import errno
import os
from mmap import PAGESIZE
from typing import TYPE_CHECKING

from extarray._core._file import UNSUPPORTED
from extarray.common.errors import StorageError, storage_error
from extarray.common.hints import hint
from extarray.common.system import MAPS_FREELY
from extarray.format.constants import SEAL_BYTES
from extarray.grid.chunking import chunks_before
from extarray.storage.filesystem import family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from extarray.storage.commits import Committer
    from extarray.storage.pair import Pair

__all__ = ["Allocator"]

LONGEST_HOLE_AHEAD = 1 << 30
# While they grow, files from this size end at a huge page's end.  The page cache makes no huge page
# that reaches past the file's end, nor one later where small pages exist.
_LARGE = 1 << 25
_HUGE = 1 << 21


class Allocator:
    """The space that the writer of a pair of files allocates to chunks and frees.

    Attributes
    ----------
    length : int
        Length of ``.xta``, if this writer has lengthened it.
    reserved : int
        Bytes of ``.xta`` with disk space, if this writer has taken more than asked.
    """

    def __init__(self, pair: Pair, commits: Committer) -> None:
        self.pair = pair
        self.length = 0
        self.reserved = 0
        self._commits = commits

    def reserve(self, old: int, new: int, runs: Iterable[tuple[int, int]] | None = None) -> None:
        """Make room for chunks of the fill value: from `old` bytes to `new` bytes.

        If `runs` of bytes are given, only those get their space and the fill value, with holes in
        between.  On an error the file is as before (I7).
        """
        pair = self.pair
        sparse, fill = pair.header.sparse, pair.header.fill
        is_zero = fill.count(0) == len(fill)
        if pair.region is not None and not (sparse and new <= self.length):
            pair.check_length()  # otherwise the file is being made, or is long enough
        self._commits.begin_growth()
        if pair.frozen is not None:
            pair.frozen.make_room(chunks_before(new, pair.header.chunk_bytes), self._commits)
        if runs is None:
            parts, taken = [(old, new)], new - old
        else:
            parts = list(runs)
            taken = sum(stop - start for start, stop in parts)
        too_much = pair.data.exceeds_disk(0 if sparse and is_zero else taken)
        if not is_zero and pair.sums is not None:
            pair.sums.doubt()
        try:
            if too_much:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sparse or runs is not None:
                self._lengthen(new, ahead=old > 0)
            for start, stop in parts:
                if not sparse and stop > start and not self._has_room(stop):
                    self._extend(start, stop, ahead=old > 0 and runs is None)
                if not is_zero:  # I8: zeros need no write
                    pair.data.fill(fill, start, stop)
            if pair.region is not None and not pair.region.shows_up_to(new):
                if pair.held is not None:
                    pair.held.outgrown.append(pair.region)
                pair.map(new)
            if runs is not None:
                for start, stop in parts:
                    self._make_ready_for_stores(start, stop)
        except BaseException as error:
            self.release(old)
            if isinstance(error, StorageError) or not isinstance(error, OSError):
                raise
            if too_much:
                advice = "the disk is smaller than that"
                if is_zero:
                    advice += f"; with {hint('sparse=True', '--sparse')}, elements take space only "
                    advice += "when written"
            elif error.errno in (errno.EFBIG, errno.EINVAL):
                advice = "the file system does not support files that large"
            else:
                advice = "free some space"
            raise storage_error(
                error,
                f"cannot make room for {new - old} bytes in '{{}}' ({advice})",
                f"{pair.path}.xta",
            ) from None

    def release(self, old: int) -> None:
        """Undo `reserve`; nobody knows yet of the bytes from `old` on."""
        pair = self.pair
        if pair.is_forked:  # the file is the parent's
            return
        self._commits.safe_bytes = min(self._commits.safe_bytes, old)
        if pair.frozen is not None:
            with contextlib.suppress(OSError):  # the next writer clears them
                pair.frozen.clear_from(chunks_before(old, pair.header.chunk_bytes))
        end = old + SEAL_BYTES
        self.length = self.reserved = 0  # an interrupt must not leave too large values
        with contextlib.suppress(OSError):
            length = pair.data.length  # keep what another program has cut off that way
            if length > old and not pair.state.sealed:
                if pair.data.cut(old):  # later bytes must not come back
                    pair.data.truncate(min(length, end))
            elif length > end:
                pair.data.cut(end)
            self.length = min(length, end)

    def _has_room(self, stop: int) -> bool:
        """Tell whether an earlier growth has reserved the space, and nobody has cut it off."""
        return stop + SEAL_BYTES <= self.reserved <= self.pair.data.length

    def _extend(self, start: int, stop: int, ahead: bool) -> None:
        """Allocate bytes at the end of ``.xta``; with `ahead`, up to the end of a huge page.

        The file ends a seal's length behind them: a reader that looks there for the seal of another
        array must not meet elements.
        """
        pair = self.pair
        stop += SEAL_BYTES
        if ahead and stop >= _LARGE and stop % _HUGE and pair.others is None:
            further = stop + _HUGE - stop % _HUGE
            with contextlib.suppress(OSError):  # the disk has no room for the extra bytes
                pair.data.extend(start, further - start)
                self.reserved = further
                return
        pair.data.extend(start, stop - start)

    def _lengthen(self, least: int, ahead: bool) -> None:
        """Lengthen ``.xta`` by a hole; `ahead` makes it longer than asked, at no extra cost."""
        pair = self.pair
        least += SEAL_BYTES  # as in `_extend`
        if not MAPS_FREELY:  # whoever has mapped the file may have kept it longer
            self.length = max(self.length, pair.data.length)
        if least > self.length:
            length = least + min(least // 8, LONGEST_HOLE_AHEAD) if ahead else least
            try:
                pair.data.truncate(length)
            except OSError:
                if length == least:
                    raise
                # The file system's limit may lie in between.
                length = least
                pair.data.truncate(length)
            self.length = length
            self.reserved = min(self.reserved, length)

    # -- inside the grid -------------------------------------------------------------------------

    def _reserve_again(self, start: int, stop: int) -> None:
        """Allocate bytes inside the grid again, which `give_back` may have freed."""
        pair = self.pair
        if pair.header.sparse:
            return
        with family("cannot make room in '{}'", f"{pair.path}.xta"):
            failure = pair.data.reserve(start, stop - start)
            if failure == UNSUPPORTED:
                if pair.others is None:  # others may be writing appends to this range
                    pair.data.extend(start, stop - start)
            elif failure:
                raise OSError(failure, os.strerror(failure))
        self._make_ready_for_stores(start, stop)

    def _make_ready_for_stores(self, start: int, stop: int) -> None:
        """Allocate the space that stores through a mapping need beside holes."""
        pair = self.pair
        region = pair.region  # a sparse array prepares each chunk at its first store
        if region is None or not region.mapped or pair.header.sparse:
            return
        if region.populate_alone(start, stop):
            raise StorageError(
                errno.ENOSPC,
                f"no space left to fill holes of '{pair.path}.xta'; free some space, or "
                + hint("use engine='pread'", "set EXTARRAY_ENGINE=pread"),
                f"{pair.path}.xta",
            )

    def renew(self, start: int, stop: int, clean: bool) -> None:
        """Allocate unused bytes inside the grid; if `clean`, set them to the fill value."""
        pair = self.pair
        if pair.frozen is not None:
            self._make_raw(start, stop, clean)
        self._reserve_again(start, stop)
        if not clean:
            return
        file, fill = pair.data, pair.header.fill
        # A write begun before the cut must not write back what it has read.
        still = pair.sieve or contextlib.nullcontext()
        with family("cannot make room in '{}'", f"{pair.path}.xta"), still:
            if any(fill):
                file.fill(fill, start, stop)
            else:
                self._clear(start, stop)
        self._make_ready_for_stores(start, stop)  # former pages may be gone

    def _make_raw(self, start: int, stop: int, clean: bool) -> None:
        """Make chunks raw that are to hold new elements.

        With `clean`, nobody needs the old elements of chunks that lie wholly in the range.
        """
        frozen, size = self.pair.frozen, self.pair.header.chunk_bytes
        assert frozen is not None
        frozen.note_renewal()
        if clean:
            frozen.let_go(chunks_before(start + size - 1, size), chunks_before(stop, size))
        frozen.thaw(frozen.frozen(chunks_before(start, size), chunks_before(stop + size - 1, size)))

    def _clear(self, start: int, stop: int) -> None:
        """Zero unused bytes inside the grid, by the file system if it is known to do that."""
        pair, file = self.pair, self.pair.data
        if pair.header.sparse and not pair.users.are_left(pair.users.ended):
            if file.punch(start, stop - start):
                file.erase(start, stop)
            else:
                for low, high in _beside_pages(start, stop):
                    file.erase(low, high)
        elif file.zero(start, stop - start):
            if file.tells_holes:
                file.erase(start, stop)
            else:  # erasing would read as many bytes as this writes
                file.fill(b"\0", start, stop)

    # -- unused chunks ---------------------------------------------------------------------------

    def punch(self, runs: list[tuple[int, int]]) -> None:
        """Return disk space to the file system, if it can punch holes."""
        pair = self.pair
        with family("cannot release space of '{}'", f"{pair.path}.xta"):
            for wait in (False, True):
                for start, stop in runs:
                    pair.data.write_back_ends(start, stop, wait)
            for start, stop in runs:
                pair.data.punch(start, stop - start)
                self._erase_split(start, stop)

    def _erase_split(self, start: int, stop: int) -> None:
        """Erase the rest of elements that lie partly in a hole, since holes have whole pages.

        Readers that still know these elements find them old or erased.
        """
        pair = self.pair
        size = pair.header.dtype.itemsize
        first, last = start + -start % PAGESIZE, stop - stop % PAGESIZE
        if first < last:
            for edge in (first, last):
                if edge % size:
                    pair.data.erase(edge - edge % size, edge + -edge % size)


def _beside_pages(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range outside its whole pages, which punching leaves as they are."""
    first, last = start + -start % PAGESIZE, stop - stop % PAGESIZE
    if first >= last:
        yield start, stop
        return
    if start < first:
        yield start, first
    if last < stop:
        yield last, stop
