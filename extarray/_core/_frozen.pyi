from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol, Self, final

import numpy as np
from numpy.typing import NDArray

from extarray._core._mapping import Counter, Region
from extarray._core._supply import Supply

class Decoder(Protocol):
    """The source of frozen chunks; several threads may call it, but never for one chunk."""

    def decode(self, addresses: NDArray[np.int64], entries: NDArray[np.uint64]) -> None:
        """Write chunks to their places in the shadow, from the blobs that their entries locate."""

    def evict(self, addresses: NDArray[np.int64]) -> None:
        """Free the memory of chunks in the shadow."""

@final
class Frozen:
    def __new__(
        cls,
        provider: Decoder,
        chunk_bytes: int,
        bound: int | None,
        freezes: Counter,
        mapped: Callable[[int], Region],
    ) -> Self: ...
    @property
    def supply(self) -> Supply: ...
    @property
    def thawing(self) -> Lock: ...
    def add_extent(self, words: Any) -> None: ...
    def entries(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]: ...
    def set_entry(self, address: int, entry: int) -> None: ...
