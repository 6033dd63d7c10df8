# Frames, decoded where no GIL is held.

from libc.stdint cimport int64_t, uint8_t

# Memory of one thread for the frames that it decodes, one after the other; zeros at first.
cdef struct frame_room_t:
    void *zstd                  # of zstd's decoder, and what frees it
    size_t (*free_zstd)(void *) noexcept nogil
    uint8_t *bytes              # of a frame before its filter is undone
    int64_t n_bytes


cdef enum:
    # Axes of a cut that is decoded here; NumPy has up to 64, but few of them have a cut.
    CUT_AXES = 8

# How a chunk is cut into blocks, as `payloads.Blocks` has it.
cdef struct cut_t:
    int n_axes
    int64_t sides[CUT_AXES]
    int64_t steps[CUT_AXES]

cdef bint decode_frame(
    uint8_t *out, int64_t n, int codec, int filter_id, const uint8_t *frame, int64_t n_frame,
    int64_t itemsize, frame_room_t *room
) noexcept nogil
cdef int64_t blocks_of(const cut_t *cut) noexcept nogil
cdef bint decode_block(
    uint8_t *chunk, const cut_t *cut, int64_t number, int codec, int filter_id, const uint8_t *frame,
    int64_t n_frame, int64_t itemsize, frame_room_t *room
) noexcept nogil
cdef int set_cut(cut_t *cut, tuple sides, tuple steps) except -1
cdef void free_frame_room(frame_room_t *room) noexcept nogil
