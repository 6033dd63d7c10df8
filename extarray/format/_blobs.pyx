"""Blobs of a log, read, checked and decoded without the GIL, many at a time."""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc

from extarray.codecs._frames cimport (
    CUT_AXES, blocks_of, cut_t, decode_block, decode_frame, frame_room_t, free_frame_room, set_cut,
)
from ._crc cimport checksum

cnp.import_array()

cdef extern from "../_core/_system.h":
    ctypedef int64_t off_t "xa_offset"
    Py_ssize_t xa_read_at(int fd, void *to, size_t n, off_t offset) noexcept nogil

cdef enum:
    # As in `blobs`.
    UNIT = 64
    LENGTH_BITS = 24
    HEAD_BYTES = 32
    CHECKSUM_BYTES = 4
    WORD = 4                    # bytes of a number in the table before the blocks
    MIXED = 0xFFFF
    MOST_BYTES = 1 << 30        # of a blob
    BOX_AXES = 64
    # As in `codec`.
    RAW = 0
    CONSTANT = 1
    # Bytes of a blob to read at first, which reach up to its first block unless it has hundreds.
    BEFORE_BLOCKS = 1 << 12

# A chunk to fill, and the word that leads to its blob.
cdef struct target_t:
    uint64_t word
    int64_t address
    uint8_t *chunk

# The head of a blob, and how its chunk is cut if there are blocks.
cdef struct head_t:
    int64_t n_payload, covered, blocks      # bytes, those before the first block or all, number
    int codec, filter_id
    cut_t cut

# A block, with the place of its frame in the payload.
cdef struct block_t:
    int64_t number, start, stop
    uint32_t crc

# A part of a chunk as its reader knows it, the slowest axis first.
cdef struct box_t:
    int n_axes
    int64_t sides[BOX_AXES]
    int64_t starts[BOX_AXES]
    int64_t stops[BOX_AXES]

# Blocks along each axis of a cut.
cdef struct range_t:
    int64_t first[CUT_AXES]
    int64_t last[CUT_AXES]


@cython.final
cdef class BlobReader:
    """Reads blobs of a log, or blocks of them, and decodes them.

    It keeps its memory from one call to the next, and serves one thread at a time.

    Parameters
    ----------
    uuid : bytes
        Of the log.
    codec : int
        The codec of all blobs, or `MIXED`.
    itemsize, chunk_bytes : int
    """

    cdef frame_room_t room
    cdef uint8_t *blob
    cdef int64_t n_blob, itemsize, chunk_bytes
    cdef uint32_t seed
    cdef int codec

    def __cinit__(self, bytes uuid not None, int codec, int64_t itemsize, int64_t chunk_bytes):
        if itemsize < 1 or chunk_bytes < 1:
            raise ValueError(f"chunks of {chunk_bytes} bytes, elements of {itemsize}")
        self.codec, self.itemsize, self.chunk_bytes = codec, itemsize, chunk_bytes
        self.seed = checksum(<const uint8_t *> <const char *> uuid, len(uuid), 0)

    def __dealloc__(self):
        free(self.blob)
        free_frame_room(&self.room)

    def read(self, int fd, list words not None, list addresses not None, list chunks not None, bint verify):
        """Decode the chunks that words lead to, each into an array of bytes of its own.

        Return the numbers of those for which this must be done another way, since they are not
        plainly right: `blobs` tells why, or can do it.  Their arrays may have been changed.
        """
        cdef Py_ssize_t i, n = len(words)
        cdef cnp.ndarray chunk
        cdef list left = []
        if len(addresses) != n or len(chunks) != n:
            raise ValueError("words, addresses and chunks differ in number")
        cdef target_t *targets = <target_t *> malloc(max(1, n) * sizeof(target_t))
        if targets == NULL:
            raise MemoryError(f"no memory to read {n} blobs")
        try:
            for i in range(n):
                chunk = chunks[i]
                if (cnp.PyArray_NBYTES(chunk) != self.chunk_bytes
                        or not cnp.PyArray_IS_C_CONTIGUOUS(chunk) or not cnp.PyArray_ISWRITEABLE(chunk)):
                    raise ValueError(f"chunk {addresses[i]} has no writable array of its bytes")
                targets[i].word, targets[i].address = words[i], addresses[i]
                targets[i].chunk = <uint8_t *> cnp.PyArray_DATA(chunk)
            with nogil:
                for i in range(n):
                    if self.fill(fd, &targets[i], verify):
                        targets[i].chunk = NULL
            for i in range(n):
                if targets[i].chunk != NULL:
                    left.append(i)
        finally:
            free(targets)
        return left

    def read_part(
        self, int fd, uint64_t word, int64_t address, cnp.ndarray chunk not None,
        tuple sides not None, box not None, bint verify
    ):
        """Decode the blocks of a chunk with elements of a box into its memory.

        Return their numbers; none: the box needs all blocks, or the chunk has none.  None: this
        must be done another way, since they are not plainly right; then elements of these blocks,
        and no others, may have been changed.

        Parameters
        ----------
        fd : int
        word, address : int
        chunk : ndarray of uint8
        sides : tuple of int
            Of the chunk as its reader knows it, the slowest axis first.
        box : sequence of tuple of int
            First element and the one behind the last along each of these axes.
        verify : bool
        """
        cdef int axis
        cdef Py_ssize_t i, n = 0
        cdef box_t part
        cdef block_t *wanted = NULL
        cdef uint8_t *place = <uint8_t *> cnp.PyArray_DATA(chunk)
        self.check_room(chunk)
        if len(sides) > BOX_AXES or len(sides) != len(box):
            return None
        part.n_axes = <int> len(sides)
        for axis in range(part.n_axes):
            part.sides[axis] = sides[axis]
            part.starts[axis], part.stops[axis] = box[axis]
            if not 0 <= part.starts[axis] < part.stops[axis] <= part.sides[axis]:
                raise ValueError(f"a chunk of sides {sides} has no box {box}")
        try:
            with nogil:
                n = self.fill_part(fd, word, address, place, &part, verify, &wanted)
            return None if n < 0 else [wanted[i].number for i in range(n)]
        finally:
            free(wanted)

    cdef Py_ssize_t fill_part(
        self, int fd, uint64_t word, int64_t address, uint8_t *chunk, const box_t *box, bint verify,
        block_t **wanted
    ) noexcept nogil:
        """Read and decode the blocks of a box; return their number, or -1 if that fails."""
        cdef int64_t size = self.room_of(word), i
        cdef Py_ssize_t n = 0
        cdef head_t head
        cdef range_t some
        cdef block_t block
        if size == 0 or not self.has_room(min(size, BEFORE_BLOCKS)):
            return -1
        size = xa_read_at(fd, self.blob, min(size, BEFORE_BLOCKS), offset_of(word))
        if size >= HEAD_BYTES and number(self.blob + 28, 4) == 0:
            return 0        # `read` looks at the rest
        if not self.read_head(size, address, verify, &head):
            return -1
        if not find_range(&head.cut, box, &some):
            return 0
        wanted[0] = <block_t *> malloc(head.blocks * sizeof(block_t))
        if wanted[0] == NULL:
            return -1
        block.stop = 0
        for i in range(head.blocks):
            if not next_block(&head, self.blob + HEAD_BYTES, i, &block):
                return -1
            if is_inside(&head.cut, &some, i):
                wanted[0][n] = block
                n += 1
        if block.stop != head.n_payload:
            return -1
        if n == head.blocks:
            return 0
        if not self.fill_blocks(
                fd, offset_of(word) + HEAD_BYTES, chunk, &head.cut, n, wanted[0], head.codec,
                head.filter_id, verify):
            return -1
        return n

    cdef int check_room(self, cnp.ndarray chunk) except -1:
        if (cnp.PyArray_NBYTES(chunk) != self.chunk_bytes
                or not cnp.PyArray_IS_C_CONTIGUOUS(chunk) or not cnp.PyArray_ISWRITEABLE(chunk)):
            raise ValueError("a chunk has no writable array of its bytes")
        return 0

    def read_blocks(
        self, int fd, int64_t offset, cnp.ndarray chunk not None, tuple sides not None,
        tuple steps not None, list blocks not None, int codec, int filter_id, bint verify
    ):
        """Decode some blocks of a chunk into its memory.

        False: this must be done another way, since they are not plainly right.  Then elements of
        these blocks, and no others, may have been changed.

        Parameters
        ----------
        fd : int
        offset : int
            Of the payload.
        chunk : ndarray of uint8
        sides, steps : tuple of int
            As `payloads.Blocks` has them.
        blocks : list of tuple of int
            The number of each block, where in the payload its frame begins and ends, and its
            checksum; in rising order.
        codec, filter_id : int
        verify : bool
            Compare the frames with their checksums.
        """
        cdef Py_ssize_t i, n = len(blocks)
        cdef cut_t cut
        cdef uint8_t *place = <uint8_t *> cnp.PyArray_DATA(chunk)
        cdef int64_t most
        cdef bint is_done
        self.check_room(chunk)
        if len(sides) > CUT_AXES:
            return False
        set_cut(&cut, sides, steps)
        if self.chunk_bytes > MOST_BYTES:
            return False
        if bytes_of(&cut, self.itemsize) != self.chunk_bytes:
            raise ValueError(f"sides {sides} are not those of a chunk of {self.chunk_bytes} bytes")
        most = blocks_of(&cut)
        cdef block_t *wanted = <block_t *> malloc(max(1, n) * sizeof(block_t))
        if wanted == NULL:
            raise MemoryError(f"no memory to read {n} blocks")
        try:
            for i in range(n):
                wanted[i].number, wanted[i].start, wanted[i].stop, wanted[i].crc = blocks[i]
                if (not 0 <= wanted[i].number < most
                        or not 0 <= wanted[i].start <= wanted[i].stop <= 2 * self.chunk_bytes):
                    raise ValueError(f"a chunk has no block {blocks[i]}")
            with nogil:
                is_done = self.fill_blocks(
                    fd, offset, place, &cut, n, wanted, codec, filter_id, verify)
        finally:
            free(wanted)
        return is_done

    cdef bint fill_blocks(
        self, int fd, int64_t offset, uint8_t *chunk, const cut_t *cut, Py_ssize_t n,
        const block_t *wanted, int codec, int filter_id, bint verify
    ) noexcept nogil:
        """Read and decode blocks; False if that fails in any way."""
        cdef Py_ssize_t i = 0, first
        cdef int64_t size
        cdef const uint8_t *frame
        while i < n:
            first = i       # frames that follow each other come together
            i += 1
            while i < n and wanted[i].start == wanted[i - 1].stop:
                i += 1
            size = wanted[i - 1].stop - wanted[first].start
            if (not self.has_room(size)
                    or xa_read_at(fd, self.blob, size, offset + wanted[first].start) != size):
                return False
            frame = self.blob
            for i in range(first, i):
                if not self.decode_one(
                        chunk, cut, &wanted[i], frame, codec, filter_id, verify):
                    return False
                frame += wanted[i].stop - wanted[i].start
            i += 1
        return True

    cdef bint decode_one(
        self, uint8_t *chunk, const cut_t *cut, const block_t *block, const uint8_t *frame, int codec,
        int filter_id, bint verify
    ) noexcept nogil:
        """Decode a block whose frame was read."""
        cdef int64_t size = block.stop - block.start
        if size <= 0 or (verify and checksum(frame, size, 0) != block.crc):
            return False
        return decode_block(
            chunk, cut, block.number, codec, filter_id, frame, size, self.itemsize, &self.room)

    cdef bint has_room(self, int64_t size) noexcept nogil:
        if self.n_blob < size:
            found = realloc(self.blob, size)
            if found == NULL:
                return False
            self.blob, self.n_blob = <uint8_t *> found, size
        return True

    cdef bint fill(self, int fd, const target_t *target, bint verify) noexcept nogil:
        """Read and decode a blob; False if that fails in any way."""
        cdef int64_t size = self.room_of(target.word), i
        cdef head_t head
        cdef block_t block
        cdef const uint8_t *payload
        if size == 0 or not self.has_room(size):
            return False
        # The last blob may end before its unit.
        size = xa_read_at(fd, self.blob, size, offset_of(target.word))
        if (not self.read_head(size, target.address, verify, &head)
                or head.n_payload > size - HEAD_BYTES):
            return False
        payload = self.blob + HEAD_BYTES
        if not head.blocks:
            return decode_frame(
                target.chunk, self.chunk_bytes, head.codec, head.filter_id, payload, head.n_payload,
                self.itemsize, &self.room)
        block.stop = 0
        for i in range(head.blocks):
            if not next_block(&head, payload, i, &block) or not self.decode_one(
                    target.chunk, &head.cut, &block, payload + block.start, head.codec,
                    head.filter_id, verify):
                return False
        return block.stop == head.n_payload

    cdef int64_t room_of(self, uint64_t word) noexcept nogil:
        """Return the bytes that a word gives to a blob; 0: no blob can be there."""
        cdef int64_t size = <int64_t> (word & ((1 << LENGTH_BITS) - 1)) * UNIT
        if (offset_of(word) == 0 or size < HEAD_BYTES
                or size - UNIT >= HEAD_BYTES + self.chunk_bytes):
            return 0
        return size

    cdef bint read_head(
        self, int64_t size, int64_t address, bint verify, head_t *head
    ) noexcept nogil:
        """Read the head of a blob from its first bytes in `blob`; False if it is not plainly right."""
        cdef const uint8_t *blob = self.blob
        if size < HEAD_BYTES:
            return False
        # Checksum, bytes of the payload, address, number, codec, filter, 0, number of blocks.
        head.n_payload, head.codec = <int64_t> number(blob + 4, 4), <int> number(blob + 24, 2)
        head.filter_id, head.blocks = blob[26], <int64_t> number(blob + 28, 4)
        if (number(blob + 8, 8) != <uint64_t> address
                or (self.codec != MIXED and self.codec != head.codec) or blob[27]):
            return False
        head.covered = head.n_payload
        if head.blocks:
            head.covered = read_cut(
                &head.cut, blob + HEAD_BYTES, min(head.n_payload, size - HEAD_BYTES), head.blocks)
            if (head.codec in (RAW, CONSTANT) or head.covered == 0
                    or bytes_of(&head.cut, self.itemsize) != self.chunk_bytes
                    or blocks_of(&head.cut) != head.blocks):
                return False
        if not verify:
            return True
        return head.covered <= size - HEAD_BYTES and number(blob, CHECKSUM_BYTES) == checksum(
            blob + CHECKSUM_BYTES, HEAD_BYTES + head.covered - CHECKSUM_BYTES, self.seed)


cdef inline int64_t offset_of(uint64_t word) noexcept nogil:
    return <int64_t> (word >> LENGTH_BITS) * UNIT


cdef bint next_block(
    const head_t *head, const uint8_t *payload, int64_t number_of_block, block_t *block
) noexcept nogil:
    """Go on from a block to the one behind it, or to the first one; False if it has no place."""
    cdef const uint8_t *ends = payload + head.covered - 2 * WORD * head.blocks
    block.number = number_of_block
    block.start = block.stop if number_of_block else head.covered
    block.stop = <int64_t> number(ends + WORD * number_of_block, WORD)
    block.crc = <uint32_t> number(ends + WORD * (head.blocks + number_of_block), WORD)
    return block.start <= block.stop <= head.n_payload


cdef bint find_range(const cut_t *cut, const box_t *box, range_t *found) noexcept nogil:
    """Find the blocks with elements of a box, along each axis of a cut; False: it needs all.

    Blocks may be cut along several axes of the box that are taken for one.
    """
    cdef int64_t low, high, product
    cdef int axis, k = 0
    for axis in range(cut.n_axes):
        low, high, product = 0, 0, 1
        while product < cut.sides[axis] and k < box.n_axes:
            low = low * box.sides[k] + box.starts[k]
            high = high * box.sides[k] + box.stops[k] - 1
            product *= box.sides[k]
            k += 1
        if product != cut.sides[axis]:      # axes that the blocks do not respect
            return False
        found.first[axis], found.last[axis] = low // cut.steps[axis], high // cut.steps[axis]
    return True


cdef bint is_inside(const cut_t *cut, const range_t *some, int64_t number) noexcept nogil:
    """Tell whether a block is one of those that `find_range` has found."""
    cdef int64_t count
    cdef int axis = cut.n_axes
    while axis:
        axis -= 1
        count = (cut.sides[axis] - 1) // cut.steps[axis] + 1
        if not some.first[axis] <= number % count <= some.last[axis]:
            return False
        number //= count
    return True


cdef int64_t read_cut(
    cut_t *cut, const uint8_t *payload, int64_t n_payload, int64_t blocks
) noexcept nogil:
    """Read how a chunk is cut; return the bytes before the first frame, or 0 if that fails.

    They are the number of axes, the sides of chunk and blocks, the ends of the frames, their sums.
    """
    cdef int axis
    cdef int64_t n, side, step, found
    if n_payload < WORD:
        return 0
    n = <int64_t> number(payload, WORD)
    if not 1 <= n <= CUT_AXES:
        return 0
    found = WORD * (1 + 2 * n + 2 * blocks)
    if found > n_payload:
        return 0
    cut.n_axes = <int> n
    for axis in range(cut.n_axes):
        side = <int64_t> number(payload + WORD * (1 + axis), WORD)
        step = <int64_t> number(payload + WORD * (1 + n + axis), WORD)
        if not 1 <= step <= side:
            return 0
        cut.sides[axis], cut.steps[axis] = side, step
    return found


cdef int64_t bytes_of(const cut_t *cut, int64_t itemsize) noexcept nogil:
    """Return the bytes of a chunk with a cut; 0: more than a blob can have."""
    cdef int64_t n = itemsize
    cdef int axis
    for axis in range(cut.n_axes):
        if n > MOST_BYTES // cut.sides[axis]:
            return 0
        n *= cut.sides[axis]
    return n


cdef inline uint64_t number(const uint8_t *bytes, int n) noexcept nogil:
    """Return a number of n bytes, the lowest one first."""
    cdef uint64_t found = 0
    while n:
        n -= 1
        found = found << 8 | bytes[n]
    return found
