"""Open files: descriptors that nobody uses after they are closed.

The system reuses the number of a closed descriptor for the next file.  So no part of the package
keeps a bare number, but a `FileCore`, which counts running calls as users of the descriptor.
`close` closes it when the last user has left; later calls are refused.  Only a with statement hands
out the number.
"""

import os

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, EIO, errno as c_errno
from libc.stdint cimport int64_t, uint8_t

from ._system cimport (
    XA_CHUNK_LOCKS, XA_HAS_BARRIER, XA_UNSUPPORTED, lock_chunk, off_t, unlock_chunk, xa_ask_for,
    xa_barrier, xa_begin_sieving, xa_close, xa_datasync, xa_end_sieving, xa_exceeds_disk,
    xa_filesystem, xa_forget, xa_generation, xa_is_cached, xa_length, xa_length_now, xa_lengthen,
    xa_page_bytes, xa_punch, xa_read_at, xa_reserve, xa_set_length, xa_sieve_init,
    xa_stop_sieving, xa_write_at, xa_write_back, xa_zero,
)
from ._types cimport MAX_NDIM, index_t

from extarray.common.errors import ClosedError
from extarray.common.system import COHERENT, GONE, NETWORKED

#: The errno of what the system, or a file system, cannot do.
UNSUPPORTED = XA_UNSUPPORTED
#: Whether `FileCore.barrier` is cheaper than `FileCore.datasync`.
HAS_BARRIER = bool(XA_HAS_BARRIER)

cdef enum:
    PAGE = 1 << 12
    # Gaps below this fraction of a part are read with the parts.
    GAP_SHARE = 4
    # If more than two thirds of a block are wanted, it is left to a load, which brings it as one
    # huge page: faster than many small pages.
    BLOCK = 1 << 21


def file_system_of(int fd):
    """Return the number of a file system's type (statfs), or 0 if unknown.

    `fd` may be open for its path only (``O_PATH``).
    """
    return xa_filesystem(fd)


cdef int close_fd(int fd) except -1:
    """Close a descriptor; pass over a file that another host has removed, where that is told."""
    try:
        os.close(fd)
    except OSError as error:
        if error.errno not in GONE:
            raise
    return 0


cdef class FileCore:
    """An open file, closed once `close` is called and its last user has left.

    It owns the descriptor; -1: closed from the start.  With a `size`, it is a part of the file, for
    reading only: that many bytes from `start` on.

    On a file system whose hosts keep copies of their own, `read` and `length` ask its server: such
    copies may be old for ever.
    """

    def __cinit__(self, *args, **kwargs):
        self.fd = -1
        self.kind = -1

    def __init__(self, int fd=-1, str name="", index_t start=0, index_t size=-1):
        self.fd = fd
        self.name = name
        self.start = start
        self.size = size
        self.is_closed = fd < 0

    def __dealloc__(self):
        if self.fd >= 0:
            xa_close(self.fd)  # at exit, modules are gone

    # -- users -------------------------------------------------------------------------------

    cdef int enter(self) except -1:
        """Add a user, for whom the file stays open (I10); return the descriptor."""
        with cython.critical_section(self):
            if not self.is_closed:
                self.n_users += 1
                return self.fd
        raise ClosedError(
            f"'{self.name}' was closed during use; open the array again with extarray.open")

    cdef int leave(self) except -1:
        """Remove a user; the last one closes the file if asked to."""
        cdef int fd = -1
        with cython.critical_section(self):
            self.n_users -= 1
            if self.is_closed and self.n_users == 0:
                fd = self.fd
                self.fd = -1
        if fd >= 0:
            close_fd(fd)
        return 0

    def __enter__(self):
        """Lend the descriptor, which stays open until the block ends."""
        return self.enter()

    def __exit__(self, *error):
        self.leave()

    @property
    def closed(self):
        """Tell whether `close` was called."""
        return self.is_closed

    def close(self, bint alone=False):
        """Close the file as soon as no call uses it.  Closing twice is allowed.

        `alone`: no other thread lives, as in a forked child, so users never leave.  The file is
        closed even if the file system fails.
        """
        cdef int fd = -1
        with cython.critical_section(self):
            self.is_closed = True
            if alone or self.n_users == 0:
                fd = self.fd
                self.fd = -1
        if fd >= 0:
            close_fd(fd)

    # -- bytes -------------------------------------------------------------------------------

    def read(self, index_t length, index_t offset):
        """Read up to `length` bytes."""
        cdef index_t done
        data = PyBytes_FromStringAndSize(NULL, length)
        done = self._read(PyBytes_AS_STRING(data), length, offset)
        return data if done == length else data[:done]

    def read_into(self, target, index_t offset):
        """Read bytes into a target, up to its length; return their number."""
        cdef Py_buffer view
        PyObject_GetBuffer(target, &view, PyBUF_WRITABLE)
        try:
            return self._read(<char *> view.buf, view.len, offset)
        finally:
            PyBuffer_Release(&view)

    cdef index_t _read(self, char *target, index_t length, index_t offset) except -1:
        cdef int fd = self.enter(), failure
        cdef index_t done = 0
        cdef ssize_t n
        if self.size >= 0:
            length = max(min(length, self.size - offset), <index_t> 0)
        offset += self.start
        try:
            if self.size < 0 and self._keeps_copies(fd):
                xa_forget(fd, offset, length)
            while done < length:
                with nogil:
                    n = xa_read_at(fd, target + done, length - done, offset + done)
                    failure = c_errno
                if n > 0:
                    done += n
                elif n == 0:
                    break
                elif failure == EINTR:
                    PyErr_CheckSignals()
                else:
                    raise OSError(failure, os.strerror(failure))
        finally:
            self.leave()
        return done

    def read_runs(self, target, const int64_t[::1] places, index_t length):
        """Read runs of one length into a target, one after another.

        `places` are their offsets.  Return the number of bytes before the first missing one.
        """
        cdef uint8_t[::1] to = target
        cdef index_t i = 0, done = 0, n = 0
        cdef index_t n_runs = min(places.shape[0], to.shape[0] // max(length, 1))
        cdef int fd = self.enter()
        try:
            while i < n_runs:
                with nogil:
                    while i < n_runs and self.size < 0:
                        n = xa_read_at(fd, &to[done], length, self.start + places[i])
                        if n != length:
                            break
                        done += n
                        i += 1
                if i < n_runs:  # a part of a file, an interrupt, or the end
                    n = self._read(<char *> &to[done], length, places[i])
                    done += n
                    if n < length:
                        break
                    i += 1
        finally:
            self.leave()
        return done

    def write(self, data, index_t offset):
        """Write all bytes."""
        cdef Py_buffer view
        cdef int fd = self.enter(), failure
        cdef index_t done = 0
        cdef ssize_t n
        try:
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            try:
                while done < view.len:
                    with nogil:
                        n = xa_write_at(fd, <char *> view.buf + done, view.len - done, offset + done)
                        failure = c_errno if n < 0 else EIO
                    if n > 0:
                        done += n
                    elif n < 0 and failure == EINTR:
                        PyErr_CheckSignals()
                    else:
                        raise OSError(failure, os.strerror(failure))
            finally:
                PyBuffer_Release(&view)
        finally:
            self.leave()

    cdef int _do(self, action_t action, off_t offset, off_t length) except -1:
        """Act on a range of the file; return 0, or an errno."""
        cdef int fd = self.enter(), failure
        try:
            while True:
                with nogil:
                    failure = action(fd, offset, length)
                if failure != EINTR:
                    break
                PyErr_CheckSignals()
        finally:
            self.leave()
        return failure

    cdef int _must(self, action_t action, off_t length) except -1:
        """Act on the file; raise an OSError on failure."""
        cdef int failure = self._do(action, 0, length)
        if failure:
            raise OSError(failure, os.strerror(failure))
        return 0

    @property
    def length(self):
        """Bytes of the file."""
        cdef int fd = self.enter(), failure
        cdef int64_t length = 0
        cdef bint asks
        if self.size >= 0:
            self.leave()
            return self.size
        try:
            asks = self._keeps_copies(fd)
            with nogil:
                failure = xa_length_now(fd, &length) if asks else xa_length(fd, &length)
        finally:
            self.leave()
        if failure:
            raise OSError(failure, os.strerror(failure))
        return length

    def forget(self):
        """Drop the file from the system's cache, so that the next reads ask the server."""
        cdef int fd = self.enter()
        try:
            with nogil:
                xa_forget(fd, 0, 0)
        finally:
            self.leave()

    def truncate(self, index_t length):
        """Set the length of the file."""
        self._must(cut_off, length)

    def datasync(self):
        """Bring the bytes to the disk, and wait until they are there."""
        self._must(bring, 0)

    def barrier(self):
        """Keep later writes, to any file of this disk, from reaching it before the bytes."""
        self._must(put_before, 0)

    # -- disk space: 0, or an errno, UNSUPPORTED if the file system cannot --------------------

    def exceeds_disk(self, index_t length):
        """Tell whether the whole disk is smaller than this; never true below 1 GiB."""
        return bool(self._do(exceeds, 0, length))

    def lengthen(self, index_t offset, index_t length):
        """Extend the file by zeros that have their disk space."""
        return self._do(xa_lengthen, offset, length)

    def reserve(self, index_t offset, index_t length):
        """Allocate disk space for the pages of a range; keep their content."""
        return self._do(xa_reserve, offset, length)

    def punch(self, index_t offset, index_t length):
        """Turn the pages inside a range into a hole, which reads as zeros."""
        return self._do(xa_punch, offset, length)

    def zero(self, index_t offset, index_t length):
        """Zero a range without writing to it; it keeps its disk space."""
        return self._do(xa_zero, offset, length)

    def write_back(self):
        """Begin to write all dirty pages; this waits only for a disk that has enough to do.

        An error is left to `datasync`: to wait here until pages are written would take it away.
        """
        cdef int fd = self.enter()
        try:
            with nogil:
                xa_write_back(fd, 0, 0, False)
        finally:
            self.leave()

    def write_back_ends(self, index_t start, index_t stop, bint wait):
        """Begin to write the pages at both ends of a range, or wait until they are written.

        The system can then split pages that it keeps as one (see `populate_ends`), so that the
        range can become a hole.
        """
        cdef off_t page = xa_page_bytes()
        cdef off_t first = (start + page - 1) & -page, last = stop & -page
        cdef int fd = self.enter()
        try:
            if first < last:
                with nogil:
                    xa_write_back(fd, max(first - page, <off_t> 0), 2 * page, wait)
                    xa_write_back(fd, last - page, 2 * page, wait)
        finally:
            self.leave()

    @property
    def file_system(self):
        """Number of the file system's type (statfs); 0: unknown."""
        cdef int fd = self.enter()
        try:
            return self._kind(fd)
        finally:
            self.leave()

    @property
    def is_networked(self):
        """Tell whether several hosts may share the file system."""
        return self.file_system in NETWORKED

    cdef int64_t _kind(self, int fd) noexcept:
        if self.kind < 0:
            self.kind = xa_filesystem(fd)
        return self.kind

    @property
    def keeps_copies(self):
        """Tell whether this host may show old bytes after another host has written new ones."""
        return self.is_networked and self.file_system not in COHERENT

    cdef bint _keeps_copies(self, int fd) except -1:
        cdef int64_t kind = self._kind(fd)
        return kind in NETWORKED and kind not in COHERENT

    @property
    def generation(self):
        """Number of the file among those that had its inode in turn; 0: unknown."""
        cdef int fd = self.enter()
        try:
            return xa_generation(fd)
        finally:
            self.leave()


cdef int cut_off(int fd, off_t offset, off_t length) noexcept nogil:
    return xa_set_length(fd, length)


cdef int bring(int fd, off_t offset, off_t length) noexcept nogil:
    return xa_datasync(fd)


cdef int put_before(int fd, off_t offset, off_t length) noexcept nogil:
    return xa_barrier(fd)


cdef int exceeds(int fd, off_t offset, off_t length) noexcept nogil:
    return xa_exceeds_disk(fd, length)


# -- bytes between elements ------------------------------------------------------------------------

#: The byte of ``.xta`` that a writer locks while it writes gaps between elements; writers of mere
#: elements lock the next one.  Both lie beyond all data.
SIEVE_BYTE = (1 << 62) - 2

cdef int64_t LEAVE_AT = SIEVE_BYTE


@cython.final
cdef class Sieve:
    """Leave to write elements together with the gaps between them, which are read first.

    Only the one writer of a file has it, never writers that share (I9).  A transfer holds it from
    `begin_sieving` to `end_sieving`.  It is refused while another process has the file open to
    write elements, and after `stop`.  Holders of this object lock each chunk that they write to,
    with the leave or without, so that no thread undoes another's writes.

    As a context manager it locks all chunks.
    """

    def __cinit__(self):
        xa_sieve_init(&self.state)

    def stop(self):
        """Refuse the leave from now on: on return, others may store to the chunks."""
        with nogil:
            xa_stop_sieving(&self.state)

    def __enter__(self):
        cdef int i
        with nogil:
            for i in range(XA_CHUNK_LOCKS):
                lock_chunk(&self.state, i)

    def __exit__(self, *error):
        cdef int i
        for i in range(XA_CHUNK_LOCKS):
            unlock_chunk(&self.state, i)


cdef bint begin_sieving(sieve_t *sieve, int fd) noexcept nogil:
    """Take the leave of a sieve for a transfer to its file, if it is given."""
    return xa_begin_sieving(sieve, fd, LEAVE_AT)


cdef void end_sieving(sieve_t *sieve, int fd) noexcept nogil:
    """Give the leave back."""
    xa_end_sieving(sieve, fd, LEAVE_AT)


# -- read-ahead ------------------------------------------------------------------------------------
# The system reads a cold file page by page on access, each with a guess at what follows.  A
# transfer knows its bytes: it asks for exactly those, without waiting, so that the disk has many
# requests at a time.

cdef bint is_cached(int fd, index_t offset) noexcept nogil:
    """Tell whether a byte of a file is (or may be) in the system's cache."""
    return xa_is_cached(fd, offset)


cdef void ask_for(ahead_t *ahead, index_t start, index_t stop) noexcept nogil:
    """Ask for bytes start ... stop - 1, and no others (I12), merged with waiting neighbours."""
    if ahead.start < ahead.stop:
        if ahead.start <= start <= ahead.stop + PAGE:
            ahead.stop = max(ahead.stop, stop)
            return
        xa_ask_for(ahead.fd, ahead.start, ahead.stop - ahead.start)
    ahead.start = start
    ahead.stop = stop


cdef void end_asking(ahead_t *ahead) noexcept nogil:
    """Ask for the range that still waits."""
    ask_for(ahead, 0, 0)


cdef void ask_for_block(
    ahead_t *ahead, index_t offset, const int *fast_to_slow, const index_t *stride,
    const index_t *count, int ndim, index_t itemsize
) noexcept nogil:
    """Ask for a strided block of elements, whose first one is at `offset`."""
    cdef int axes[MAX_NDIM]
    cdef index_t at[MAX_NDIM]
    cdef index_t span = itemsize, gap
    cdef index_t wanted, n_blocks, behind = offset
    cdef int n = 0, i, j
    for i in range(ndim):
        j = fast_to_slow[i]
        if count[j] == 1:
            continue
        gap = stride[j] - span
        if n == 0 and (gap < PAGE or gap < span // GAP_SHARE):
            span += (count[j] - 1) * stride[j]
        else:
            axes[n] = j
            at[n] = 0
            n += 1
    wanted = span
    behind += span
    for i in range(n):
        wanted *= count[axes[i]]
        behind += (count[axes[i]] - 1) * stride[axes[i]]
    n_blocks = (behind - 1) // BLOCK - offset // BLOCK + 1
    if ahead.brings_blocks and wanted > n_blocks * BLOCK // 3 * 2:
        return
    while True:
        ask_for(ahead, offset, offset + span)
        i = 0
        while i < n:
            j = axes[i]
            at[i] += 1
            offset += stride[j]
            if at[i] < count[j]:
                break
            offset -= count[j] * stride[j]
            at[i] = 0
            i += 1
        if i == n:
            return
