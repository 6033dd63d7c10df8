"""The bytes of a superblock agree with `struct`, and with its state."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray.format._crc import crc32c, crc32c_bytewise
from extarray.format.header import decode_seal, encode_seal, new_uuid
from extarray.format.superblock import (
    LAST_SEQUENCE,
    Superblock,
    decode_superblock,
    encode_superblock,
    next_superblock,
    superblock_bytes,
)

short, long = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
flags = st.booleans()


@st.composite
def superblocks(draw, most=LAST_SEQUENCE):
    ndim = draw(st.integers(0, 32))
    extents = st.lists(st.integers(0, 2**63 - 1), min_size=ndim, max_size=ndim).map(tuple)
    return Superblock(
        sequence=draw(st.integers(0, most)),
        sealed=draw(flags),
        unclean=draw(flags),
        n_segments=draw(long),
        data_bytes=draw(long),
        attrs_offset=draw(long),
        attrs_bytes=draw(short),
        attrs_capacity=draw(short),
        attrs_crc=draw(short),
        spare_offset=draw(long),
        spare_capacity=draw(short),
        end=draw(long),
        group=draw(st.binary(min_size=16, max_size=16)),
        shape=draw(extents),
        offset=draw(extents),
        grid=draw(extents),
        superseded=draw(flags),
        growth=draw(st.integers(0, 2**28 - 1)),
    )


def packed(block: Superblock) -> bytes:
    """Encode a superblock as docs/format/reading.md specifies."""
    body = struct.pack(
        f"<IQQQQIIQIIQ16s{3 * len(block.shape)}q",
        block.sealed | 2 * block.unclean | 4 * block.superseded | 16 * block.growth,
        block.sequence,
        block.n_segments,
        block.data_bytes,
        block.attrs_offset,
        block.attrs_bytes,
        block.attrs_capacity,
        block.spare_offset,
        block.spare_capacity,
        block.attrs_crc,
        block.end,
        block.group,
        *block.shape,
        *block.offset,
        *block.grid,
    )
    return struct.pack("<I", crc32c_bytewise(body)) + body


@given(superblocks(), st.binary(max_size=9))
def test_bytes_are_as_the_format_says(block, behind):
    ndim, data = len(block.shape), encode_superblock(block)
    assert data == packed(block)
    assert len(data) == superblock_bytes(ndim)
    assert decode_superblock(data + behind, ndim) == block


@given(superblocks(), st.data())
def test_what_is_torn_or_cut_off_is_none(block, draw):
    ndim, data = len(block.shape), encode_superblock(block)
    at = draw.draw(st.integers(0, len(data) - 1))
    assert decode_superblock(data[:at], ndim) is None
    torn = bytearray(data)
    torn[at] ^= draw.draw(st.integers(1, 255))
    assert decode_superblock(bytes(torn), ndim) is None


@given(superblocks())
def test_a_number_that_no_writer_counts_to_is_none(block):
    block = block._replace(sequence=LAST_SEQUENCE + 1)
    assert decode_superblock(encode_superblock(block), len(block.shape)) is None


@given(superblocks(most=9), superblocks())
def test_the_next_one_has_other_bounds(block, other):
    changes = {
        name: getattr(other, name)
        for name in ("unclean", "n_segments", "data_bytes", "end", "shape", "offset", "grid")
    }
    after = next_superblock(block, **changes)
    assert type(after) is Superblock
    assert after == block._replace(sequence=block.sequence + 1, superseded=False, **changes)


@pytest.mark.parametrize(
    "changes",
    [{"offset": (1,)}, {"grid": (1, 2, 3)}, {"group": b"short"}, {"group": bytes(17)}],
    ids=str,
)
def test_what_would_not_fit_is_refused(changes):
    block = decode_superblock(packed(Superblock(*[0] * 12, bytes(16), (1, 2), (0, 0), (3, 4))), 2)
    with pytest.raises(ValueError, match="not a superblock"):
        encode_superblock(block._replace(**changes))


@pytest.mark.parametrize(
    ("name", "value"),
    [("attrs_bytes", 2**32), ("end", 2**64), ("shape", (2**63, 0)), ("growth", 2**28)],
)
def test_what_is_too_large_is_refused(name, value):
    block = decode_superblock(packed(Superblock(*[0] * 12, bytes(16), (1, 2), (0, 0), (3, 4))), 2)
    with pytest.raises(OverflowError):
        encode_superblock(block._replace(**{name: value}))


def test_what_is_no_tuple_is_refused():
    block = [*Superblock(*[0] * 12, bytes(16), (), (), ())]
    with pytest.raises(TypeError):
        encode_superblock(block)
    with pytest.raises(TypeError):
        next_superblock(block, False, 0, 0, 0, (), (), ())


def test_a_uuid_has_the_checksum_of_its_seal():
    """New uuids also differ in CRC-32C, which ties records and blocks to their array."""
    uuids = [new_uuid() for _ in range(50)]
    assert len({crc32c(uuid) for uuid in uuids}) == len(uuids)
    for uuid in uuids:
        seal = encode_seal(uuid)
        assert zlib.crc32(seal[:-4]).to_bytes(4, "little") == seal[-4:]
        assert decode_seal(seal, 0, uuid) == decode_seal(seal, 0, uuids[0]) == uuid


@pytest.mark.parametrize("whole", range(32))
def test_a_torn_seal_is_none(whole):
    """A torn seal begins like a seal, followed by old bytes of chunks, or zeros."""
    uuid = new_uuid()
    seal = encode_seal(uuid)
    for rest in (bytes(32), bytes(range(32))):
        torn = seal[:whole] + rest[whole:]
        # A seal of format 2.0 has no checksum: if only the magic is ours, the sector edge decides.
        assert decode_seal(torn, 512 * 5 - whole, uuid) is None
        if whole != 16:
            assert decode_seal(torn, 0, uuid) is None
