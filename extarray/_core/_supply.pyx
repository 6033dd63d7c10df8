"""Presence and trust: which chunks of an array are here, and which are known to be right.

A chunk is *present* if its bytes lie where its address says.  In most arrays all chunks are, and
nobody asks.  Where chunks come from elsewhere (a server, compressed blobs), the array has a `Supply`:
each call names the chunks that it needs before it reads anything, and a provider brings those that
are missing (I16).  Whether chunks are *right* is another question, which `Trust` answers.
"""

import threading
from collections import deque

cimport cython

import numpy as np

from ._mapping cimport Lease, Touched, touched_drop
from ._types cimport add_to


@cython.final
cdef class Trust:
    """The chunks that need not be compared with their checksums any more, by whatever object."""

    def __cinit__(self, index_t n_stored):
        self.known = Touched()
        self.n_stored = n_stored


@cython.final
cdef class Supply:
    """The chunks of an array that a provider brings when they are needed, and takes away again.

    Parameters
    ----------
    provider : Provider
        See `extarray.storage.store.Provider`.
    chunk_bytes : int
    bound : int or None
        Bytes of chunks that may be present; None: all of them.  Chunks in use stay, even beyond it.
    trust : Trust or None
        Chunks that leave have to be verified anew when they come back.

    Notes
    -----
    Each chunk is asked for once while it is present, whatever number of threads need it.  Chunks
    leave in the order of their last use, only to make room for others, and never while a `Use` of
    them lives.  The provider is called without the lock, and never for one chunk by two threads at
    a time: who needs a chunk that another thread has come or leave waits for that thread.
    """

    def __cinit__(self, provider, index_t chunk_bytes, bound=None, Trust trust=None):
        cdef index_t most
        self.provider = provider
        self.trust = trust
        most = (<index_t> 1 << 62) if bound is None else max(1, <index_t> bound // chunk_bytes)
        self.most = most
        self.share = max(1, most // 4)      # so that several threads, and what is fetched ahead, fit
        self.used = {}
        self.idle = {}
        self.moving = set()
        self.returned = deque()
        self.lock = threading.Lock()
        self.moved = threading.Condition(self.lock)

    def use(self, addresses):
        """Bring chunks here, and keep them for as long as the `Use` that this returns lives.

        The addresses are in rising order, each once.  Whatever the provider raises is passed on, and
        no chunk is in use then.
        """
        cdef list wanted = addresses.tolist(), kept = [], missing, later, leaving
        cdef Use result = use_of(self, kept)        # gives back what it has, whatever happens
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
                    self.moving.update(missing)
                elif later:
                    self.moved.wait()
            if missing:
                self._exchange(leaving, missing, kept)
            wanted = later
        return result

    def _exchange(self, list leaving, list missing, list kept):
        """Let the provider take some chunks away and bring others, which are in use then."""
        cdef list brought = []
        try:
            if leaving:
                self.provider.evict(np.array(leaving, np.int64))
            self.provider.provide(np.array(missing, np.int64))
            brought = missing
        finally:
            with self.lock:
                self.moving.difference_update(leaving)
                self.moving.difference_update(missing)
                for address in brought:
                    self.used[address] = 1
                kept += brought
                self.moved.notify_all()

    cdef list _leaving(self, index_t n_coming):
        """Take out the chunks, of those that nobody uses, that make room for others."""
        cdef list leaving = []
        cdef index_t excess = len(self.used) + len(self.idle) + len(self.moving) + n_coming - self.most
        while excess > 0 and self.idle:
            address = next(iter(self.idle))
            del self.idle[address]
            if self.trust is not None:
                touched_drop(self.trust.known.root, address)
            self.moving.add(address)
            leaving.append(address)
            excess -= 1
        leaving.sort()
        return leaving

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
        """Tell the provider which chunks are needed next; it returns at once.

        Chunks that are present or on their way are left out, and all that lie beyond the bound.
        """
        cdef list missing
        with self.lock:
            self._take_back()
            missing = [
                address for address in addresses.tolist()
                if address not in self.used and address not in self.idle
                and address not in self.moving
            ][:max(0, self.most - len(self.used))]
        if missing:
            self.provider.ahead(np.array(missing, np.int64))

    @property
    def present(self):
        """Addresses of the chunks that are present, in rising order."""
        with self.lock:
            self._take_back()
            return np.array(sorted([*self.used, *self.idle]), np.int64)


@cython.final
@cython.no_gc_clear
cdef class Use:
    """The use of chunks that have to stay present; it ends with the life of this object."""

    def __dealloc__(self):
        # Not under the lock: this thread may hold it, and be about to collect garbage.
        if self.addresses:
            self.supply.returned.append(self.addresses)


cdef Use use_of(Supply supply, list addresses):
    """Begin a use of chunks that are counted in it."""
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
