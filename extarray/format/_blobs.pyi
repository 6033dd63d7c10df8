from collections.abc import Sequence
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

@final
class BlobReader:
    def __new__(cls, uuid: bytes, codec: int, itemsize: int, chunk_bytes: int) -> Self: ...
    def read(
        self,
        fd: int,
        words: list[int],
        addresses: list[int],
        chunks: list[NDArray[np.uint8]],
        verify: bool,
    ) -> list[int]: ...
    def read_part(
        self,
        fd: int,
        word: int,
        address: int,
        chunk: NDArray[np.uint8],
        sides: tuple[int, ...],
        box: Sequence[tuple[int, int]],
        verify: bool,
    ) -> list[int] | None: ...
    def read_blocks(
        self,
        fd: int,
        offset: int,
        chunk: NDArray[np.uint8],
        sides: tuple[int, ...],
        steps: tuple[int, ...],
        blocks: list[tuple[int, int, int, int]],
        codec: int,
        filter_id: int,
        verify: bool,
    ) -> bool: ...
