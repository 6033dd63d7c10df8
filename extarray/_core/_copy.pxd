# A transfer: the outer product of axis pieces, between chunks and the user's memory.

from libc.stdint cimport int32_t, uint8_t

from ._file cimport ahead_t
from ._system cimport sieve_t
from ._vectors cimport axial_t
from ._mapping cimport touched_t
from ._selection cimport selection_t
from ._types cimport MAX_NDIM, index_t


# The part of a selection along one axis that lies in one chunk.
cdef struct piece_t:
    index_t chunk           # chunk index on the axis, counted as in axial_t
    index_t first           # first element, counted in the chunk
    index_t count           # elements
    index_t position        # first element, counted in the selection
    int32_t segment         # the segment that introduced it
    int32_t run_end         # the piece after the last one of this segment


# The layout of an array's chunks, and access to them.
cdef struct layout_t:
    int ndim
    index_t itemsize
    index_t chunk[MAX_NDIM]             # elements
    # Index 0 is element `offset` of the grid, whose first chunk is `low`, counted as in axial_t.
    index_t offset[MAX_NDIM]
    index_t low[MAX_NDIM]
    index_t stride[MAX_NDIM]            # bytes between elements of a chunk ("C", "F")
    int fast_to_slow[MAX_NDIM]          # axes by rising stride
    index_t chunk_bytes
    const index_t *place                # "Z", "H": C-order position in a chunk -> stored position
    char *base                          # the mapped file or memory; NULL: by pread and pwrite
    char *pages                         # the same for scattered access: see Region ...
    char *blocks                        # ... and for whole chunks here and there
    int fd                              # -1: anonymous memory
    index_t start                       # where in the file the chunks begin
    sieve_t *sieve                      # NULL: other writers exist, or stores to a mapping
    touched_t *touched                  # NULL: stores may go through the mapping at once
    bint sparse
    bint hollow                         # even a load from a hole may find no space


# No other code of the core turns an address into a place, or knows that chunks with consecutive
# addresses are neighbours in the file.

cdef inline index_t place_of(const layout_t *L, index_t address) noexcept nogil:
    """Return the byte offset of a chunk from the first one; place_of(n) is the end of n chunks."""
    return address * L.chunk_bytes


cdef inline index_t place_in_file(const layout_t *L, index_t address) noexcept nogil:
    """Return the file offset of a chunk."""
    return L.start + place_of(L, address)


cdef inline index_t chunks_before(const layout_t *L, index_t place) noexcept nogil:
    """Return the number of chunks that end at or before a place."""
    return place // L.chunk_bytes


cdef struct job_t:
    layout_t layout
    const axial_t *axial
    bint write
    bint sieves                         # it may use the layout's sieve
    bint is_new                         # the chunks written have no pages in the system's cache yet
    bint stream
    ahead_t *ahead                      # NULL: elements are moved; else only asked for
    index_t piece                       # bytes of new chunks written at once: a power of two
    char *user
    index_t user_stride[MAX_NDIM]       # bytes between selected elements
    index_t step[MAX_NDIM]              # elements, > 0
    piece_t *pieces[MAX_NDIM]
    int n_pieces[MAX_NDIM]


# State that a thread keeps from chunk to chunk.
cdef struct worker_t:
    char *stage
    size_t stage_bytes
    bint is_direct              # chunks are written through the file for the first time
    # Chunks in `stage` that wait for this (neighbours in the file), the first one's address, and
    # the file offset of the stage, which may lie inside that chunk.
    index_t n_fresh
    index_t first_fresh
    index_t stage_offset


cdef enum:
    THROUGH_FILE = -1       # a chunk must be moved by pread and pwrite
    # Bytes that the engine "pread" writes at once.  Larger writes make larger folios in the page
    # cache, where every small write costs several times more.
    PIECE = 1 << 18
    # Bytes of a chunk staged at once: about the second-level cache, and the largest pages.
    STAGE = 1 << 21
    # Within these bounds, one read of the whole span beats many calls.
    GAP_FACTOR = 8
    GAP_BYTES = 1 << 16
    # Reading up to this many bytes between two runs beats another call.
    READ_BYTES = 1 << 12
    # Moving fewer bytes than this in and out between two elements beats another call.  No page
    # without any element is written: a hole stays one.
    SIEVE_BYTES = 1 << 12


# Whether one read takes all bytes from the first wanted one to the last.
cdef inline bint is_close(index_t span, index_t size) noexcept nogil:
    return span <= GAP_BYTES or span <= GAP_FACTOR * size


cdef index_t most_pieces(index_t step, index_t count, index_t chunk) noexcept nogil
cdef int32_t split_axis(
    const axial_t *axial, const layout_t *L, int axis, index_t start, index_t step, index_t count,
    piece_t *p
) noexcept nogil
cdef int move_bytes(
    const layout_t *L, char *memory, index_t n, index_t offset, bint write) noexcept nogil
cdef int move_item(const layout_t *L, char *item, index_t place, bint write) noexcept nogil
cdef int move_marked(
    const layout_t *L, char *memory, const uint8_t *marks, index_t n, index_t offset, index_t gap,
    bint write, bint gaps_only) noexcept nogil
cdef bint saves_calls(const job_t *job) noexcept nogil
cdef char *stage_of(worker_t *w, index_t n) noexcept nogil
cdef int reach(const layout_t *L, index_t address, bint write) noexcept nogil
cdef void copy_block(
    char *d, const index_t *d_stride, const char *s, const index_t *s_stride,
    const index_t *count, int ndim, index_t size, bint stream
) noexcept nogil
cdef void end_stream() noexcept nogil
cdef void count_pieces(const selection_t *s, const index_t *chunk, index_t *n) noexcept
cdef int prepare(
    job_t *job, const axial_t *axial, const layout_t *layout, const selection_t *s,
    piece_t *room, char *user, const index_t *user_stride
) except -1 nogil
cdef int run(const job_t *job, const int *low, const int *high) noexcept nogil
