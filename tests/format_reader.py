"""A second reader of the file format, written from docs/format.md alone.

It shares no code with the package, so that page, package and this module check one another.  It is
slow and reads `.xmd` as a whole; its functions follow the page.  Every refusal is a ValueError.
"""

import json
import os
import re
import struct
import time
from itertools import pairwise, product
from math import prod
from types import SimpleNamespace

import numpy as np

TYPE_STRING = re.compile(r"[<>|][biufcSUVMm][0-9]+(\[[0-9A-Za-z/]+\])?")


def crc32c(data):
    """CRC-32C (Castagnoli), by table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _reduced(value):
    """One entry of the table: eight steps of the polynomial, reflected."""
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = [_reduced(byte) for byte in range(256)]


def need(condition, message):
    """Refuse the files, unless the condition holds."""
    if not condition:
        raise ValueError(message)


def cut(data, start, count, what):
    """Bytes `start` … `start + count - 1` of the metadata."""
    need(start + count <= len(data), f"the metadata end within the {what}")
    return data[start : start + count]


def parse_dtype(told):
    """The NumPy type of a description."""
    if isinstance(told, str) and TYPE_STRING.fullmatch(told):
        return np.dtype(told)
    if isinstance(told, list) and len(told) == 2:
        return np.dtype((parse_dtype(told[0]), tuple(told[1])))
    need(isinstance(told, dict) and "fields" in told, f"a data type not known here: {told!r}")
    fields = told["fields"]
    record = {
        "names": [field["name"] for field in fields],
        "formats": [parse_dtype(field["type"]) for field in fields],
        "offsets": [field["offset"] for field in fields],
        "titles": [field.get("title") for field in fields],
        "itemsize": told["itemsize"],
    }
    return np.dtype(record, align=told["aligned"])


def parse_header(data):
    """What never changes; the version is looked at before anything behind it."""
    need(data[:8] == b"\x89XTA\r\n\x1a\n", "not the metadata of an array: wrong magic")
    (major,) = struct.unpack("<H", cut(data, 8, 2, "header"))
    need(major <= 1, f"major version {major} is newer than 1, the one known here")
    size, uuid, k, order, flags, itemsize, dtype_bytes, _zero = struct.unpack(
        "<I16sBBHIII", cut(data, 12, 36, "header")
    )
    end = 48 + 8 * k + dtype_bytes + itemsize
    checksum = struct.unpack("<I", cut(data, end, 4, "header"))[0]
    need(crc32c(data[:end]) == checksum, "the header is damaged: its checksum does not fit")
    chunk = struct.unpack(f"<{k}q", data[48 : 48 + 8 * k])
    dtype = parse_dtype(json.loads(data[48 + 8 * k : end - itemsize].decode("utf-8")))
    need(size % 4096 == 0 and end + 4 <= size - 72, f"header_bytes {size} is not possible")
    need(k <= 32 and min(chunk, default=1) > 0, f"the chunk shape {chunk} is not possible")
    need(order in b"CFZH", f"the order {order} is not known")
    need(dtype.itemsize == itemsize, f"the itemsize {itemsize} is not that of {dtype}")
    fill = np.frombuffer(data[end - itemsize : end], dtype) if itemsize else None
    return SimpleNamespace(
        size=size, uuid=uuid, order=chr(order), dtype=dtype, chunk=chunk, fill=fill,
        chunk_bytes=itemsize * prod(chunk), sums=bool(flags & 2),
    )  # fmt: skip


def parse_records(data, header, count):
    """The first `count` records of the growth log, and the extents: (offset, bytes)."""
    k, start, room, records, extents = len(header.chunk), 2 * header.size + 40960, 64, [], []
    width = 8 + 8 * k
    while True:
        extents.append((start, 16 + room * width))
        for i in range(min(room, count - len(records))):
            record = cut(data, start + 16 + i * width, width, "growth log")
            checksum, side, axis, _zero, *grid = struct.unpack(f"<IBBH{k}q", record)
            damaged = crc32c(header.uuid + record[4:]) != checksum
            need(not damaged, f"record {len(records)} of the growth log is damaged")
            need(side < 2 and axis < max(k, 1), f"growth of side {side}, axis {axis}, not known")
            records.append((axis, side, grid))
        if len(records) == count:
            return records, extents
        head = cut(data, start, 12, "growth log")
        following, checksum = struct.unpack("<QI", head)
        fits = crc32c(header.uuid + head[:8]) == checksum and following > 0
        need(fits, "an extent of the growth log is damaged")
        start, room = following, 2 * room


def with_starts(records, grid):
    """Records with what had been added at the starts before them, and what has been by now."""
    added, found = [0] * len(grid), []
    grids = [before for _, _, before in records[1:]] + [grid]
    for (axis, side, before), after in zip(records, grids, strict=True):
        found.append((axis, side, before, list(added)))
        if side == 1:
            added[axis] += after[axis] - before[axis]
    return found, added


def parse_state(data, header, i):
    """The state that superblock `i` tells, if it is whole; 7 and 8 are the pending ones."""
    k = len(header.chunk)
    block = cut(data, header.size + 4096 * i, 88 + 24 * k, "superblocks")
    checksum, flags, sequence, segments = struct.unpack("<IIQQ", block[:24])
    data_bytes, at, length, room = struct.unpack("<QQII", block[24:48])
    spare, spare_room, _crc, end = struct.unpack("<QIIQ", block[48:72])
    need(crc32c(block[4:]) == checksum, f"superblock {i} is damaged")
    bounds, offset, grid = np.frombuffer(block, "<i8", 3 * k, 88).reshape(3, k).tolist()
    consistent = segments > 0 and prod(grid) * header.chunk_bytes == data_bytes < 2**63 - 4096
    for n, b, g, c in zip(bounds, offset, grid, header.chunk, strict=True):
        consistent &= n >= 0 and b >= 0 and b + n <= g * c < 2**63 - 4096
    consistent &= sequence <= 2**62 and end <= 2**62 and length <= room
    need(consistent, f"superblock {i} contradicts itself")
    text = cut(data, at, length, "attributes")
    need(crc32c(text) == struct.unpack("<I", block[60:64])[0], "the attributes are damaged")
    records, places = parse_records(data, header, segments)
    places += [(at, room)] + ([(spare, spare_room)] if spare or spare_room else [])
    for (start, size), following in pairwise(
        [(0, 2 * header.size + 40960), *sorted(places), (end, 0)]
    ):
        need(start + size <= following[0], f"superblock {i} has two things in one place")
    records, starts = with_starts(records, grid)
    return SimpleNamespace(
        sequence=sequence, sealed=flags & 1, unclean=flags & 2, data_bytes=data_bytes,
        bounds=bounds, offset=offset, grid=grid, starts=starts, records=records,
        group=block[72:88], attrs=json.loads(text.decode("utf-8")),
    )  # fmt: skip


def newest_state(data, header):
    """The whole state with the greatest sequence number, of the superblocks 0 to 4."""
    states, faults = [], []
    for i in range(5):
        try:
            states.append(parse_state(data, header, i))
        except ValueError as fault:
            faults.append(str(fault))
    need(states, "the metadata are damaged: " + "; ".join(faults))
    return max(states, key=lambda state: state.sequence)


def principal_name(path, uuid):
    """Name of the principal array, which its maker may not have come to give it."""
    longer = f"{os.path.realpath(f'{path}.xta')}.{uuid.hex()[:12]}.new"
    return longer if os.path.exists(longer) else f"{path}.xta"


def pending_states(data, header, folder):
    """Pending states of `.xmd` for which the coordinator, as it is now, has decided."""
    for i in (7, 8):
        start, size = header.size + 4096 * i, 88 + 24 * len(header.chunk)
        try:
            state = parse_state(data, header, i)
            block = cut(data, start, 4096, "pending states")
            checksum, length = struct.unpack("<II", block[size : size + 8])
            covered = block[:size] + block[size + 4 : size + 40 + length]
            need(crc32c(covered) == checksum, f"pending state {i - 7} is damaged")
            path = os.path.join(folder, os.fsdecode(block[size + 40 : size + 40 + length]))
            with open(f"{path}.xmd", "rb") as xmd:
                other = xmd.read()
            coordinator = parse_header(other)
            need(coordinator.uuid == block[size + 24 : size + 40], "another array is there")
            if newest_state(other, coordinator).group == block[size + 8 : size + 24]:
                yield state
        except (ValueError, FileNotFoundError):
            pass


def opened(path):
    """Header, state and principal array of a pair, read again if a writer came in between."""
    for attempt in range(3):
        with open(f"{path}.xmd", "rb") as xmd:
            data = xmd.read()
            header = parse_header(data)
            folder = os.path.dirname(os.path.realpath(f"{path}.xmd"))
            pending = list(pending_states(data, header, folder))
        name = principal_name(path, header.uuid)
        with open(f"{path}.xmd", "rb") as xmd, open(name, "rb") as xta:
            data, principal = xmd.read(), xta.read()
        try:
            header = parse_header(data)
            states = [newest_state(data, header), *pending]
            state = max(states, key=lambda state: state.sequence)
            seal = b"\x89XTA sealed:\r\n\x1a\n" + header.uuid
            size = len(principal.removesuffix(seal))
            short = size < state.data_bytes
            need(not short, f"the .xta is too short: {size} bytes of {state.data_bytes}")
            partners = not state.sealed or principal[state.data_bytes :] == seal
            need(partners, "the two files do not belong together: no uuid at the end of the .xta")
            return header, state, principal[: state.data_bytes]
        except ValueError:
            if attempt == 2:
                raise
            time.sleep(0.001)
    raise AssertionError


def first_index(record):
    """N*: the index, on its own axis, of the first chunks of a segment."""
    axis, side, grid, added = record
    return -1 - added[axis] if side == 1 else grid[axis] - added[axis]


def owns(record, index):
    """Whether a segment, or an earlier one of its side, introduced an index on its own axis."""
    axis, side, *_ = record
    first = first_index(record)
    return index[axis] <= first if side == 1 else index[axis] >= first


def chunk_address(records, index):
    """The address of a chunk, in the last segment that owns one of its indices."""
    if not index:
        return 0
    axis, _, grid, added = record = next(r for r in reversed(records) if owns(r, index))
    steps = abs(index[axis] - first_index(record))
    address = prod(grid) + steps * prod(grid[:axis] + grid[axis + 1 :])
    for j, i in enumerate(index):
        if j != axis:
            address += (i + added[j]) * prod(n for r, n in enumerate(grid) if r > j and r != axis)
    return address


def wrong_sums(path):
    """The addresses of the chunks whose checksums do not fit, and whether sums are in doubt."""
    header, _state, principal = opened(path)
    need(header.sums, "the array has no checksums of chunks")
    with open(f"{path}.xmd", "rb") as xmd:
        data = xmd.read()
    at = header.size + 36864
    checksum, flags, n = struct.unpack("<III", cut(data, at, 12, "table of sums"))
    block = cut(data, at, 16 + 8 * n, "table of sums")
    need(crc32c(header.uuid + block[4:]) == checksum, "the block of the sums is damaged")
    table = b"".join(
        cut(data, offset, 4096 * 2**e, "table of sums")
        for e, offset in enumerate(struct.unpack(f"<{n}Q", block[16:]))
    )
    empty = crc32c(header.fill.tobytes() * prod(header.chunk))
    wrong = []
    for address in range(len(principal) // header.chunk_bytes):
        (told,) = struct.unpack("<I", table[4 * address : 4 * address + 4] or bytes(4))
        chunk = principal[address * header.chunk_bytes : (address + 1) * header.chunk_bytes]
        if crc32c(chunk) != told ^ empty:
            wrong.append(address)
    return wrong, bool(flags & 1)


def hilbert_key(digits, n):
    """The key of the order H from the digits a_(m-1) … a_0 of n bits."""
    mask, key, e, r = (1 << n) - 1, 0, 0, 0
    for a in digits:
        g = a ^ e
        w = g = (g >> r | g << (n - r)) & mask
        while g := g >> 1:
            w ^= g
        key = key << n | w
        v = (w - 1) // 2 * 2 if w else 0
        v ^= v >> 1
        e ^= (v << r | v >> (n - r)) & mask
        differing = w ^ (mask if w & 1 else 0)
        t = (differing & -differing).bit_length() - 1 if differing else 0
        r = (r + t + 1) % n
    return key


def morton_key(digits, n):
    """The key of the order Z: the digits one after the other."""
    key = 0
    for a in digits:
        key = key << n | a
    return key


def positions(chunk, order):
    """For each element of a chunk, the number of elements stored before it."""
    wide = [extent for extent in chunk if extent > 1]
    n, m = len(wide), (max(chunk, default=1) - 1).bit_length()
    count = np.arange(prod(chunk))
    if order in "CF" or n <= 1:
        return count.reshape(chunk, order="F" if order == "F" else "C")
    keys = []
    for index in product(*map(range, wide)):
        bits = ("".join(str(x >> b & 1) for x in index) for b in reversed(range(m)))
        digits = [int(digit, 2) for digit in bits]
        keys.append(morton_key(digits, n) if order == "Z" else hilbert_key(digits, n))
    ranks = {key: rank for rank, key in enumerate(sorted(keys))}
    return np.reshape([ranks[key] for key in keys], chunk)


def read(path):
    """The whole array inside its bounds, and its attributes; `path` has no suffix."""
    header, state, principal = opened(path)
    result = np.empty(state.bounds, header.dtype)
    axes = list(zip(header.chunk, state.bounds, state.offset, strict=True))
    if not result.nbytes:
        return result, state.attrs
    place = positions(header.chunk, header.order).ravel()
    for number in product(*(range(b // c, -(-(b + n) // c)) for c, n, b in axes)):
        index = [i - added for i, added in zip(number, state.starts, strict=True)]
        start = chunk_address(state.records, index) * header.chunk_bytes
        block = cut(principal, start, header.chunk_bytes, "principal array")
        window, inside = [], []
        for i, (c, n, b) in zip(number, axes, strict=True):
            low, high = max(i * c - b, 0), min(i * c + c - b, n)
            window.append(slice(low, high))
            inside.append(slice(low + b - i * c, high + b - i * c))
        elements = np.frombuffer(block, header.dtype)[place].reshape(header.chunk)
        result[tuple(window)] = elements[tuple(inside)]
    return result, state.attrs


def read_element(path, index):
    """The element with this index, from the place that the formulas tell."""
    header, state, principal = opened(path)
    inside = len(index) == len(state.bounds)
    inside = inside and all(0 <= x < b for x, b in zip(index, state.bounds, strict=True))
    need(inside, f"the index {index} is not inside the bounds {state.bounds}")
    places = [x + b for x, b in zip(index, state.offset, strict=True)]
    number, rest = zip(*map(divmod, places, header.chunk), strict=True) if index else ((), ())
    chunk = [i - added for i, added in zip(number, state.starts, strict=True)]
    size, place = header.dtype.itemsize, positions(header.chunk, header.order)[rest]
    start = chunk_address(state.records, chunk) * header.chunk_bytes + int(place) * size
    return np.frombuffer(cut(principal, start, size, "principal array"), header.dtype)[0]
