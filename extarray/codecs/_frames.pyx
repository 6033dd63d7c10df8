"""Frames, decoded without the GIL by the C functions behind the Python packages of the codecs.

A Python call for each frame takes and gives up the GIL, which costs threads as much as a small
frame does, and copies the bytes once more.  Most builds of the packages export the C functions that
they call; `libraries` looks them up when it imports a package.  If it finds none, or a frame is not
plainly right, the caller decodes the frame in Python, which also finds the error to raise.
"""

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

cdef extern from "_filters.h":
    void xa_unshuffle(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil
    void xa_bytes_from_planes(uint8_t *, const uint8_t *, int64_t, int64_t, int64_t) noexcept nogil
    void xa_bit_unshuffle(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil
    void xa_repeat(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil

cdef extern from *:
    """
    /* As zstd.h and lz4.h declare them; both keep these functions stable. */
    typedef struct {
        void *(*create)(void);
        size_t (*free)(void *);
        size_t (*length)(const void *, size_t);
        size_t (*decode)(void *, void *, size_t, const void *, size_t);
    } xa_zstd_functions;
    typedef int (*xa_lz4_function)(const char *, char *, int, int);

    /* Threads that decode may read these while an import stores them. */
    #define xa_take(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define xa_give(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)
    static xa_zstd_functions xa_zstd_found, *xa_zstd_used;
    static xa_lz4_function xa_lz4_used;
    """
    ctypedef struct xa_zstd_functions:
        void *(*create)() noexcept nogil
        size_t (*free)(void *) noexcept nogil
        size_t (*length)(const void *, size_t) noexcept nogil
        size_t (*decode)(void *, void *, size_t, const void *, size_t) noexcept nogil
    ctypedef int (*xa_lz4_function)(const char *, char *, int, int) noexcept nogil
    xa_zstd_functions xa_zstd_found
    xa_zstd_functions *xa_zstd_used
    xa_lz4_function xa_lz4_used
    xa_zstd_functions *take_zstd "xa_take"(xa_zstd_functions **) noexcept nogil
    void give_zstd "xa_give"(xa_zstd_functions **, xa_zstd_functions *) noexcept nogil
    xa_lz4_function take_lz4 "xa_take"(xa_lz4_function *) noexcept nogil
    void give_lz4 "xa_give"(xa_lz4_function *, xa_lz4_function) noexcept nogil

cdef enum:
    # As in `codec`.
    RAW = 0
    CONSTANT = 1
    ZSTD = 2
    LZ4 = 3
    NONE = 0
    SHUFFLE = 1
    BITSHUFFLE = 2
    # As in `libraries`.
    WINDOW_LOG = 23
    # Elements of a row from which on undoing a filter row by row is faster than moving them
    # afterwards.
    LONG_ROW = 32

cdef const char *MAGIC = b"\x28\xb5\x2f\xfd"


def use_zstd(uintptr_t create, uintptr_t drop, uintptr_t length, uintptr_t decode):
    """Decode frames of zstd by its C functions, given by their addresses; zeros: by none.

    Parameters
    ----------
    create, drop : int
        ``ZSTD_createDCtx`` and ``ZSTD_freeDCtx``.
    length : int
        ``ZSTD_findFrameCompressedSize``.
    decode : int
        ``ZSTD_decompressDCtx``.
    """
    if decode:
        # Each call stores the same ones, so a thread that reads them meets no mixture.
        xa_zstd_found.create = <void *(*)() noexcept nogil> create
        xa_zstd_found.free = <size_t (*)(void *) noexcept nogil> drop
        xa_zstd_found.length = <size_t (*)(const void *, size_t) noexcept nogil> length
        xa_zstd_found.decode = (
            <size_t (*)(void *, void *, size_t, const void *, size_t) noexcept nogil> decode)
    give_zstd(&xa_zstd_used, &xa_zstd_found if decode else NULL)


def use_lz4(uintptr_t decode):
    """Decode LZ4 blocks by ``LZ4_decompress_safe`` at an address; 0: not."""
    give_lz4(&xa_lz4_used, <xa_lz4_function> decode)


cdef enum:
    # Rooms that stay for the next frames, and bytes of the largest of them.
    MOST_IDLE = 64
    MOST_KEPT = 1 << 20


cdef class _Room:
    """Owns memory for frames; zstd takes microseconds to make a decoder."""

    cdef frame_room_t room

    def __dealloc__(self):
        free_frame_room(&self.room)


cdef list idle_rooms = []           # appending and popping are atomic


def decode_alone(
    uint8_t[::1] out not None, int codec, int filter_id, const uint8_t[::1] frame not None,
    int64_t itemsize
):
    """Write the bytes of one frame; False if `payloads.decode_frame_into` must do it another way.

    Then `out` may have been changed.

    Parameters
    ----------
    out : writable buffer of bytes
    codec, filter_id : int
        As `CodecId` and `FilterId` have them.
    frame : buffer of bytes
    itemsize : int

    Examples
    --------
    >>> out = bytearray(4)
    >>> decode_alone(out, 1, 0, b"ab", 2), bytes(out)
    (True, b'abab')
    """
    cdef _Room mine
    cdef bint is_done
    if itemsize < 1 or out.shape[0] == 0 or frame.shape[0] == 0:
        return False
    mine = take_room()
    with nogil:
        is_done = decode_frame(
            &out[0], out.shape[0], codec, filter_id, &frame[0], frame.shape[0], itemsize, &mine.room)
    give_room(mine)
    return is_done


def decode_block_alone(
    uint8_t[::1] out not None, tuple sides not None, tuple steps not None, int64_t number, int codec,
    int filter_id, const uint8_t[::1] frame not None, int64_t itemsize
):
    """Write the elements of one block of a chunk; False if it must be done another way.

    Then elements of the block, and no others, may have been changed.

    Parameters
    ----------
    out : writable buffer of bytes
        The place of the chunk.
    sides, steps : tuple of int
        Of the chunk and of its blocks, as `payloads.Blocks` has them.
    number : int
        Of the block.
    codec, filter_id, frame, itemsize
        As in `decode_alone`.

    Examples
    --------
    >>> from extarray.codecs.codec import Codec
    >>> from extarray.codecs.libraries import compress
    >>> out = bytearray(b"." * 12)
    >>> frame = compress(Codec("lz4"), b"abcd")
    >>> decode_block_alone(out, (2, 6), (2, 2), 1, 3, 0, frame, 1), bytes(out)
    (True, b'..ab....cd..')
    """
    cdef _Room mine
    cdef cut_t cut
    cdef int64_t n = itemsize
    cdef int axis
    cdef bint is_done
    if itemsize < 1 or out.shape[0] == 0 or frame.shape[0] == 0 or len(sides) > CUT_AXES:
        return False
    set_cut(&cut, sides, steps)
    for axis in range(cut.n_axes):
        n *= cut.sides[axis]
    if n != out.shape[0] or not 0 <= number < blocks_of(&cut):
        raise ValueError(f"{out.shape[0]} bytes are no chunk of sides {sides} with a block {number}")
    mine = take_room()
    with nogil:
        is_done = decode_block(
            &out[0], &cut, number, codec, filter_id, &frame[0], frame.shape[0], itemsize, &mine.room)
    give_room(mine)
    return is_done


cdef _Room take_room():
    try:
        return idle_rooms.pop()
    except IndexError:
        return _Room()


cdef int give_room(_Room mine) except -1:
    if mine.room.n_bytes <= MOST_KEPT and len(idle_rooms) < MOST_IDLE:
        idle_rooms.append(mine)
    return 0


cdef bint decode_frame(
    uint8_t *out, int64_t n, int codec, int filter_id, const uint8_t *frame, int64_t n_frame,
    int64_t itemsize, frame_room_t *room
) noexcept nogil:
    """Write the `n` bytes of a frame; False if `payloads.decode_frame_into` must do it.

    Then `out` may have been changed.
    """
    if codec == RAW or codec == CONSTANT:
        if filter_id != NONE or n_frame != (n if codec == RAW else itemsize) or n % itemsize:
            return False
        if codec == RAW:
            memcpy(out, frame, n)
        elif n:
            xa_repeat(out, frame, itemsize, n)
        return True
    if filter_id == NONE:
        return decompress(out, n, codec, frame, n_frame, room)
    if filter_id not in (SHUFFLE, BITSHUFFLE) or n % itemsize:
        return False
    if not has_room(room, n) or not decompress(room.bytes, n, codec, frame, n_frame, room):
        return False
    if filter_id == SHUFFLE:
        xa_unshuffle(out, room.bytes, n // itemsize, itemsize)
    else:
        xa_bit_unshuffle(out, room.bytes, n // itemsize, itemsize)
    return True


cdef bint has_room(frame_room_t *room, int64_t n) noexcept nogil:
    if room.n_bytes < n:
        found = realloc(room.bytes, n)
        if found == NULL:
            return False
        room.bytes, room.n_bytes = <uint8_t *> found, n
    return True


cdef int set_cut(cut_t *cut, tuple sides, tuple steps) except -1:
    """Store how a chunk is cut along at most `CUT_AXES` axes."""
    cdef int axis
    if not 1 <= len(sides) <= CUT_AXES or len(sides) != len(steps):
        raise ValueError(f"no cut of sides {sides} into blocks of {steps}")
    cut.n_axes = <int> len(sides)
    for axis in range(cut.n_axes):
        cut.sides[axis], cut.steps[axis] = sides[axis], steps[axis]
        if not 1 <= cut.steps[axis] <= cut.sides[axis]:
            raise ValueError(f"no cut of sides {sides} into blocks of {steps}")
    return 0


cdef int64_t blocks_of(const cut_t *cut) noexcept nogil:
    cdef int64_t n = 1
    cdef int axis
    for axis in range(cut.n_axes):
        n *= (cut.sides[axis] - 1) // cut.steps[axis] + 1
    return n


cdef bint decode_block(
    uint8_t *chunk, const cut_t *cut, int64_t number, int codec, int filter_id, const uint8_t *frame,
    int64_t n_frame, int64_t itemsize, frame_room_t *room
) noexcept nogil:
    """Write the elements of a block to their places in a chunk; False as `decode_frame` says."""
    cdef int64_t lengths[CUT_AXES]
    cdef int64_t strides[CUT_AXES]      # in elements, as all that follows
    cdef int64_t index[CUT_AXES]
    cdef int64_t first = 0, stride = 1, n = 1, run = 1, count, q, n_bytes, row
    cdef const uint8_t *data
    cdef bint by_rows
    cdef int axis = cut.n_axes, outer
    while axis:
        axis -= 1
        count = (cut.sides[axis] - 1) // cut.steps[axis] + 1
        q = number % count
        number //= count
        lengths[axis] = min(cut.steps[axis], cut.sides[axis] - q * cut.steps[axis])
        strides[axis], index[axis] = stride, 0
        first += q * cut.steps[axis] * stride
        stride *= cut.sides[axis]
        n *= lengths[axis]
    # Elements that lie side by side in the chunk, and the axes along which such runs repeat.
    outer = cut.n_axes
    while outer:
        outer -= 1
        run *= lengths[outer]
        if lengths[outer] < cut.sides[outer]:
            break
    n_bytes = n * itemsize
    chunk += first * itemsize
    if run == n:
        return decode_frame(chunk, n_bytes, codec, filter_id, frame, n_frame, itemsize, room)
    if filter_id not in (NONE, SHUFFLE, BITSHUFFLE):
        return False
    by_rows = filter_id == SHUFFLE and run >= LONG_ROW
    if (not has_room(room, n_bytes if by_rows or filter_id == NONE else 2 * n_bytes)
            or not decompress(room.bytes, n_bytes, codec, frame, n_frame, room)):
        return False
    data = room.bytes
    if filter_id == SHUFFLE and not by_rows:
        data += n_bytes
        xa_unshuffle(room.bytes + n_bytes, room.bytes, n, itemsize)
    elif filter_id == BITSHUFFLE:
        data += n_bytes
        xa_bit_unshuffle(room.bytes + n_bytes, room.bytes, n, itemsize)
    for row in range(n // run):
        if by_rows:
            xa_bytes_from_planes(chunk, data + row * run, n, run, itemsize)
        else:
            memcpy(chunk, data + row * run * itemsize, run * itemsize)
        axis = outer
        while axis:
            axis -= 1
            index[axis] += 1
            chunk += strides[axis] * itemsize
            if index[axis] < lengths[axis]:
                break
            chunk -= strides[axis] * itemsize * lengths[axis]
            index[axis] = 0
    return True


cdef bint decompress(
    uint8_t *out, int64_t n, int codec, const uint8_t *frame, int64_t n_frame, frame_room_t *room
) noexcept nogil:
    """Write the `n` bytes of a frame as a codec gives them; False if it does not."""
    cdef xa_zstd_functions *zstd
    cdef xa_lz4_function lz4
    if codec == ZSTD:
        zstd = take_zstd(&xa_zstd_used)
        if zstd == NULL or not has_plain_head(frame, n_frame, n):
            return False
        if room.zstd == NULL:
            room.zstd, room.free_zstd = zstd.create(), zstd.free
        # ZSTD_decompressDCtx would also decode frames that follow this one.
        return (room.zstd != NULL and zstd.length(frame, n_frame) == <size_t> n_frame
                and zstd.decode(room.zstd, out, n, frame, n_frame) == <size_t> n)
    if codec == LZ4:
        lz4 = take_lz4(&xa_lz4_used)
        return (lz4 != NULL and n < 1 << 30 and n_frame < 1 << 30
                and lz4(<const char *> frame, <char *> out, <int> n_frame, <int> n) == n)
    return False


cdef bint has_plain_head(const uint8_t *frame, int64_t n_frame, int64_t n) noexcept nogil:
    """Tell whether a frame of zstd has no larger window than `libraries` lets one of `n` bytes have."""
    cdef int most = WINDOW_LOG
    if n_frame < 6 or memcmp(frame, MAGIC, 4):
        return False
    while most < 62 and n > <int64_t> 1 << most:
        most += 1
    # A frame in one segment (bit 5) has the window of its content; that of others is 2 to the power
    # of 10 and the upper 5 bits, and some eighths of it.
    return frame[4] & 0x20 or 10 + (frame[5] >> 3) + ((frame[5] & 7) != 0) <= most


cdef void free_frame_room(frame_room_t *room) noexcept nogil:
    free(room.bytes)
    if room.zstd != NULL:
        room.free_zstd(room.zstd)
    room.bytes, room.n_bytes, room.zstd = NULL, 0, NULL
