"""Payloads of chunks: made by a codec, and decoded into the place of the chunk.

A chunk of more than 256 KiB is cut into *blocks*, cuboids of equal sides (fewer elements at the end
of an axis), which are filtered and compressed one by one, so that a part can be decoded alone.  A
table before them names the sides, so that a payload decodes without knowing the array.
"""

from __future__ import annotations

import math
import struct
from functools import partial
from itertools import accumulate, pairwise
from types import MappingProxyType
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
from extarray.codecs._frames import decode_alone, decode_block_alone
from extarray.codecs.codec import Codec, CodecId, FilterId
from extarray.codecs.libraries import compress, compress_named, decompress, decompress_named
from extarray.common.errors import CorruptError, VersionError
from extarray.common.limits import limits
from extarray.common.threads import run_together

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    # First element and the one behind the last, along each axis of a chunk, the slowest first.
    Box = Sequence[tuple[int, int]]

__all__ = [
    "Blocks",
    "Encoded",
    "adopt",
    "decode_blocks_into",
    "decode_frame_into",
    "decode_into",
    "encode",
    "encode_again",
    "n_axes_of",
    "read_blocks",
    "table_bytes",
]

# Blocks do not become shorter than this along an axis, in elements; along the fastest, in bytes.
_LEAST_SIDE = 8
_LEAST_ROW = 1 << 7
_WORD = 4
_MOST_AXES = 64
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


class Blocks:
    """Blocks into which a chunk is cut, in the order "C" of their grid.

    Parameters
    ----------
    sides : sequence of int
        Elements along the axes of the chunk, the slowest first.
    steps : sequence of int
        The same of a block; those at the end of an axis may be shorter.
    ends : sequence of int
        Where in the payload the frame of each block ends.
    sums : sequence of int
        Checksums of the frames, which only those who store payloads know.

    Attributes
    ----------
    grid : tuple of int
        Blocks along each axis.
    """

    def __init__(
        self,
        sides: Sequence[int],
        steps: Sequence[int],
        ends: Sequence[int] = (),
        sums: Sequence[int] = (),
    ) -> None:
        self.sides, self.steps, self.ends, self.sums = tuple(sides), tuple(steps), ends, sums
        self.grid = tuple(-(-n // step) for n, step in zip(sides, steps, strict=True))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Sides of more than one element: few axes, which NumPy can have."""
        return tuple(n for n in self.sides if n > 1)

    def __len__(self) -> int:
        return math.prod(self.grid)

    def frame(self, number: int) -> tuple[int, int]:
        """Return where in the payload the frame of a block begins and ends."""
        start = self.ends[number - 1] if number else table_bytes(len(self.sides), len(self))
        return start, self.ends[number]

    def place(self, number: int) -> tuple[slice, ...]:
        """Return which elements of the chunk are those of a block, along the axes of `lengths`."""
        found = []
        for n, step, count in zip(self.sides[::-1], self.steps[::-1], self.grid[::-1], strict=True):
            number, q = divmod(number, count)
            if n > 1:
                found.append(slice(q * step, min((q + 1) * step, n)))
        return tuple(found[::-1])

    def numbers_in(self, sides: Sequence[int], box: Box) -> list[int]:
        """Return the numbers of the blocks with the elements of a box, and perhaps of others.

        `sides` are those of the chunk as its reader knows it: blocks may be cut along several axes
        that are taken for one.

        Examples
        --------
        >>> cut = Blocks((4, 30), (2, 15))
        >>> cut.numbers_in((4, 5, 6), [(0, 1), (2, 4), (0, 6)])
        [0, 1]
        >>> cut.numbers_in((4, 5, 6), [(3, 4), (0, 2), (1, 2)])
        [2]
        """
        found, axis = [0], 0
        for n, step, count in zip(self.sides, self.steps, self.grid, strict=True):
            low, high, product = 0, 0, 1
            while product < n and axis < len(sides):
                side, (start, stop) = sides[axis], box[axis]
                low, high, product = low * side + start, high * side + stop - 1, product * side
                axis += 1
            if product != n:  # axes that the blocks do not respect
                return list(range(len(self)))
            here = range(low // step, high // step + 1)
            found = [before * count + q for before in found for q in here]
        return found


def _cut(sides: Sequence[int], itemsize: int) -> Blocks:
    """Return how to cut a chunk: a plane across any axis is to need few of the blocks.

    Axes without a cut are taken for one with the axis before them.

    Examples
    --------
    >>> cut = _cut((60, 80, 30), 4)
    >>> cut.sides, cut.steps, cut.grid
    ((60, 2400), (15, 600), (4, 4))
    """
    steps = list(sides)
    rest = math.prod(steps) * itemsize
    while rest > limits.block_bytes:
        least = [_LEAST_SIDE] * (len(steps) - 1) + [max(_LEAST_SIDE, _LEAST_ROW // itemsize)]
        cuts = [-(-n // step) for n, step in zip(sides, steps, strict=True)]
        possible = [j for j, step in enumerate(steps) if step >= 2 * least[j]]
        if not possible:
            break
        axis = min(possible, key=lambda j: (cuts[j], j))
        steps[axis] = -(-sides[axis] // (2 * cuts[axis]))
        rest = math.prod(steps) * itemsize
    if rest > 2 * limits.block_bytes or len(sides) == 1:  # long and narrow, or a line
        n = math.prod(sides)
        return Blocks((n,), (-(-n // -(-n * itemsize // limits.block_bytes)),))
    joined: list[tuple[int, int]] = []
    for n, step in zip(sides, steps, strict=True):
        if joined and (step == n or joined[-1][0] == 1):
            before, of_block = joined.pop()
            joined.append((before * n, of_block * step))
        else:
            joined.append((n, step))
    return Blocks(*zip(*joined, strict=True))


# -- encoding --------------------------------------------------------------------------------------


def encode(
    codec: Codec, chunk: memoryview, itemsize: int, sides: Sequence[int] | None = None
) -> Encoded:
    """Return a chunk as a codec has it; raw, if that saves too little.

    Parameters
    ----------
    codec : Codec
    chunk : memoryview
        Its bytes, contiguous; of whole elements.
    itemsize : int
        Bytes of an element.
    sides : sequence of int, optional
        Elements along the axes of the chunk, the slowest first; by default, they lie in a line.

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
    blocks = 0
    if codec.id != CodecId.NAMED and len(chunk) > limits.divided_bytes:
        cut = _cut((len(chunk) // itemsize,) if sides is None else sides, itemsize)
        blocks = len(cut) if len(cut) > 1 else 0
    if codec.id == CodecId.NAMED:
        payload = compress_named(codec, _filtered(filter_id, chunk, itemsize), itemsize)
    elif blocks:
        payload = _divided(codec, filter_id, chunk, itemsize, cut)
    else:
        payload = _compressed(codec, filter_id, chunk, itemsize)
    if not _saves(len(payload), len(chunk)):
        return Encoded(CodecId.RAW, FilterId.NONE, 0, chunk)
    return Encoded(codec.id, filter_id, blocks, payload)


def encode_again(
    codec: Codec,
    filter_id: int,
    chunk: memoryview,
    itemsize: int,
    cut: Blocks,
    kept: Mapping[int, memoryview],
) -> Encoded | None:
    """Return a chunk of which some blocks have changed; None: a codec saves too little.

    Parameters
    ----------
    codec, chunk, itemsize
        As in `encode`; elements of blocks that have not changed do not count.
    filter_id : int
    cut : Blocks
    kept : mapping of int to memoryview
        The frames of the blocks that have not changed, by number.
    """
    payload = _divided(codec, filter_id, chunk, itemsize, cut, kept)
    if not _saves(len(payload), len(chunk)):
        return None
    return Encoded(codec.id, filter_id, len(cut), payload)


def _divided(
    codec: Codec,
    filter_id: int,
    chunk: memoryview,
    itemsize: int,
    cut: Blocks,
    kept: Mapping[int, memoryview] = MappingProxyType({}),
) -> bytes:
    """Return the payload of a chunk that is cut into blocks; see `encode_again`."""
    elements = _elements(chunk, cut, itemsize)
    frames: list[bytes | memoryview] = [
        kept[number]
        if number in kept
        else _compressed(codec, filter_id, _bytes_of(elements[cut.place(number)]), itemsize)
        for number in range(len(cut))
    ]
    first = table_bytes(len(cut.sides), len(cut))
    ends = list(accumulate(map(len, frames), initial=first))[1:]
    sums = [0] * len(frames)  # until the payload is stored
    words = np.array([len(cut.sides), *cut.sides, *cut.steps, *ends, *sums], "<u4")
    return b"".join((words.tobytes(), *frames))


def _elements(chunk: memoryview, cut: Blocks, itemsize: int) -> NDArray[np.uint8]:
    """Return a chunk's elements as an array with the axes of `place`, and one of their bytes."""
    return np.frombuffer(chunk, np.uint8).reshape(*cut.lengths, itemsize)


def _bytes_of(elements: NDArray[np.uint8]) -> memoryview:
    return memoryview(np.ascontiguousarray(elements)).cast("B")


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
    if not blocks:
        decode_frame_into(out, codec, filter_id, payload, itemsize)
        return
    cut = read_blocks(payload, codec, blocks, len(out), itemsize, len(payload))
    numbers = range(blocks)

    def decode(some: Iterable[int]) -> None:
        taken = ((number, payload[slice(*cut.frame(number))]) for number in some)
        decode_blocks_into(out, codec, filter_id, cut, taken, itemsize)

    if min(threads, blocks) <= 1:
        decode(numbers)
    else:
        run_together([partial(decode, numbers[k::threads]) for k in range(threads)])


def decode_blocks_into(
    out: memoryview,
    codec: int,
    filter_id: int,
    cut: Blocks,
    frames: Iterable[tuple[int, memoryview]],
    itemsize: int,
) -> None:
    """Write the elements of some blocks of a chunk, given as their numbers and frames.

    Parameters and errors are those of `decode_into`.
    """
    for number, frame in frames:
        how = number, codec, filter_id, frame, itemsize
        if decode_block_alone(out, cut.sides, cut.steps, *how):
            continue
        place = _elements(out, cut, itemsize)[cut.place(number)]
        block = np.empty(place.size, np.uint8)
        decode_frame_into(memoryview(block), codec, filter_id, frame, itemsize)
        place[...] = block.reshape(place.shape)


def table_bytes(n_axes: int, blocks: int) -> int:
    """Return the bytes of a payload with blocks before the first frame."""
    return _WORD * (1 + 2 * n_axes + 2 * blocks)


def n_axes_of(payload: Buffer) -> int:
    """Return the number of axes along which a payload with blocks is cut, from its first bytes."""
    n = memoryview(payload).nbytes
    (found,) = struct.unpack_from("<I", payload) if n >= _WORD else (0,)
    if not 1 <= found <= _MOST_AXES:
        raise CorruptError(f"the blocks of a payload have {found} axes")
    return int(found)


def read_blocks(
    table: Buffer, codec: int, blocks: int, n_bytes: int, itemsize: int, n_payload: int
) -> Blocks:
    """Return how the payload of a chunk is cut into blocks.

    Parameters
    ----------
    table : buffer
        The payload, at least up to the first frame.
    codec, blocks : int
        As in `Encoded`; there are blocks.
    n_bytes : int
        Of the chunk.
    itemsize : int
    n_payload : int
        Bytes of the payload.

    Raises
    ------
    CorruptError
        A chunk of so many bytes cannot be cut so.
    """
    if codec in (CodecId.RAW, CodecId.CONSTANT, CodecId.NAMED):
        raise CorruptError(f"a payload of codec {codec} has no blocks, but names {blocks}")
    k = n_axes_of(table)
    if table_bytes(k, blocks) > min(n_payload, memoryview(table).nbytes):
        raise CorruptError(f"a payload of {n_payload} bytes cannot have {blocks} blocks")
    words = struct.unpack_from(f"<{2 * k + 2 * blocks}I", table, _WORD)
    sides, steps, ends = words[:k], words[k : 2 * k], words[2 * k : 2 * k + blocks]
    fits = all(1 <= step <= n for n, step in zip(sides, steps, strict=True))
    if not fits or math.prod(sides) * itemsize != n_bytes:
        raise CorruptError(f"the blocks of a payload are not those of a chunk of {n_bytes} bytes")
    cut = Blocks(sides, steps, ends, words[2 * k + blocks :])
    if len(cut) != blocks:
        raise CorruptError(f"a payload names {blocks} blocks, but is cut into {len(cut)}")
    bounds = table_bytes(k, blocks), *ends
    if ends[-1] != n_payload or any(first > last for first, last in pairwise(bounds)):
        raise CorruptError("the ends of the blocks of a payload are not in order")
    return cut


def decode_frame_into(
    out: memoryview, codec: int, filter_id: int, frame: memoryview, itemsize: int
) -> None:
    """Write the bytes of one frame; see `decode_into`."""
    if decode_alone(out, codec, filter_id, frame, itemsize):
        return
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
