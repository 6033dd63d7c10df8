"""Mapped files and anonymous memory: growth under a mapping, and the life of views.

A region maps a window of address space far larger than its file, which grows under the window:
growth neither remaps nor invalidates a view.  When a file outgrows the window, the array takes a
new, larger region; views keep the old one alive, and both show the same pages.

Some systems map only what a file has.  There `Region.shows_up_to` maps what has come since, behind
the rest of the window, before anybody may use it.

A memory-resident array lives in an anonymous region: address space reserved without access, and
made accessible as the array grows in place.  A growth that finds no memory raises an error.

Regions share their memory with the ring of windows, the epochs and the leases that tell when pages
may be freed.
"""

import os

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, ENODATA, ENOSPC, errno as c_errno
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from ._system cimport (
    XA_MAPS_FREELY, XA_UNSUPPORTED, XA_WINDOW_BYTES, off_t, xa_advise_huge, xa_advise_scattered,
    xa_bring, xa_brings_huge_pages, xa_close, xa_cover, xa_discard, xa_give_back, xa_keep_free,
    xa_keep_window, xa_map_bytes, xa_map_file, xa_memory_bytes, xa_open_memory, xa_page_bytes,
    xa_physical_bytes, xa_populate, xa_read_at, xa_reserve, xa_show_file, xa_unmap, xa_write_views,
)
from ._types cimport (
    acquire, add_bytes, add_to, bytes_of, count_of, index_t, lock_t, release,
)

from extarray.common.errors import ReserveError

cdef extern from *:
    """
    /* Publish *slot = fresh unless another thread was first; returns the published pointer. */
    static void *xa_publish(void **slot, void *fresh) {
        void *expected = NULL;
        if (__atomic_compare_exchange_n(slot, &expected, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return fresh;
        free(fresh);
        return expected;
    }
    #define xa_load_pointer(slot) __atomic_load_n((slot), __ATOMIC_ACQUIRE)
    #define xa_load_bits(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define xa_or_bits(p, bits) ((void) __atomic_fetch_or((p), (bits), __ATOMIC_ACQ_REL))
    #define xa_count(p) __atomic_fetch_add((p), 1, __ATOMIC_RELAXED)
    #define xa_take_bits(p, bits) __atomic_fetch_and((p), ~(bits), __ATOMIC_ACQ_REL)
    #define xa_lowest_bit(bits) __builtin_ctzll(bits)
    /* Convert a number of a file, lowest byte first, to the processor's order. */
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define xa_little(number) __builtin_bswap64(number)
    #else
    #define xa_little(number) (number)
    #endif
    /* Earlier loads stay before the loads that follow. */
    #define xa_after_loads() __atomic_thread_fence(__ATOMIC_ACQUIRE)
    """
    void *xa_publish(void **slot, void *fresh) noexcept nogil
    void *xa_load_pointer(void **slot) noexcept nogil
    uint64_t xa_load_bits(const uint64_t *p) noexcept nogil
    void xa_or_bits(uint64_t *p, uint64_t bits) noexcept nogil
    uint64_t xa_count(uint64_t *p) noexcept nogil
    void xa_after_loads() noexcept nogil
    uint64_t xa_take_bits(uint64_t *p, uint64_t bits) noexcept nogil
    int xa_lowest_bit(uint64_t bits) noexcept nogil
    uint64_t xa_little(uint64_t number) noexcept nogil

# More address space than a process has.
cdef size_t FARTHEST = <size_t> 1 << 47
cdef size_t GIB = <size_t> 1 << 30
# A mapping that begins at a multiple of this can show huge pages of the page cache.
cdef size_t HUGE = <size_t> 1 << 21


cdef bint BRINGS_BLOCKS = xa_brings_huge_pages()


cdef int reserve_pages(int fd, index_t offset, index_t length) noexcept nogil:
    """Allocate disk space for the pages of a range of a file: 0, or an errno."""
    return xa_reserve(fd, offset, length)


cdef int populate(char *base, size_t length, bint store) noexcept nogil:
    """Return 0, or an errno if a load (or, with `store`, a store) would be a SIGBUS.  If the system
    cannot tell, the access itself finds out."""
    cdef int failure = xa_populate(base, length, store)
    return 0 if failure == XA_UNSUPPORTED else failure


cdef int populate_ends(char *base, size_t start, size_t stop) noexcept nogil:
    """Map pages for stores at both ends of a part of a mapped file that has its disk space.

    The system's cache may join many pages, and a store to one takes space for all.  So pages beside
    the part may need space that is not there.  Inner pages are joined only with each other and the
    ends.
    """
    cdef size_t page = xa_page_bytes()
    cdef size_t first = start & ~(page - 1), last = (stop - 1) & ~(page - 1)
    cdef int failure = populate(base + first, page, True)
    if failure == 0 and last != first:
        failure = populate(base + last, page, True)
    return failure


cdef int populate_alone(char *base, size_t start, size_t stop) noexcept nogil:
    """Do `populate_ends` for a part that may not be cached yet: bring it in alone, so that the
    cache does not join its surroundings with it."""
    cdef size_t page = xa_page_bytes()
    cdef size_t first = start & ~(page - 1), last = (stop - 1) & ~(page - 1)
    if last - first < HUGE:
        xa_bring(base + first, last - first + page)
    else:
        xa_bring(base + first, page)
        xa_bring(base + last, page)
    return populate_ends(base, start, stop)


# Address space of all windows together.
cdef size_t reserved = 0

# The ends of the ring of windows.  Hold `turning` to change the ring or walk it.
cdef lock_t turning
cdef window_t ring
ring.base = NULL
ring.device = ring.inode = 0
ring.next = ring.previous = &ring


cdef void enter(window_t *window) noexcept:
    """Insert a window into the ring, before one of the same file if there is any."""
    cdef window_t *place
    acquire(&turning)
    place = ring.next
    while place != &ring and not is_one_file(place, window):
        place = place.next
    window.next = place
    window.previous = place.previous
    place.previous.next = place.previous = window
    release(&turning)


cdef void leave(window_t *window) noexcept:
    """Remove a window from the ring, if it is there."""
    acquire(&turning)
    if window.next != NULL:
        window.next.previous = window.previous
        window.previous.next = window.next
    release(&turning)


cdef bint is_one_file(const window_t *a, const window_t *b) noexcept:
    if a.inode != b.inode:
        return False
    # Some file systems of Windows have no number, or forget it with the file's first name.
    return a.device == b.device or (not XA_MAPS_FREELY and (a.device == 0 or b.device == 0))


cdef bint meets(const window_t *window, const char *first, const char *last) noexcept:
    return window.base != NULL and first < window.base + window.size and last > window.base


cdef bint is_shown(const char *first, const char *last) noexcept:
    """Tell whether bytes first ... last - 1 belong (or may belong) to any array."""
    cdef const window_t *window
    cdef bint found = False
    acquire(&turning)
    window = ring.next
    while window != &ring and not found:
        found = meets(window, first, last)
        window = window.next
    release(&turning)
    return found


cdef size_t generous(size_t usual, size_t length) noexcept:
    """Return the bytes for a window: it costs nothing, but all windows share one address space."""
    if bytes_of(&reserved) > FARTHEST // 4:
        usual = 4 * GIB
    return max(usual, 4 * min(length, FARTHEST // 4))


cdef char *keep_free(size_t window, bint is_file=False) noexcept:
    """Find address space for a window, where huge pages can begin; NULL: not enough."""
    return xa_keep_window(window, HUGE) if is_file else xa_keep_free(window, HUGE)


cdef size_t most_free(size_t window, size_t least) noexcept:
    """Find the largest free window, to a factor of two, but at least `least`."""
    cdef char *base = NULL
    while base == NULL and window > least:
        window = max(least, window // 2)
        base = keep_free(window)
    if base != NULL:
        xa_unmap(base, window)
    return window


def give_back_pages():
    """Remove mapped pages of files from the resident set of this process.

    They stay in the system's cache, dirty ones until they are on disk; the next access maps them
    again.
    """
    cdef const window_t *window
    acquire(&turning)       # so that no window is unmapped
    window = ring.next
    while window != &ring:
        if window.base != NULL and window.is_file:
            xa_give_back(<char *> window.base, window.size)
            if window.pages != window.base:
                xa_give_back(window.pages, window.size)
            if window.blocks != window.base:
                xa_give_back(window.blocks, window.size)
        window = window.next
    release(&turning)


def write_views(int fd):
    """Hand over stores through all mappings of a file to the system, which then knows what
    `FileCore.datasync` has to write; return 0, or an errno.  Some systems know by themselves."""
    cdef window_t file
    cdef window_t *window
    cdef int failure = 0
    if XA_MAPS_FREELY:
        return 0
    identify(&file, fd)
    acquire(&turning)       # so that no window is unmapped
    window = ring.next
    while window != &ring and failure == 0:
        if window.base != NULL and window.is_file and is_one_file(window, &file):
            failure = xa_write_views(<char *> window.base, window.size)
        window = window.next
    release(&turning)
    return failure


cdef int identify(window_t *window, int fd) except -1:
    """Note the file of a window."""
    about = os.fstat(fd)
    window.device = about.st_dev & ~<uint64_t> 0
    window.inode = about.st_ino & ~<uint64_t> 0
    return 0


cdef class Touched:
    """A set of chunk addresses that any thread may change at any time.

    One such set holds the chunks that this process knows to have disk space and pages behind them.
    Chunks of a sparse array enter it before the first store, which must not meet a hole that no
    space is left for.  Chunks of a fresh segment enter when written, because a first write is
    faster through the file than through the mapping.  Chunks never leave: when some lose their
    space, the whole set is replaced.

    With checksums there are two more sets: chunks written since the last flush, which takes them
    out to sum them, and chunks known to match (`Trust`), which leave it when they leave the array.
    """

    def __cinit__(self):
        self.root = <touched_t *> calloc(1, sizeof(touched_t))
        if self.root == NULL:
            raise MemoryError("no memory for the set of touched chunks")

    def __dealloc__(self):
        cdef int i, j
        if self.root == NULL:
            return
        for i in range(1 << ROOT_BITS):
            if self.root.node[i] != NULL:
                for j in range(1 << NODE_BITS):
                    free(self.root.node[i].leaf[j])
                free(self.root.node[i])
        free(self.root)


cdef bint touched_get(const touched_t *root, index_t address) noexcept nogil:
    cdef index_t high = address >> (LEAF_BITS + NODE_BITS)
    cdef node_t *node
    cdef uint64_t *leaf
    if high >= 1 << ROOT_BITS:
        return False
    node = <node_t *> xa_load_pointer(<void **> &root.node[high])
    if node == NULL:
        return False
    leaf = <uint64_t *> xa_load_pointer(
        <void **> &node.leaf[(address >> LEAF_BITS) & ((1 << NODE_BITS) - 1)])
    if leaf == NULL:
        return False
    address &= (1 << LEAF_BITS) - 1
    return (xa_load_bits(&leaf[address >> 6]) >> (address & 63)) & 1


cdef void *there(void **slot, size_t n, size_t size) noexcept nogil:
    """Return the target of a slot, allocated if missing; NULL: no memory."""
    cdef void *found = xa_load_pointer(slot)
    if found == NULL:
        found = calloc(n, size)
        if found != NULL:
            found = xa_publish(slot, found)
    return found


cdef void touched_set(touched_t *root, index_t address) noexcept nogil:
    # A chunk stays unknown from 2**39 chunks on, and without memory.
    cdef index_t high = address >> (LEAF_BITS + NODE_BITS)
    cdef index_t middle = (address >> LEAF_BITS) & ((1 << NODE_BITS) - 1)
    cdef node_t *node = NULL
    cdef uint64_t *leaf = NULL
    if high < 1 << ROOT_BITS:
        node = <node_t *> there(<void **> &root.node[high], 1, sizeof(node_t))
    if node != NULL:
        leaf = <uint64_t *> there(
            <void **> &node.leaf[middle], 1 << (LEAF_BITS - 6), sizeof(uint64_t))
    if leaf == NULL:
        xa_or_bits(&root.missed, 1)
        return
    address &= (1 << LEAF_BITS) - 1
    xa_or_bits(&leaf[address >> 6], <uint64_t> 1 << (address & 63))


cdef bint touched_spare(touched_t *root, index_t address) noexcept nogil:
    """Tell whether to write an element through the file, to a chunk that is not in the set.

    Preparing a chunk for stores takes as long as some dozens of such writes.  So one write in 16
    does it: chunks with many writes are soon ready, those with few never.
    """
    return not touched_get(root, address) and xa_count(&root.spared) % 16 != 15


cdef bint touched_missed(const touched_t *root) noexcept nogil:
    """Tell whether some chunks could not be set."""
    return xa_load_bits(&root.missed) != 0


cdef void touched_drop(touched_t *root, index_t address) noexcept nogil:
    """Remove a chunk from the set."""
    cdef index_t high = address >> (LEAF_BITS + NODE_BITS)
    cdef index_t middle = (address >> LEAF_BITS) & ((1 << NODE_BITS) - 1)
    cdef node_t *node = NULL
    cdef uint64_t *leaf = NULL
    if high < 1 << ROOT_BITS:
        node = <node_t *> xa_load_pointer(<void **> &root.node[high])
    if node != NULL:
        leaf = <uint64_t *> xa_load_pointer(<void **> &node.leaf[middle])
    if leaf != NULL:
        address &= (1 << LEAF_BITS) - 1
        xa_take_bits(&leaf[address >> 6], <uint64_t> 1 << (address & 63))


cdef index_t touched_take(touched_t *root, index_t first, index_t limit, index_t *taken) noexcept nogil:
    """Remove up to `limit` chunks from address `first` on, in order.  Return their number."""
    cdef index_t n = 0, address = first, high
    cdef node_t *node
    cdef uint64_t *leaf
    cdef uint64_t bits, one
    while n < limit:
        high = address >> (LEAF_BITS + NODE_BITS)
        if high >= 1 << ROOT_BITS:
            break
        node = <node_t *> xa_load_pointer(<void **> &root.node[high])
        if node == NULL:
            address = (high + 1) << (LEAF_BITS + NODE_BITS)
            continue
        leaf = <uint64_t *> xa_load_pointer(
            <void **> &node.leaf[(address >> LEAF_BITS) & ((1 << NODE_BITS) - 1)])
        if leaf == NULL:
            address = ((address >> LEAF_BITS) + 1) << LEAF_BITS
            continue
        leaf += (address & ((1 << LEAF_BITS) - 1)) >> 6
        bits = xa_load_bits(leaf) >> (address & 63)
        if bits == 0:
            address = ((address >> 6) + 1) << 6
            continue
        address += xa_lowest_bit(bits)
        one = <uint64_t> 1 << (address & 63)
        if xa_take_bits(leaf, one) & one:
            taken[n] = address
            n += 1
        address += 1
    return n


cdef class Counter:
    """A number in a file, which another process raises.  Made by `Counter.file`."""

    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        if self.page != NULL:
            xa_unmap(self.page, self.length)
        if self.fd >= 0:
            xa_close(self.fd)  # at exit, modules are gone

    @staticmethod
    def file(int fd, size_t offset, bint mapped):
        """Make a counter in a file: 8 bytes, the lowest first, at a multiple of 8.

        Each look is one load through a mapping or, if not `mapped`, a system call on a duplicate
        of the descriptor; so it is where a mapping would keep others from replacing the file.
        """
        cdef Counter self = Counter.__new__(Counter)
        cdef size_t low = offset & ~(<size_t> xa_map_bytes() - 1)
        self.offset = offset
        if not mapped or not XA_MAPS_FREELY:
            self.fd = os.dup(fd)
            return self
        self.length = offset + 8 - low
        self.page = xa_map_file(NULL, self.length, fd, low, False)
        if self.page == NULL:
            raise OSError(c_errno, f"cannot map the metadata: {os.strerror(c_errno)}; use engine='pread'")
        self.place = <uint64_t *> (self.page + (offset - low))
        return self

    cdef uint64_t look(self) noexcept:
        """Return the number, loaded after all earlier loads."""
        cdef uint64_t number = 0
        if self.place != NULL:
            xa_after_loads()
            return xa_little(xa_load_bits(self.place))
        # On failure, return a number that never occurs: the caller looks further, and meets the
        # failure.
        return xa_little(number) if xa_read_at(self.fd, &number, 8, self.offset) == 8 else ~<uint64_t> 0

    @property
    def value(self):
        """The number."""
        return self.look()


@cython.final
cdef class MappedWords:
    """Numbers of 8 bytes in a file, mapped: a buffer of bytes, the lowest of each number first.

    Readers of the buffer keep the mapping alive.  It keeps no descriptor, whose lock would outlive
    the file's closing.
    """

    def __cinit__(self, int fd, size_t offset, size_t n, bint writable):
        """Map `n` numbers from an offset on, a multiple of 8; the file must hold them."""
        cdef size_t low = offset & ~(<size_t> xa_map_bytes() - 1)
        self.n, self.writable = n, writable
        self.length = offset + 8 * n - low
        self.page = xa_map_file(NULL, self.length, fd, low, writable)
        if self.page == NULL:
            raise OSError(c_errno, f"{os.strerror(c_errno)}; the table of chunks needs {8 * n} bytes of "
                                   "address space, and larger chunks need less")
        self.place = <uint64_t *> (self.page + (offset - low))

    def __dealloc__(self):
        if self.page != NULL:
            xa_unmap(self.page, self.length)

    def populate(self):
        """Bring all pages: return 0, or ENOSPC if a load would find no space for one."""
        return ENOSPC if populate(self.page, self.length, False) else 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.place, 8 * self.n, not self.writable, flags)


cdef class Region:
    """Bytes of an array: a mapped file, a plain file, or anonymous memory.

    Made by `Region.file` and `Region.memory`.  Every view, and every user of the bytes without the
    GIL, holds a reference; the last one unmaps the window and closes the descriptor.
    """

    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        leave(&self.here)
        self._unmap()
        if self.fd >= 0:
            xa_close(self.fd)  # at exit, modules are gone

    @staticmethod
    def file(int fd, size_t length, bint writable, bint mapped, size_t start=0):
        """Make the region of a file from byte `start` on; it duplicates the descriptor.

        The window holds at least `length` bytes, which the file has if the region is `mapped`.
        Raises an OSError if the file cannot be mapped, and a `ReserveError` if there is no address
        space.
        """
        cdef Region self = Region.__new__(Region)
        identify(&self.here, fd)
        self.fd = os.dup(fd)
        self.is_writable = writable
        self.here.is_file = True
        self.start = start
        # Map from a place where huge pages can begin, in the file as in the address space.
        self.head = start & (HUGE - 1)
        if mapped:
            # Generous, because a window costs nothing; but many arrays may be open.
            self._map(
                generous(XA_WINDOW_BYTES, length + self.head), max(length + self.head, HUGE), writable)
            self._map_others(writable)
            self._show(length)
        enter(&self.here)
        return self

    @staticmethod
    def memory(size_t length):
        """Make an anonymous region for `length` bytes and growth; raise a `ReserveError` if there
        is no address space."""
        cdef Region self = Region.__new__(Region)
        self._map(generous(max(64 * GIB, 4 * <size_t> xa_physical_bytes()), length),
                  max(length, HUGE), True)
        self.here.inode = <size_t> self.base
        enter(&self.here)
        return self

    def _map(self, size_t window, size_t least, bint writable):
        """Map a window, aligned to huge pages.

        If the address space denies it, take a smaller one that leaves most of the rest free.
        """
        cdef char *base
        cdef size_t smaller
        cdef off_t first = self.start - <off_t> self.head
        window = (window + HUGE - 1) & ~(HUGE - 1)
        least = (least + HUGE - 1) & ~(HUGE - 1)
        # Systems themselves align large file mappings so that huge pages can be shown.
        if self.fd >= 0 and XA_MAPS_FREELY:
            base = xa_map_file(NULL, window, self.fd, first, writable)
            if base != NULL:
                if not <size_t> base & (HUGE - 1):
                    self._take(base, window)
                    xa_advise_huge(base, window)
                    return
                xa_unmap(base, window)
        base = keep_free(window, self.fd >= 0)
        if base == NULL:
            # A file that outgrows its window gets another; memory must do with the one it has.
            smaller = 4 * min(least, FARTHEST // 4) if self.fd >= 0 else most_free(window, least) // 4
            window = max(least, min(window, smaller & ~(HUGE - 1)))
            base = keep_free(window, self.fd >= 0)
            if base == NULL and window > least:
                window = least
                base = keep_free(window, self.fd >= 0)
        if base == NULL and c_errno == XA_UNSUPPORTED:
            raise OSError(c_errno, f"{os.strerror(c_errno)}; use engine='pread'")
        if base == NULL:
            advice = "use engine='pread'" if self.fd >= 0 else "keep the array in a file"
            raise ReserveError(
                f"no address space for a window of {window} bytes: {os.strerror(c_errno)}; "
                f"raise the limit (ulimit -v), or {advice}")
        self._take(base, window)
        if self.fd >= 0 and XA_MAPS_FREELY:
            if xa_map_file(base, window, self.fd, first, writable) == NULL:
                raise OSError(c_errno, f"{os.strerror(c_errno)}; use engine='pread'")
        xa_advise_huge(base, window)

    def _map_others(self, bint writable):
        """Map the windows for scattered reads, if much address space is left."""
        cdef char *base = self._map_again(writable)
        if base != NULL:
            self.pages = self.here.pages = base
            xa_advise_scattered(base, self.window)
        base = self._map_again(writable) if BRINGS_BLOCKS else NULL
        if base != NULL:
            self.blocks = self.here.blocks = base
            xa_advise_huge(base, self.window)
            xa_advise_scattered(base, self.window)

    cdef char *_map_again(self, bint writable) noexcept:
        """Map one more window; NULL: little address space is left."""
        cdef char *base
        if not XA_MAPS_FREELY or self.window > FARTHEST // 4 - min(bytes_of(&reserved), FARTHEST // 4):
            return NULL
        base = xa_map_file(NULL, self.head + self.window, self.fd, self.start - <off_t> self.head, writable)
        if base == NULL:
            return NULL
        add_bytes(&reserved, self.head + self.window)
        return base + self.head

    cdef void _unmap(self) noexcept:
        cdef size_t length = self.head + self.window
        if self.blocks != self.base:
            xa_unmap(self.blocks - self.head, length)
            add_bytes(&reserved, -length)
        if self.pages != self.base:
            xa_unmap(self.pages - self.head, length)
            add_bytes(&reserved, -length)
        if self.base != NULL:
            xa_unmap(self.base - self.head, length)
            add_bytes(&reserved, -length)

    cdef void _take(self, char *base, size_t window) noexcept:
        """Adopt a window."""
        self.base = self.pages = self.blocks = base + self.head
        self.here.base = self.here.pages = self.here.blocks = self.base
        self.window = self.here.size = window - self.head
        add_bytes(&reserved, window)

    cdef bint shows(self, const char *first, const char *last) noexcept:
        """Tell whether bytes first ... last - 1 belong (or may belong) to the file or memory.

        Other regions may show them too: those of other handles of the file, and older ones.
        """
        cdef const window_t *window = &self.here
        cdef bint found = False
        acquire(&turning)
        while is_one_file(window, &self.here) and not found:
            found = meets(window, first, last)
            window = window.next
        window = self.here.previous
        while is_one_file(window, &self.here) and not found:
            found = meets(window, first, last)
            window = window.previous
        release(&turning)
        return found

    def shows_up_to(self, size_t length):
        """Tell whether the window shows the first `length` bytes of its file, now that the file has
        them (a plain file always does); if not, it takes another region to show them."""
        if self.base == NULL:
            return True
        return length <= self.window and (self.fd < 0 or self._show(length))

    cdef bint _show(self, size_t length) except -1:
        """Do `shows_up_to` for a mapped file and a length within the window."""
        cdef int failure
        with cython.critical_section(self):
            failure = xa_show_file(
                self.base - self.head, self.head + self.window, &self.shown, self.head + length,
                self.fd, self.start - <off_t> self.head, self.is_writable)
        if failure == ENODATA:
            raise OSError(failure, f"it has less than {self.start + length} bytes")
        if failure and failure != EAGAIN:
            raise OSError(failure, f"{os.strerror(failure)}; use engine='pread'")
        return failure == 0

    def commit(self, size_t length):
        """Make the first `length` bytes of anonymous memory accessible; raise a `ReserveError` if
        there is no memory or the window is exhausted."""
        if length <= self.committed:
            return
        length = (length + xa_memory_bytes() - 1) & ~(xa_memory_bytes() - 1)
        if length > self.window:
            raise ReserveError(
                f"cannot grow to {length} bytes: {self.window} bytes of address space are "
                "reserved; keep the array in a file instead")
        cdef int failure = xa_open_memory(self.base + self.committed, length - self.committed)
        if failure:
            raise ReserveError(
                f"cannot grow to {length} bytes of memory: {os.strerror(failure)}; keep the "
                "array in a file instead")
        self.committed = length

    # These three return 0, or an errno if there is no space.

    def populate(self, size_t start, size_t length):
        """Map the pages of a part of a mapped file, so that loads find them."""
        cdef size_t low = start & ~(<size_t> xa_page_bytes() - 1)
        cdef int failure
        with nogil:
            failure = populate(self.base + low, start + length - low, False)
        return failure

    def populate_alone(self, size_t start, size_t stop):
        """Map pages for stores at both ends of a part of a mapped file that has its disk space; see
        `populate_ends`."""
        cdef int failure
        with nogil:
            failure = populate_alone(self.base, start, stop)
        return failure

    def populate_whole(self, size_t start, size_t stop):
        """Map pages for stores to all of a part of a mapped file: a hole gets its space, and
        existing bytes stay, even those that others write meanwhile.  UNSUPPORTED if the system
        cannot."""
        cdef size_t low = start & ~(<size_t> xa_page_bytes() - 1)
        cdef int failure
        with nogil:
            failure = xa_populate(self.base + low, stop - low, True)
        return failure

    def discard(self, size_t start, size_t stop):
        """Zero bytes start ... stop - 1 of anonymous memory, and return them to the system."""
        cdef size_t page = xa_page_bytes()
        cdef size_t low = (start + page - 1) & ~(page - 1), high = stop & ~(page - 1)
        if stop > self.committed:
            raise ValueError("the range was not committed")
        if low >= high:
            memset(self.base + start, 0, stop - start if stop > start else 0)
            return
        with nogil:
            memset(self.base + start, 0, low - start)
            xa_discard(self.base + low, high - low)
            memset(self.base + high, 0, stop - high)

    def abandon(self, size_t start):
        """Show private zeroed memory instead of the file's bytes from `start` on, whose page stays.

        For views of bytes that the file is about to lose: a load beyond its end would be a SIGBUS.
        """
        cdef size_t page = xa_page_bytes()
        cdef size_t low = (start + page - 1) & ~(page - 1)
        if self.base != NULL and self.fd >= 0 and low < self.window:
            xa_cover(self.base + low, self.window - low)
            if self.pages != self.base:
                xa_cover(self.pages + low, self.window - low)
            if self.blocks != self.base:
                xa_cover(self.blocks + low, self.window - low)

    def fill(self, const unsigned char[::1] source not None, size_t start, size_t stop):
        """Repeat bytes over bytes start ... stop - 1 of an anonymous region.

        `source` must lie outside this region, where another thread, in a write that began before
        the cut, may still store values that would be repeated.
        """
        cdef size_t piece
        if stop > self.committed:
            raise ValueError("the range was not committed")
        if source.shape[0] == 0:
            raise ValueError("nothing to repeat")
        with nogil:
            while start < stop:
                piece = min(<size_t> source.shape[0], stop - start)
                memcpy(self.base + start, &source[0], piece)
                start += piece

    def copied(self, size_t start, size_t stop):
        """Return bytes start ... stop - 1 of anonymous memory."""
        if not start <= stop <= self.committed:
            raise ValueError("the range was not committed")
        return PyBytes_FromStringAndSize(self.base + start, stop - start)

    @property
    def mapped(self):
        """Tell whether the bytes are in the address space."""
        return self.base != NULL


cdef class Epoch:
    """The time from one cut of an array to the next, and the number of users left that began in it.
    """


cdef class Users:
    """Users that may still look at cut-off chunks: running transfers, and views of chunks.

    Each user belongs for life to the epoch in which it took the bounds.  Chunks that a cut leaves
    outside are freed when no user of that epoch or an earlier one is left.
    """

    def __cinit__(self):
        self.last = Epoch.__new__(Epoch)
        self.epochs = [self.last]

    def turn(self):
        """End an epoch, and return its number: later users know the cut."""
        cdef Epoch fresh = Epoch.__new__(Epoch)
        with cython.critical_section(self):
            fresh.number = self.last.number + 1
            self.epochs.append(fresh)
            self.last = fresh
        return fresh.number - 1

    def are_left(self, index_t number):
        """Tell whether users of an ended epoch, or of an earlier one, are left."""
        cdef Epoch first
        with cython.critical_section(self):
            first = self.epochs[0]
            while count_of(&first.n_users) == 0 and first is not self.last:
                del self.epochs[0]
                first = self.epochs[0]
        return first.number <= number

    @property
    def ended(self):
        """Number of the epoch that ended last; -1: none has."""
        with cython.critical_section(self):
            return self.last.number - 1


cdef Epoch join(Users users):
    """Find the present epoch and count one more user of it, in one step."""
    cdef Epoch last
    with cython.critical_section(users):
        last = users.last
        add_to(&last.n_users, 1)
    return last


cdef class Lease:
    """The owner of a view's memory: keeps the region alive, and counts as a user."""

    def __dealloc__(self):
        if self.epoch is not None:
            add_to(&self.epoch.n_users, -1)


cdef Lease lease(Region region, Epoch epoch):
    """Make an owner for one more view."""
    cdef Lease self = Lease.__new__(Lease)
    self.region = region
    self.epoch = epoch
    add_to(&epoch.n_users, 1)
    return self
