# Frames, decoded where no GIL is held.

from libc.stdint cimport int64_t, uint8_t

# Memory of one thread for the frames that it decodes, one after the other; zeros at first.
cdef struct frame_room_t:
    void *zstd                  # of zstd's decoder, and what frees it
    size_t (*free_zstd)(void *) noexcept nogil
    uint8_t *bytes              # of a frame before its filter is undone
    int64_t n_bytes


cdef bint decode_frame(
    uint8_t *out, int64_t n, int codec, int filter_id, const uint8_t *frame, int64_t n_frame,
    int64_t itemsize, frame_room_t *room
) noexcept nogil
cdef void free_frame_room(frame_room_t *room) noexcept nogil
