"""Payloads of chunks: made by a codec, and decoded into the place of the chunk.

A chunk of at least half a MiB is cut into *blocks* of equal numbers of elements (the last may have
fewer), which are filtered and compressed one by one, so that a part can be decoded alone.
"""

from __future__ import annotations

import struct
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray.codecs._filters import (
    bit_shuffle,
    bit_unshuffle,
    is_constant,
    repeat,
    shuffle,
    unshuffle,
)
from extarray.codecs.codec import Codec, CodecId, FilterId
from extarray.codecs.libraries import compress, compress_named, decompress, decompress_named
from extarray.common.errors import CorruptError, VersionError
from extarray.common.threads import run_together

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable, Iterable, Iterator

__all__ = ["Encoded", "Frame", "adopt", "decode_frame_into", "decode_into", "encode", "frames"]

# Bytes from which on a chunk is cut into blocks, and those of a block: as fast to decode, and as
# small, as the whole chunk.
_LARGE = 1 << 19
_BLOCK = 1 << 18
_END = 4
# Bytes of the pieces of a chunk by which a filter is chosen, their number, and the highest level.
_SAMPLE = 1 << 13
_SAMPLES = 4
_TRIAL = 3
# A payload that saves less than this part of the chunk costs more time than it is worth.
_LEAST_SAVED = 64

_FORWARD = {FilterId.SHUFFLE: shuffle, FilterId.BITSHUFFLE: bit_shuffle}
_BACKWARD: dict[int, Callable[..., None]] = {
    FilterId.SHUFFLE: unshuffle,
    FilterId.BITSHUFFLE: bit_unshuffle,
}


class Encoded(NamedTuple):
    """A chunk as a file has it.

    Attributes
    ----------
    codec, filter : int
        Numbers, as `CodecId` and `FilterId` have them.
    blocks : int
        Number of blocks; 0: the payload is one frame.
    payload : bytes or memoryview
        A memoryview is the chunk itself (`CodecId.RAW`), or a part of a blob that was read.
    """

    codec: int
    filter: int
    blocks: int
    payload: bytes | memoryview


class Frame(NamedTuple):
    """A part of a payload that is decoded alone.

    Attributes
    ----------
    start, stop : int
        Bytes of the chunk that it gives.
    data : memoryview
    """

    start: int
    stop: int
    data: memoryview


# -- encoding --------------------------------------------------------------------------------------


def encode(codec: Codec, chunk: memoryview, itemsize: int) -> Encoded:
    """Return a chunk as a codec has it; raw, if that saves too little.

    Parameters
    ----------
    codec : Codec
    chunk : memoryview
        Its bytes, contiguous; of whole elements.
    itemsize : int
        Bytes of an element.

    Raises
    ------
    MissingExtraError
        The library of the codec is not installed.

    Examples
    --------
    >>> encode(Codec("zstd"), memoryview(bytes(800)), 8)[:3]
    (<CodecId.CONSTANT: 1>, <FilterId.NONE: 0>, 0)
    >>> found = encode(Codec("zlib", filter="shuffle"), memoryview(bytes(range(200)) * 4), 4)
    >>> found.codec, found.filter, found.blocks, len(found.payload) < 800
    (<CodecId.ZLIB: 5>, <FilterId.SHUFFLE: 1>, 0, True)
    """
    if len(chunk) > itemsize and is_constant(chunk, itemsize):
        return Encoded(CodecId.CONSTANT, FilterId.NONE, 0, bytes(chunk[:itemsize]))
    filter_id = codec.filter_id
    if filter_id is None:
        filter_id = _best_filter(codec, chunk, itemsize)
    if codec.id == CodecId.NAMED:
        blocks, payload = 0, compress_named(codec, _filtered(filter_id, chunk, itemsize), itemsize)
    else:
        n = len(chunk)
        step = _block_bytes(-(-n // _BLOCK), n, itemsize) if n >= _LARGE else n
        parts = [
            _compressed(codec, filter_id, chunk[start : start + step], itemsize)
            for start in range(0, n, step)
        ]
        blocks = len(parts) if n >= _LARGE else 0
        if blocks:
            ends = np.cumsum([_END * blocks, *map(len, parts)])[1:]
            parts.insert(0, ends.astype("<u4").tobytes())
        payload = b"".join(parts) if len(parts) > 1 else parts[0]
    if not _saves(len(payload), len(chunk)):
        return Encoded(CodecId.RAW, FilterId.NONE, 0, chunk)
    return Encoded(codec.id, filter_id, blocks, payload)


def _compressed(codec: Codec, filter_id: int, data: memoryview, itemsize: int) -> bytes:
    planes = 1 if filter_id == FilterId.NONE else itemsize
    return compress(codec, _filtered(filter_id, data, itemsize), planes)


def _saves(n_payload: int, n_chunk: int) -> bool:
    """Tell whether a payload is so much smaller than its chunk that it is worth decoding."""
    return n_payload <= n_chunk - n_chunk // _LEAST_SAVED


def adopt(codec: Codec, frame: bytes, room: memoryview, itemsize: int) -> Encoded:
    """Return a frame of a whole chunk that another program has made, as it is.

    It is decoded once, so that no damaged frame, and none that only other decoders take, becomes a
    payload.  Chunks that `encode` stores without a codec are stored so here, too.

    Parameters
    ----------
    codec : Codec
        Its filter is known.
    frame : bytes
    room : memoryview
        Gets the bytes of the chunk: as many bytes, contiguous.
    itemsize : int
        Bytes of an element.

    Raises
    ------
    CorruptError
        The frame is not one of so many bytes.
    MissingExtraError
        The library of the codec is not installed.

    Examples
    --------
    >>> import zlib
    >>> room, data = memoryview(bytearray(400)), bytes(range(200)) * 2
    >>> frame = zlib.compress(data)
    >>> found = adopt(Codec("zlib"), frame, room, 2)
    >>> found.payload is frame, bytes(room) == data
    (True, True)
    """
    filter_id = codec.filter_id
    assert filter_id is not None
    decode_frame_into(room, codec.id, filter_id, memoryview(frame), itemsize)
    if len(room) > itemsize and is_constant(room, itemsize):
        return Encoded(CodecId.CONSTANT, FilterId.NONE, 0, bytes(room[:itemsize]))
    if not _saves(len(frame), len(room)):
        return Encoded(CodecId.RAW, FilterId.NONE, 0, bytes(room))
    return Encoded(codec.id, filter_id, 0, frame)


def _filtered(filter_id: int, data: memoryview, itemsize: int) -> memoryview:
    if filter_id == FilterId.NONE:
        return data
    out = memoryview(np.empty(len(data), np.uint8))
    _FORWARD[FilterId(filter_id)](out, data, itemsize)
    return out


def _best_filter(codec: Codec, chunk: memoryview, itemsize: int) -> FilterId:
    """Return the filter with which the codec makes some pieces of a chunk smallest."""
    n = len(chunk)
    size = max(1, _SAMPLE // itemsize) * itemsize
    if n > _SAMPLES * size:
        step = (n - size) // (2 * _SAMPLES * itemsize) * itemsize
        starts = [(2 * k + 1) * step for k in range(_SAMPLES)]
        sample = memoryview(b"".join(chunk[start : start + size] for start in starts))
    else:
        sample = chunk
    trial = codec
    if codec.id == CodecId.ZSTD:  # whose higher levels choose alike
        trial = Codec(codec.name, _TRIAL if codec.level is None else min(codec.level, _TRIAL))
    choices = [FilterId.NONE, FilterId.SHUFFLE, FilterId.BITSHUFFLE]
    if itemsize == 1:  # bytes of equal weight are side by side
        choices.remove(FilterId.SHUFFLE)

    def size_with(filter_id: FilterId) -> int:
        if codec.id == CodecId.NAMED:
            data = _filtered(filter_id, sample, itemsize)
            return len(compress_named(codec, data, itemsize))
        return len(_compressed(trial, filter_id, sample, itemsize))

    return min(choices, key=size_with)


# -- decoding --------------------------------------------------------------------------------------


def decode_into(
    out: memoryview,
    codec: int,
    filter_id: int,
    blocks: int,
    payload: memoryview,
    itemsize: int,
    threads: int = 1,
) -> None:
    """Write the bytes of a chunk from its payload.

    Parameters
    ----------
    out : memoryview
        The place of the chunk: as many bytes, contiguous.
    codec, filter_id, blocks : int
        As in `Encoded`.
    payload : memoryview
    itemsize : int
    threads : int
        Most threads that share the blocks.

    Raises
    ------
    CorruptError
        The payload is not one of so many bytes.  `out` may have been changed.
    VersionError
        There is no such codec or filter.
    MissingExtraError
        The library of the codec is not installed.

    Notes
    -----
    It takes memory for one frame's bytes on each thread, whatever the payload says.

    Examples
    --------
    >>> out = memoryview(bytearray(8))
    >>> decode_into(out, 1, 0, 0, memoryview(b"ab"), 2)
    >>> bytes(out)
    b'abababab'
    """
    parts = frames(payload, codec, blocks, len(out), itemsize)

    def decode(some: Iterable[Frame]) -> None:
        for frame in some:
            place = out[frame.start : frame.stop]
            decode_frame_into(place, codec, filter_id, frame.data, itemsize)

    if min(threads, blocks) <= 1:
        decode(parts)
    else:
        found = list(parts)
        run_together([partial(decode, found[k::threads]) for k in range(threads)])


def frames(
    payload: memoryview, codec: int, blocks: int, n_bytes: int, itemsize: int
) -> Iterator[Frame]:
    """Yield the frames of a payload, which can be decoded in any order.

    Parameters are those of `decode_into`; `n_bytes` is the length of the chunk.
    """
    if not blocks:
        yield Frame(0, n_bytes, payload)
        return
    if codec in (CodecId.RAW, CodecId.CONSTANT, CodecId.NAMED):
        raise CorruptError(f"a payload of codec {codec} has no blocks, but names {blocks}")
    step = _block_bytes(blocks, n_bytes, itemsize) if blocks <= n_bytes // itemsize else n_bytes
    if (blocks - 1) * step >= n_bytes or _END * blocks > len(payload):
        raise CorruptError(f"a payload of {len(payload)} bytes cannot have {blocks} blocks")
    ends = (_END * blocks, *struct.unpack_from(f"<{blocks}I", payload))
    if ends[-1] != len(payload) or any(first > last for first, last in pairwise(ends)):
        raise CorruptError("the ends of the blocks of a payload are not in order")
    for number, (first, last) in enumerate(pairwise(ends)):
        start = number * step
        yield Frame(start, min(start + step, n_bytes), payload[first:last])


def _block_bytes(blocks: int, n_bytes: int, itemsize: int) -> int:
    """Return the bytes of each block but the last."""
    return -(-(n_bytes // itemsize) // blocks) * itemsize


def decode_frame_into(
    out: memoryview, codec: int, filter_id: int, frame: memoryview, itemsize: int
) -> None:
    """Write the bytes of one frame; see `decode_into`."""
    if filter_id not in _BACKWARD and filter_id != FilterId.NONE:
        raise VersionError(
            f"filter {filter_id} is none that this version of extarray knows; install a newer "
            "version"
        )
    if codec in (CodecId.RAW, CodecId.CONSTANT):
        size = itemsize if codec == CodecId.CONSTANT else len(out)
        if filter_id or len(frame) != size:
            raise CorruptError(f"a payload has {len(frame)} bytes in place of {size}, or a filter")
        if codec == CodecId.CONSTANT:
            repeat(out, frame)
        else:
            out[:] = frame
        return
    if codec == CodecId.NAMED:
        data: Buffer = decompress_named(frame, len(out), itemsize)
    else:
        data = decompress(codec, frame, len(out))
    if filter_id == FilterId.NONE:
        out[:] = memoryview(data)
    else:
        _BACKWARD[filter_id](out, data, itemsize)
