"""A store of another kind, which fetches metadata at once, and chunks when they are needed.

It shares nothing with `FileStore`, and offers an array the protocol `Reader`.  The origin is a pair
of files elsewhere: ``.xmd`` is copied whole, ``.xta`` chunk by chunk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

from late_chunks import GONE, SEAL_BYTES, FromDict, Local

import extarray as xa
from extarray._core._supply import Supply, Trust
from extarray.array import life
from extarray.array.writers import Alone
from extarray.common.forks import in_children
from extarray.format.constants import LIMIT
from extarray.storage.checksums import Comparison
from extarray.storage.filesystem import File
from extarray.storage.following import Follower
from extarray.storage.pair import Pair
from extarray.storage.states import StateReader


class FromFile(FromDict):
    """Chunks in their present state in the file."""

    def __init__(self, path, chunk_bytes):
        self.path, self.chunk_bytes = path, chunk_bytes

    def fetch(self, addresses):
        with open(f"{self.path}.xta", "rb") as file:
            found = {}
            for q in addresses:
                file.seek(q * self.chunk_bytes)
                found[q] = file.read(self.chunk_bytes).ljust(self.chunk_bytes, b"\0")
            return found


class LateStore:
    """The store of an array elsewhere, as its readers know it."""

    unvouched = commits = None

    def __init__(self, origin, engine="mmap", chunks_at_once=4, verify="write"):
        self.origin, self.chunks_at_once = Path(origin), chunks_at_once
        self._fetch_metadata(tempfile.mkdtemp(prefix="late-", dir=self.origin.parent))
        self.now = pair = Pair(self.folder / "late")
        pair.engine, pair.verify = engine, verify
        pair.open_metadata()
        pair.data = File.open(pair.names[1], os.O_RDWR)
        self.states = StateReader(pair)
        self.follower = Follower(pair, self.states)
        found = self.states.live_state()
        pair.state, pair.attrs, pair.extents = found.state, found.attrs, found.extents
        self.axial = found.axial
        if pair.header.checksum and verify != "never":
            pair.trust = Trust(LIMIT - 1)
        self._begin()
        in_children(self, LateStore._forked)

    def _fetch_metadata(self, folder):
        """Copy the metadata; fill the places of chunks with bytes that nobody stored."""
        self.folder = Path(folder)
        shutil.copyfile(f"{self.origin}.xmd", self.folder / "late.xmd")
        data = Path(f"{self.origin}.xta").read_bytes()
        hollow = GONE * max(0, len(data) - SEAL_BYTES) + data[-SEAL_BYTES:]
        (self.folder / "late.xta").write_bytes(hollow)

    def _begin(self):
        """Begin without chunks."""
        pair, size = self.now, self.now.header.chunk_bytes
        self.provider = Local(pair.names[1], FromFile(self.origin, size), size)
        pair.supply = Supply(self.provider, size, self.chunks_at_once * size, pair.trust)
        pair.map(pair.state.data_bytes)

    def _forked(self):
        """Give this process its own file of chunks, and supply."""
        pair = self.now
        self._fetch_metadata(tempfile.mkdtemp(prefix="child-", dir=self.origin.parent))
        pair.data = File.open(str(self.folder / "late.xta"), os.O_RDWR)
        pair.names = pair.names[0], str(self.folder / "late.xta")
        self._begin()

    @property
    def files(self):
        return self

    @property
    def absolute(self):
        return str(self.origin)

    @property
    def durability(self):
        return "flush"

    # -- updates -------------------------------------------------------------------------------

    @property
    def sequence(self):
        return self.now.state.sequence

    def _update(self):
        """Fetch the metadata again, into the open file, and make room for more chunks."""
        data, pair = Path(f"{self.origin}.xmd").read_bytes(), self.now
        if data != Path(pair.names[0]).read_bytes():
            present = pair.supply.present
            self.provider.changed = {*present.tolist()}
            pair.supply.renew(present)
            self.provider.changed = set()
        with open(pair.names[0], "r+b") as file:
            file.write(data)
        length = os.stat(f"{self.origin}.xta").st_size
        if length > pair.data.length:
            os.truncate(pair.names[1], length)

    def refresh(self, axial):
        self._update()
        return self.follower.refresh(axial)

    def look(self):
        self._update()
        return self.follower.look()

    def as_committed(self, axial):
        return self.follower.as_committed(axial)

    def inner_box(self, axial):
        return self.follower.inner_box(axial)

    def parse(self, seen):
        return self.follower.parse(seen)

    def read_update(self, state, axial, cuts):
        return self.follower.read_update(state, axial, cuts)

    def replay(self, update, axial):
        self.follower.replay(update, axial)

    def adopt(self, update):
        self.follower.adopt(update)

    def was_superseded(self):
        return False

    def coordinator_of(self, pending):
        return self.states.coordinator_of(pending)

    def probe(self, place, uuid):
        return self.states.probe(place, uuid)

    @property
    def replaced(self):
        return False

    # -- contents ------------------------------------------------------------------------------

    def unfit_chunks(self, addresses):
        pair = self.now
        compared = Comparison(pair.metadata, pair.data, pair.header, supply=pair.supply)
        unfit = compared.surely_unfit(addresses)
        return (addresses[:0], addresses) if unfit is None else (unfit, addresses[:0])

    def has_holes(self):
        return False

    @property
    def generation(self):
        return self.sequence, os.stat(f"{self.origin}.xta").st_mtime_ns

    traffic: ClassVar[dict[str, int]] = {}

    @property
    def metadata_bytes(self):
        return self.now.metadata.length

    @property
    def file_bytes(self):
        return os.stat(f"{self.origin}.xta").st_size

    @property
    def disk_bytes(self):
        return self.provider.most * self.now.header.chunk_bytes

    # -- ends ------------------------------------------------------------------------------------

    def reduced(self, reopen):
        return open_late, (self.origin, self.now.engine, self.chunks_at_once, self.now.verify)

    def warn_if_writer(self):
        pass

    def close(self):
        if not self.now.metadata.closed:
            self.now.close()
            self.provider.close()
            shutil.rmtree(self.folder)


def open_late(origin, engine="mmap", chunks_at_once=4, verify="write"):
    """Open an array that is elsewhere."""
    store = LateStore(origin, engine, chunks_at_once, verify)
    array = xa.ExtArray.__new__(xa.ExtArray)
    life.start(array, store, store.axial, Alone())
    return array


def provider_of(array):
    return array._store.provider
