"""Limits of results in memory, and of temporary memory."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from peaks import peaks

import extarray as xa


@pytest.fixture
def huge(path):
    """Yield 64 GiB of zeros, which take no space."""
    with xa.create(path, (2**12, 2**11, 2**10), chunks=(64, 64, 64), sparse=True) as array:
        yield array


def test_settings_have_defaults_and_take_texts(script):
    code = "import extarray as xa; print(xa.config.warn_result, xa.config.max_result)"
    warn, most = script(code, env={"EXTARRAY_MAX_RESULT": "5 GiB"}).split()
    assert (int(warn), int(most)) == (2**30, 5 * 2**30)
    with xa.config.set(warn_result="1 MiB", max_result=2**22):
        assert (xa.config.warn_result, xa.config.max_result) == (2**20, 2**22)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a + 1,
        lambda a: np.sqrt(a),
        lambda a: a.clip(0, 1),
        lambda a: np.add.accumulate(a),
        lambda a: a.sum(axis=2),
        lambda a: np.unwrap(a),
        lambda a: np.roll(a, 1),
        lambda a: np.zeros_like(a),
        lambda a: np.add.outer(a, [1, 2]),
        lambda a: a.flat[::2],
        lambda a: a.flat[:],
    ],
)
def test_too_large(huge, call):
    with (
        xa.config.set(max_result="16 MiB", warn_result="8 MiB"),
        pytest.raises(xa.ResultError, match=r"config.max_result; use ") as caught,
    ):
        call(huge)
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, xa.ExtArrayError)


@pytest.mark.parametrize(
    ("function", "way"),
    [
        (np.sqrt, "out="),
        (np.fft.fft, "out="),
        (np.sort, "in place"),
        (np.diff, "a.lazy"),
        (np.argsort, "a.lazy"),
        (np.sinc, "a.lazy"),
    ],
)
def test_the_other_way_is_one_that_there_is(function, way):
    a = xa.zeros((64, 64), chunks=(16, 16))
    with xa.config.set(max_result=1000), pytest.raises(xa.ResultError, match=way):
        function(a)


def test_large_results_warn_where_the_user_is():
    a = xa.zeros((64, 64), chunks=(16, 16))
    with xa.config.set(warn_result=1000):
        with pytest.warns(xa.ResultWarning, match=r"to avoid it, use out=") as caught:
            a + 1
        assert [w.filename for w in caught] == [__file__]
        with pytest.warns(xa.ResultWarning, match="reading them") as caught:
            np.roll(a, 1)
        assert [w.filename for w in caught] == [__file__]


def test_what_is_asked_for_has_no_limit():
    a = xa.ones((64, 64), chunks=(16, 16))
    with xa.config.set(warn_result=10, max_result=100), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert a[...].sum() == np.asarray(a).sum() == a.sum() == 4096
        np.add(a, 1, out=a)
        assert a.mean() == 2


# -- temporary memory ----------------------------------------------------------------------------

#: Arrays of 32 MiB, all holes: free to read; written parts take space for a while.
_SETUP = """
xa.config.max_memory = "4 MiB"
xa.config.threads = 2

def new(name, shape, dtype="f8", chunks=None):
    name = f"{folder}/{name}"
    return xa.create(name, shape, dtype, chunks=chunks, sparse=True, engine=engine)

a = new("a", (16, 512, 512), chunks=(16, 64, 64))
b = new("b", (16, 512, 512), "?", chunks=(16, 128, 32))
c = new("c", (16, 512, 512), chunks=(16, 128, 32))
m = new("m", (1 << 11, 1 << 11), chunks=(256, 256))
out = new("out", (1 << 11, 1 << 11), chunks=(512, 128))
v = new("v", (1 << 22,))
i = new("i", (1 << 22,), "i8")
tiny = new("tiny", (1 << 11, 1 << 11), "i1", (128, 512))
grown = new("grown", (0, 1 << 11), chunks=(256, 256))
u = new("u", (1 << 12, 1 << 13), "u1", (256, 256))
z = new("z", (1 << 11, 1 << 11), "c16", (256, 256))
small = np.ones((1 << 11, 4))
# What is made once: imports, buffers of BLAS, tables.
np.dot(small.T, small), np.fft.fft(np.zeros(1 << 12)), np.sort(np.zeros(99))
little = xa.zeros((4, 4))
np.sqrt(little, out=little), little.std(axis=0), little.sum(), np.median(little)
"""

#: Calls of each family of streamed forms, with the MiB of their results.
_CALLS = {
    # elementwise
    "np.sqrt(a, out=c)": 0,
    "np.add(a, c[:, :1], out=c)": 1,
    "a.__iadd__(1)": 0,
    "np.add(a, 1, out=a, where=b)": 0,
    "np.clip(m, 0, 1, out=out)": 0,
    "np.copyto(out, m)": 0,
    "np.array_equal(m, out)": 0,
    "np.allclose(m, out)": 0,
    "np.concatenate([m[:0], m], out=out)": 0,
    # reductions
    "a.sum()": 0,
    "a.mean(axis=0)": 2,
    "a.std(axis=1)": 0.2,
    "a.var(axis=2, where=b)": 0.2,
    "np.nanmean(a, axis=(0, 2))": 0,
    "a.argmax()": 0,
    "5.0 in a": 0,
    "np.count_nonzero(a, axis=1)": 0.2,
    "np.linalg.norm(m)": 0,
    "np.average(m, axis=0, weights=np.ones(1 << 11))": 0,
    # accumulations
    "np.cumsum(m, axis=0, out=out)": 0,
    "np.cumsum(m, out=v)": 0,
    # lanes, order statistics
    "np.median(m)": 0,
    "np.median(m, axis=0)": 0,
    "m.sort(axis=0)": 0,
    "np.fft.fft(m, axis=0, out=z)": 0,
    "np.apply_along_axis(np.sum, 1, m)": 0,
    # values and places
    "np.unique(m)": 0,
    "np.histogram(v, 20)": 0,
    "np.bincount(i)": 0,
    "np.nonzero(v)": 0,
    "np.take(m, [5, 0, 7], axis=0)": 0,
    "np.compress(np.arange(1 << 11) < 3, m, axis=0)": 0,
    "np.searchsorted(v, [0.5])": 0,
    "u.flat.__setitem__(slice(None), 0)": 0,
    "u.flat.__setitem__(slice(None), [1, 2, 3])": 0,
    "u.flat.__setitem__(slice(None, None, 5), 0)": 0,
    "u.flat[::5]": 6.4,
    "np.put(u, i[: 1 << 19], 0)": 4,
    # products
    "np.dot(m, small)": 0.2,
    "np.tensordot(m, out, 2)": 0,
    "np.einsum('ij,ij->', m, out)": 0,
    "np.cov(v, i)": 0,
    # whole writes
    "out.__setitem__(..., m)": 0,
    "out.__setitem__(..., m.lazy[::-1])": 0,
    "out.__setitem__(..., m.astype('f4'))": 0,
    "m.astype('i1').read((slice(0, 1 << 11), slice(0, 1 << 11)))": 4,
    "tiny.__setitem__(..., m.astype('i1'))": 0,
    "out.__setitem__([*range(1 << 11)], m)": 0,
    "out.__setitem__([*range(1 << 11)], m.astype('i1'))": 0,
    "m.copy(folder + '/copy').close()": 0,
    "xa.from_array(m, folder + '/from').close()": 0,
    "xa.from_array(m.astype('f4'), folder + '/astype').close()": 0,
    "xa.from_array(m.lazy[::-1].T, folder + '/view').close()": 0,
    "grown.append(m)": 0,
    "grown.append(m.astype('i1'))": 0,
    # files
    "v.tofile(folder + '/v')": 0,
    "np.save(folder + '/v', v)": 0,
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_streams_in_bounded_memory(freeing, tmp_path, engine):
    setup = f"folder, engine = {str(tmp_path)!r}, {engine!r}\n{_SETUP}"
    # Without a mapping, boxes are copied, which takes the most memory.
    calls = list(_CALLS)[:: 1 if engine == "pread" else 3]
    grown = peaks(freeing, setup, calls)
    # Allow 2 MiB for threads and for the sampling itself.
    above = {call: mib for call, mib in grown.items() if mib > 4 + _CALLS[call] + 2}
    assert not above
    for file in tmp_path.iterdir():
        file.unlink()
