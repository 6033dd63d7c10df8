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
