"""NumPy's own tests of indexing, with our arrays in place of NumPy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foreign import Array, NumPy, array_of, expectations, load, on_values, take_over

import extarray as xa

# NumPy's wheels have its tests; other builds may leave them out.
PATH = Path(np.__file__).parent / "_core" / "tests" / "test_indexing.py"
if not PATH.exists():
    pytest.skip(f"this NumPy comes without {PATH}", allow_module_level=True)

module = load("foreign_numpy_indexing", PATH)
module.np = NumPy()
module.assert_equal = on_values(module.assert_equal)
found = take_over(module)
Automated = found.pop("TestMultiIndexingAutomated")
globals().update(found)

listed_tests_fail = expectations("numpy/test_indexing.py")


class TestMultiIndexingAutomated(Automated):
    """Thousands of combinations of indices, with our arrays as index arrays, too."""

    test_multidim = pytest.mark.slow(Automated.test_multidim)

    def _create_array(self):
        array = super()._create_array()
        assert isinstance(array, Array)
        return array

    def _get_multi_index(self, arr, indices):
        """NumPy computes the expected result from NumPy arrays; it is never a view."""
        given = tuple(np.asarray(i) if isinstance(i, xa.ExtArray) else i for i in indices)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "np", np)
            expected, _ = super()._get_multi_index(np.asarray(arr), given)
        return expected, False


class TestMultiIndexingByArraysOfNumPy(TestMultiIndexingAutomated):
    """The same tests, with NumPy arrays as indices."""

    def _create_complex_indices(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "np", np)
            return super()._create_complex_indices()


def test_the_arrays_are_ours():
    array = module.np.arange(12).reshape(3, 4)
    assert isinstance(array, xa.ExtArray)
    assert isinstance(array.T.copy(), xa.ExtArray)
    assert array.grid != (1, 1)
    assert array_of(np.zeros(3)).tolist() == [0, 0, 0]
