from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_rows(rows: np.ndarray[tuple[int, int], Any], crc: int = 0) -> NDArray[np.uint32]: ...
def crc32c_first_wrong(rows: np.ndarray[tuple[int, int], Any], crc: int = 0) -> int: ...
def crc32c_ranges(fd: int, offsets: NDArray[np.int64], length: int) -> NDArray[np.uint32]: ...
def crc32c_bytewise(data: Buffer) -> int: ...
def read_log(
    fd: int,
    start: int,
    length: int,
    uuid: Buffer,
    known: Sequence[int],
    data: Buffer,
    size: int,
    first: int,
) -> list[int]: ...
