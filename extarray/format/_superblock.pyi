from typing import Any, TypeVar

from typing_extensions import Buffer

# A superblock: a tuple of the fields that `superblock_fields` returns.
_Block = TypeVar("_Block", bound=tuple[Any, ...])

def superblock_bytes(ndim: int) -> int: ...
def encode_superblock(block: tuple[Any, ...]) -> bytes: ...
def superblock_fields(data: Buffer, ndim: int) -> tuple[Any, ...] | None: ...
def next_superblock(
    block: _Block,
    unclean: bool,
    n_segments: int,
    data_bytes: int,
    end: int,
    shape: tuple[int, ...],
    offset: tuple[int, ...],
    grid: tuple[int, ...],
) -> _Block: ...
