"""The table of frozen chunks of a pair of files elsewhere, as it came with the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from extarray.format.blocks import sums_capacity
from extarray.format.constants import CUTS_BYTES
from extarray.format.frozen import TABLE_WORDS, extents_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.format.blobs import BlobsBlock
    from extarray.format.header import Header

__all__ = ["Words"]


class Words:
    """The table of frozen chunks, in metadata as they were fetched.

    Attributes
    ----------
    block : BlobsBlock
    chunk_bytes : int
    number : int
        Number of freezes before the words.
    may_change : bool
        A writer is noted, which may be dead.
    """

    def __init__(self, content: bytes, header: Header, block: BlobsBlock, may_change: bool) -> None:
        at = header.freezes_offset
        self.number = int.from_bytes(content[at : at + CUTS_BYTES], "little")
        self.block, self.may_change, self.chunk_bytes = block, may_change, header.chunk_bytes
        self._extents = [
            np.frombuffer(content, "<u8", TABLE_WORDS * sums_capacity(e), at)
            for e, at in enumerate(block.extents)
        ]

    def of(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the live words of chunks, and the durable ones."""
        live, durable = np.zeros((2, len(addresses)), np.uint64)
        numbers, within = extents_of(addresses)
        for number in np.unique(numbers).tolist():
            if number < len(self._extents):
                here = numbers == number
                live[here] = self._extents[number][TABLE_WORDS * within[here]]
                durable[here] = self._extents[number][TABLE_WORDS * within[here] + 1]
        return live, durable
