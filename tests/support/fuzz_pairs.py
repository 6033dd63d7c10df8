"""Hostile pairs of files: good ones, changed field by field, with checksums corrected.

`attack` makes a pair from bytes and uses it as users do.  It raises on anything but errors of the
family, and on results that contradict themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import struct
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from dice import Dice

import extarray as xa
from extarray.format._crc import crc32c

with contextlib.suppress(ImportError):  # not on Windows
    import resource

__all__ = ["Image", "attack", "limit_files", "limit_memory", "seeds"]

# Less than a file could ask for; but the fuzzer itself takes more with each execution.
SPARE_MEMORY = 1 << 30
LONGEST_FILE = 1 << 45
#: Limit of growth, which takes real space.
ROOM_TO_GROW = 1 << 22
#: Up to this size, growth and writes may fill all chunks.
LARGEST_TO_FILL = 1 << 24
#: Most bytes to read of an array.
MOST = 1 << 20

SUPERBLOCK = {
    "flags": (4, "I"), "sequence": (8, "Q"), "segments": (16, "Q"), "data_bytes": (24, "Q"),
    "attrs": (32, "Q"), "attrs_bytes": (40, "I"), "room": (44, "I"), "spare": (48, "Q"),
    "spare_room": (56, "I"), "attrs_crc": (60, "I"), "end": (64, "Q"),
}  # fmt: skip
HEADER = {
    "major": (8, "H"), "minor": (10, "H"), "size": (12, "I"), "k": (32, "B"), "order": (33, "B"),
    "flags": (34, "H"), "itemsize": (36, "I"), "dtype_bytes": (40, "I"), "zero": (44, "I"),
}  # fmt: skip
#: Blocks apart from the superblocks: optional ones, and the place of the sums.
MEMBERS, WRITERS, PENDING, SUMS = 5, 6, (7, 8), 9
WRITER = {
    "process": (0, "I"), "kind": (4, "B"), "axis": (5, "B"), "side": (6, "B"), "seen": (8, "Q"),
    "ticket": (16, "Q"), "start": (24, "q"), "stop": (32, "q"),
}  # fmt: skip
BITS = {"B": 8, "H": 16, "I": 32, "Q": 64, "q": 64}


# -- seeds ---------------------------------------------------------------------------------------


class Seeds(NamedTuple):
    """Pairs made by the package: ``.xmd`` and ``.xta``."""

    alone: list[tuple[bytes, bytes]]
    #: With checksums, or with blocks shared by several arrays or writers.
    together: list[tuple[bytes, bytes]]


def pair_of(path: Path) -> tuple[bytes, bytes]:
    return Path(f"{path}.xmd").read_bytes(), Path(f"{path}.xta").read_bytes()


def seeds(folder: Path) -> Seeds:
    return Seeds(seeds_alone(folder), seeds_together(folder))


def seeds_together(folder: Path) -> list[tuple[bytes, bytes]]:
    found = []
    with xa.create(folder / "sums", (3, 5), "<i4", chunks=(2, 2), checksum=True) as array:
        array[...] = 1
        array.flush()
        array.extend(0, 2)
        found.append(pair_of(array.path))  # in doubt
    found.append(pair_of(array.path))
    # The first array stays there, and decides about the other.
    names = ("group", "member")
    group, member = (xa.create(folder / n, (3, 4), "<i4", chunks=(2, 2)) for n in names)
    with group, member, xa.commit([group, member]):
        group.extend(0, 1)
        member.extend(0, 3)
    found += [pair_of(group.path), pair_of(member.path)]
    image = Image.of(found[-1])
    for i in range(5):  # as if its writer had died after the decision
        if image.get(image.block(i) + 8, "Q") >= image.get(image.block(PENDING[0]) + 8, "Q"):
            image.write(image.block(i), bytes(1024))
    found.append((bytes(image.xmd), found[-1][1][:-32]))
    shared = folder / "shared"
    xa.create(shared, (3, 4), "<i4", chunks=(2, 2)).close()
    with xa.open(shared, "r+", share=True) as a, xa.open(shared, "r+", share=True) as b:
        a.append(np.ones((2, 4), "<i4"))
        b.shrink(0, 1)
        found.append(pair_of(shared))
    return found


def seeds_alone(folder: Path) -> list[tuple[bytes, bytes]]:
    record = np.dtype([("a", "<i4"), (("title", "b"), ">u2", (2, 3)), ("c", [("d", "S3")])])
    found = []

    def keep(name: str) -> None:
        found.append(pair_of(folder / name))

    def make(name, shape, dtype, steps=(), **options):
        with xa.create(folder / name, shape, dtype, **options) as a:
            a.attrs["unit"] = "mm"
            for axis, by, side in steps:
                if by > 0:
                    a.extend(axis, by, side)
                else:
                    a.shrink(axis, -by, side)
            a.attrs["steps"] = len(steps)
            a.flush()
            keep(name)  # as a dying writer leaves it
        keep(name)

    sides = ["end", "start", "end"]
    make("plain", (3, 4), "<i4", [(0, 3, "end"), (1, 2, "start")], chunks=(2, 2))
    make("scalar", (), "<f8")
    make("empty", (0, 3, 0), ">u2", [(2, 2, "end"), (0, 4, "end")], chunks=(2, 2, 1))
    make("records", 5, record, [(0, 9, "end")], chunks=3)
    make("hilbert", (3, 5), "|u1", [(1, 4, "start")], chunks=(3, 5), order="H", fill_value=7)
    make("cut", (9, 9), "<f4", [(0, -4, "end"), (1, -3, "start")], chunks=(2, 2), sparse=True)
    make("cube", (2,) * 5, "<c8", [(i, 1, "end") for i in range(5)], chunks=(1, 2, 1, 2, 1))
    long = [(i % 2, 1, sides[i % 3]) for i in range(80)]
    make("long", (0, 1), "|b1", long, chunks=(1, 1), order="Z")
    return found


# -- images --------------------------------------------------------------------------------------


@dataclass
class Image:
    """A pair that is being changed; it finds fields as the pages in docs/format say."""

    xmd: bytearray
    xta: int = 0  # bytes of .xta
    sealed: bool = True
    data: bytes = b""  # the first bytes of .xta
    unmended: set[str] = field(default_factory=set)
    together: bool = False  # also mend the blocks behind the superblocks

    @classmethod
    def of(cls, pair: tuple[bytes, bytes]) -> Image:
        xmd, xta = pair
        sealed = xta[-32:-16] == b"\x89XTA sealed:\r\n\x1a\n"
        size = len(xta) - 32 if sealed else len(xta)
        return cls(bytearray(xmd), size, sealed, xta[:size])

    def get(self, at: int, kind: str) -> int:
        size = struct.calcsize(kind)
        return int.from_bytes(self.xmd[at : at + size], "little", signed=kind.islower())

    def put(self, at: int, kind: str, value: int) -> None:
        bits = BITS[kind]
        value %= 1 << bits
        self.write(at, value.to_bytes(bits // 8, "little"))

    def write(self, at: int, data: bytes) -> None:
        if 0 <= at <= len(self.xmd) < 1 << 20:  # keeps images small
            self.xmd[at : at + len(data)] = data

    @property
    def k(self) -> int:
        return self.xmd[32] if len(self.xmd) > 32 else 0

    @property
    def size(self) -> int:
        return self.get(12, "I")

    @property
    def header_end(self) -> int:
        return 48 + 8 * self.k + self.get(40, "I") + self.get(36, "I")

    def block(self, i: int) -> int:
        """Return the offset of a superblock or other block; create a missing optional one."""
        if i < 2:
            return self.size + 1024 * i
        if i < 5:
            return self.size + 4096 + 1024 * (i - 2)
        if i == SUMS:
            return self.size + 3072
        number = int(i == WRITERS)
        at = self.optional(number)
        if at is None:
            at = -(-len(self.xmd) // 512) * 512
            self.write(len(self.xmd), bytes(at + (4096 if number else 3 * 4096) - len(self.xmd)))
            self.put(self.entry(number) + 4, "I", number)
            self.put(self.entry(number) + 8, "Q", at)
            self.mend_entry(number)
        return at + (4096 * (1 + PENDING.index(i)) if i in PENDING else 0)

    def entry(self, number: int) -> int:
        return self.size + 7168 + 16 * number

    def optional(self, number: int) -> int | None:
        """Return the offset of an optional block, or None."""
        at = self.get(self.entry(number) + 8, "Q")
        return at if self.log <= at < len(self.xmd) else None

    def mend_entry(self, number: int) -> None:
        at = self.entry(number)
        covered = bytes(self.xmd[16:32]) + bytes(self.xmd[at + 4 : at + 16])
        self.put(at, "I", crc32c(covered))

    @property
    def fixed(self) -> int:
        """The end of the parts with a fixed place, apart from the copy of the header."""
        return self.size + 8192

    @property
    def log(self) -> int:
        return self.fixed + -(-(self.header_end + 4) // 512) * 512

    def newest(self) -> int:
        """Return which of superblocks 0 and 1 has the greater number."""
        return max((0, 1), key=lambda i: self.get(self.block(i) + 8, "Q"))

    def extents(self) -> list[int]:
        """Return the offsets of the extents, as their heads give them."""
        found = [self.log]
        while len(found) < 6:
            following = self.get(found[-1], "Q")
            if following in found or not 0 < following < len(self.xmd):
                break
            found.append(following)
        return found

    def record(self, n: int) -> int:
        e = (n // 8 + 1).bit_length() - 1
        extents = self.extents()
        e = min(e, len(extents) - 1)
        return extents[e] + 16 + (n - 8 * (2**e - 1)) * (8 + 8 * self.k)

    # -- changes -----------------------------------------------------------------------------

    def set_description(self, text: bytes, itemsize: int | None) -> None:
        """Set another description of the type; the fill value is zero."""
        k, item = self.k, self.get(36, "I") if itemsize is None else itemsize
        used = 48 + 8 * k + len(text) + item + 4
        if used <= self.size and item <= 4096:
            self.put(36, "I", item)
            self.put(40, "I", len(text))
            self.write(48 + 8 * k, text + bytes(item + 4))

    def set_attrs(self, text: bytes) -> None:
        """Set other attributes in the live superblocks, at the end of the file."""
        at = len(self.xmd)
        self.write(at, text + bytes(16))
        for i in (0, 1):
            block = self.block(i)
            self.put(block + 32, "Q", at)
            self.put(block + 40, "I", len(text))
            self.put(block + 44, "I", len(text) + 16)
            self.put(block + 64, "Q", at + len(text) + 16)

    def set_history(self, steps: list[tuple[int, int, int]]) -> None:
        """Set another growth log for the live superblocks: steps of (axis, side, by)."""
        k = self.k
        if not 0 < k <= 32 or len(steps) > 8:
            return
        grid, rows = [0] * k, []
        for axis, side, by in steps:
            axis %= k
            if not rows:
                axis = side = 0
            if not rows or rows[-1][:2] != (axis, side):
                rows.append((axis, side, list(grid)))
            grid[axis] = min(grid[axis] + by, 2**63 - 1)
        for n, (axis, side, before) in enumerate(rows):
            row = struct.pack(f"<IBBH{k}q", 0, side, axis, 0, *before)
            self.write(self.log + 16 + n * len(row), row)
        for i in (0, 1):
            self.put(self.block(i) + 16, "Q", len(rows))
            for j, n in enumerate(grid):
                self.put(self.block(i) + 88 + 16 * k + 8 * j, "q", n)

    def agree(self) -> None:
        """Set the bytes of the live superblocks, and of .xta, to match the grids."""
        k = self.k
        chunk_bytes = self.get(36, "I")
        for j in range(min(k, 32)):
            chunk_bytes *= self.get(48 + 8 * j, "q")
        for i in (0, 1):
            block = self.block(i)
            size = chunk_bytes
            for j in range(min(k, 32)):
                size *= self.get(block + 88 + 16 * k + 8 * j, "q")
            self.put(block + 24, "Q", size)
            if i == self.newest():
                self.xta = size

    def mend(self) -> None:
        """Correct the checksums, except those of kinds in `unmended`."""
        kinds = {"header", "superblocks", "records", "heads", "attrs"} - self.unmended
        k, uuid = min(self.k, 32), bytes(self.xmd[16:32])
        end = self.header_end
        if "header" in kinds and end + 4 <= len(self.xmd):
            self.put(end, "I", crc32c(bytes(self.xmd[:end])))
        if self.fixed > len(self.xmd):
            return
        if "heads" in kinds:
            for at in self.extents():
                self.put(at + 8, "I", crc32c(uuid + bytes(self.xmd[at : at + 8])))
        wanted = max(self.get(self.block(i) + 16, "Q") for i in range(5))
        for n in range(min(wanted, 200) if "records" in kinds else 0):
            at = self.record(n)
            self.put(at, "I", crc32c(uuid + bytes(self.xmd[at + 4 : at + 8 + 8 * k])))
        for i in range(5):
            block = self.block(i)
            if not any(self.xmd[block : block + 88]):
                continue
            at, length = self.get(block + 32, "Q"), self.get(block + 40, "I")
            if "attrs" in kinds and at + length <= len(self.xmd):
                self.put(block + 60, "I", crc32c(bytes(self.xmd[at : at + length])))
            if "superblocks" in kinds:
                self.put(block, "I", crc32c(bytes(self.xmd[block + 4 : block + 88 + 24 * k])))
        if self.together:
            self.mend_blocks()

    def mend_blocks(self) -> None:
        """Correct the checksums of the blocks behind the superblocks."""
        end = 88 + 24 * min(self.k, 32)
        for number in (0, 1):
            if self.optional(number) is not None:
                self.mend_entry(number)
        for i in PENDING if self.optional(0) is not None else ():
            at = self.block(i)
            block = self.xmd[at : at + 4096]
            if any(block):
                self.put(at, "I", crc32c(bytes(block[4:end])))
                block = self.xmd[at : at + 4096]
                length = int.from_bytes(block[end + 4 : end + 8], "little")
                covered = block[:end] + block[end + 4 : end + 40 + length]
                self.put(at + end, "I", crc32c(bytes(covered)))
        at = self.optional(0)
        if at is not None:
            block = self.xmd[at : at + 4096]
            length = int.from_bytes(block[4:8], "little")
            self.put(at, "I", crc32c(bytes(block[4 : 8 + length])))
        at = self.block(SUMS)
        block = self.xmd[at : at + 1024]
        length = 16 + 8 * int.from_bytes(block[8:12], "little")
        self.put(at, "I", crc32c(bytes(self.xmd[16:32]) + bytes(block[4:length])))

    def store(self, path: Path) -> None:
        """Write the pair."""
        with open(f"{path}.xta", "wb") as file:
            size = min(max(self.xta, 0), LONGEST_FILE)
            file.write(self.data[:size])
            with contextlib.suppress(OSError):  # the file system's limit may be lower
                file.truncate(size)
            if self.sealed:
                file.seek(0, os.SEEK_END)
                file.write(b"\x89XTA sealed:\r\n\x1a\n" + self.xmd[16:32])
        Path(f"{path}.xmd").write_bytes(self.xmd)


# -- changes that bytes choose -------------------------------------------------------------------


def nested(dice: Dice) -> str:
    depth = dice.pick([2, 40, 300, 990, 1100, 5000, 100_000])
    opening, inner, closing = dice.pick(
        [
            ("[", "", "]"),
            ('{"a":', "1", "}"),
            ("[", '"<u1"', ",[1]]"),
            ("[", "", ""),
            (
                '{"fields":[{"name":"a","offset":0,"type":',
                '"|u1"',
                '}],"itemsize":1,"aligned":false}',
            ),
        ]
    )
    return opening * depth + inner + closing * depth


def random_json(dice: Dice) -> bytes:
    """Return a text that may be JSON."""
    kind = dice.below(6)
    if kind == 0:
        return nested(dice).encode()
    if kind == 1:
        return dice.take(dice.below(40))
    if kind == 2:
        values = [
            "NaN",
            "-Infinity",
            "1e999",
            "9" * 5000,
            "null",
            "[]",
            "1",
            '"x"',
            '{"a":1,"a":2}',
        ]
        return dice.pick(values).encode()
    if kind == 3:
        value = dice.pick(["[" * 400 + "]" * 400, '"\\ud800"', "1e308", "-0", '["y","x"]', "[1]"])
        return f'{{"dims":{value},"n":{dice.number()}}}'.encode()
    if kind == 4:
        return b'{"a":"' + dice.take(dice.below(20)) + b'"}'
    return json.dumps({"a" * dice.below(300): [dice.number()] * dice.below(50)}).encode()


def random_type(dice: Dice, depth: int = 0):
    """Return a description of a data type, valid or not."""
    kind = dice.below(8) if depth < 4 else 0
    if kind < 3:
        order, letter = dice.pick("<>|="), dice.pick("biufcSUVMmOTaGp")
        unit = dice.pick(["", "", "", "[ms]", "[25s]", "[0D]", "[99999999999Y]", "[s/7]", "[x]"])
        size = dice.pick([1, 2, 4, 8, 16, 0, 3, 2**31 - 1, 2**31, 2**40])
        return f"{order}{letter}{size}{unit}"
    if kind == 3:
        extents = [dice.number() for _ in range(dice.pick([1, 2, 0, 3, 33, 65]))]
        return [random_type(dice, depth + 1), extents]
    if kind == 4:
        names = ["bfloat16", "O", "float8_e4m3fn", "finfo", "int64", "__doc__", "", None, {"a": 1}]
        return {"extension": dice.pick(names), "itemsize": dice.number()}
    if kind == 5:
        return dice.pick(
            ["i4,i4", "O", "float", "", None, 7, [], {}, ["<u1"], "int", "(3,)i4", "T"]
        )
    fields = [
        {
            "name": dice.pick(["a", "b", "c", "", "\ud800", 3, None]),
            "type": random_type(dice, depth + 1),
            "offset": dice.pick([0, 1, 4, 8, -1, 2**31, 2**70, 1.5, None]),
            **({"title": dice.pick(["t", "a", None, [1], 3])} if dice.flag() else {}),
        }
        for _ in range(dice.below(4))
    ]
    found = {
        "fields": fields,
        "itemsize": dice.pick([8, 4, 12, 64, 0, 2**31, -1]),
        "aligned": False,
    }
    if dice.flag():
        found["aligned"] = True
    if dice.below(4) == 1:
        found["base"] = random_type(dice, depth + 1)
    return found


def itemsize_of(description: bytes) -> int | None:
    """Return the bytes of an element, if NumPy knows the type by this text."""
    try:
        told = json.loads(description)
        return told["itemsize"] if isinstance(told, dict) else np.dtype(told).itemsize
    except (TypeError, ValueError, KeyError, RecursionError, SyntaxError, DeprecationWarning):
        return None


def change(image: Image, dice: Dice) -> None:
    k = min(image.k, 32)
    kind = dice.below(14)
    newest = image.newest()
    slot = dice.pick([newest, newest, 0, 1, 2, 3, 4])
    if kind == 0:
        at, width = dice.pick(list(HEADER.values()))
        image.put(at, width, dice.number())
    elif kind == 1 and k:
        image.put(48 + 8 * dice.below(k), "q", dice.number())
    elif kind == 2:
        text = random_json(dice) if dice.below(4) == 1 else json.dumps(random_type(dice)).encode()
        size = itemsize_of(text)
        image.set_description(text, size if isinstance(size, int) and 0 <= size < 4096 else None)
    elif kind == 3:
        at, width = dice.pick(list(SUPERBLOCK.values()))
        at += image.block(slot)
        image.put(at, width, dice.number() + (image.get(at, width) if dice.flag() else 0))
    elif kind == 4 and k:
        at = image.block(slot) + 88 + 8 * dice.below(3 * k)
        image.put(at, "q", dice.number() + (image.get(at, "q") if dice.flag() else 0))
    elif kind == 5 and k:
        at = image.record(dice.below(max(1, min(image.get(image.block(slot) + 16, "Q"), 200))))
        place, width = dice.pick([(4, "B"), (5, "B"), (6, "H"), (8 + 8 * dice.below(k), "q")])
        image.put(at + place, width, dice.number())
    elif kind == 6:
        extents = image.extents()
        places = [*extents, 0, image.size, image.block(slot), image.fixed, len(image.xmd)]
        image.put(dice.pick(extents), "Q", dice.pick(places) + dice.pick([0, 0, 8, -8]))
    elif kind == 7:
        image.set_attrs(random_json(dice))
    elif kind == 8:
        places = [image.size, *image.extents(), image.get(image.block(slot) + 32, "Q"), 0]
        at = dice.pick([32, 48, 64])
        image.put(image.block(slot) + at, "Q", dice.pick(places) + dice.pick([0, 16, 100, -1]))
    elif kind == 9:
        steps = [
            (dice.below(8), dice.below(2), abs(dice.number())) for _ in range(dice.below(8) + 1)
        ]
        image.set_history(steps)
    elif kind == 10:
        image.write(dice.below(1 << 16) % max(1, len(image.xmd)), dice.take(1 + dice.below(8)))
    elif kind == 11:
        length = dice.number() % (1 << 17)
        image.xmd = image.xmd[:length].ljust(length if dice.flag() else 0, b"\0")
    elif kind == 12:
        if dice.flag():
            image.sealed = not image.sealed
        else:
            image.xta += dice.pick([1, -1, 4096, -4096, 1 << 44])
    elif kind == 13:
        other = dice.below(5)
        piece = image.xmd[image.block(slot) : image.block(slot) + 88 + 24 * k]
        image.write(image.block(other), bytes(piece))


def path_to(dice: Dice) -> bytes:
    """Return a path to another array, as the metadata store it, or an invalid one."""
    paths = [b"group", b"pair", b"member", b"none", b"", b"a\0b", b"x" * 300, b"\xff", b"../" * 90]
    return dice.take(dice.below(8)) if dice.below(8) == 1 else dice.pick(paths)


def change_together(image: Image, dice: Dice) -> None:
    """Make one change to group or writer blocks, or to checksums."""
    k = min(image.k, 32)
    kind = dice.below(7)
    newest = image.block(image.newest())
    at, end = image.block(dice.pick(PENDING)), 88 + 24 * k
    if kind == 0:  # a pending state
        image.write(at, bytes(image.xmd[newest : newest + end]))
        image.put(at + 4, "I", 0)
        image.put(at + 8, "Q", image.get(newest + 8, "Q") + dice.pick([1, 1, 2, 0, 2**61]))
    elif kind == 1:  # the place of its decision
        path = path_to(dice)
        image.put(at + end + 4, "I", len(path) if dice.flag() else dice.number())
        image.write(at + end + 40, path)
    elif kind == 2:  # one of its fields
        place, width = dice.pick([*SUPERBLOCK.values(), (88 + 8 * dice.below(3 * k + 1), "q")])
        image.put(at + place, width, dice.number())
    elif kind == 3:
        at, path = image.block(MEMBERS), path_to(dice)
        first = bytes(image.xmd[at + 8 : at + 24]) if dice.flag() else dice.take(16).ljust(16)
        length = len(path) if dice.flag() else dice.number() % 2**32
        entry = first + struct.pack("<I", length) + path
        size = len(entry) if dice.flag() else dice.number() % 2**32
        image.write(at + 4, struct.pack("<I", size) + entry * dice.pick([1, 2]))
    elif kind == 4:
        image.put(image.block(SUMS) + dice.pick([4, 8]), "I", dice.number())
    elif kind == 5:
        places = [0, image.size, image.log, newest + 32, len(image.xmd), dice.number()]
        image.put(image.block(SUMS) + 16 + 8 * dice.below(3), "Q", dice.pick(places))
    elif kind == 6:  # the place of an optional block
        places = [0, image.size, image.log, newest, len(image.xmd), dice.number()]
        image.put(image.entry(dice.below(2)) + 8, "Q", dice.pick(places))


def changed(pairs: Seeds, dice: Dice) -> Image:
    """Return the pair that bytes choose and change."""
    image = Image.of(dice.pick(pairs.alone))
    final = dice.below(256)
    if final & 96 == 96:
        image = Image.of(dice.pick(pairs.together))
        image.together = True
    while not dice.empty and len(dice.data) - dice.at > 16:
        if image.together and dice.below(3):
            change_together(image, dice)
        else:
            change(image, dice)
    if len(image.xmd) >= 48:
        if final & 1 == 0:
            image.agree()
        if final & 6 == 6:
            image.unmended = {dice.pick(["header", "superblocks", "records", "heads", "attrs"])}
        if final & 24 != 24:
            image.mend()
    return image


# -- use of pairs --------------------------------------------------------------------------------


def attack(pairs: Seeds, data: bytes, folder: Path) -> str:
    """Make the pair that bytes describe, use it, and say how far that went."""
    # The last bytes choose the use, so that pair and use vary independently.
    dice = Dice(data[-16:])
    engine = dice.pick(["mmap", "pread"])
    path = folder / "pair"
    image = changed(pairs, Dice(data))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", xa.RecoveryWarning)
        if dice.below(4) == 1:
            return refresh(Image.of(dice.pick(pairs.alone)), image, path, engine, dice)
        image.store(path)
        inspect(path)
        try:
            with xa.open(path, engine=engine) as array:
                look(array, dice)
                shape = array.shape
        except xa.ExtArrayError:
            shape = None
        if shape is not None and image.together and dice.flag():
            meet_others(path, engine, dice)
            return "met others"
        if shape is not None and dice.flag():
            change_array(path, engine, dice)
            return "changed"
    return "refused" if shape is None else "read"


def refresh(before: Image, after: Image, path: Path, engine: str, dice: Dice) -> str:
    """Present the changed pair as a writer's work since the array was opened."""
    before.store(path)
    after.write(16, bytes(before.xmd[16:32]))
    after.mend()
    with xa.open(path, engine=engine) as array:
        shape, grid = array.shape, array.grid
        # Change the files in place: another file would be another array.
        with contextlib.suppress(OSError):
            os.truncate(f"{path}.xta", max(before.xta, min(max(after.xta, 0), LONGEST_FILE)))
        descriptor = os.open(f"{path}.xmd", os.O_RDWR)
        os.pwrite(descriptor, bytes(after.xmd), 0)
        os.close(descriptor)
        try:
            array.refresh()
        except xa.ExtArrayError:
            assert (array.shape, array.grid, array.axial.grid) == (shape, grid, grid)
            # If the count of cuts is another one, reads ask the metadata which elements are left.
            with contextlib.suppress(xa.FormatError):
                look(array, dice)
            return "refused"
        look(array, dice)
        return "read"


def inspect(path: Path) -> None:
    """Require that `check` reports whatever is wrong, without an error."""
    report = xa.check(path, data=os.path.getsize(f"{path}.xta") <= LARGEST_TO_FILL)
    assert len(str(report)) > 0


def look(array: xa.ExtArray, dice: Dice) -> None:
    """Read a little, in all ways."""
    shape, k = array.shape, array.ndim
    assert array.axial.grid == array.grid
    grid = [n * c for n, c in zip(array.grid, array.chunks, strict=True)]
    assert all(0 <= n <= g for n, g in zip(shape, grid, strict=True))
    info = array.info()
    assert (info["shape"], len(str(info)) > 0, len(repr(array)) > 0) == (shape, True, True)
    assert isinstance(dict(array.attrs), dict)
    assert array.dims is None or len(array.dims) == k
    if array.axial.segments < 1000:
        for j in range(k):
            starts, addresses, coefficients = array.axial.records(j)
            assert len(starts) == len(addresses) == len(coefficients)
    size = array.axial.size
    for address in {0, size // 2, size - 1}:
        if 0 <= address < size:
            assert array.axial.address(array.axial.index(address)) == address
    for chunk in itertools.islice(itertools.product(*({0, n - 1} for n in array.grid)), 8):
        if size:
            address = array.axial.address(chunk)
            assert 0 <= address < size
            assert array.axial.index(address) == chunk
    if array.itemsize > MOST or not all(shape):
        assert array.read((slice(0, 0),) * k).size <= 1
        return
    for corner in ((0,) * k, (-1,) * k, tuple(n // 2 for n in shape)):
        array[corner]
    box = []
    room = MOST // array.itemsize
    for n in shape:
        extent = min(n, room, 1 + dice.below(5))
        start = dice.pick([0, n - extent, (n - extent) // 2])
        box.append(slice(start, start + extent, dice.pick([1, 2, n])))
        room //= max(1, extent)
    got = array[tuple(box)]
    assert got.shape == tuple(len(range(*s.indices(n))) for s, n in zip(box, shape, strict=True))
    array[tuple([s.start, s.start] for s in box)] if k else array[...]
    if math.prod(shape[1:]) * array.itemsize <= MOST:
        for row, _ in zip(array if k else [], range(3), strict=False):
            assert np.shape(row) == shape[1:]
    if array.chunk_bytes <= MOST:
        with contextlib.suppress(xa.ReserveError):  # the file exceeds the address space
            assert array.chunk(tuple(n - 1 for n in array.grid)).nbytes <= array.chunk_bytes


def change_array(path: Path, engine: str, dice: Dice) -> None:
    """Grow, cut, write, and set attributes; finished changes must persist."""
    shape = attrs = None
    with limit_files(path), contextlib.suppress(xa.ExtArrayError), contextlib.ExitStack() as stack:
        array = stack.enter_context(xa.open(path, "r+", engine=engine))
        shape, attrs = array.shape, dict(array.attrs)
        small = os.path.getsize(f"{path}.xta") <= LARGEST_TO_FILL
        for _ in range(3):
            j = dice.below(max(1, array.ndim))
            side = dice.pick(["end", "start"])
            few = math.prod(array.shape[:j] + array.shape[j + 1 :]) * array.itemsize <= MOST // 4
            kind = dice.below(6)
            with contextlib.suppress(xa.ExtArrayError):
                if kind == 0 and array.ndim:
                    array.extend(j, dice.pick([1, 3, 2**40, 2**62] if small else [2**62]), side)
                elif kind == 1 and array.ndim and few and small:
                    extent = 1 + dice.below(3)
                    data = np.zeros((*array.shape[:j], extent, *array.shape[j + 1 :]), array.dtype)
                    array.append(data, j, side)
                elif kind == 2 and array.ndim and small:
                    array.shrink(j, min(array.shape[j], 1 + dice.below(3)), side)
                elif kind == 3:
                    array.attrs["new"] = dice.pick(["x", "y" * 5000, [1] * 40])
                elif kind == 4 and all(array.shape) and small:
                    array[(0,) * array.ndim] = np.zeros((), array.dtype)
                else:
                    array.flush()
            shape, attrs = array.shape, dict(array.attrs)
        look(array, dice)
        shape, attrs = array.shape, dict(array.attrs)
    if shape is not None:
        with xa.open(path, engine=engine) as array:
            assert (array.shape, dict(array.attrs)) == (shape, attrs)


def meet_others(path: Path, engine: str, dice: Dice) -> None:
    """Commit with other arrays, share with other writers, or make way for another array."""
    small = os.path.getsize(f"{path}.xta") <= LARGEST_TO_FILL
    kind = dice.below(4)
    with limit_files(path), contextlib.suppress(xa.ExtArrayError), contextlib.ExitStack() as stack:
        if kind == 0:
            xa.create(path, (1,), overwrite=True).close()
        elif kind == 1:
            readers = [stack.enter_context(xa.open(path, engine=engine)) for _ in range(2)]
            xa.refresh(readers)
        elif kind == 2:
            array = stack.enter_context(xa.open(path, "r+", engine=engine))
            beside = xa.create(path.with_name("beside"), (1,), overwrite=True)
            with stack.enter_context(beside), xa.commit([array, beside]):
                array.attrs["new"] = beside.attrs["new"] = 1
        else:
            one, two = (
                stack.enter_context(xa.open(path, "r+", share=True, engine=engine))
                for _ in range(2)
            )
            if dice.flag():
                spoil_writers(path, dice)
            for array in (one, two, one):
                with contextlib.suppress(xa.ExtArrayError):
                    array.attrs["new"] = 1
                    if array.ndim and small:
                        array.extend(0, 1)
                    few = math.prod(array.shape[1:]) * array.itemsize <= MOST // 4
                    if array.ndim and small and few:
                        array.append(np.zeros((1, *array.shape[1:]), array.dtype))


def spoil_writers(path: Path, dice: Dice) -> None:
    """Change the table of writers while there are some."""
    with open(f"{path}.xmd", "r+b", buffering=0) as file:
        table = Image(bytearray(file.read())).block(WRITERS)
        for _ in range(1 + dice.below(3)):
            at, kind = dice.pick([*WRITER.values()])
            number = dice.number() % (1 << BITS[kind])
            file.seek(table + 64 * dice.below(5) + at)
            file.write(number.to_bytes(BITS[kind] // 8, "little"))


@contextlib.contextmanager
def limit_files(path: Path):
    """Let files grow only a little, as growth takes real space."""
    sizes = [os.path.getsize(f"{path}{suffix}") for suffix in (".xmd", ".xta")]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + ROOM_TO_GROW, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limit_memory(spare: int = SPARE_MEMORY) -> None:
    """Limit the further memory of this process, so that excess raises MemoryError."""
    with open("/proc/self/status") as status:
        now = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(
        resource.RLIMIT_DATA, (now + spare, resource.getrlimit(resource.RLIMIT_DATA)[1])
    )
