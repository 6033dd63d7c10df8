"""Limits at which work is divided, shared or given up: one object, which tests change."""

from __future__ import annotations

from extarray.common.system import HAS_RANGE_LOCKS

__all__ = ["Limits", "limits"]


class Limits:
    """Sizes and times that users do not set; results do not depend on them."""

    # -- threads ---------------------------------------------------------------------------------
    #: Bytes that justify another thread, in transfers and in checksums of chunks.
    share_bytes: int = 1 << 23
    #: The same where chunks are compressed or decoded.
    coded_bytes: int = 1 << 20

    # -- codecs ----------------------------------------------------------------------------------
    #: Bytes beyond which a chunk is cut into blocks, and the most bytes of a block, or half of them
    #: in narrow chunks.  Smaller blocks slow down reads of whole chunks: each frame has its tables.
    divided_bytes: int = 1 << 18
    block_bytes: int = 1 << 16
    #: Bytes that justify another thread, in an operation that goes box by box.
    streamed_bytes: int = 1 << 23
    # -- selections ------------------------------------------------------------------------------
    #: Bits of a word that holds an element's place in its chunk and its number in a list.
    element_bits: int = 64
    # -- the grid --------------------------------------------------------------------------------
    #: Chunks, or runs of chunks, whose addresses are looked up at once.
    addresses_at_once: int = 1 << 16
    # -- files -----------------------------------------------------------------------------------
    #: Most bytes of attributes, whose number the files store in 32 bits.
    attrs_bytes: int = 2**32 - 1
    #: Most levels of an attribute in JSON.  Python, which takes a few calls a level, manages them
    #: wherever it is called from.
    attrs_depth: int = 100
    #: Whether range locks can belong to an open file description.
    has_range_locks: bool = HAS_RANGE_LOCKS
    #: Least seconds to wait for another writer's commit, which may itself wait for the disk.
    commit_patience: float = 5.0
    #: Seconds until another host's commit counts as not visible here: file systems of several hosts
    #: remember names and lengths for a second or more.
    visibility_patience: float = 5.0
    #: Seconds within which the last writes of a writer killed on another host arrive.
    arrival_time: float = 0.05
    #: Bytes of chunks to compare with their sums between two reports of progress.
    compared_bytes: int = 1 << 26
    #: Bytes to append in one step, while other writers wait.
    append_at_once: int = 1 << 20
    #: Bytes of raw places of frozen chunks that wait for a flush, which makes holes of them.
    unfreed_bytes: int = 1 << 28
    #: Times that a frozen chunk is written to before it is thawed.  A thaw waits for the disk, as
    #: long as about so many writes take that compress the chunk again.
    rewrites: int = 10
    # -- rechunking and repair -------------------------------------------------------------------
    #: Most bytes of the chunks of an array of texts that an append may widen.
    widened_bytes: int = 1 << 26
    #: Bytes of a step, if memory allows: smaller calls cost more than their copying, and a larger
    #: step has left the caches when it is written.
    rechunk_step_bytes: int = 1 << 21
    #: Bytes of a step while several axes are swept: elements held along slower axes are copied
    #: once more, and their chunks are written in parts.
    swept_bytes: int = 1 << 27
    #: Most templates to try along an axis, if at most two axes are searched.
    templates_tried: int = 128
    #: Seconds of work that a loss of power may cost: the time between journal entries on disk.
    journal_interval: float = 10.0
    #: Seconds between updates of the progress display.
    progress_interval: float = 0.2
    #: Bytes to assign in memory between two calls of the user's progress function.
    progress_bytes: int = 1 << 26
    #: Bytes of chunks to freeze together while an array is filled.
    unfrozen_bytes: int = 1 << 26
    #: Most bytes of a table of blobs to read at once, and to compare with its checksum.
    table_bytes: int = 1 << 20
    #: Most chunks of a truncated file to inspect one by one.
    chunks_looked_at: int = 1 << 20
    # -- the server of `extarray view` -----------------------------------------------------------
    #: Seconds within which a whole request must arrive.
    request_patience: float = 10.0
    # -- web servers and buckets ------------------------------------------------------------------
    #: Seconds before a failed request is made again; each further attempt waits twice as long.
    remote_pause: float = 0.2
    #: The same where the server asks for fewer requests: libraries do not always tell how long it
    #: wants to be left alone.
    remote_pause_if_busy: float = 1.0
    #: Most seconds before an attempt.
    remote_pause_at_most: float = 60.0
    # -- advice on chunk shapes ------------------------------------------------------------------
    #: Most shapes whose cost is computed one row of the last axis at a time; up to this number,
    #: all are tried.
    advice_rows: int = 1 << 14
    #: Extents to try along the last axis.
    advice_along: int = 1 << 12
    #: Most rows to try together; the axes of larger arrays take turns, two at a time.
    advice_together: int = 1 << 16
    # -- several processes -----------------------------------------------------------------------
    #: Parts of a transfer to plan at once.
    parts_at_once: int = 1 << 18
    #: Elements of a list to plan at once.
    elements_at_once: int = 1 << 20
    #: Bytes of one file view: MPI needs a description of its type, and some implementations count
    #: sizes in 32 bits.
    view_bytes: int = 1 << 30
    #: Runs of one file view.
    view_runs: int = 1 << 20
    #: Bytes to add to under one lock, unless a chunk has more; other ranks wait meanwhile.
    locked_bytes: int = 1 << 20
    #: Bytes of the factors of a product that a rank holds at once, twice: the factors in use, and
    #: the next ones on their way.
    panel_bytes: int = 1 << 25
    # -- around the array ------------------------------------------------------------------------
    #: Most elements of an xarray coordinate in attributes, each commit of which writes them all.
    coordinate_elements: int = 1 << 16
    #: Bytes that a command reads at once, to print or to pass on.
    printed_bytes: int = 1 << 22
    #: Seconds that a demo's reader gets to end before it is killed.
    reader_patience: float = 5.0
    #: Share of a demo's time limit that rewriting the other file may take.
    rewriting_share: float = 0.25
    #: Most bytes of elements that a picture reads in full; of more it shows every nth element.
    plotted_bytes: int = 1 << 29
    #: Most bytes of elements of a plane that the browser page shows.
    plane_bytes: int = 1 << 27
    #: Most bytes of elements that the browser page saves in a file, and most elements as CSV.
    saved_bytes: int = 1 << 28
    saved_elements: int = 1 << 20
    #: Most pages of the file from which the browser page gets all elements of a plane or a line.
    whole_pages: int = 1 << 18
    #: Elements of the first, coarsest picture of a plane.
    coarsest_elements: int = 256
    #: Pages of the file to read between two looks at the clock: the next pages may take much
    #: longer than those before.
    band_pages: int = 8192


limits = Limits()
