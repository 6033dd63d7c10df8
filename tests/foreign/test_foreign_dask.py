"""dask's own tests of arrays, in which `from_array` puts our arrays in place of NumPy's.

``EXTARRAY_DASK_TESTS`` names the folder of the tests, ``dask/array/tests`` of an installed dask or
of its source distribution.  `.ci/run downstream` sets it.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from foreign import array_of, expectations, load

FOLDER = os.environ.get("EXTARRAY_DASK_TESTS")
if FOLDER is None:
    pytest.skip("EXTARRAY_DASK_TESTS names no folder of dask's tests", allow_module_level=True)
da = pytest.importorskip("dask.array")

#: As in dask's own settings, only warnings of dask and NumPy are errors.
FILTERS = ["ignore", "error:::dask[.*]", "error:::numpy[.*]"]

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(*FILTERS)]

#: Modules of tests that use NumPy arrays as data, not as their subject.
MODULES = [
    "test_array_core",
    "test_masked",
    "test_overlap",
    "test_rechunk",
    "test_reductions",
    "test_reshape",
    "test_routines",
    "test_slicing",
    "test_ufunc",
]


def from_array(x, *args, **kwargs):
    """Make a dask array on one of ours with the values of `x`, or on `x` if that is no ndarray."""
    if type(x) is np.ndarray and x.dtype != object and x.ndim and x.size:
        x = array_of(x)
    return da.from_array(x, *args, **kwargs)


class Dask(ModuleType):
    """`dask.array` with another `from_array`."""

    from_array = staticmethod(from_array)

    def __init__(self):
        super().__init__("dask.array")

    def __getattr__(self, name):
        return getattr(da, name)


@pytest.fixture
def xfail(request):
    """Return the function that dask's tests call when they expect to fail."""
    return lambda reason: request.applymarker(pytest.mark.xfail(reason=reason, strict=False))


FIXTURE = type(pytest.fixture(lambda: None))

for name in MODULES:
    module = load(f"foreign_dask_{name}", Path(FOLDER) / f"{name}.py")
    module.da = Dask()
    if hasattr(module, "from_array"):
        module.from_array = from_array
    # The marks of dask's tests tell what dask itself cannot do.
    tests = {key: value for key, value in vars(module).items() if key.startswith("test_")}
    assert tests
    globals().update({f"{key}_of_{name}": test for key, test in tests.items()})
    globals().update({k: v for k, v in vars(module).items() if isinstance(v, FIXTURE)})

listed_tests_fail = expectations("dask/array")
