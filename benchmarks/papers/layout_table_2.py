"""Table 2 of the layout paper."""

from __future__ import annotations

from . import conversions
from .harness import Report, Work

TITLE = "Layout paper, table 2: reading across chunks or changing them first"
PAPER = (
    "32768 x 32768 doubles, row-major on the disk, read in blocks of 4 x 32768 to 4096 x 32 by "
    "1 and 2 processes: skewed; converted first; aligned. Near-matching blocks are not worth a "
    "conversion for one read, skewed ones are (one read paid from 512 x 256, with a tie at 256 "
    "x 512); aligned reads cost the same for all blocks; a conversion hardly depends on the "
    "block and takes one pass."
)


def run(work: Work) -> Report:
    side = work.choose(conversions.SIDES) // 2
    return conversions.report(work, side, (1, 2), with_squares=True)
