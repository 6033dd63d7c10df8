"""The libraries that compress bytes: zstd, LZ4, zlib, and those that other packages register.

Each is imported when it is first used.  `compress` gives one frame; `decompress` gives the bytes of
one frame, of known number, and takes no more memory than that number asks for, whatever the frame
says.
"""

from __future__ import annotations

import sys
import threading
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

from extarray.codecs import _frames
from extarray.codecs.codec import ENTRY_POINTS, Codec, CodecId, registered
from extarray.common.errors import CorruptError, VersionError
from extarray.common.extras import missing, require

if TYPE_CHECKING:
    from collections.abc import Buffer
    from types import ModuleType

__all__ = [
    "ZLIB_LEVEL",
    "ZSTD_LEVEL",
    "check_present",
    "compress",
    "compress_named",
    "decompress",
    "decompress_named",
]

_PURPOSE = "a compressed array"
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_ZSTD_CORE = "_zstd" if sys.version_info >= (3, 14) else "backports.zstd._zstd"
_ZSTD_FUNCTIONS = (
    "ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_findFrameCompressedSize", "ZSTD_decompressDCtx",
)  # fmt: skip
#: Levels of codecs that name none.
ZSTD_LEVEL, ZLIB_LEVEL = 3, 4
# Least bytes of a plane that gets blocks of its own.
_PLANE = 1 << 8
_ONCE = 1 << 24
# Frames may ask for a window of 8 MiB, which RFC 8878 recommends, or of all of their bytes.
_WINDOW_LOG = 23
# Has the compressor of zstd that a thread has used last, with its level: making one takes time.
_thread = threading.local()


@cache
def _zstd() -> ModuleType:
    # Decoding takes and frees some hundred kilobytes for each frame.  The allocator of glibc gives
    # them back to the system each time, and new pages cost more than the decoding, until a process
    # has freed something larger: this, which is never touched.
    bytes(_ONCE)
    try:
        found = require(_ZSTD, "compression", _PURPOSE)
    except ModuleNotFoundError:  # there are other packages below `backports`
        raise missing(_ZSTD, "compression", _PURPOSE) from None
    _frames.use_zstd(*_functions(_ZSTD_CORE, *_ZSTD_FUNCTIONS))
    return found


@cache
def _lz4() -> ModuleType:
    found = require("lz4.block", "compression", _PURPOSE)
    _frames.use_lz4(*_functions("lz4.block._block", "LZ4_decompress_safe"))
    return found


def _functions(module: str, *names: str) -> list[int]:
    """Return the addresses of C functions that a compiled module shows; zeros if any is missing."""
    try:
        import ctypes  # some Pythons lack it

        library = ctypes.CDLL(sys.modules[module].__file__ or "")
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    except (ImportError, KeyError, AttributeError, OSError):
        found = []
    return [address or 0 for address in found] if all(found) and found else [0] * len(names)


def check_present(codec: Codec) -> None:
    """Raise MissingExtraError if the library of a codec is not installed."""
    if codec.id is not CodecId.NAMED:
        compress(codec, b"")


def compress(codec: Codec, data: Buffer, planes: int = 1) -> bytes:
    """Return bytes as one frame of a codec.

    `planes`: how many parts of equal length, of unlike bytes, lie one after the other.
    """
    level = codec.level
    match codec.id:
        case CodecId.ZSTD:
            level = ZSTD_LEVEL if level is None else level
            if planes > 1 and memoryview(data).nbytes >= planes * _PLANE:
                found = _compress_planes(memoryview(data), level, planes)
            else:
                found = _zstd().compress(data, level)
        case CodecId.LZ4:
            how = {} if level is None else {"mode": "high_compression", "compression": level}
            found = _lz4().compress(data, store_size=False, **how)
        case _:
            found = zlib.compress(data, ZLIB_LEVEL if level is None else level)
    return found


def _compress_planes(data: memoryview, level: int, planes: int) -> bytes:
    """Return a frame of zstd in which blocks end where planes do.

    Each block has a code of its own, so that noise in one plane costs the others nothing.
    """
    known: tuple[int, Any] | None = getattr(_thread, "encoder", None)
    _thread.encoder = None  # until the frame is whole
    if known is None or known[0] != level:
        known = level, _zstd().ZstdCompressor(level=level)
    encoder = known[1]
    encoder.set_pledged_input_size(len(data))
    step = len(data) // planes
    parts = [
        encoder.compress(data[start : start + step], encoder.FLUSH_BLOCK)
        for start in range(0, (planes - 1) * step, step)
    ]
    parts.append(encoder.compress(data[(planes - 1) * step :], encoder.FLUSH_FRAME))
    _thread.encoder = known
    return b"".join(parts)


def decompress(codec: int, frame: memoryview, size: int) -> bytes:
    """Return the `size` bytes of a frame.

    Raises
    ------
    CorruptError
        The frame is damaged, or has another number of bytes.
    VersionError
        There is no such codec.
    MissingExtraError
        Its library is not installed.
    """
    match codec:
        case CodecId.ZSTD:
            return _decompress_zstd(frame, size)
        case CodecId.LZ4:
            return _decompress_lz4(frame, size)
        case CodecId.ZLIB:
            return _decompress_zlib(frame, size)
    raise VersionError(
        f"codec {codec} is none that this version of extarray knows; install a newer version"
    )


def _decompress_zstd(frame: memoryview, size: int) -> bytes:
    zstd = _zstd()
    window = max(_WINDOW_LOG, (size - 1).bit_length())
    decoder = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window})
    try:
        return _all_of(decoder, frame, size)
    except zstd.ZstdError as error:
        raise CorruptError(f"a frame of zstd is damaged: {error}") from None


def _decompress_zlib(frame: memoryview, size: int) -> bytes:
    try:
        return _all_of(zlib.decompressobj(), frame, size)
    except zlib.error as error:
        raise CorruptError(f"a frame of zlib is damaged: {error}") from None


def _all_of(decoder: Any, frame: memoryview, size: int) -> bytes:
    """Return all bytes that a decoder gives, if their number is right and the frame ends there."""
    data: bytes = decoder.decompress(frame, size + 1)  # one more shows whether there are more
    if len(data) != size or not decoder.eof or decoder.unused_data:
        raise _wrong(size)
    return data


def _decompress_lz4(frame: memoryview, size: int) -> bytes:
    lz4 = _lz4()
    try:
        data: bytes = lz4.decompress(frame, uncompressed_size=size)
    except (lz4.LZ4BlockError, ValueError, OverflowError) as error:
        raise CorruptError(f"an LZ4 block is damaged: {error}") from None
    if len(data) != size:
        raise _wrong(size)
    return data


def _wrong(size: int) -> CorruptError:
    return CorruptError(f"a frame does not hold the {size} bytes that belong there")


# -- codecs of other packages ----------------------------------------------------------------------


@cache
def _named(name: str) -> Any:
    """Return the object that a package registers as a codec; None: there is none."""
    point = registered().get(name)
    return None if point is None else point.load()


def compress_named(codec: Codec, data: Buffer, itemsize: int) -> bytes:
    """Return the payload of a codec of another package: its name, then its bytes."""
    name = codec.name.encode("ascii")
    found = _named(codec.name).encode(memoryview(data), itemsize, codec.level)
    return bytes([len(name)]) + name + bytes(found)


def decompress_named(payload: memoryview, size: int, itemsize: int) -> bytes:
    """Return the `size` bytes of such a payload."""
    n = payload[0] if len(payload) else 0
    name = bytes(payload[1 : 1 + n]).decode("ascii", "replace")
    if not n or len(payload) < 1 + n:
        raise CorruptError("the payload of a named codec does not begin with a name")
    codec = _named(name)
    if codec is None:
        raise VersionError(
            f"chunks are encoded by the codec {name!r}, which no installed package registers as an "
            f"entry point of {ENTRY_POINTS!r}"
        )
    try:
        data = memoryview(codec.decode(payload[1 + n :], size, itemsize)).cast("B")
    except (MemoryError, ImportError):  # the payload may be right
        raise
    except Exception as error:  # whatever the package raises
        raise CorruptError(f"the codec {name!r} does not decode a payload: {error}") from error
    if len(data) != size:
        raise _wrong(size)
    return bytes(data)
