from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Protocol, Self, final, type_check_only

import numpy as np
from numpy.typing import NDArray

from extarray._core._mapping import Counter

@type_check_only
class Rest(Protocol):
    """Blocks of a chunk that are not decoded yet; several threads may use it at the same time."""

    @property
    def is_whole(self) -> bool:
        """All of them have come."""

    def want(self, box: Sequence[tuple[int, int]] | None) -> None:
        """Decode those with elements of a box (None: all), unless they are there."""

@type_check_only
class Decoder(Protocol):
    """The source of frozen chunks; several threads may call it at the same time."""

    def decode(
        self,
        addresses: list[int],
        entries: list[int],
        keeps: bool,
        take: Callable[[list[int], list[NDArray[np.uint8]], Sequence[Rest | None] | None], object],
        boxes: list[Sequence[tuple[int, int]] | None] | None = None,
    ) -> None:
        """Hand the bytes of chunks, each in contiguous memory, to `take` with their numbers here.

        With `boxes`, only these need be there: for each axis of a chunk, the slowest first, where
        the part begins and ends; None stands for all of it.  The third argument of `take` has the
        `Rest` of each chunk, None for those of which all bytes are there, or is None: all have all.

        `take` is called for some chunks at a time, perhaps by several threads.  Unless it `keeps`
        the memory, that may be used again.
        """

# A decoded chunk, as the compiled modules share it.
@final
class Decoded:
    def __new__(cls) -> Self: ...

# Keeps the chunks that a `Decoder` hands to it.
@final
class Kept:
    def __new__(cls) -> Self: ...
    def __call__(
        self,
        numbers: list[int],
        chunks: list[NDArray[np.uint8]],
        rests: list[Rest | None] | None = None,
    ) -> None: ...

@final
class Frozen:
    def __new__(
        cls,
        decoder: Decoder,
        chunk_bytes: int,
        bound: int | None,
        freezes: Counter,
        rewrites: int,
        divides: bool = False,
    ) -> Self: ...
    @property
    def share(self) -> int: ...
    @property
    def thawing(self) -> Lock: ...
    def add_extent(self, words: Any) -> None: ...
    def entries(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]: ...
    def set_entry(self, address: int, entry: int) -> None: ...
