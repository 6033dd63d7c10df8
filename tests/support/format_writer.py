"""A second writer of the file format, written from the pages in docs/format alone.

It grows arrays at both sides, cuts them, writes elements and attributes, flushes and closes, and
makes the first commit of several arrays.  It supports one writer, and the fill value 0.
"""

import fcntl
import os
import struct
from itertools import product
from math import prod

import format_reader
from format_reader import crc32c

SUPERBLOCK = "<IQQQQIIQIIQ16s"
NAMES = ["flags", "sequence", "segments", "data_bytes", "attrs", "attrs_bytes", "attrs_room"]
NAMES += ["spare", "spare_room", "attrs_crc", "end", "group"]


class Writer:
    """A pair that is open for writing; `path` has no suffix."""

    def __init__(self, path):
        self.path = os.path.realpath(path)
        self.xmd = os.open(f"{path}.xmd", os.O_RDWR)
        self.xta = os.open(f"{path}.xta", os.O_RDWR)
        if hasattr(fcntl, "F_OFD_SETLK"):
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(self.xmd, fcntl.F_OFD_SETLK, lock)
        else:
            fcntl.flock(self.xmd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.header, state, _ = format_reader.opened(path)
        self.k, self.chunk = len(self.header.chunk), self.header.chunk
        self.bounds, self.offset, self.grid = state.bounds, state.offset, state.grid
        self.records = [(axis, side, grid) for axis, side, grid, _ in state.records]
        self.extents = self.find_extents()
        found = [self.fields(i) for i in range(5)]
        live = max(found[:2], key=lambda fields: fields.get("sequence", -1))
        assert live == max(found, key=lambda fields: fields.get("sequence", -1))
        self.__dict__.update(live)
        self.blocks = {}
        for n, size in enumerate([3 * 4096, 4096]):
            at = format_reader.optional_block(self.read(0, self.header.size + 8192), self.header, n)
            if at is not None:
                self.blocks[n] = at, size
        # The content of the grid outside the bounds is unknown now.
        if not self.flags & 1:
            os.ftruncate(self.xta, self.data_bytes)
            self.flags |= 2

    def read(self, at, size):
        return os.pread(self.xmd, size, at)

    def fields(self, i):
        """Return the fields of superblock `i` before its bounds; {} if it is damaged."""
        size = 88 + 24 * self.k
        block = self.read(format_reader.superblock_place(self.header, i), size)
        if len(block) < size or struct.pack("<I", crc32c(block[4:])) != block[:4]:
            return {}
        return dict(zip(NAMES, struct.unpack(SUPERBLOCK, block[4:88]), strict=True))

    # -- commits ---------------------------------------------------------------------------------

    def superblock(self, flags):
        values = [flags, *(getattr(self, name) for name in NAMES[1:])]
        body = struct.pack(SUPERBLOCK, *values)
        body += struct.pack(f"<{3 * self.k}q", *self.bounds, *self.offset, *self.grid)
        return struct.pack("<I", crc32c(body)) + body

    def write_superblock(self, i, flags):
        place = format_reader.superblock_place(self.header, i)
        os.pwrite(self.xmd, self.superblock(flags), place)

    def commit(self):
        self.sequence += 1
        self.flags &= ~4
        self.write_superblock(self.sequence % 2, self.flags)

    def unseal(self):
        """Note in the files that a writer is at work, before `.xta` grows."""
        if self.flags & 1:
            self.flags &= ~1
            self.commit()
            self.write_superblock(4, self.flags)
            os.fsync(self.xmd)
            os.pwrite(self.xta, bytes(32), self.data_bytes)

    def flush(self):
        os.fsync(self.xta)
        self.write_flushed()

    def write_flushed(self):
        """Bring the state to the disk, where commits do not touch it."""
        older = min((2, 3), key=lambda i: self.fields(i).get("sequence", -1))
        self.write_superblock(older, self.flags & ~5)
        os.fsync(self.xmd)

    def die(self):
        os.close(self.xta)
        os.close(self.xmd)

    def close(self):
        if not self.flags & 1:
            os.ftruncate(self.xta, self.data_bytes)
            os.pwrite(self.xta, b"\x89XTA sealed:\r\n\x1a\n" + self.header.uuid, self.data_bytes)
            self.flags |= 1
            self.commit()
        self.die()

    # -- growth ----------------------------------------------------------------------------------

    def find_extents(self):
        """Return the offsets of the extents that hold the records."""
        found, room = [self.header.log], 8
        while room < len(self.records):
            found.append(int.from_bytes(self.read(found[-1], 8), "little"))
            room += 8 << (len(found) - 1)
        return found

    def take_room(self, size):
        """Lengthen `.xmd`, and return the start of the new room."""
        at = max([self.end, *map(sum, self.blocks.values())])
        self.end = at + size
        if os.fstat(self.xmd).st_size < self.end:
            os.ftruncate(self.xmd, self.end)
        return at

    def add_record(self, axis, side):
        number, width, uuid = len(self.records), 8 + 8 * self.k, self.header.uuid
        e = (number // 8 + 1).bit_length() - 1
        if e == len(self.extents):
            new = self.take_room(16 + (8 << e) * width)
            for at, following in ((new, 0), (self.extents[-1], new)):
                told = struct.pack("<Q", following)
                head = told + struct.pack("<II", crc32c(uuid + told), 0)
                os.pwrite(self.xmd, head, at)
            self.extents.append(new)
        body = struct.pack(f"<BBH{self.k}q", side, axis, 0, *self.grid)
        at = self.extents[e] + 16 + (number - 8 * (2**e - 1)) * width
        os.pwrite(self.xmd, struct.pack("<I", crc32c(uuid + body)) + body, at)
        self.records.append((axis, side, list(self.grid)))

    def grow(self, axis, side, by, commit=True):
        """Add elements with the fill value; side 0 is the end, 1 the start."""
        self.unseal()
        if self.flags & 2:
            self.flush()  # flush a cut before overwriting its remains
        low, high = [0] * self.k, list(self.bounds)
        low[axis], high[axis] = (-by, 0) if side else (high[axis], high[axis] + by)
        room = self.offset[axis]
        if not side:
            room = self.grid[axis] * self.chunk[axis] - room - self.bounds[axis]
        more = -(min(room - by, 0) // self.chunk[axis])
        if more:
            if self.records[-1][:2] != (axis, side):
                self.add_record(axis, side)
            self.grid[axis] += more
            self.data_bytes = prod(self.grid) * self.header.chunk_bytes
            os.ftruncate(self.xta, self.data_bytes)
            if side:
                self.offset[axis] += more * self.chunk[axis]
        if self.flags & 2:
            for index in product(*map(range, low, high)):
                self.put(index, bytes(self.header.dtype.itemsize))
        if side:
            self.offset[axis] -= by
        self.bounds[axis] += by
        self.segments = len(self.records)
        if commit:
            self.commit()

    def cut(self, axis, side, by):
        """Move the bounds in."""
        self.bounds[axis] -= by
        if side:
            self.offset[axis] += by
        self.flags |= 2
        self.commit()

    # -- elements and attributes -----------------------------------------------------------------

    def put(self, index, element):
        records, added = format_reader.with_starts(self.records, self.grid)
        numbers, places = [], []
        for x, b, c, a in zip(index, self.offset, self.chunk, added, strict=True):
            numbers.append((x + b) // c - a)
            places.append((x + b) % c)
        order = format_reader.positions(self.chunk, self.header.order)
        at = format_reader.chunk_address(records, numbers) * self.header.chunk_bytes
        os.pwrite(self.xta, element, at + int(order[tuple(places)]) * len(element))

    def set_attrs(self, text):
        """Write attributes to unused room."""
        self.spare, self.spare_room = self.attrs, self.attrs_room
        self.attrs, self.attrs_room = self.take_room(len(text)), len(text)
        self.attrs_bytes, self.attrs_crc = len(text), crc32c(text)
        os.pwrite(self.xmd, text, self.attrs)
        self.commit()

    # -- commits of several arrays ---------------------------------------------------------------

    def group_block(self):
        """Return the offset of the group block, adding it if it is missing."""
        if 0 not in self.blocks:
            used = max([self.end, os.fstat(self.xmd).st_size, *map(sum, self.blocks.values())])
            at, size = -(-used // 512) * 512, 3 * 4096
            os.ftruncate(self.xmd, at + size)
            os.fsync(self.xmd)
            body = struct.pack("<IQ", 0, at)
            entry = struct.pack("<I", crc32c(self.header.uuid + body)) + body
            os.pwrite(self.xmd, entry, self.header.size + 7168)
            self.blocks[0] = at, size
        return self.blocks[0][0]

    def path_to(self, other):
        return os.fsencode(os.path.relpath(other.path, os.path.dirname(self.path)))

    def list_members(self, members):
        """Note the other members of the first group."""
        at = self.group_block()
        assert self.read(at, 4096) == bytes(4096)
        told = b""
        for other in members:
            path = self.path_to(other)
            told += other.header.uuid + struct.pack("<I", len(path)) + path
        told = struct.pack("<I", len(told)) + told
        os.pwrite(self.xmd, struct.pack("<I", crc32c(told)) + told, at)
        os.fsync(self.xmd)

    def prepare(self, group, coordinator):
        """Write the next state as a pending one, over the older of two."""
        os.fsync(self.xta)
        self.sequence += 1
        state, path = self.superblock(self.flags & ~4), self.path_to(coordinator)
        self.sequence -= 1
        tail = struct.pack("<I", len(path)) + group + coordinator.header.uuid + path
        places = [self.group_block() + 4096, self.group_block() + 8192]
        at = min(places, key=lambda at: int.from_bytes(self.read(at + 8, 8), "little"))
        os.pwrite(self.xmd, state + struct.pack("<I", crc32c(state + tail)) + tail, at)
        os.fsync(self.xmd)


def commit_together(group, coordinator, *members):
    """Commit all changes; each `next` does one step."""
    coordinator.list_members(members)
    yield False
    for member in members:
        member.prepare(group, coordinator)
        yield False
    os.fsync(coordinator.xta)
    coordinator.group = group
    coordinator.commit()
    yield True
    coordinator.write_flushed()
    yield True
    for member in members:
        member.commit()
        yield True
        member.write_flushed()
        yield True
