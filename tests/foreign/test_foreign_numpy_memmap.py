"""NumPy's own tests of memory-mapped arrays, with our arrays in files in their place."""

from __future__ import annotations

import functools
import weakref
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace

import numpy as np
import pytest
from foreign import Array, expectations, load, take_over
from systems import IS_POSIX

import extarray as xa

# NumPy's wheels have its tests; other builds may leave them out.
PATH = Path(np.__file__).parent / "_core" / "tests" / "test_memmap.py"
if not PATH.exists():
    pytest.skip(f"this NumPy comes without {PATH}", allow_module_level=True)

#: Dropping the last reference closes a memmap silently; our arrays warn.
pytestmark = pytest.mark.filterwarnings("ignore:.* was not closed:ResourceWarning")


#: The stores of the arrays that a test has opened.
opened: list[weakref.ref] = []


class Mapped(Array):
    """An array of ours, made and opened like a `numpy.memmap`."""

    __slots__ = ()

    def __new__(cls, filename, dtype=np.uint8, mode="r+", offset=0, shape=None, order="C"):
        path = Path(filename if isinstance(filename, (str, Path)) else filename.name)
        if offset:
            raise NotImplementedError("an array of ours begins where its file begins")
        is_new = not path.with_name(f"{path.name}.xmd").exists()
        if mode == "w+" or (mode == "r+" and is_new and shape is not None):
            array = xa.create(path, shape, dtype, order=order, overwrite=True)
        else:
            array = xa.open(path, mode=mode)
        opened.append(weakref.ref(array._store))
        array.__class__ = cls  # this assignment fails for a subclass without slots
        return array

    def __init__(self, *args, **kwargs):
        """Do nothing: `__new__` has made the array."""

    @property
    def filename(self):
        return self.path

    @property
    def flags(self):
        return SimpleNamespace(writeable=self.mode != "r")


module = load("foreign_numpy_memmap", PATH)
module.memmap = Mapped
globals().update(take_over(module))

# On Windows, temporary files have names.
listed_tests_fail = expectations(
    "numpy/test_memmap.py", but=() if IS_POSIX else ("TestMemmap::test_unnamed_file",)
)


@pytest.fixture(scope="module", autouse=True)
def files_are_removed(tmp_path_factory):
    """Put the tests' temporary files, and those made beside them, into a folder of this suite."""
    folder = tmp_path_factory.mktemp("memmap")
    module.NamedTemporaryFile = functools.partial(NamedTemporaryFile, dir=folder)


@pytest.fixture(autouse=True)
def files_are_closed():
    """Close the stores: the traceback of a failed test keeps its arrays alive."""
    yield
    while opened:
        store = opened.pop()()
        if store is not None:
            store.close()
