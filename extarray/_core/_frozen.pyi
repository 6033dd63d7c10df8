from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol, Self, final, type_check_only

import numpy as np
from numpy.typing import NDArray

from extarray._core._mapping import Counter

@type_check_only
class Decoder(Protocol):
    """The source of frozen chunks; several threads may call it at the same time."""

    def decode(
        self,
        addresses: list[int],
        entries: list[int],
        keeps: bool,
        take: Callable[[list[int], list[NDArray[np.uint8]]], object],
    ) -> None:
        """Hand the bytes of chunks, each in contiguous memory, to `take` with their numbers here.

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
    def __call__(self, numbers: list[int], chunks: list[NDArray[np.uint8]]) -> None: ...

@final
class Frozen:
    def __new__(
        cls,
        decoder: Decoder,
        chunk_bytes: int,
        bound: int | None,
        freezes: Counter,
        rewrites: int,
    ) -> Self: ...
    @property
    def share(self) -> int: ...
    @property
    def thawing(self) -> Lock: ...
    def add_extent(self, words: Any) -> None: ...
    def entries(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]: ...
    def set_entry(self, address: int, entry: int) -> None: ...
