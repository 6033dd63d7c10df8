"""Packed files as several programs make them, with some fields changed."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
from dice import Dice

import extarray as xa

__all__ = ["TEXT", "changed", "images"]

ENTRY, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"
#: Offsets and layouts of the fields of an entry, a local header and the end record.
FIELDS = {
    ENTRY: [(4, "H"), (8, "H"), (10, "H"), (16, "I"), (20, "I"), (24, "I"), (28, "H"), (30, "H")]
    + [(32, "H"), (34, "H"), (38, "I"), (42, "I"), (12, "I")],
    LOCAL: [(6, "H"), (8, "H"), (14, "I"), (18, "I"), (22, "I"), (26, "H"), (28, "H"), (10, "I")],
    END: [(4, "H"), (6, "H"), (8, "H"), (10, "H"), (12, "I"), (16, "I"), (20, "H")],
}
NUMBERS = [0, 1, 2, 4, 8, 20, 24, 30, 45, 2048, 2049, 0x314, 0x814, 2**15, 2**16 - 1]
NUMBERS += [0o100644 << 16, 0o120777 << 16, 0o040755 << 16, 2**31, 2**32 - 1]
#: Names of the same length as the one that they replace.
NAMES = {
    5: [b"b.xmd", b"b.xta", b"/.xmd", b"\\.xta", b"\0.xmd", b"\xe9.xmd", b"x.txt", b"a/../"],
    7: [b"n/x.xmd", b"a.xmd/x", b"../.xmd", b"..//a/b", b"n/.xmd\0", b"./a.xmd", b"a.xta/x"],
    12: [b"dataset.jsom", b"n/a/bb/x.xmd", b"dataset.xmd/"],
}  # fmt: skip


def zipped(files, **options):
    """Return a ZIP file made by Python, from names and bytes, with a compression for each."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name, data in files:
            about = zipfile.ZipInfo(name)
            about.compress_type = zipfile.ZIP_STORED if data != TEXT else zipfile.ZIP_DEFLATED
            with target.open(about, "w", **options) as member:
                member.write(data)
    return file.getvalue()


TEXT = b"what is in it " * 20


def with_large_end(image):
    """Give a packed file the end record of files beyond 4 GiB."""
    at = image.index(END)
    _, _, n, _, size, start, _ = struct.unpack("<4xHHHHIIH", image[at:])
    large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n, n, size, start)
    end = image[at : at + 8] + b"\xff" * 12 + bytes(2)
    return image[:at] + large + struct.pack("<4sIQI", b"PK\6\7", 0, at, 1) + end


def with_large_entries(image, files):
    """Rewrite the entries with ZIP64 fields that they do not need."""
    entries, old = [], zipfile.ZipFile(io.BytesIO(image))
    for about in old.infolist():
        raw, size = about.filename.encode(), about.file_size
        extra = struct.pack("<HHQQQ", 1, 24, size, size, about.header_offset)
        extra = struct.pack("<HH3s", 0x7777, 3, b"abc") + extra
        entries.append(
            struct.pack(
                "<4sHHHHHHIIIHHHHHII", ENTRY, 45, 45, 0, 0, 0, 33, about.CRC, 2**32 - 1, 2**32 - 1,
                len(raw), len(extra), 2, 0, 0, 0, 2**32 - 1,
            ) + raw + extra + b"!!"
        )  # fmt: skip
    directory, start = b"".join(entries), old.start_dir
    end = struct.pack("<4sHHHHIIH", END, 0, 0, len(files), len(files), len(directory), start, 0)
    return image[:start] + directory + end


def images(folder: Path) -> list[bytes]:
    """Return packed files as several programs make them."""
    with xa.create(folder / "a", (3, 4), "<i2", chunks=(2, 2), attrs={"n": [1, (2, 3)]}) as a:
        a[...] = np.arange(12).reshape(3, 4)
        a.extend(1, 3)
        a.extend(0, 1, "start")
        xa.pack(a, folder / "a.xap")
        with xa.open_group(folder / "g", "w") as g:
            g["a"], g["n/b"] = a, [1.5, 2]
            g.attrs["title"] = "of all"
            g.create_group("n/e")
            g.create_group("m").attrs["n"] = None
            xa.pack(g, folder / "g.xap")
    found = [(folder / name).read_bytes() for name in ("a.xap", "g.xap")]
    files = [(n, (folder / "g" / n).read_bytes()) for n in ("a.xta", "a.xmd", "n/b.xmd", "n/b.xta")]
    foreign = [("README", TEXT), ("../x", TEXT), ("a.txt", b""), (".xmd", b""), ("a.xmd/x", b"")]
    deep = [(f"a/{name}", data) for name, data in files]  # below the array a
    found += [zipped(files[:2] + foreign), zipped(files + [("n/dataset.json", b"{}")])]
    found += [zipped(files[1::-1] + deep, force_zip64=True), zipped(foreign)]
    bom = ("dataset.json", b'\xef\xbb\xbf{"attrs": {"a": 1}, "b": 2}')
    found += [zipped([bom, *files[2:]]), with_large_end(found[1])]
    found += [with_large_entries(zipped(files), files), zipped([*files[:2], ("e/", b"")])]
    return found


def changed(image: bytes, dice: Dice) -> bytes:
    """Return a packed file with some of its fields replaced."""
    image = bytearray(image)
    for _ in range(1 + dice.below(3)):
        kind = dice.below(8)
        if kind < 4:
            magic = dice.pick([ENTRY, ENTRY, LOCAL, LOCAL, END])
            places = [at for at in range(len(image)) if image.startswith(magic, at)]
            if not places:
                continue
            at = dice.pick(places)
            offset, layout = dice.pick(FIELDS[magic])
            if at + offset + struct.calcsize(layout) > len(image):
                continue
            (old,) = struct.unpack_from(f"<{layout}", image, at + offset)
            new = dice.pick([old + 1, old - 1, old ^ 1 << dice.below(32), dice.pick(NUMBERS)])
            new %= 1 << 8 * struct.calcsize(layout)
            struct.pack_into(f"<{layout}", image, at + offset, new)
        elif kind == 4:  # a name, in both places
            old = dice.pick([b"a.xmd", b"a.xta", b"n/b.xmd", b"n/b.xta", b"dataset.json"])
            new = dice.pick(NAMES[len(old)])
            image[:] = image.replace(old, new, dice.pick([-1, 1, 2]))
        elif kind == 5:  # a byte outside the chunks
            places = [at for at in range(len(image)) if image.startswith((ENTRY, LOCAL, END), at)]
            at = dice.pick(places or [0]) + dice.below(90)
            if at < len(image):
                image[at] = dice.below(256)
        elif kind == 6:
            image[dice.pick([len(image), len(image) - 1, len(image) - 22]) :] = dice.take(1)
        else:
            at = dice.below(len(image))
            image[at] ^= 1 << dice.below(8)
    return bytes(image)
