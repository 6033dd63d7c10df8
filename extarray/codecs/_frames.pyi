from typing_extensions import Buffer

def use_zstd(create: int, drop: int, length: int, decode: int) -> None: ...
def use_lz4(decode: int) -> None: ...
def decode_alone(out: Buffer, codec: int, filter_id: int, frame: Buffer, itemsize: int) -> bool: ...
def decode_block_alone(
    out: Buffer,
    sides: tuple[int, ...],
    steps: tuple[int, ...],
    number: int,
    codec: int,
    filter_id: int,
    frame: Buffer,
    itemsize: int,
) -> bool: ...
