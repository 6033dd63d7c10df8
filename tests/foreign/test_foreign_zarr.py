"""zarr's own tests of indexing, with our arrays in place of zarr's.

zarr's wheels have no tests: ``EXTARRAY_ZARR_TESTS`` names the folder of the tests in its source
distribution (``pip download --no-deps --no-binary zarr zarr``).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from foreign import Array, array_of, expectations, load, take_over

from extarray.grid.tiles import tiles

FOLDER = os.environ.get("EXTARRAY_ZARR_TESTS")
if FOLDER is None:
    pytest.skip("EXTARRAY_ZARR_TESTS names no folder of zarr's tests", allow_module_level=True)
zarr = pytest.importorskip("zarr")


class Buffer(np.ndarray):
    """A NumPy array that stands for zarr's buffers, into which its tests read."""

    @classmethod
    def from_numpy_array(cls, array):
        return array.view(cls)

    def as_numpy_array(self):
        return np.asarray(self)

    as_ndarray_like = as_numpy_array


class Later:
    """Brackets whose reading is a coroutine."""

    def __init__(self, brackets):
        self.brackets = brackets

    async def getitem(self, key):
        return self.brackets[key]


class Zarr(Array):
    """An array of ours with the attributes of zarr's arrays that the tests use."""

    __slots__ = ()

    @property
    def metadata(self):
        return SimpleNamespace(chunk_grid=SimpleNamespace(get_nchunks=lambda shape: self.grid[0]))

    @property
    def _async_array(self):
        return SimpleNamespace(oindex=Later(self.oindex), vindex=Later(self.vindex))

    def _iter_chunk_regions(self):
        yield from tiles(self.shape, self.chunks, 1)


def make(store, values, chunk_shape=None):
    """Make an array of ours with the values and chunks that a test gives."""
    values = np.asarray(values)
    array = array_of(values, np.maximum(chunk_shape or values.shape, 1).tolist())
    array.__class__ = Zarr
    return array


def create(shape, chunks, dtype="f8", fill_value=0, **options):
    """Create an array of ours by the arguments of `zarr.create`."""
    return make(None, np.full(shape, fill_value, dtype), chunks)


class Group(dict):
    """A group: arrays by name."""

    def create_array(self, name, shape, dtype, chunks=None):
        self[name] = create(shape, chunks, dtype)
        return self[name]


def that_numpy_refuses(selections, shape):
    """Drop the selections that NumPy accepts, as we do: negative steps, new axes."""
    refused = []
    for selection in selections:
        with suppress(IndexError, TypeError):
            np.empty(shape)[selection]
            continue
        refused.append(selection)
    return refused


module = load("foreign_zarr_indexing", Path(FOLDER) / "test_indexing.py")
module.zarr_array_from_numpy_array = make
module.default_buffer_prototype = lambda: SimpleNamespace(nd_buffer=Buffer)
module.get_ndbuffer_class = lambda: Buffer
module.zarr = SimpleNamespace(
    array=lambda data, chunks, dtype=None, **options: make(None, np.asarray(data, dtype), chunks),
    create=create,
    create_array=create,
    create_group=lambda **options: Group(),
    open_group=lambda **options: Group(),
    codecs=zarr.codecs,
)
module.basic_selections_1d_bad = that_numpy_refuses(module.basic_selections_1d_bad, (1050,))
module.basic_selections_2d_bad = that_numpy_refuses(module.basic_selections_2d_bad, (1000, 10))
globals().update(take_over(module))

listed_tests_fail = expectations("zarr/test_indexing.py")


@pytest.fixture
def store(request):
    """Return no store: our arrays are in memory."""
