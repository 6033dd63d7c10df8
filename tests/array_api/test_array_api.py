"""The array API standard: the namespace, and the standard's own tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray import array_api as xp

SKIPS = Path(__file__).resolve().parents[1] / "support" / "data" / "array-api-skips.txt"
SUITE = os.environ.get("ARRAY_API_TESTS")


@pytest.fixture(params=[1, 2])
def array(request):
    """An array with a history."""
    a = xa.from_array(np.arange(12.0).reshape(3, 4), chunks=(2, 2))
    a.append(np.arange(4.0 * request.param).reshape(-1, 4))
    return a


# -- the namespace -------------------------------------------------------------------------------


def test_the_namespace_of_an_array(array):
    assert array.__array_namespace__() is xp
    assert array.__array_namespace__(api_version="2022.12") is xp
    assert array.__array_namespace__(api_version=xp.__array_api_version__) is xp
    with pytest.raises(xa.ArgumentError, match="'3000.12'"):
        array.__array_namespace__(api_version="3000.12")


def test_all_names_are_there():
    assert [name for name in xp.__all__ if not hasattr(xp, name)] == []
    assert [name for name in xp.linalg.__all__ if not hasattr(xp.linalg, name)] == []
    assert [name for name in xp.fft.__all__ if not hasattr(xp.fft, name)] == []
    assert set(xp.__all__) <= set(dir(xp))


def test_functions_of_numpy_beside_the_standard():
    """The namespace has these functions for other libraries, but does not list them."""
    assert "pad" not in dir(xp)
    assert "pad" not in xp.__all__
    assert xp.pad(xa.ones(2), 1).tolist() == [0, 1, 1, 0]
    for name in ("no_function", "__no_name__", "_core"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(xp, name)
    with pytest.raises(AttributeError, match="no_such"):
        _ = xp.no_such


def test_the_package_does_not_import_the_namespace(script):
    code = "import sys, extarray; print('extarray.array_api' in sys.modules)"
    assert script(code).split() == ["False"]


@pytest.mark.parametrize(
    "call",
    [
        lambda n, x: n.sin(x),
        lambda n, x: n.add(x, x),
        lambda n, x: n.sum(x),
        lambda n, x: n.mean(x, axis=0),
        lambda n, x: n.std(x, axis=1, correction=1),
        lambda n, x: n.any(x > 3),
        lambda n, x: n.concat([x, x], axis=1),
        lambda n, x: n.matmul(x, n.permute_dims(x, (1, 0))),
        lambda n, x: n.linalg.vector_norm(x),
        lambda n, x: n.fft.fft(x),
        lambda n, x: n.where(x > 3, x, 0),
        lambda n, x: n.unique_counts(x).counts,
        lambda n, x: n.linalg.svd(x)[1],
        lambda n, x: n.tril(x),
    ],
)
def test_functions_give_arrays_in_memory(array, call):
    got, expected = call(xp, array), call(np, array[...])
    assert isinstance(got, xa.ExtArray)
    assert got.path is None
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got[...], expected)


def test_operators_give_numpy_arrays_that_functions_take(array):
    total = array + array
    assert isinstance(total, np.ndarray)
    assert isinstance(xp.sum(total), xa.ExtArray)
    assert float(xp.sum(total)) == 2 * array[...].sum()


def test_what_is_no_array_stays():
    assert xp.isdtype(xp.int8, "integral") is True
    assert xp.result_type(xp.zeros(2), xp.complex64) == np.complex128
    assert xp.can_cast(xp.float32, xp.float64) is True


# -- functions that are not NumPy's --------------------------------------------------------------


def test_asarray(array):
    assert xp.asarray(array) is array
    assert xp.asarray(array, dtype=array.dtype, copy=False) is array
    copy = xp.asarray(array, copy=True)
    assert copy is not array
    np.testing.assert_array_equal(copy, array)
    assert xp.asarray(array, dtype="i4").dtype == "i4"
    assert xp.asarray([1, array[0, 1]]).dtype == "f8"
    nested = xp.asarray([[xp.asarray(1), 2], (3, 4)])
    assert nested[...].tolist() == [[1, 2], [3, 4]]
    for other in (np.ones(3), [1], 1):
        assert isinstance(xp.asarray(other), xa.ExtArray)
        with pytest.raises(ValueError, match="must be copied"):
            xp.asarray(other, copy=False)
    with pytest.raises(ValueError, match="device 'gpu'"):
        xp.asarray(1, device="gpu")


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_creation(array, name):
    expected = np.full((2, 3), name == "ones", "f4")
    got = getattr(xp, name)((2, 3), dtype=xp.float32)
    np.testing.assert_array_equal(got, expected, strict=True)
    assert getattr(xp, name)(4).dtype == xp.float64
    like = getattr(xp, f"{name}_like")(array, dtype="i2")
    assert (like.shape, like.dtype) == (array.shape, np.int16)
    assert getattr(xp, f"{name}_like")(array).dtype == array.dtype


def test_full(array):
    assert xp.full(2, 7)[...].tolist() == [7, 7]
    assert xp.full((), 7.0).dtype == "f8"
    assert xp.full_like(array, 7).dtype == array.dtype


def test_astype(array):
    assert xp.astype(array, "f8", copy=False) is array
    assert xp.astype(array, "f8") is not array
    np.testing.assert_array_equal(xp.astype(array, "i4"), array[...].astype("i4"), strict=True)


@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable(descending):
    x = np.array([3, 1, 3, 2, 1])
    a = xp.asarray(x)
    order = xp.argsort(a, descending=descending)[...]
    expected = sorted(range(5), key=lambda i: -x[i] if descending else x[i])
    assert order.tolist() == expected
    assert xp.sort(a, descending=descending)[...].tolist() == x[expected].tolist()


def test_limits_of_dtypes():
    info = xp.finfo(xp.zeros(1, dtype=xp.complex64))
    assert (info.bits, info.dtype) == (32, np.float32)
    assert type(info.eps) is float
    assert xp.iinfo("u1").max == 255
    assert xp.iinfo(np.int8(3)).min == -128


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["max dimensions"] == 32
    with pytest.raises(xa.ShapeError):
        xp.zeros((1,) * 33)
    assert info.devices() == [info.default_device()]
    assert info.default_dtypes()["real floating"] == np.float64
    assert set(info.dtypes(kind="bool")) == {"bool"}


# -- the array -----------------------------------------------------------------------------------


def test_dlpack(array):
    np.testing.assert_array_equal(np.from_dlpack(array), array[...], strict=True)
    np.testing.assert_array_equal(xp.from_dlpack(np.arange(3)), np.arange(3), strict=True)
    assert xp.from_dlpack(array) is array
    with pytest.raises(BufferError, match="several chunks"):
        array.__dlpack__(copy=False)
    with pytest.raises(ValueError, match="must be copied"):
        xp.from_dlpack(np.arange(3), copy=False)


def test_dlpack_of_one_chunk(factory):
    """Copied, unless a view is asked for: it then shares the elements."""
    with factory.array((2, 3)) as a:
        copy = np.from_dlpack(a)
        if factory.engine == "pread":
            with pytest.raises(BufferError):
                a.__dlpack__(copy=False)
            return
        view = np.from_dlpack(a, copy=False)
        view[0, 0] = 7
        assert a[0, 0] == 7
        assert copy[0, 0] == 0
    assert view[0, 0] == 7
    assert np.from_dlpack(xp.zeros((0, 3)), copy=False).shape == (0, 3)


def test_devices(array):
    assert array.device == "cpu"
    assert array.to_device("cpu") is array
    with pytest.raises(xa.ArgumentError):
        array.to_device("gpu")


# -- the standard's tests ------------------------------------------------------------------------


def test_every_skipped_test_has_a_reason():
    blocks = [block for block in SKIPS.read_text().split("\n\n") if "array_api_tests/" in block]
    assert blocks
    for block in blocks:
        reason, *tests = re.split(r"^(?=array_api_tests)", block, flags=re.MULTILINE)
        assert all(line.startswith("# ") for line in reason.splitlines())
        assert reason
        assert tests


@pytest.mark.skipif(SUITE is None, reason="ARRAY_API_TESTS names no checkout of array-api-tests")
@pytest.mark.timeout(1200)
def test_the_tests_of_the_standard(tmp_path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    options = ["--disable-deadline", "--derandomize", "--max-examples", "20"]
    done = subprocess.run(
        # With "=": pytest looks for its settings beside arguments that are paths.
        [*command, *options, f"--skips-file={SKIPS}", f"--basetemp={tmp_path}", "array_api_tests"],
        cwd=SUITE,
        env={
            **os.environ,
            "ARRAY_API_TESTS_MODULE": "extarray.array_api",
            "PYTHONPATH": os.pathsep.join(place for place in sys.path if place),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    passed = re.search(r"\b(\d+) passed\b", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 1000
