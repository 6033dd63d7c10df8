"""Arrays of one engine, each under a fresh name."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

import extarray as xa


class Factory:
    """Makes arrays of one engine, each under a fresh name; "memory" arrays have no file."""

    def __init__(self, engine: str, folder: Path):
        self.engine = engine
        self.folder = folder

    @property
    def on_disk(self) -> bool:
        return self.engine != "memory"

    def create(self, shape, dtype="f8", **options):
        if not self.on_disk:
            return xa.create(None, shape=shape, dtype=dtype, **options)
        path = self.folder / uuid.uuid4().hex  # tests may run in several threads
        return xa.create(path, shape=shape, dtype=dtype, engine=self.engine, **options)

    def open(self, array, mode="r", **options):
        return xa.open(array.path, mode=mode, engine=self.engine, **options)

    @contextlib.contextmanager
    def array(self, *args, **options):
        """Make an array for the length of a block, and remove its files at the end."""
        array = self.create(*args, **options)
        try:
            yield array
        finally:
            array.close()
            if self.on_disk:
                for suffix in (".xmd", ".xta"):
                    array.path.with_name(array.path.name + suffix).unlink()
