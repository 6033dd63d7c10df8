"""Every function that streams gives what NumPy gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same_outcome
from operands import check, check_out
from streaming import compared, outcome, small_boxes

import extarray as xa
from extarray.numpy_api.dispatch import forms

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "numpy-functions.md"

_rng = np.random.default_rng(11)

#: Operands that the calls below name.
OPERANDS = {
    "x": _rng.normal(size=(5, 4)).round(3),
    "y": _rng.normal(size=(5, 4)).round(1),
    "q": _rng.normal(size=(4, 3)),
    "t": _rng.integers(-5, 5, (3, 4, 5)).astype("f4"),
    "v": _rng.normal(size=17),
    "w": _rng.random(17) + 0.1,
    "i": _rng.integers(0, 6, 17),
    "j": _rng.integers(0, 3, (5, 4)),
    "k": _rng.integers(0, 4, (3, 4, 5), "u1"),
    "c": _rng.normal(size=(4, 6)) + 1j * _rng.normal(size=(4, 6)),
    "b": _rng.random((5, 4)) < 0.4,
    "n": np.where(_rng.random((5, 4)) < 0.3, np.nan, _rng.normal(size=(5, 4))),
    "s": np.sort(_rng.normal(size=17)),
    "h": np.arange(20, dtype="f2").reshape(5, 4),
    "d": np.arange(17).astype("M8[D]"),
    "e": np.empty((0, 4)),
    "p": np.zeros((2, 3), [("x", "i4"), ("y", "f8")]),
    "o": np.zeros(()),
    "z": np.array([1, "NaT", 3], "m8[s]"),
}

#: Calls of each function, named as in `numpy`; NumPy refuses some of them.
CALLS = """
all(b)  all(b, axis=0, keepdims=True)  all(x, 1, where=b)
allclose(x, x + 1e-9)  allclose(x, y)  allclose(n, n, equal_nan=True)  allclose(t, t[0])
amax(x)  amin(t, axis=(0, 2))
angle(c)  angle(c, deg=True)
any(b)  any(b, axis=(0, 1))  any(e)
append(x, y)  append(x, y, axis=1)
apply_along_axis(sorted, 0, x)  apply_along_axis(np.sum, 1, t)
apply_along_axis(lambda r: np.outer(r, r), 1, t)
argmax(x)  argmax(t, axis=1)  argmax(n)  argmax(x, axis=0, keepdims=True)  argmax(e)
argmin(x)  argmin(t, 2)  argmin(n, 0)
argpartition(v, 3)[3]  argsort(x, kind="stable")  argsort(t, 0, "stable")  argsort(x, None)
argsort(x, descending=True)  sort(n, 0, descending=True)
argwhere(b)  argwhere(t)
around(x, 1)  around(k, -1)  array_equal(x, x)  array_equal(x, y)  array_equal(x, t)
array_equal(n, n, equal_nan=True)  array_equiv(x, x[:1])  array_equiv(t, t)
average(x)  average(x, axis=1)  average(v, weights=w)  average(t, 1, k + 1, returned=True)
average(x, axis=0, weights=y, keepdims=True)  average(x, weights=np.array(y, object))
bincount(i)  bincount(i, w, 9)  bincount(x)
can_cast(x, "f4")  common_type(x, t)
choose(j, (x, y, 7))  choose(j + 1, (x, y), mode="wrap")  choose(j, (x, y))
clip(x, -0.5, 0.5)  clip(x, y, None)  clip(k, 1, 2)  clip(x, max=0)
column_stack((v, w))  column_stack((x, y))
compress([True, False, True], x, axis=0)  compress(b.ravel(), x)
concatenate((x, y))  concatenate((x, y), axis=None)  concatenate((x, h), 1)  concatenate((x, v))
concatenate((x, k[0].T), dtype="f4", casting="same_kind")
copyto(x, y)  copyto(x, y, where=b)  copyto(k, 300)  copyto(x, y[0])  copyto(j, x)
copyto(x, y, where=[1, 0, 2, 0])  copyto(x, y, where=j)  copyto(x, y, where=None)
cov(n, fweights=[1, 0, 0, 2])  cov(n, aweights=[0.0, 1, 2, 0])
corrcoef(x)  corrcoef(x, y, rowvar=False)  corrcoef(c)  corrcoef(t[0], dtype="f2")
count_nonzero(j)  count_nonzero(t, axis=(0, 1))  count_nonzero(b, 1, keepdims=True)
compress([True, False, True], x, 1)
cov(x)  cov(x, y)  cov(c, rowvar=False)  cov(v, w, ddof=0)  cov(v, fweights=i)  cov(v, aweights=w)
cov(x, dtype="f4")  cov(c, dtype="c8")
cumprod(x, 1)  cumsum(x)  cumsum(t, 1)  cumsum(k, 0)  cumsum(x, 7)  cumsum(v, (0,))  cumsum(b)
cumsum(b, dtype=object)  cumprod(k + 1, dtype=object)
cumulative_prod(v)  cumulative_sum(x, axis=0)  cumulative_sum(v, include_initial=True)
diagonal(x)  diagonal(t, 1, 1, 2)  diagonal(x, -2)
broadcast_to(x, (2, *x.shape))  expand_dims(x, 1)  matrix_transpose(t)  moveaxis(t, 0, 2)
squeeze(x[:1])  squeeze(o, 1)  swapaxes(t, 0, 1)  transpose(t, (1, 0, 2))
diff(x)  diff(t, 2, 0)  diff(v, prepend=1.0)  diff(d)  diff(x, 0)
digitize(x, [-1, 0, 1])  digitize(v, s)
dot(x, q)  dot(v, w)  dot(t, y)  dot(x, y)  dot(x, 2)  dot(j, np.arange(4))  dot(z, i[:3])
dot(j, np.array(q, object))  inner(np.array(w, object), i)  vdot(k, np.array(t, object))
matmul(np.array(x, object), q)  tensordot(b, np.array(x, object))
dstack((x, y))  dstack((v, w))
einsum("ij,jk", x, q)  einsum("ij,ij->i", x, y)  einsum("kji->ik", t)
einsum("...i,ji", t, q[:, :0])
einsum("abc,cb->a", t, x)  einsum("ii", x[:4])  einsum("ij,ij,ij", x, y, x)  einsum("ij->j", x)
einsum_path("ij,jk", x, q)[0]
empty_like(x, shape=0)  extract(b, x)  extract(x > 9, y)
fft.fft(x)  fft.fft(c, 3, 0, "ortho")  fft.ifft(c, axis=0)  fft.rfft(x)  fft.irfft(c)  fft.hfft(c)
fft.ihfft(x)  fft.fft2(t)  fft.ifft2(c)  fft.fftn(t)  fft.ifftn(t, axes=(0, 2))  fft.rfft2(t)
fft.rfftn(t)  fft.irfft2(c)  fft.irfftn(c)
fix(x)  flatnonzero(b)  full_like(x, 3)  full_like(x, np.arange(4), "i2")
gradient(v)  gradient(x)  gradient(t, 2.0, axis=1)  gradient(v, w.cumsum(), edge_order=2)
histogram(v)  histogram(t, 4, (-2, 3))  histogram(x, [-1, 0, 1])  histogram(v, 5, weights=w)
histogram(v, 5, density=True)  histogram(v, "auto")  histogram(v, "fd")  histogram(v, "doane")
histogram2d(v, w, 3)  histogram_bin_edges(x)  histogram_bin_edges(v, "scott")
histogramdd((v, w), 3)  histogramdd(x, (2, 2, 2, 2))
hstack((x, y))  hstack((v, w))  i0(x)  imag(c)  imag(x)  inner(x, y)  inner(v, w)  inner(z, i[:3])
inner(h[:, :0], z[:0])  interp(x, [-1, 1], [0, 5])  interp(v, s, w)
intersect1d(i, j)  isclose(x, y, atol=1)  isclose(n, n, equal_nan=True)  iscomplex(c)
iscomplexobj(c)  isin(i, [1, 2])  isin(j, i, invert=True)  isneginf(x / 0.0)  isposinf(x)
isreal(c)  isrealobj(c)
linalg.matmul(x, q)  linalg.matrix_norm(t)  linalg.matrix_norm(x, ord=1, keepdims=True)
linalg.norm(x)  linalg.norm(v, 1)  linalg.norm(x, np.inf, axis=0)  linalg.norm(t, axis=(0, 2))
linalg.norm(c, 3, 1)  linalg.norm(x, 2)  linalg.norm(x, "nuc")  linalg.norm(v, 0)
linalg.norm(x, -np.inf)  linalg.norm(t, "fro")
linalg.tensordot(x, q, axes=1)  linalg.vecdot(x, y)  linalg.vector_norm(t, ord=1)
linalg.vector_norm(c, axis=0)
matmul(x, q)  matmul(t, x)  matmul(v, w)  matmul(x, y)  matmul(h, q.astype("f2"))
max(x)  max(t, (0, 1))  max(x, 0, initial=1)  max(n)  max(e)  max(x, where=b, initial=-9)
may_share_memory(x, y)
mean(x)  mean(t, 1)  mean(k)  mean(h, 0)  mean(x, where=b)  mean(x, (0, 1), keepdims=True)  mean(e)
mean(x, 0, where=[True, False, True, False])  mean(z)  mean(z, dtype="i2")  mean(z, dtype="f4")
median(x)  median(t, axis=1)  median(n)  median(k, (0, 2), keepdims=True)  median(h)  median(v)
min(x)  min(t, 2)  nan_to_num(n)  nan_to_num(n, copy=False, nan=5)[0]  nan_to_num(x)
nanargmax(n)  nanargmin(n, 1)  nancumprod(n)  nancumsum(n, 1)  nanmax(n)  nanmax(n, 0)  nanmean(n)
nanmean(n, 1)  nanmedian(n)  nanmedian(n, 0)  nanmin(n, 1)  nanpercentile(n, [10, 90])
nanprod(n)  nanquantile(n, 0.3, axis=0)  nanstd(n)  nansum(n, 1)  nansum(k)  nanvar(n, 0, ddof=1)
ndim(t)  nonzero(b)  nonzero(t)  ones_like(k)  outer(v, w)  outer(x, q)
partition(v, 5)[5]  partition(x, 2, 0)[2]
percentile(x, 30)  percentile(t, [0, 50, 100], axis=2)  percentile(v, 33, method="lower")
percentile(k, 50, method="nearest")  percentile(v, 101)  percentile(v, [])  quantile(k, [], 1)
place(x, b, [1, 2])  place(x, x > 9, [1])  place(k, k > 1, 300)  place(k, k > 1, np.ones(2))
place(k, k > 9, 300)  place(p, [True, False, True] * 2, [(1, 2)])  prod(x, 0)  prod(k)  ptp(x)
ptp(t, 1)
put(x, [0, -1, 0], [5, 6, 7])  put(x, [40], 1)  put(k, [70], 1, mode="wrap")
put(k, [0], 300)  put(k, [], [])  put(k, [70], [])  put(k, [1.5], 2.5)  put(k, np.ones(1), 1)
put(k, [0], np.full(1, 300))  put(p, [0, -1], [(1, 2), (3, 4)])
putmask(x, b, y)  putmask(x, b, [1, 2, 3])  putmask(k, k > 1, 3)  putmask(k, k > 1, 300)
putmask(k, k > 1, np.full(60, 3))  putmask(o, True, 3)  put(o, 0, 3)  place(o, True, 3)
quantile(v, 0.25)  quantile(x, [0.1, 0.9], 0, keepdims=True)  quantile(v, 0.4, method="hazen")
quantile(v, 0.4, method="inverted_cdf")  quantile(n, 0.5)
quantile(v, 0.5, weights=w, method="inverted_cdf")
real(c)  real(x)  result_type(x, k)  round(x, 2)  round(c, 1)  round(j)
save(FILE, x)  savez(FILE, x, one=y)  savez_compressed(FILE, x)
searchsorted(s, v)  searchsorted(s, 0.0)  searchsorted(s, x, "right")
select([b, x > 0], [x, y], 3)  setdiff1d(i, [1])  setxor1d(i, j)  shape(t)  sinc(x)  size(t)
size(x, 1)  sort(x)  sort(t, 0)  sort(x, None)  sort(d)  stack((x, y))  stack((v, w), axis=-1)
std(x)  std(t, 1)  std(c, 0, ddof=1)  std(k)  std(x, where=b)  std(h)  stack((x, t))
sum(x)  sum(t, (0, 2))  sum(k)  sum(x, 0, dtype="f4")  sum(b)  sum(x, where=b)  sum(h, 1)  sum(e, 0)
sum(x, 0, where=[True, False, True, False])  sum(x, axis=9)  sum(x, initial=5)
sum(b, dtype=object)  sum(k, (0, 1), dtype=object)  nansum(n, 0, dtype=object)
prod(k + 1, dtype=object)
sum(x, 0, where=[1, 0, 2, 0])  sum(x, where=1)  sum(x, where=j)  nansum(n, where=0)
take(x, [3, 0, 3], 1)  take(x, [[0, -1]])  take(x, 9, 0)  take(x, [7], 0, mode="clip")  take(v, 3)
take(x, [])  take(x, [1.5])
tensordot(x, y)  tensordot(t, x, ([2, 1], [0, 1]))  tensordot(x, q, 1)  tensordot(x, q)
tensordot(z, i[:3], 1)
trace(x)  trace(t, 1, 0, 2)  trace(k)
union1d(i, j)  unique(i)  unique(j, return_index=True, return_counts=True)  unique(n)
unique(x, axis=0)  unique(i.astype(">i4"))
unique(i, return_inverse=True)  unique_all(i)  unique_counts(j)  unique_inverse(i)  unique_values(t)
unwrap(v * 5)  unwrap(x * 9, axis=0)  var(x)  var(t, (0, 1))  var(c)  var(x, 1, correction=1)
var(c, dtype="f4")
var(x, mean=np.mean(x))  vdot(v, w)  vdot(c, c)  vecdot(x, y)  vstack((x, y))  vstack((v, w))
where(b)  where(b, x, y)  where(b, x, 0)  where(b[0], x, k[0, 0, 0])  zeros_like(x)  where(b, x)
"""

#: Calls with an array of ours as out=.
OUT = """
all(b, 0)  argmax(x, 1)  around(x, 1)  choose(j, (x, y, 7))  clip(x, 0, 1)
compress([True, False, True], x, axis=0)  concatenate((x, y))  cumprod(x, 0)  cumsum(x)
cumsum(t, 2)  dot(x, q)  einsum("ij,jk", x, q)  fft.fft(x)  fft.fftn(t)  matmul(x, q)  max(x, 0)
mean(t, 1)  median(x, 0)  nancumsum(n, 0)  nanmax(n, 0)  nanmean(n, 0)  nanmedian(n, 0)
nanstd(n, 1)  nansum(n, 0)  outer(v, w)  percentile(x, [5, 50], 0)  prod(x, 0)  ptp(x, 1)
quantile(t, 0.5, 2)  stack((x, y))  std(x, 0)  sum(t, (0, 1))  take(x, [3, 0], 1)  trace(t)
var(x, 1)  round(x)
"""


def calls(text: str) -> list[str]:
    """Split a text into calls, which stand on lines of their own, or two spaces apart."""
    return re.split(r"\n|  ", text.strip())


def function_of(call: str):
    """Return the function of a call; None if this NumPy lacks it."""
    found = np
    for name in call.partition("(")[0].split("."):
        found = getattr(found, name, None)
    return found


def operation(call: str, **names):
    """Return a call as a function of its operands and these names, and the operands."""
    found = re.findall(r"\b[a-z]\b(?!=)", re.sub(r'"[^"]*"', "", call))
    used = sorted(OPERANDS.keys() & set(found))
    code = compile(f"np.{call}", call, "eval")

    def run(*arrays, **options):
        given = {"np": np, **names, **options, **dict(zip(used, arrays, strict=True))}
        return eval(code, given)

    return run, [OPERANDS[name] for name in used]


def test_all_are_here():
    called = {function_of(call) for call in calls(CALLS)}
    missing = [f.__name__ for f in forms() if f not in called]
    assert not missing


def test_the_reference_has_a_row_of_each():
    """The reference's table names exactly the functions that stream."""
    page = REFERENCE.read_text(encoding="utf-8")
    rows = page.partition("## How they run")[2].partition("\n## ")[0].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    assert len(named) == len(set(named))
    present = {function_of(name) for name in named} - {None}
    assert present == set(forms())


@pytest.mark.parametrize("call", calls(CALLS))
def test_like_numpy(memory, tmp_path, call):
    if function_of(call) is None:
        pytest.skip("this NumPy does not have the function")
    run, arrays = operation(call, FILE=tmp_path / "x")
    for layout in range(3):
        check(memory, run, *arrays, layout=layout)


@pytest.mark.parametrize("rule", ["auto", "doane", "rice", "sqrt", "sturges"])
@pytest.mark.parametrize("dtype", ["i1", "i2", "i8", "u8", "f4"])
def test_bins_where_the_dtype_does_not_hold_the_range(memory, dtype, rule):
    """The difference of the extremes overflows, or is rounded."""
    values = np.linspace(0 if dtype == "u8" else -1, 1, 16)
    top = 0.7 if dtype == "f4" else float(np.iinfo(dtype).max)
    check(memory, lambda x: np.histogram(x, rule), (values * top * 0.999).astype(dtype))


@pytest.mark.parametrize("call", calls(CALLS)[::3])
def test_like_numpy_on_disk(disk, tmp_path, call):
    if function_of(call) is None:
        pytest.skip("this NumPy does not have the function")
    run, arrays = operation(call, FILE=tmp_path / "x")
    check(disk, run, *arrays, layout=3)


def test_saved(factory, tmp_path):
    x, h = OPERANDS["x"], OPERANDS["h"]
    with factory.array(x.shape, chunks=(2, 3)) as a:
        a[...] = x
        with small_boxes():
            np.save(tmp_path / "x", a)
            np.savez(tmp_path / "z", a, h=h)
            np.savez_compressed(tmp_path / "c", a=a)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)
    with np.load(tmp_path / "z.npz") as saved:
        np.testing.assert_array_equal(saved["arr_0"], x)
        np.testing.assert_array_equal(saved["h"], h)
    with np.load(tmp_path / "c.npz") as saved:
        np.testing.assert_array_equal(saved["a"], x)


@pytest.mark.parametrize("call", calls(OUT))
def test_into_out(factory, call):
    plain, arrays = operation(call)
    into, _ = operation(f"{call[:-1]}, out=out)")

    def run(*given, out=None):
        return plain(*given) if out is None else into(*given, out=out)

    check_out(factory, run, *arrays)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["f8", "i4", "f4", "u1"])
@pytest.mark.parametrize("values", ["u1", "f8"])
def test_einsum_computes_in_the_dtype_of_out(memory, values, dtype):
    n = np.ones((200, 100), values)
    with memory.array(n.shape, values, chunks=(64, 64)) as a, memory.array((), dtype) as out:
        a[...] = n
        compared(
            lambda: np.einsum("ij->", a, out=out)[...],
            lambda: np.einsum("ij->", n, out=np.zeros((), dtype)),
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda x, rows, out, some: np.stack([rows[1], rows[0]], out=some[:2]),
        lambda x, rows, out, some: np.multiply.outer(rows[0], rows[:, 0], out=out),
        lambda x, rows, out, some: np.take(x, [1, 0, 3, 2], axis=0, out=out),
        lambda x, rows, out, some: np.take(x, np.arange(16)[::-1].reshape(4, 4), out=out),
        lambda x, rows, out, some: np.compress([True, False, True], x, axis=0, out=some[2:]),
    ],
)
def test_an_output_that_is_an_operand_too(factory, call):
    n = np.arange(16.0).reshape(4, 4)
    with factory.array((4, 4), chunks=(2, 2)) as a:
        a[...] = n
        with small_boxes():
            call(a, a.lazy, a, a.lazy)
        before = n.copy()
        call(before, before, n, n)
        np.testing.assert_array_equal(a[...], n)


@pytest.mark.parametrize("name", ["var", "nanvar", "nansum", "nanargmax", "argmax"])
def test_an_output_of_ours_for_operands_that_are_none(memory, name):
    expected = getattr(np, name)([1, 5, 3])
    with memory.array((), expected.dtype) as out:
        assert getattr(np, name)([1, 5, 3], out=out) is out
        assert out[...] == expected


@pytest.mark.parametrize("value", [7, 300, [1], (3, 4), np.nan, np.ones(1)])
@pytest.mark.parametrize("dtype", ["u1", "f8", [("x", "i4"), ("y", "f8")]])
def test_fill(memory, dtype, value):
    n = np.zeros(3, dtype)
    with memory.array((3,), dtype) as a:
        assert_same_outcome(lambda: a.fill(value), lambda: n.fill(value))
        np.testing.assert_array_equal(a[...], n)


def test_rounds_into_an_output_as_numpy_does(memory):
    n = np.array([1.25, 17.5])
    with memory.array((2,)) as a:
        a[...] = n
        for dtype in ("f8", "f4", "i8"):
            compared(
                lambda: np.round(a, 1, out=np.zeros(2, dtype)),  # noqa: B023
                lambda: np.round(n, 1, out=np.zeros(2, dtype)),  # noqa: B023
            )
        np.testing.assert_array_equal(a.clip(2), n.clip(2))
        np.testing.assert_array_equal(a.clip(max=2), n.clip(max=2))


@pytest.mark.parametrize("dtype", ["i4", "c16", ">f8", "?"])
@pytest.mark.parametrize(
    "call",
    [
        "median(x, 0)",
        "nanmedian(n)",
        "nanpercentile(n, 30, 1)",
        "quantile(x, 0.3, 1)",
        "take(x, [1, 0], 1)",
        'take(x, [9, 0], 1, mode="clip")',
        "compress([True, False, True], x, 0)",
        'einsum("ij->j", x)',
        'einsum("ij,ij->i", x, y)',
    ],
)
def test_into_out_of_another_dtype(memory, call, dtype):
    """Casts into ``out=``, and refusals, are NumPy's."""
    plain, arrays = operation(call)
    into, _ = operation(f"{call[:-1]}, out=out)")
    shape = np.shape(plain(*arrays))
    expected, got = np.zeros(shape, dtype), xa.zeros(shape, dtype)
    done, _ = outcome(lambda: into(*arrays, out=expected))
    ours = [xa.from_array(x, chunks=2) for x in arrays]
    with small_boxes():
        found, _ = outcome(lambda: into(*ours, out=got))
    if isinstance(done, Exception):
        assert isinstance(found, TypeError) and isinstance(done, TypeError)
    else:
        assert found is got
        np.testing.assert_allclose(got[...], expected, rtol=1e-12)
