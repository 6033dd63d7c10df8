"""Table 3 of the layout paper."""

from __future__ import annotations

from . import conversions
from .harness import Report, Work

TITLE = "Layout paper, table 3: the same on 4 processes"
PAPER = (
    "65536 x 65536 doubles on 4 processes of the same cluster, blocks of 8 x 16384 to 512 x "
    "256. One read paid from 256 x 512; the conversion took 466 to 733 s."
)


def run(work: Work) -> Report:
    return conversions.report(work, work.choose(conversions.SIDES), (4,))
