"""Limits at which work is divided, shared or given up: one object, which tests change."""

from __future__ import annotations

from dataclasses import dataclass

from extarray.common.system import HAS_RANGE_LOCKS

__all__ = ["Limits", "limits"]


@dataclass(slots=True)
class Limits:
    """Sizes and times that no user sets; results do not depend on them."""

    # -- threads ---------------------------------------------------------------------------------
    #: Bytes that make a thread worth its while: of a transfer, and of chunks that are summed.
    share_bytes: int = 1 << 23
    #: The same of an operation that goes box by box.
    streamed_bytes: int = 1 << 23
    # -- selections ------------------------------------------------------------------------------
    #: Bits for an element that is listed: its place in the chunk, and its number.
    element_bits: int = 64
    # -- the grid --------------------------------------------------------------------------------
    #: Chunks, or runs of them, whose addresses are looked up at once.
    addresses_at_once: int = 1 << 16
    # -- files -----------------------------------------------------------------------------------
    #: Bytes of attributes, which the files count with 32 bits.
    attrs_bytes: int = 2**32 - 1
    #: Locks on ranges of bytes that belong to an open file.
    has_range_locks: bool = HAS_RANGE_LOCKS
    #: Seconds at least for another writer to come to the end of a commit: it may wait for the disk.
    commit_patience: float = 5.0
    #: Bytes of chunks that are compared with their sums between two reports of progress.
    compared_bytes: int = 1 << 26
    #: Bytes of an append that a writer makes in one step, while other writers wait.
    append_at_once: int = 1 << 20
    # -- rechunking and repair -------------------------------------------------------------------
    #: Bytes of a step, where memory allows: a call for less costs more than the copying, and what
    #: is much larger is not in the caches any more when it is written.
    rechunk_step_bytes: int = 1 << 21
    #: Bytes of a step while several axes are swept: elements that the slower axes hold are copied
    #: once more, and their chunks are written in parts.
    swept_bytes: int = 1 << 27
    #: Templates of an axis that are tried at first, and in all along the axes but the last.
    templates_tried: int = 128
    #: Seconds of work that a loss of power may cost: what is noted is on the disk.
    journal_interval: float = 10.0
    #: Seconds between two looks of the line that shows progress.
    progress_interval: float = 0.2
    #: Bytes in memory that are assigned between two calls of a function that is told the progress.
    progress_bytes: int = 1 << 26
    #: Chunks of a file cut short that are looked at one by one.
    chunks_looked_at: int = 1 << 20
    # -- the server of `extarray view` -----------------------------------------------------------
    #: Seconds in which a whole request has to come.
    request_patience: float = 10.0
    # -- advice on chunk shapes ------------------------------------------------------------------
    #: Shapes whose cost is worked out one row of the last axis at a time: all there are, where they
    #: are no more.
    advice_rows: int = 1 << 14
    #: Extents that are tried along the last axis.
    advice_along: int = 1 << 12
    #: Rows that are tried together at most: the axes of larger arrays take turns, two at a time.
    advice_together: int = 1 << 16
    # -- several processes -----------------------------------------------------------------------
    #: Parts of a transfer that are planned at once.
    parts_at_once: int = 1 << 18
    #: Elements of a list that are planned at once.
    elements_at_once: int = 1 << 20
    #: Bytes of one file view: its type has to be described to MPI, and sizes are counted in 32 bits
    #: by some.
    view_bytes: int = 1 << 30
    #: Runs of one file view.
    view_runs: int = 1 << 20
    #: Bytes that are added to under one lock, unless a chunk has more: others wait for as long.
    locked_bytes: int = 1 << 20
    #: Bytes of the factors of a product that a rank holds at once, twice: of those with which it
    #: computes, and of the next ones, which are under way.
    panel_bytes: int = 1 << 25
    # -- beside the array ------------------------------------------------------------------------
    #: Elements of a coordinate of xarray's that attributes hold: each commit of them writes all.
    coordinate_elements: int = 1 << 16
    #: Bytes that a command reads at once, to print them or to hand them on.
    printed_bytes: int = 1 << 22
    #: Seconds that the reader of a demo gets to end before it is killed.
    reader_patience: float = 5.0
    #: Of the time limit of a demo: what rewriting the other file may cost.
    rewriting_share: float = 0.25
    #: Bytes of the elements of a plane that a page in the browser shows.
    plane_bytes: int = 1 << 27
    #: Elements of the first, coarsest picture of a plane.
    coarsest_elements: int = 256
    #: Pages of the file that are read between two looks at the clock: those that come next may take
    #: much longer than those before.
    band_pages: int = 8192


limits = Limits()
