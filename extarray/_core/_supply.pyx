"""Presence and trust: which chunks of an array are here, and which are known to be right.

A chunk is *present* if its bytes lie where its address says.  Most arrays have all chunks present,
and nothing checks.  If chunks come from elsewhere (a server, compressed blobs), the array has a
`Supply`: each call names the chunks that it needs before it reads anything, and a provider brings
the missing ones (I16).  Whether chunks are *right* is a separate question, for `Trust`.
"""

import threading
from collections import deque

cimport cython

import numpy as np

from ._mapping cimport Lease, Touched, touched_drop
from ._types cimport add_to, fence


@cython.final
cdef class Trust:
    """The chunks that no object needs to compare with their checksums again.

    Processes that write to an array in one session each have such a set.  A chunk that is unknown
    here may differ from its checksum because another process, which knows it, has written to it.
    Processes of one host tell each other through `marks`: a process that gets to know a chunk marks
    it before it writes to it, and no mark is ever removed.
    """

    def __cinit__(self, index_t n_stored):
        self.known = Touched()
        self.n_stored = n_stored

    def join(self, unsigned char[::1] memory):
        """Share the session with other processes.

        `memory`, of at least two bytes, all zero at first, is shared by all of them; None: they
        share no memory.
        """
        if memory is not None:
            self.kept = memory
            self.told = &memory[0]
            self.n_marks = memory.shape[0] - 1
            self.marks = &memory[1]
        self.is_joint = True

    def hand_out(self):
        """Note that processes outside the session may write chunks, which nobody marks."""
        if self.told != NULL:
            self.told[0] = 1
            fence()

    def marked(self, const index_t[::1] addresses not None):
        """Tell which chunks are marked, as a boolean array; None if marks tell nothing."""
        cdef index_t i
        cdef unsigned char[::1] found
        if self.marks == NULL:
            return None
        fence()     # see the marks that were set before the bytes compared
        if self.told[0]:
            return None
        result = np.empty(addresses.shape[0], np.bool_)
        found = result.view(np.uint8)
        for i in range(addresses.shape[0]):
            found[i] = self.marks[addresses[i] % self.n_marks]
        return result

    @property
    def has_own_marks(self):
        """True if no two chunks share a mark."""
        return self.marks != NULL and self.n_stored <= self.n_marks


@cython.final
cdef class Supply:
    """The chunks of an array that a provider brings on demand, and evicts again.

    Parameters
    ----------
    provider : Provider
        See `extarray.storage.store.Provider`.
    chunk_bytes : int
    bound : int or None
        Most bytes of chunks that may be present; None: all.  Chunks in use stay, even beyond it.
    trust : Trust or None
        Chunks that leave must be verified again when they come back.
    bytes_ahead : int or None
        Most bytes of chunks that the provider begins to bring ahead; None: `bound`.

    Notes
    -----
    Each chunk is requested once while it is present, however many threads need it.  Chunks leave in
    the order of their last use, only to make room, and never while a `Use` of them lives.  The
    provider is called without the lock, but never by two threads for one chunk: a thread that needs
    a chunk in transit waits for the thread that moves it.
    """

    def __cinit__(
        self, provider, index_t chunk_bytes, bound=None, Trust trust=None, bytes_ahead=None
    ):
        self.provider = provider
        self.trust = trust
        self.most = chunks_within(bound, chunk_bytes)
        self.share = max(1, self.most // 4)     # room for several threads
        self.most_ahead = self.most if bytes_ahead is None else chunks_within(bytes_ahead, chunk_bytes)
        self.used = {}
        self.idle = {}
        self.moving = {}
        self.returned = deque()
        self.lock = threading.Lock()
        self.moved = threading.Condition(self.lock)

    def use(self, addresses):
        """Bring in chunks, and keep them as long as the returned `Use` lives.

        The addresses are in rising order, each once.  Errors of the provider are passed on; then no
        chunk is in use.
        """
        cdef list wanted = addresses.tolist(), kept = [], missing, later, leaving
        cdef Use result = use_of(self, kept)        # gives back its chunks, whatever happens
        while wanted:
            missing = []
            later = []
            with self.lock:
                self._take_back()
                for address in wanted:
                    count = self.used.get(address)
                    if count is not None:
                        self.used[address] = count + 1
                    elif address in self.idle:
                        del self.idle[address]
                        self.used[address] = 1
                    elif address in self.moving:
                        later.append(address)
                        continue
                    else:
                        missing.append(address)
                        continue
                    kept.append(address)
                if missing:
                    leaving = self._leaving(len(missing))
                    self._move(missing)
                elif later:
                    self.moved.wait()
            if missing:
                self._exchange(leaving, missing, kept)
            wanted = later
        return result

    def _exchange(self, list leaving, list missing, list kept):
        """Let the provider evict some chunks and bring others, which are then in use."""
        cdef list brought = []
        try:
            if leaving:
                self.provider.evict(np.array(leaving, np.int64))
            self.provider.provide(np.array(missing, np.int64))
            brought = missing
        finally:
            with self.lock:
                self._stop_moving(leaving)
                self._stop_moving(missing)
                for address in brought:
                    self.used[address] = 1
                kept += brought
                self.moved.notify_all()

    cdef list _leaving(self, index_t n_coming):
        """Remove unused chunks to make room for others."""
        cdef list leaving = []
        cdef index_t excess = len(self.used) + len(self.idle) + len(self.moving) + n_coming - self.most
        while excess > 0 and self.idle:
            address = next(iter(self.idle))
            del self.idle[address]
            if self.trust is not None:
                touched_drop(self.trust.known.root, address)
            leaving.append(address)
            excess -= 1
        leaving.sort()
        self._move(leaving)
        return leaving

    cdef int _move(self, list addresses) except -1:
        """Note, with the lock held, that this thread moves chunks."""
        self.n_moves += 1
        for address in addresses:
            self.moving[address] = self.n_moves
        return 0

    cdef int _stop_moving(self, list addresses) except -1:
        for address in addresses:
            self.moving.pop(address, None)
        return 0

    cdef int _take_back(self) except -1:
        """Count the uses that have ended, with the lock held."""
        while self.returned:
            for address in self.returned.popleft():
                count = self.used[address] - 1
                if count:
                    self.used[address] = count
                else:
                    del self.used[address]
                    self.idle[address] = None
        return 0

    def ahead(self, addresses):
        """Tell the provider which chunks are needed next; return at once.

        Chunks that are present or on their way are left out.
        """
        cdef list missing
        with self.lock:
            self._take_back()
            missing = [
                address for address in addresses.tolist()
                if address not in self.used and address not in self.idle
                and address not in self.moving
            ]
        if missing:
            self.provider.ahead(np.array(missing, np.int64))

    def renew(self, addresses):
        """Bring chunks anew that have changed elsewhere, as far as they are present.

        Unused chunks leave, and come again when they are next needed.  Chunks in use come again at
        once, over the same bytes, as their users expect of a file that somebody writes to.  A store
        calls this before it adopts the state to which the changes belong, one thread at a time.
        """
        cdef list wanted = addresses.tolist(), leaving, kept
        cdef Use _held      # until the end
        with self.lock:
            while not self.moving.keys().isdisjoint(wanted):
                self.moved.wait()
            self._take_back()
            leaving = [address for address in wanted if address in self.idle]
            kept = [address for address in wanted if address in self.used]
            for address in leaving:
                del self.idle[address]
            for address in kept:
                self.used[address] += 1
            _held = use_of(self, kept)
            self._move(leaving)
        try:
            if leaving:
                self.provider.evict(np.array(leaving, np.int64))
            if kept:
                self.provider.provide(np.array(kept, np.int64))
        finally:
            with self.lock:
                if self.trust is not None:
                    for address in leaving + kept:
                        touched_drop(self.trust.known.root, address)
                self._stop_moving(leaving)
                self.moved.notify_all()

    def settle(self):
        """Wait until the chunks that are on their way now have come; then they are present.

        A store calls this before `renew`, as chunks on their way may be of the state before.
        """
        with self.lock:
            newest = self.n_moves
            while any(number <= newest for number in self.moving.values()):
                self.moved.wait()

    @property
    def present(self):
        """Addresses of the present chunks, in rising order."""
        with self.lock:
            self._take_back()
            return np.array(sorted([*self.used, *self.idle]), np.int64)


@cython.final
@cython.no_gc_clear
cdef class Use:
    """The use of chunks that must stay present; it ends with the life of this object."""

    def __dealloc__(self):
        # Not under the lock: this thread may hold it while garbage is collected.
        if self.addresses:
            self.supply.returned.append(self.addresses)


cdef index_t chunks_within(n_bytes, index_t chunk_bytes) except -1:
    """Return how many chunks a number of bytes holds, at least one; None: all."""
    return (<index_t> 1 << 62) if n_bytes is None else max(1, <index_t> n_bytes // chunk_bytes)


cdef Use use_of(Supply supply, list addresses):
    """Begin a use of chunks that already count as used."""
    cdef Use self = Use.__new__(Use)
    self.supply = supply
    self.addresses = addresses
    return self


@cython.final
cdef class UsingLease(Lease):
    """The owner of a view's memory that also keeps the chunk present."""


cdef Lease lease_using(Lease lease, Use use):
    """Let a lease keep what is in use."""
    cdef UsingLease self = UsingLease.__new__(UsingLease)
    self.region = lease.region
    self.epoch = lease.epoch
    add_to(&self.epoch.n_users, 1)
    self.use = use
    return self
