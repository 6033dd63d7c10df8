"""Checks that what a superblock says can be true."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from extarray.format.checksum_table import sums_capacity
from extarray.format.constants import LAST_END, LIMIT
from extarray.format.records import EXTENT_HEAD_BYTES, extent_capacity, record_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.format.header import Header
    from extarray.format.superblock import Superblock

__all__ = ["regions_fit", "values_fit"]


def values_fit(block: Superblock, header: Header) -> bool:
    """Tell whether the numbers of a superblock agree: bounds, grid, and bytes of the chunks."""
    n_chunks = math.prod(block.grid)
    return (
        n_chunks * header.chunk_bytes == block.data_bytes < LIMIT
        and block.n_segments >= 1
        and all(n >= 0 for n in (*block.shape, *block.offset))
        and all(
            b + n <= g * c < LIMIT
            for b, n, g, c in zip(block.offset, block.shape, block.grid, header.chunks, strict=True)
        )
    )


def regions_fit(
    block: Superblock,
    header: Header,
    extents: Sequence[int],
    sums: Sequence[int] = (),
    others: Sequence[tuple[int, int]] = (),
) -> bool:
    """Tell whether all that a superblock points to lies in a region of ``.xmd`` of its own.

    `extents` are the offsets of the extents that its records lie in, `sums` those of the table of
    checksums.  `others`, offsets and lengths, must lie apart as well, and may lie behind what the
    superblock knows.
    """
    size = record_bytes(header.ndim)
    regions = [
        (offset, EXTENT_HEAD_BYTES + extent_capacity(number) * size)
        for number, offset in enumerate(extents)
    ]
    regions += [(offset, 4 * sums_capacity(number)) for number, offset in enumerate(sums)]
    regions.append((block.attrs_offset, block.attrs_capacity))
    if block.spare_offset or block.spare_capacity:
        regions.append((block.spare_offset, block.spare_capacity))
    free = header.first_extent
    for offset, length in sorted([*regions, *others]):
        if offset < free:
            return False
        free = offset + length
    last = max(offset + length for offset, length in regions)
    return last <= block.end <= LAST_END and block.attrs_bytes <= block.attrs_capacity
