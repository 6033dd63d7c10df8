"""A second reader of the file format, written from the pages in docs/format alone.

It shares no code with the package, so that pages, package and this module check one another.  It is
slow and reads `.xmd` whole; its functions follow the pages.  Every refusal is a ValueError.
"""

import base64
import datetime as dt
import json
import os
import re
import struct
import time
import zlib
from itertools import accumulate, pairwise, product
from math import isfinite, prod
from operator import mul
from types import SimpleNamespace

import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = SimpleNamespace()

NUMBER = "(0|[1-9][0-9]*)"
UNIT = r"\[([1-9][0-9]*)?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]"
TYPE_STRING = re.compile(
    rf"\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|[<>]c(8|16)|\|[SV]{NUMBER}|[<>]U{NUMBER}"
    rf"|<[Mm]8|[<>][Mm]8{UNIT}"
)


def crc32c(data):
    """Compute CRC-32C (Castagnoli), by table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _reduced(value):
    """Compute an entry of the table: eight steps of the polynomial, reflected."""
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = [_reduced(byte) for byte in range(256)]


def need(condition, message):
    """Refuse the files unless the condition holds."""
    if not condition:
        raise ValueError(message)


def cut(data, start, count, what):
    """Return bytes `start` … `start + count - 1` of the metadata."""
    need(start + count <= len(data), f"the metadata end within the {what}")
    return data[start : start + count]


def parse_json(text, **hooks):
    """Parse a JSON value; refuse too deep nesting."""
    try:
        return json.loads(text.decode("utf-8"), **hooks)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def parse_dtype(told, around=0):
    """Return the NumPy type of a description nested in `around` others."""
    need(around <= 32, "a data type nested too deeply")
    if isinstance(told, str):
        need(TYPE_STRING.fullmatch(told), f"a type string not known here: {told!r}")
        return np.dtype(told)
    if isinstance(told, list):
        known = around and len(told) == 2 and told[1] and {*map(type, told[1])} == {int}
        need(known, f"a data type not known here: {told!r}")
        return np.dtype((parse_dtype(told[0], around + 1), tuple(told[1])))
    need(isinstance(told, dict), f"a data type not known here: {told!r}")
    if set(told) == {"longdouble", "digits"}:
        need(told["digits"] == np.finfo("g").nmant + 1, f"not known here: {told!r}")
        need(re.fullmatch("[<>](f12|f16|c24|c32)", told["longdouble"]), f"not known: {told!r}")
        return np.dtype(told["longdouble"])
    if set(told) == {"extension", "itemsize"}:
        scalar = vars(ml_dtypes).get(told["extension"])
        found = np.dtype(scalar if isinstance(scalar, type) else "V")
        need(found.isbuiltin == 2 and found.itemsize == told["itemsize"], f"not known: {told!r}")
        return found
    known = set(told) - {"base"} == {"fields", "itemsize", "aligned"}
    need(known and isinstance(told["aligned"], bool), f"a data type not known here: {told!r}")
    fields = told["fields"]
    for field in fields:
        keys = {"name", "type", "offset"}
        known = keys <= set(field) <= keys | {"title"} and isinstance(field.get("title", ""), str)
        need(known, f"a field not known here: {field!r}")
    record = {
        "names": [field["name"] for field in fields],
        "formats": [parse_dtype(field["type"], around + 1) for field in fields],
        "offsets": [field["offset"] for field in fields],
        "titles": [field.get("title") for field in fields],
        "itemsize": told["itemsize"],
    }
    if "base" not in told:
        return np.dtype(record)
    base = told["base"]
    plain = not base.startswith("|V") if isinstance(base, str) else "fields" not in base
    need(plain and not isinstance(base, list), f"no number, and no text: {base!r}")
    return np.dtype((parse_dtype(base, around + 1), np.dtype(record)))


def parse_header(data):
    """Parse the constant part; check the version before anything behind it."""
    need(data[:8] == b"\x89XTA\r\n\x1a\n", "not the metadata of an array: wrong magic")
    (major,) = struct.unpack("<H", cut(data, 8, 2, "header"))
    need(major == 2, f"major version {major} is not 2, the one known here")
    size, uuid, k, order, flags, itemsize, dtype_bytes, _zero = struct.unpack(
        "<I16sBBHIII", cut(data, 12, 36, "header")
    )
    fill_end = 48 + 8 * k + dtype_bytes + itemsize
    end = fill_end + (32 if flags & 4 else 0)
    checksum = struct.unpack("<I", cut(data, end, 4, "header"))[0]
    need(crc32c(data[:end]) == checksum, "the header is damaged: its checksum does not fit")
    chunk = struct.unpack(f"<{k}q", data[48 : 48 + 8 * k])
    try:
        dtype = parse_dtype(parse_json(data[48 + 8 * k : fill_end - itemsize]))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a data type not known here: {error}") from None
    need(size % 4096 == 0 and end + 4 <= size, f"header_bytes {size} is not possible")
    need(k <= 32 and min(chunk, default=1) > 0, f"the chunk shape {chunk} is not possible")
    need(itemsize * prod(chunk) < 2**63, "a chunk has too many bytes")
    need(order in b"CFZH", f"the order {order} is not known")
    need(dtype.itemsize == itemsize > 0, f"the itemsize {itemsize} is not that of {dtype}")
    fill = np.frombuffer(data[fill_end - itemsize : fill_end], dtype)
    return SimpleNamespace(
        size=size, uuid=uuid, order=chr(order), dtype=dtype, chunk=chunk, fill=fill,
        chunk_bytes=itemsize * prod(chunk), sums=bool(flags & 2),
        log=size + 8192 + -(-(end + 4) // 512) * 512,
    )  # fmt: skip


def parse_records(data, header, count):
    """Return the first `count` records of the growth log, and its extents: (offset, bytes)."""
    k, start, room, records, extents = len(header.chunk), header.log, 8, [], []
    width = 8 + 8 * k
    while True:
        extents.append((start, 16 + room * width))
        for i in range(min(room, count - len(records))):
            record = cut(data, start + 16 + i * width, width, "growth log")
            checksum, side, axis, _zero, *grid = struct.unpack(f"<IBBH{k}q", record)
            damaged = crc32c(header.uuid + record[4:]) != checksum
            need(not damaged, f"record {len(records)} of the growth log is damaged")
            need(
                side < 2 and (axis < k or not records),
                f"growth of side {side}, axis {axis}, not known",
            )
            records.append((axis, side, grid))
        if len(records) == count:
            return records, extents
        head = cut(data, start, 12, "growth log")
        following, checksum = struct.unpack("<QI", head)
        fits = crc32c(header.uuid + head[:8]) == checksum and following > 0
        need(fits, "an extent of the growth log is damaged")
        start, room = following, 2 * room


def check_history(records, grid):
    """Refuse records that do not describe growth to a grid."""
    axis, side, first = records[0]
    initial = axis == side == 0 and first[:1] in ([], [0]) and min(first, default=0) >= 0
    need(initial, "record 0 is not that of an initial segment")
    for n, ((axis, side, before), after) in enumerate(pairwise([*records, (None, None, grid)])):
        need((axis, side) != after[:2], f"records {n} and {n + 1} are one segment")
        grown = [b - a for a, b in zip(before, after[2], strict=True)]
        fits = all(by == 0 or (j == axis and by > 0) for j, by in enumerate(grown))
        need(fits, f"record {n} does not lead to what follows it")
        factors = [*(x for j, x in enumerate(before) if j != axis)][::-1] + before[axis:][:1]
        need(max(accumulate(factors, mul), default=0) < 2**63, f"record {n} is too large")
    need(max(accumulate(grid, mul), default=0) < 2**63, "the grid is too large")


def with_starts(records, grid):
    """Return records with the chunks added at the starts before each, and the final such counts."""
    added, found = [0] * len(grid), []
    grids = [before for _, _, before in records[1:]] + [grid]
    for (axis, side, before), after in zip(records, grids, strict=True):
        found.append((axis, side, before, list(added)))
        if side == 1:
            added[axis] += after[axis] - before[axis]
    return found, added


def json_of_attrs(text):
    """Parse a JSON object within the rules of attributes."""

    def finite(digits):
        need(isfinite(float(digits)), f"{digits} is too large")
        return float(digits)

    def none(name):
        raise ValueError(f"{name} is none of JSON")

    attrs = parse_json(text, parse_float=finite, parse_constant=none)
    need(isinstance(attrs, dict), "the attributes are no JSON object")
    json.dumps(attrs, ensure_ascii=False).encode("utf-8")  # no lone surrogates
    return attrs


def parse_attrs(text):
    return {name: value_of(value) for name, value in json_of_attrs(text).items()}


THREE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}


def value_of(value):
    """Return the value that JSON inside the outermost object stands for."""
    if type(value) is list:
        return [value_of(item) for item in value]
    if type(value) is not dict:
        return value
    try:
        return tagged(value)
    except (ValueError, TypeError, KeyError, OverflowError):
        return {name: value_of(item) for name, item in value.items()}


DATE = re.compile(
    r"NaT|-?[0-9]{4,}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?)?)?)?"
)
DAY, MICRO = "[0-9]{4}-[0-9]{2}-[0-9]{2}", r"\.[0-9]{6}"
SECONDS = f"(:[0-9]{{2}}{MICRO}|:(?!00)[0-9]{{2}})"  # of the UTC offset
CLOCK = f"[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}({MICRO})?([+-][0-9]{{2}}:[0-9]{{2}}{SECONDS}?)?"


def tagged(form):
    """Return the value of an object that has exactly the form of its tag."""
    kind = form["$type"]
    need(type(kind) is str, "no tag")
    members = set(form) - {"$type"}

    def only(*names):
        need(members == set(names), f"not the members of {kind}")
        return form[names[0]]

    if kind == "tuple":
        return tuple(value_of(list_of(only("items"))))
    if kind == "dict":
        for pair in list_of(only("items")):
            need(type(pair) is list and len(pair) == 2 and type(pair[0]) is str, "no pair")
        need(len({name for name, _ in form["items"]}) == len(form["items"]), "a name twice")
        return {name: value_of(item) for name, item in form["items"]}
    if kind == "float":
        return THREE[only("value")]
    if kind == "complex":
        return complex(*two_numbers(only("value")))
    if kind == "bytes":
        return from_base64(only("base64"))
    if kind == "timedelta":
        days, seconds, micros = list_of(only("value"))
        need(all(type(n) is int for n in (days, seconds, micros)), "no integers")
        need(0 <= seconds < 86400 and 0 <= micros < 10**6, "not in range")
        return dt.timedelta(days, seconds, micros)
    if kind in ("date", "time", "datetime"):
        text = only("value")
        need(type(text) is str, "no text")
        pattern = {"date": DAY, "time": CLOCK, "datetime": f"{DAY}T{CLOCK}"}[kind]
        need(re.fullmatch(pattern, text) and ".000000" not in text, "no date or time")
        near = text.endswith("-00:00") or re.search("[+-]00:00:00", text)
        need(kind == "date" or not near, "no difference from UTC")
        return getattr(dt, kind).fromisoformat(text)
    need(kind in ("array", "scalar"), "no such tag")
    x = tagged_array(form, members)
    need(kind == "array" or x.ndim == 0, "a scalar with axes")
    return x if kind == "array" else x[()]


def list_of(value):
    need(type(value) is list, "no list")
    return value


def number_of(value):
    if type(value) is str:
        return THREE[value]
    need(type(value) in (int, float), "no number")
    return float(value)


def two_numbers(value):
    need(len(list_of(value)) == 2, "not two numbers")
    return [number_of(part) for part in value]


def from_base64(text):
    need(type(text) is str, "no text")
    data = base64.b64decode(text, validate=True)
    need(base64.b64encode(data).decode() == text, "no base64")
    return data


def tagged_array(form, members):
    """Return the array of a form."""
    dtype = parse_dtype(form["dtype"])
    if "base64" in form:
        need(members == {"dtype", "shape", "base64"}, "other members")
        need(all(type(n) is int and 0 <= n < 2**60 for n in list_of(form["shape"])), "no extents")
        data, shape = from_base64(form["base64"]), form["shape"]
        need(prod(shape) * dtype.itemsize == len(data), "not the bytes of this array")
        return np.ndarray(shape, dtype, bytearray(data))
    need(members == {"dtype", "data"}, "other members")
    kind = dtype.kind
    need(type(form["dtype"]) is str and kind != "V", "a type without lists")
    extents, items = extents_of(form["data"], kind == "c")
    need(0 < len(items) * dtype.itemsize <= 65536, "not so many in lists")
    native = dtype.newbyteorder("=")
    if kind == "c":
        items = [complex(*two_numbers(item)) for item in items]
    elif kind == "f":
        items = [number_of(item) for item in items]
    else:
        kinds = {"b": bool, "i": int, "u": int, "m": int}
        need(all(type(item) is kinds.get(kind, str) for item in items), "not of this type")
    if kind == "m":
        return np.array(items, "i8").view(native).astype(dtype).reshape(extents)
    if kind == "S":
        items = [item.encode("latin-1") for item in items]
    if kind in "SU":
        need(all(len(item) <= dtype.itemsize // {"S": 1, "U": 4}[kind] for item in items), "long")
    if kind == "M":
        need(all(DATE.fullmatch(item) for item in items), "no date")
        need(np.array(items, native).dtype == native, "another unit")
    with np.errstate(over="ignore"):
        return np.array(items, native).astype(dtype).reshape(extents)


def extents_of(data, pairs):
    """Return the extents of nested lists, and their items in order; items may be number pairs."""
    extents, items = [], [data]
    while items and all(type(item) is list for item in items):
        if pairs and not any(type(part) is list for item in items for part in item):
            break
        need(len({len(item) for item in items}) == 1, "lists of different lengths")
        extents.append(len(items[0]))
        items = [part for item in items for part in item]
    return extents, items


def superblock_place(header, i):
    return header.size + (1024 * i if i < 2 else 4096 + 1024 * (i - 2))


def optional_block(data, header, number):
    """Return the offset of an optional block, or None; number 0 is the group block."""
    entry = data[header.size + 7168 + 16 * number :][:16]
    if len(entry) < 16:
        return None
    checksum, kind, at = struct.unpack("<IIQ", entry)
    whole = crc32c(header.uuid + entry[4:]) == checksum and kind == number
    end = min(len(data), 2**62) - (4096 if number else 3 * 4096)
    return at if whole and header.log <= at <= end else None


def parse_state(data, header, place):
    """Return the state of the superblock, or pending state, at an offset; refuse a damaged one."""
    k, i = len(header.chunk), place
    block = cut(data, place, 88 + 24 * k, "superblocks")
    checksum, flags, sequence, segments = struct.unpack("<IIQQ", block[:24])
    data_bytes, at, length, room = struct.unpack("<QQII", block[24:48])
    spare, spare_room, _crc, end = struct.unpack("<QIIQ", block[48:72])
    need(crc32c(block[4:]) == checksum, f"the superblock at {i} is damaged")
    bounds, offset, grid = np.frombuffer(block, "<i8", 3 * k, 88).reshape(3, k).tolist()
    consistent = segments > 0 and prod(grid) * header.chunk_bytes == data_bytes < 2**63 - 4096
    for n, b, g, c in zip(bounds, offset, grid, header.chunk, strict=True):
        consistent &= n >= 0 and b >= 0 and b + n <= g * c < 2**63 - 4096
    consistent &= sequence <= 2**62 and end <= 2**62 and length <= room
    need(consistent, f"the superblock at {i} contradicts itself")
    text = cut(data, at, length, "attributes")
    need(crc32c(text) == struct.unpack("<I", block[60:64])[0], "the attributes are damaged")
    attrs = parse_attrs(text)
    records, places = parse_records(data, header, segments)
    check_history(records, grid)
    places += [(at, room)] + ([(spare, spare_room)] if spare or spare_room else [])
    for (start, size), following in pairwise([(0, header.log), *sorted(places), (end, 0)]):
        need(start + size <= following[0], f"the superblock at {i} has two things in one place")
    records, starts = with_starts(records, grid)
    return SimpleNamespace(
        sequence=sequence, sealed=flags & 1, unclean=flags & 2, data_bytes=data_bytes,
        bounds=bounds, offset=offset, grid=grid, starts=starts, records=records,
        group=block[72:88], attrs=attrs,
    )  # fmt: skip


def whole_states(data, header, slots=range(5)):
    """Return the whole states of superblocks, and the faults of the others."""
    states, faults = [], []
    for i in slots:
        try:
            states.append(parse_state(data, header, superblock_place(header, i)))
        except ValueError as fault:
            faults.append(str(fault))
    return states, faults


def newest_state(data, header):
    """Return the whole state with the greatest sequence number, among superblocks 0 to 4."""
    states, faults = whole_states(data, header)
    need(states, "the metadata are damaged: " + "; ".join(faults))
    return by_number(states, [], [])[0]


def written_sequences(data, header, slots):
    """Yield the sequence numbers of superblocks with a matching checksum."""
    size = 88 + 24 * len(header.chunk)
    for i in slots:
        block = data[superblock_place(header, i) :][:size]
        if crc32c(block[4:]) == int.from_bytes(block[:4], "little"):
            yield int.from_bytes(block[8:16], "little")


def principal_name(path, uuid):
    """Return the name of the principal array, which its maker may not have renamed."""
    longer = f"{os.path.realpath(f'{path}.xta')}.{uuid.hex()[:12]}.new"
    return longer if os.path.exists(longer) else f"{path}.xta"


def pending_states(data, header, folder):
    """Yield pending states of `.xmd` that the present coordinator has decided."""
    group = optional_block(data, header, 0)
    for i in () if group is None else (1, 2):
        start, size = group + 4096 * i, 88 + 24 * len(header.chunk)
        try:
            state = parse_state(data, header, start)
            block = cut(data, start, 4096, "pending states")
            checksum, length = struct.unpack("<II", block[size : size + 8])
            need(size + 40 + length <= 4096, "a path that does not end")
            covered = block[:size] + block[size + 4 : size + 40 + length]
            need(crc32c(covered) == checksum, f"pending state {i - 1} is damaged")
            path = os.fsdecode(block[size + 40 : size + 40 + length])
            path = os.path.normpath(os.path.join(folder, path))
            with open(f"{path}.xmd", "rb") as xmd:
                other = xmd.read()
            coordinator = parse_header(other)
            need(coordinator.uuid == block[size + 24 : size + 40], "another array is there")
            if newest_state(other, coordinator).group == block[size + 8 : size + 24]:
                yield state
        except (ValueError, FileNotFoundError, NotADirectoryError):
            pass


def end_of(principal, uuid):
    """Tell whether `.xta` ends with the array's own seal, another's, or none."""
    seal, start = b"\x89XTA sealed:\r\n\x1a\n" + uuid, len(principal) - 32
    end = principal[start:] if start >= 0 else b""
    if end == seal or not end.startswith(seal[:16]):
        return "own" if end == seal else "none"
    if struct.pack("<I", zlib.crc32(end[:28])) == end[28:]:
        return "another"
    sector = start + -start % 512
    torn = start < sector and end[: sector - start] == seal[: sector - start]
    return "none" if torn or end[:17] == seal[:17] else "another"


def verdict(state, sealed, principal, uuid):
    """Return a reader's verdict on a state and a `.xta`: the table of the page."""
    end, length = end_of(principal, uuid), len(principal)
    if end == "another" and (sealed or length >= state.data_bytes + 32):
        return "refuse"
    if sealed:
        return "accept" if end == "own" and length == state.data_bytes + 32 else "recover"
    return "accept" if length >= state.data_bytes else "recover"


def recovered(data, header, pending, principal):
    """Return the state that a power cut has spared and `.xta` fits, or None."""
    durable, _ = whole_states(data, header, range(2, 5))
    last = max(written_sequences(data, header, range(2, 5)), default=-1)
    states = by_number([], [state for state in pending if state.sequence > last], durable)
    fit = [s for s in states if verdict(s, s.sealed, principal, header.uuid) == "accept"]
    return fit[0] if fit else None


def by_number(live, pending, durable):
    """Return states from the newest down; equal numbers keep the given order."""
    return sorted([*live, *pending, *durable], key=lambda state: -state.sequence)


def chosen(data, header, pending, principal, may_recover):
    """Return the state of an array, and the bytes of its chunks; refuse if there is none."""
    live, faults = whole_states(data, header, range(2))
    durable, others = whole_states(data, header, range(2, 5))
    states = by_number(live, pending, durable)
    need(states, "the metadata are damaged: " + "; ".join(faults + others))
    state = states[0]
    found = verdict(state, state.sealed, principal, header.uuid)
    if found == "recover" and may_recover:
        spared = recovered(data, header, pending, principal)
        if spared is not None:
            state, found = spared, "accept"
    need(found != "refuse", "the two files do not belong together")
    size = len(principal)
    short = size < state.data_bytes
    need(not short, f"the .xta is too short: {size} bytes of {state.data_bytes}")
    need(found == "accept", "the two files do not belong together")
    return state, principal[: state.data_bytes]


def opened(path):
    """Return header, state and principal array of a pair; retry if a writer came in between."""
    for attempt in range(3):  # fewer than the page allows, for faster refusals
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
            return header, *chosen(data, header, pending, principal, attempt == 2)
        except ValueError:
            if attempt == 2:
                raise
            time.sleep(0.002)
    raise AssertionError


def first_index(record):
    """Return N*: the index, on its own axis, of the first chunks of a segment."""
    axis, side, grid, added = record
    return -1 - added[axis] if side == 1 else grid[axis] - added[axis]


def owns(record, index):
    """Tell whether a segment, or an earlier one of its side, introduced an index on its axis."""
    axis, side, *_ = record
    first = first_index(record)
    return index[axis] <= first if side == 1 else index[axis] >= first


def chunk_address(records, index):
    """Return the address of a chunk, in the last segment that owns one of its indices."""
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
    """Return the addresses of mismatched chunks, and whether sums are in doubt."""
    header, _state, principal = opened(path)
    need(header.sums, "the array has no checksums of chunks")
    with open(f"{path}.xmd", "rb") as xmd:
        data = xmd.read()
    at = header.size + 3072
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
    """Return the key in order H from the digits a_(m-1) … a_0 of n bits."""
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
    """Return the key in order Z: the digits one after the other."""
    key = 0
    for a in digits:
        key = key << n | a
    return key


def positions(chunk, order):
    """Return, for each element of a chunk, the number of elements stored before it."""
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
    """Return the whole array inside its bounds, and its attributes; `path` has no suffix."""
    return elements_of(*opened(path))


def elements_of(header, state, principal):
    """Return the elements inside the bounds, and the attributes."""
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
    """Return the element at an index, from the place that the formulas give."""
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


# ------------------------------------------------------------------- packed files, and groups


def struct_at(layout, data, at):
    return struct.unpack(layout, cut(data, at, struct.calcsize(layout), "packed file"))


def end_of_packed(data):
    """Return the number of directory entries, and the directory's start and end."""
    at = len(data) - 22
    need(data[:4] == b"PK\3\4" and data[at:][:4] == b"PK\5\6" and at >= 0, "no packed file")
    disk, other, here, total, size, start, comment = struct_at("<4xHHHHIIH", data, at)
    need(disk == other == comment == 0, "other parts, or a comment")
    end = at
    if at >= 20 and data[at - 20 :][:4] == b"PK\6\7":
        end = at - 76
        need(end >= 0 and data[end:][:4] == b"PK\6\6", "no ZIP64 end record")
        need(struct_at("<4xIQI", data, at - 20) == (0, end, 1), "a locator of something else")
        told = here, total, size, start
        room, disk, other, *numbers = struct_at("<4xQ4xIIQQQQ", data, end)
        need(room == 44 and disk == other == 0, "another ZIP64 end record")
        for few, number, most in zip(
            told, numbers, (2**16 - 1,) * 2 + (2**32 - 1,) * 2, strict=True
        ):
            need(few in (number, most), "two ends that differ")
        here, total, size, start = numbers
    need(here == total and start + size == end and size >= 46 * total, "no such directory")
    return total, start, end


def member_counts(raw):
    """Tell by its name whether a member belongs to an array or a group."""
    last = raw.split(b"/")[-1]
    of_array = last.endswith((b".xmd", b".xta", b".xtz")) and len(last) > 4
    return raw.endswith(b"/") or of_array or last == b"dataset.json"


def large_numbers(extra, *numbers):
    """Return numbers, replacing those too large by the ones in the ZIP64 extra field."""
    fields, at = [], 0
    while at < len(extra):
        kind, size = struct_at("<HH", extra, at)
        content = cut(extra, at + 4, size, "extra fields")
        fields += [content] if kind == 1 else []
        at += 4 + size
    missing = [n == 2**32 - 1 for n in numbers]
    need([*map(len, fields)] == [8 * sum(missing)] * any(missing), "other ZIP64 fields")
    found = iter(struct.unpack(f"<{sum(missing)}Q", fields[0])) if fields else None
    return [next(found) if large else n for n, large in zip(numbers, missing, strict=True)]


def check_name(name):
    """Refuse names that lead elsewhere."""
    is_folder = name.endswith("/")
    parts = name.removesuffix("/").split("/")
    need(not {"", ".", ".."} & set(parts), f"the name {name!r} leads elsewhere")
    need("\\" not in name and "\0" not in name, f"the name {name!r}")
    for part in parts if is_folder else parts[:-1]:
        through = part.endswith((".xmd", ".xta")) or part == "dataset.json"
        need(not through, f"the name {name!r} goes through a file")


def members_of(data):
    """Return the members of a packed file that count: name to (offset, bytes, CRC-32)."""
    total, at, end = end_of_packed(data)
    first, found = at, {}
    for _ in range(total):
        need(data[at : at + 4] == b"PK\1\2" and at + 46 <= end, "no entry")
        made, flags, method, crc, small, size, n_name, n_extra, n_comment, disk, mode, place = (
            struct_at("<4xH2xHH4xIIIHHHH2xII", data, at)
        )
        raw, extra = data[at + 46 :][:n_name], data[at + 46 + n_name :][:n_extra]
        at += 46 + n_name + n_extra + n_comment
        need(at <= end, "an entry that does not end")
        if not member_counts(raw):
            need(not member_counts(own_name(data, place, first)), "a hidden member")
            continue
        size, small, place = large_numbers(extra, size, small, place)
        need(method == 0 and size == small and flags in (0, 2048) and disk == 0, "not stored")
        name = raw.decode("utf-8" if flags else "ascii")
        kinds = (0, 4 if name.endswith("/") else 8)
        need(made >> 8 != 3 or mode >> 28 in kinds, f"{name!r} is a link, or no file")
        need(size == 0 or not name.endswith("/"), f"{name!r} is a folder of bytes")
        need(place + 30 <= first and name not in found, f"{name!r} is not there, or twice")
        check_name(name)
        found[name] = place, *member_at(data, place, raw, size, crc)
    need(at == end, "a directory with more than its entries")
    places = sorted((place, start + size) for place, start, size, _ in found.values())
    for (_, stop), (following, _) in pairwise([*places, (first, 0)]):
        need(stop <= following, "members that overlap")
    return {
        name: (data[start : start + size], crc) for name, (_, start, size, crc) in found.items()
    }


def own_name(data, place, end):
    """Return the name in the local header at an offset; empty if no header is there."""
    if place + 30 > end or data[place : place + 4] != b"PK\3\4":
        return b""
    return data[place + 30 :][: struct_at("<26xH", data, place)[0]]


def member_at(data, place, raw, size, crc):
    """Return the place of a member's bytes, and their CRC-32, by its local header."""
    flags, method, own, *sizes, n_name, n_extra = struct_at("<6xHH4xIIIHH", data, place)
    need(data[place : place + 4] == b"PK\3\4", "no local header")
    start = place + 30 + n_name
    same = cut(data, place + 30, n_name, "packed file") == raw and own == crc
    need(same and method == 0 and flags in (0, 2048), "two descriptions that differ")
    if sizes != [size, size]:
        sizes = large_numbers(cut(data, start, n_extra, "packed file"), *sizes)
    need(sizes == [size, size], "two sizes")
    return start + n_extra, size, crc


def compared(member):
    """Return the bytes of a member, after comparing their checksum."""
    content, crc = member
    need(zlib.crc32(content) == crc, "a member does not fit its CRC-32")
    return content


def parse_packed(data):
    """Return arrays, groups, and the name of a single packed array.

    Each array has its two members; each group has the member of its attributes, or None.
    """
    members = members_of(data)
    arrays, groups = {}, {"": members.get("dataset.json")}
    for name in members:
        stem, suffix = name[:-4], name[-4:]
        if suffix in (".xmd", ".xta"):
            pair = members.get(f"{stem}.xmd"), members.get(f"{stem}.xta")
            need(None not in pair, f"{name!r} is alone")
            arrays[stem] = pair
        parts = name.split("/")[:-1]
        for n in range(len(parts)):
            group = "/".join(parts[: n + 1])
            groups[group] = members.get(f"{group}/dataset.json")
    alone = list(arrays) if not any(groups.values()) else []
    alone = alone[0] if len(alone) == 1 and "/" not in alone[0] else None
    return SimpleNamespace(arrays=arrays, groups=groups, alone=alone)


def read_packed(pair):
    """Return elements and attributes of an array in a packed file, from its two members."""
    data, principal = compared(pair[0]), pair[1][0]
    header = parse_header(data)
    return elements_of(header, *chosen(data, header, [], principal, True))


def parse_group_attrs(content):
    """Return a group's attributes from the bytes of `dataset.json`; None means no file."""
    if content is None:
        return {}
    whole = json_of_attrs(content.removeprefix(b"\xef\xbb\xbf"))
    need(isinstance(whole.get("attrs"), dict), "no attributes of a group")
    return {name: value_of(value) for name, value in whole["attrs"].items()}


IN_THE_MAKING = re.compile(r".+\.[0-9a-f]{12}\.new", re.DOTALL)


def members_in(folder):
    """Return the names of the arrays and groups in a folder."""
    arrays, groups = set(), set()
    for entry in os.scandir(folder):
        name = entry.name
        if name.endswith(".xmd") and len(name) > 4:
            arrays.add(name[:-4])
        elif entry.is_dir(follow_symlinks=False):
            taken = name.endswith((".xmd", ".xta")) or name == "dataset.json"
            if not taken and not IN_THE_MAKING.fullmatch(name):
                groups.add(name)
    arrays, groups = ({name for name in names if "\\" not in name} for names in (arrays, groups))
    return arrays, groups - arrays


def read_group_attrs(folder):
    try:
        with open(os.path.join(folder, "dataset.json"), "rb") as file:
            return parse_group_attrs(file.read())
    except FileNotFoundError:
        return {}


def dims_of(attrs, k):
    """Return the names of the axes, or None."""
    dims = attrs.get("dims")
    fits = type(dims) in (list, tuple) and {*map(type, dims)} <= {str} and len({*dims}) == k
    return tuple(dims) if fits and len(dims) == k else None


def origin_of(header, state):
    """Return the present index of the original index 0, along each axis."""
    axes = zip(state.starts, header.chunk, state.offset, strict=True)
    return tuple(added * c - offset for added, c, offset in axes)
