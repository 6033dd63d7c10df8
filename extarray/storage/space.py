"""Disk space of the chunks: what growth takes, and what cuts give back."""

from __future__ import annotations

import contextlib
import errno
import os
from mmap import PAGESIZE
from typing import TYPE_CHECKING

from extarray._core._mapping import Region, Users
from extarray.common.errors import StorageError, storage_error
from extarray.format.constants import BLOCK, CUTS_BYTES, SEAL_BYTES
from extarray.storage.commits import Committer
from extarray.storage.filesystem import CAN_RESERVE, family
from extarray.storage.pending import Freed, without
from extarray.storage.states import PASSED_ON

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Allocator"]

LONGEST_HOLE_AHEAD = 1 << 30


class Allocator(Committer):
    """A pair of files, and the space that its writer gives to chunks.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    users : Users
        Those who may still look at what was cut off: transfers of other threads, and views.
    freed : Freed
        Bytes to give back when none of them is left.
    """

    # Bytes whose pages the system's cache may keep together, and write together.
    given_back_together = 1 << 21

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.users = Users()
        self.freed = Freed(self.users)
        self._length = 0  # of .xta, where this store has lengthened it
        self._cuts_made = 0  # as the file says

    def reserve(self, old: int, new: int, runs: Iterable[tuple[int, int]] | None = None) -> None:
        """Make room for chunks: from `old` bytes to `new` bytes, all of them the fill value.

        Where `runs` of bytes are given, only those get their space and the fill value, and holes
        are left between them.  On an error the file is as before.
        """
        sparse, fill = self.header.sparse, self.header.fill
        is_zero = fill.count(0) == len(fill)
        if self.region is not None and not (sparse and new <= self._length):
            self._check_length()  # else it is being made, or not lengthened
        self._begin_growth()
        parts = [(old, new)] if runs is None else list(runs)
        taken = 0 if sparse and is_zero else sum(stop - start for start, stop in parts)
        too_much = self._data.exceeds_disk(taken)
        if not is_zero and self.sums is not None:
            self.sums.doubt()
        try:
            if too_much:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sparse or not CAN_RESERVE or runs is not None:
                self._lengthen(new, ahead=old > 0)
            for start, stop in parts:
                if CAN_RESERVE and not sparse and stop > start:
                    self._data.extend(start, stop - start)
                if not is_zero:
                    self._data.fill(fill, start, stop)
                elif not sparse and not CAN_RESERVE:
                    self._data.fill(bytes(BLOCK), start, stop)
            if self.region is not None and not self.region.holds(new):
                if self.held is not None:
                    self.held.outgrown.append(self.region)
                self.region = self._map(new, True, True)
            if runs is not None:
                for start, stop in parts:
                    self._make_ready_for_stores(start, stop)
        except BaseException as error:
            self.release(old)
            if isinstance(error, StorageError) or not isinstance(error, OSError):
                raise
            if too_much:
                advice = "the whole disk has less"
                if is_zero:
                    advice += "; with sparse=True elements take space when they are written"
            elif error.errno in (errno.EFBIG, errno.EINVAL):
                advice = "the file system allows no file so large"
            else:
                advice = "free some space"
            raise storage_error(
                error,
                f"cannot make room for {new - old} bytes in '{{}}' ({advice})",
                f"{self.path}.xta",
            ) from None

    def release(self, old: int) -> None:
        """Undo `reserve`: nobody has been told of what follows `old` bytes."""
        if self.is_forked:  # the file is the parent's
            return
        self._safe_bytes = min(self._safe_bytes, old)
        if self.state.sealed:
            old += SEAL_BYTES
        self._length = 0  # an interrupt must not leave more than there is
        with contextlib.suppress(OSError):
            if self._data.length > old:  # what another program has cut off stays so
                self._data.truncate(old)
            self._length = old

    def _lengthen(self, least: int, ahead: bool) -> None:
        """Lengthen ``.xta`` by a hole; at growth, further than asked: that costs no more."""
        if least > self._length:
            length = least + min(least // 8, LONGEST_HOLE_AHEAD) if ahead else least
            try:
                self._data.truncate(length)
            except OSError:
                if length == least:
                    raise
                # The file system's limit, perhaps, is nearer.
                length = least
                self._data.truncate(length)
            self._length = length

    def _region_of(self, data_bytes: int) -> Region:
        """Return the region for a writer."""
        return self._map(data_bytes, True, self.engine == "mmap")

    # -- inside the grid -------------------------------------------------------------------------

    def settle(self) -> None:
        """Bring a cut of the bounds to the disk, before what was cut off is destroyed.

        After a loss of power the state before it could be the newest; it must not lack elements.
        """
        if self._unsettled:
            with family("cannot commit the new bounds of '{}'", self.path):
                if self.state.data_bytes > self._safe_bytes:  # or they would not fit the file
                    self._sync_data()
                self._sync_state()

    def begin_renewal(self) -> None:
        """Make ready to write to what a cut, or an append that failed, has left."""
        self._check_length()  # as in `begin_append`; and a load through a mapping would not return
        self.settle()

    def _reserve_again(self, start: int, stop: int) -> None:
        """Give bytes of the grid their disk space, which `give_back` may have taken."""
        if self.header.sparse or not CAN_RESERVE:
            return
        with family("cannot make room in '{}'", f"{self.path}.xta"):
            failure = self._data.reserve(start, stop - start)
            if failure == errno.EOPNOTSUPP:
                self._reserve_by_writing(start, stop)
            elif failure:
                raise OSError(failure, os.strerror(failure))
        self._make_ready_for_stores(start, stop)

    def _make_ready_for_stores(self, start: int, stop: int) -> None:
        """Take the space that stores through a mapping need for bytes that lie beside holes."""
        region = self.region  # of a sparse array each chunk is made ready at its first store
        if region is None or not region.mapped or self.header.sparse:
            return
        if region.populate_alone(start, stop):
            raise StorageError(
                errno.ENOSPC,
                f"no room beside the holes of '{self.path}.xta'; free some space, or use "
                "engine='pread'",
                f"{self.path}.xta",
            )

    def _reserve_by_writing(self, start: int, stop: int) -> None:
        """Do as the system does where it cannot reserve: nobody else may write to this range."""
        self._data.extend(start, stop - start)

    def renew(self, start: int, stop: int, clean: bool) -> None:
        """Give bytes of the grid that do not count their disk space; if `clean`, the fill value."""
        self._reserve_again(start, stop)
        if not clean:
            return
        file, fill = self._data, self.header.fill
        with family("cannot make room in '{}'", f"{self.path}.xta"):
            if any(fill):
                file.fill(fill, start, stop)
            elif self.header.sparse and not self.users.are_left(self.users.ended):
                file.punch(start, stop - start)
                file.erase(start, stop)  # what is left of pages, or all
            elif file.zero(start, stop - start):
                file.erase(start, stop)
        self._make_ready_for_stores(start, stop)  # the pages that there were may be gone

    # -- what no longer counts -------------------------------------------------------------------

    def keep(self, start: int, stop: int) -> None:
        """Do not give back bytes that a growth uses again."""
        self.freed.keep(start, stop)
        if self.held is not None:
            self.held.freed = without(self.held.freed, start, stop)

    def give_back(self, start: int, stop: int) -> None:
        """Leave it to `punch`, later, to give back the disk space of bytes that no longer count.

        As long as somebody may look at them they stay as they are: a load or store in a hole may
        find no space.
        """
        if self.held is not None:
            self.held.freed.append((start, stop))
        else:
            self.freed.add(start, stop)

    def punch(self, runs: list[tuple[int, int]]) -> None:
        """Give disk space back to the file system, where it can punch holes."""
        with family("cannot give back space of '{}'", f"{self.path}.xta"):
            for wait in (False, True):
                for start, stop in runs:
                    self._data.write_back_ends(start, stop, wait)
            for start, stop in runs:
                self._data.punch(start, stop - start)
                self._erase_split(start, stop)

    def _erase_split(self, start: int, stop: int) -> None:
        """Erase what is left of elements that lie partly in a hole.

        A hole has whole pages.  Readers that still know these elements find them old or erased.
        """
        size = self.header.dtype.itemsize
        first, last = start + -start % PAGESIZE, stop - stop % PAGESIZE
        if first < last:
            for edge in (first, last):
                if edge % size:
                    self._data.erase(edge - edge % size, edge + -edge % size)

    def begin_cut(self) -> None:
        """Tell readers that chunks outside the bounds are about to become holes."""
        with family("cannot give back space of '{}'", self.path):
            self._count_cut()

    def _count_cut(self) -> None:
        """Raise the number of cuts, where holes do not hold the fill value."""
        if any(self.header.fill) and self.held is None:
            number = (self._cuts_made + 1) % PASSED_ON
            self._write_count(number)
            self._cuts_made = number

    def _pass_on_count(self) -> None:
        """Show readers that must know of cuts that another ``.xmd`` counts them now."""
        if any(self.header.fill):
            self._write_count(self._read_cuts() | PASSED_ON)

    def _write_count(self, number: int) -> None:
        self._metadata.write(number.to_bytes(CUTS_BYTES, "little"), self.header.cuts_offset)
