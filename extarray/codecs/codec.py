"""`Codec`, which users name, and the numbers that files have for codecs and filters."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.common.hints import hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ENTRY_POINTS", "Codec", "CodecId", "FilterId", "registered"]

#: Group of the entry points by which packages register codecs.
ENTRY_POINTS = "extarray.codecs"


class CodecId(enum.IntEnum):
    """Numbers of codecs in files."""

    RAW = 0  # the bytes themselves
    CONSTANT = 1  # one element, which all are equal to
    ZSTD = 2
    LZ4 = 3  # an LZ4 block
    ZLIB = 5  # 4 is kept for chunks of Blosc2
    NAMED = 0xFFFF  # the payload begins with a name: a byte with its length, and ASCII


class FilterId(enum.IntEnum):
    """Numbers of filters in files."""

    NONE = 0
    SHUFFLE = 1
    BITSHUFFLE = 2


_IDS = {"zstd": CodecId.ZSTD, "lz4": CodecId.LZ4, "zlib": CodecId.ZLIB}
_LEVELS = {"zstd": range(-7, 23), "lz4": range(1, 13), "zlib": range(10)}
_FILTERS = {None: FilterId.NONE, "shuffle": FilterId.SHUFFLE, "bitshuffle": FilterId.BITSHUFFLE}
_AUTO = "auto"
# Names that h5py and NumPy's users know.
_OTHER_NAMES = {"gzip": "zlib", "deflate": "zlib", "zstandard": "zstd"}
# Filters of HDF5 by number: the codec, and the place of its level among the options.
_HDF5 = {1: ("zlib", 0), 32004: ("lz4", None), 32015: ("zstd", 0)}
_HDF5_BLOSC = (32001, 32026)
_HDF5_BITSHUFFLE = 32008
_HDF5_SHUFFLE, _HDF5_FLETCHER32 = 2, 3
_BLOSC_CODECS = {1: "lz4", 2: "lz4", 4: "zlib", 5: "zstd"}
_BLOSC_NAMES = {"lz4": "lz4", "lz4hc": "lz4", "zlib": "zlib", "zstd": "zstd"}
_BLOSC_FILTERS: dict[int | str | None, str | None] = {
    0: None, "noshuffle": None, 2: "bitshuffle", "bitshuffle": "bitshuffle",
}  # fmt: skip


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Codec:
    """Compression of chunks: an algorithm, its level, and a filter that comes before it.

    Parameters
    ----------
    name : str
        "zstd" (small), "lz4" (fast), "zlib" (in every Python; h5py's "gzip" is the same), or the
        name by which a package registers a codec of its own.  "auto" stands for "zstd" with the
        filter "auto".
    level : int, optional
        "zstd": -7 to 22, by default 3.  "lz4": 1 to 12, which take longer to write and as long to
        read as the default.  "zlib": 0 to 9, by default 4.
    filter : {None, "shuffle", "bitshuffle", "auto"}, optional
        "shuffle" puts bytes of equal weight side by side before they are compressed, "bitshuffle"
        bits.  "auto" chooses for each chunk, perhaps neither.

    Raises
    ------
    ArgumentError
        A ValueError: there is no such codec, level or filter.

    See Also
    --------
    pack : Write a compressed file, ``compression=``.

    Notes
    -----
    No filter is best for all data.  "shuffle" mostly helps measured values, and harms text and
    images of few colours.  "auto" takes a little longer to write, and as long to read.

    As a str, a codec has the form that ``compression=`` and the command line take, too.

    Examples
    --------
    >>> import extarray as xa
    >>> xa.Codec("zstd", level=3, filter="shuffle")
    Codec('zstd', level=3, filter='shuffle')
    >>> str(xa.Codec("zstd", level=3, filter="shuffle")), str(xa.Codec("lz4"))
    ('zstd:3:shuffle', 'lz4')
    >>> xa.Codec("auto")
    Codec('zstd', filter='auto')
    """

    name: str
    level: int | None
    filter: str | None

    def __init__(self, name: str, level: int | None = None, filter: str | None = None) -> None:  # noqa: A002
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a codec is named by a str, not by {name!r}")
        given = name
        if name == _AUTO:
            name, filter = "zstd", _AUTO if filter is None else filter  # noqa: A001
        name = _OTHER_NAMES.get(name, name)
        if name not in _IDS and name not in registered():
            raise ArgumentError(f"there is no codec {given!r}; {_possible()}")
        if filter not in (*_FILTERS, _AUTO):
            raise ArgumentError(
                f"there is no filter {filter!r}; possible are None, 'shuffle', 'bitshuffle' and "
                "'auto'"
            )
        level = None if level is None else _checked_level(name, level)
        for field, value in (("name", name), ("level", level), ("filter", filter)):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        level = f", level={self.level}" if self.level is not None else ""
        found = f", filter={self.filter!r}" if self.filter is not None else ""
        return f"Codec({self.name!r}{level}{found})"

    def __str__(self) -> str:
        parts = self.name, self.level, self.filter
        return ":".join(str(part) for part in parts if part is not None)

    @property
    def id(self) -> CodecId:
        """The number that files have for it."""
        return _IDS.get(self.name, CodecId.NAMED)

    @property
    def filter_id(self) -> FilterId | None:
        """The number of its filter; None: it is chosen for each chunk."""
        return None if self.filter == _AUTO else _FILTERS[self.filter]

    @classmethod
    def parse(cls, compression: Any) -> Codec | None:
        """Return the codec that a user gives as ``compression=``; None: there is none.

        Parameters
        ----------
        compression : None, str, int, Codec or object
            A str has the form of ``str(codec)``: a name, and perhaps a level and a filter.  An int
            is a level of h5py's "gzip".  Codecs of hdf5plugin, of zarr and of numcodecs, alone or
            as the one in a list, and their descriptions in JSON, are translated.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            It is none that exists here.

        Examples
        --------
        >>> Codec.parse("zstd:5:auto"), Codec.parse("gzip"), Codec.parse(None)
        (Codec('zstd', level=5, filter='auto'), Codec('zlib'), None)
        >>> Codec.parse({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2})
        Codec('lz4', filter='bitshuffle')
        """
        if compression is None or isinstance(compression, cls):
            return compression
        if isinstance(compression, str):
            return cls._of_text(compression)
        if isinstance(compression, (int, np.integer)) and not isinstance(compression, bool):
            return cls("zlib", int(compression))
        if isinstance(compression, (list, tuple)):
            if len(compression) == 1:
                return cls.parse(compression[0])
            raise ArgumentError(
                f"one codec compresses chunks, but {len(compression)} are given; "
                + hint("a filter is an option of extarray.Codec", "write NAME:LEVEL:FILTER")
            )
        if hasattr(compression, "filter_id") and hasattr(compression, "filter_options"):
            return cls._of_hdf5(compression.filter_id, tuple(compression.filter_options))
        # zarr's Blosc names a filter, even where it would choose one that suits the data type.
        is_open = "shuffle" in getattr(compression, "_tunable_attrs", ())
        for method in ("to_dict", "get_config"):  # of zarr, of numcodecs
            if callable(getattr(compression, method, None)):
                compression = getattr(compression, method)()
        if not isinstance(compression, Mapping):
            raise ArgumentTypeError(
                f"compression={compression!r} is no codec that extarray knows; {_possible()}"
            )
        facts = {**compression, **(compression.get("configuration") or {})}
        if is_open:
            facts["shuffle"] = None
        name = str(compression.get("id", compression.get("name")))
        return cls._of_zarr(name.removeprefix("numcodecs."), facts)

    @classmethod
    def of_filters(cls, filters: Sequence[tuple[int, tuple[int, ...]]]) -> Codec | None:
        """Return the codec that the filters of a dataset in HDF5 are; None: they compress nothing.

        Parameters
        ----------
        filters : sequence of (int, tuple of int)
            Numbers and options, in the order of writing.

        Raises
        ------
        ArgumentError
            There is no such codec here.

        Examples
        --------
        >>> Codec.of_filters([(2, (8,)), (1, (4,)), (3, ())])  # shuffle, gzip, fletcher32
        Codec('zlib', level=4, filter='shuffle')
        """
        left = [each for each in filters if each[0] != _HDF5_FLETCHER32]
        shuffles = bool(left) and left[0][0] == _HDF5_SHUFFLE
        left = left[shuffles:]
        if not left:
            return None
        if len(left) > 1:
            raise ArgumentError(f"extarray has no codec for HDF5's filters {[n for n, _ in left]}")
        found = cls._of_hdf5(*left[0])
        return cls(found.name, found.level, "shuffle") if shuffles and not found.filter else found

    @classmethod
    def _of_text(cls, text: str) -> Codec:
        name, *options = text.split(":")
        level, found = None, None
        for option in options:
            try:
                number = int(option)
            except ValueError:
                if found is not None:
                    raise ArgumentError(f"compression={text!r} has two filters") from None
                found = option
            else:
                if level is not None:
                    raise ArgumentError(f"compression={text!r} has two levels")
                level = number
        return cls(name, level, found)

    @classmethod
    def _of_hdf5(cls, number: int, options: tuple[int, ...]) -> Codec:
        """Translate a filter of HDF5."""
        if number in _HDF5:
            name, at = _HDF5[number]
            return cls(name, options[at] if at is not None and len(options) > at else None)
        if number in _HDF5_BLOSC and len(options) >= 7 and options[6] in _BLOSC_CODECS:
            name = _BLOSC_CODECS[options[6]]
            return cls(name, _level_of_blosc(name, options[4]), _filter_of_blosc(options[5]))
        if number == _HDF5_BITSHUFFLE and len(options) >= 2 and options[1] in (2, 3):
            name = "lz4" if options[1] == 2 else "zstd"
            level = options[2] if name == "zstd" and len(options) > 2 else None
            return cls(name, level, "bitshuffle")
        raise ArgumentError(f"extarray has no codec for HDF5's filter {number}; {_possible()}")

    @classmethod
    def _of_zarr(cls, name: str, facts: Mapping[str, Any]) -> Codec:
        """Translate a codec of zarr or numcodecs from its description."""
        if name == "blosc" and facts.get("cname") in _BLOSC_NAMES:
            name = _BLOSC_NAMES[facts["cname"]]
            level = _level_of_blosc(name, facts.get("clevel"))
            return cls(name, level, _filter_of_blosc(facts.get("shuffle")))
        if name in ("zstd", "gzip", "zlib"):
            return cls(name, facts.get("level"))
        if name == "lz4":
            return cls(name)
        raise ArgumentError(f"extarray has no codec for zarr's {name!r}; {_possible()}")


def _checked_level(name: str, level: Any) -> int:
    number = as_int(level, "the level of a codec")
    levels = _LEVELS.get(name)
    if levels is not None and number not in levels:
        raise ArgumentError(f"{name!r} has the levels {levels[0]} to {levels[-1]}, not {number}")
    return number


def _level_of_blosc(name: str, level: int | None) -> int | None:
    """Return the level of a codec inside Blosc, whose levels are 0 to 9."""
    return None if name == "lz4" else level


def _filter_of_blosc(shuffle: int | str | None) -> str | None:
    """Return the filter that Blosc's name or number means; byte shuffle is its default."""
    return _BLOSC_FILTERS.get(shuffle, "shuffle")


def registered() -> dict[str, EntryPoint]:
    """Return the codecs of other packages, by name."""
    from importlib.metadata import entry_points  # takes as long as the rest of the package

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _possible() -> str:
    names = ", ".join(map(repr, (_AUTO, *_IDS, *sorted(registered()))))
    how = hint("extarray.Codec(name, level, filter)", "NAME:LEVEL:FILTER")
    return f"possible are {names}, and {how}"
