"""Every format: files and arrays have the same elements, whichever library wrote them."""

from __future__ import annotations

import random
import shutil
import warnings

import numpy as np
import pytest
from compare import same_values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peaks import peaks
from peers import PEERS
from peers import __file__ as peers_file

import extarray as xa
from extarray.formats import transfer

settings_here = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(params=PEERS, ids=str)
def peer(request):
    """Return each format, with another library for it."""
    if not request.param.is_there:
        pytest.skip(f"{request.param.needs} is not installed")
    return request.param


@pytest.fixture
def file(peer, tmp_path):
    """Return a path for a file of the format."""
    return tmp_path / f"file{peer.suffix}"


@pytest.fixture
def small_steps(monkeypatch):
    """Cut a transfer of a few bytes into many steps."""
    monkeypatch.setattr(transfer, "_STEP_BYTES", 8)
    monkeypatch.setattr(transfer, "_MAPPED_BYTES", 8)
    monkeypatch.setattr(transfer, "_LINE_BYTES", 1)
    monkeypatch.setattr(transfer, "_LEAST_CHUNK", 1)


def sample(shape, dtype):
    """Return elements with all bit patterns of the dtype, except signalling NaNs and odd texts."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=int))
    if dtype.names:
        x = np.zeros(shape, dtype)
        for name in dtype.names:
            inner = dtype[name]
            x[name] = sample((*shape, *inner.shape), inner.base)
        return x
    numbers = np.random.default_rng(n).integers(-9, 99, n).reshape(shape)
    if dtype.kind in "SU":
        return np.abs(numbers).astype(f"{dtype.kind}2").astype(dtype)
    if dtype.kind == "V":
        return np.frombuffer(np.random.default_rng(n).bytes(n * dtype.itemsize), dtype, n).reshape(
            shape
        )
    if dtype.kind == "f":
        x = (numbers / 7).astype(dtype)
        if n > 3:
            x.flat[1:4] = np.nan, np.inf, -0.0
        return x
    return numbers.astype(dtype)


def clear(folder):
    """Remove all files of a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def quiet(call, *args, **options):
    """Make a call that may lose facts that the format cannot hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xa.errors.LossyWarning)
        return call(*args, **options)


def assert_equal(got, x):
    assert got.dtype == x.dtype
    assert got.shape == x.shape
    assert same_values(got[...], x)


# -- elements ------------------------------------------------------------------------------------


@st.composite
def arrays(draw, peer):
    """Draw elements that the format supports."""
    ndim = draw(st.sampled_from(peer.ranks))
    extents = [1, 2, 3, 5, 7, 0] if peer.empty else [1, 2, 3, 5, 7]
    shape = tuple(draw(st.sampled_from(extents)) for _ in range(ndim))
    x = sample(shape, draw(st.sampled_from(peer.dtypes)))
    return x if peer.signed_zeros else x + np.zeros((), x.dtype)


@settings_here
@given(data=st.data())
def test_what_the_library_wrote_is_loaded(peer, file, small_steps, data):
    x = data.draw(arrays(peer))
    chunks = data.draw(st.one_of(st.none(), st.tuples(*[st.sampled_from([1, 2, 3, 9])] * x.ndim)))
    clear(file.parent)
    peer.write(file, x)
    a = peer.load(file, x, chunks=chunks, progress=False)
    assert_equal(a, x)
    if chunks is not None:
        assert a.chunks == chunks


@settings_here
@given(data=st.data())
def test_the_library_reads_what_was_saved(peer, file, small_steps, data):
    x = data.draw(arrays(peer))
    chunks = data.draw(st.tuples(*[st.sampled_from([1, 2, 3, 9])] * x.ndim))
    a = xa.from_array(x, chunks=chunks or None)
    clear(file.parent)
    quiet(peer.save, a, file, progress=False)
    assert_equal(peer.read(file, x), x)
    assert_equal(peer.load(file, x, progress=False), x)


def test_an_array_in_files_that_grew_at_the_start_is_saved(peer, file, path, small_steps):
    if 2 not in peer.ranks:
        pytest.skip("the format has no tables")
    x = sample((4, 5), peer.dtypes[0])
    with xa.create(path, (1, 0), x.dtype, chunks=(2, 3)) as a:
        a.extend(1, 2)
        a.resize((4, 5))
        a[...] = x
        a.extend(0, 2, side="start")
        a.shrink(0, 3, side="start")
        quiet(peer.save, a, file)
    assert_equal(peer.read(file, x[1:]), x[1:])


@pytest.mark.parametrize(
    "selection",
    [np.s_[1], np.s_[:, 2:4], np.s_[..., ::-2], np.s_[[2, 0]], (slice(None), [True, False] * 3)],
    ids=str,
)
def test_a_selection_is_saved(peer, file, small_steps, selection):
    x = sample(peer.shape(4, 6), peer.dtypes[0])
    a = xa.from_array(x, chunks=peer.shape(3, 2))
    wanted = x[selection]
    if wanted.ndim not in peer.ranks:
        pytest.skip("the format has no array of so many axes")
    quiet(peer.save, a, file, selection=selection)
    assert_equal(peer.read(file, wanted), wanted)
    quiet(peer.save, a.lazy[selection], file, overwrite=True)
    assert_equal(peer.read(file, wanted), wanted)


def test_an_array_in_files_is_made(peer, file, path):
    x = sample(peer.shape(4, 6), peer.dtypes[0])
    peer.write(file, x)
    with peer.load(file, x, path=path) as a:
        assert a.path == path
        assert_equal(a, x)
    with pytest.raises(xa.ExistsError):
        peer.load(file, x, path=path)
    with peer.load(file, x, path=path, overwrite=True) as a:
        a.extend(0, 1)
        assert_equal(a[:4], x)


# -- facts other than elements -------------------------------------------------------------------


def test_what_is_lost_is_named(peer, file):
    x = sample(peer.shape(2, 3), peer.dtypes[0])
    coords = {"x": {"dims": ["x"], "data": [5, 6, 7]}}
    a = xa.from_array(
        x,
        dims=("y", "x", "z")[: x.ndim],
        attrs={"unit": "mm", "coords": coords},
        fill_value=x.flat[0],
    )
    said = {
        "attrs": "attribute 'unit'",
        "dims": "the names of the axes",
        "coords": "coordinate 'x'",
        "fill_value": "the fill value",
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        peer.save(a, file)
    text = " ".join(str(w.message) for w in caught if w.category is xa.errors.LossyWarning)
    for what, words in said.items():
        assert (words in text) == (what not in peer.keeps), what
    assert {w.filename for w in caught} <= {__file__, peers_file}


def test_what_is_kept_comes_back(peer, file):
    x = sample(peer.shape(2, 3), peer.dtypes[0])
    coords = {"x": {"dims": ["x"], "data": [5, 6, 7], "dtype": "<i4", "origin": [0]}}
    attrs = {"unit": "mm", "number": 3, "ratio": 0.5, "coords": coords}
    attrs |= {"gain": np.float32(0.5), "codes": np.array([1, 2], "i2"), "range": (1.5, 2.5)}
    a = xa.from_array(x, dims=("y", "x", "z")[: x.ndim], attrs=attrs, fill_value=x.flat[0])
    quiet(peer.save, a, file)
    b = quiet(peer.load, file, x)
    if "attrs" in peer.keeps:
        assert b.attrs["unit"] == "mm"
    if "numbers" in peer.keeps:
        for name in ("number", "ratio"):
            assert b.attrs[name] == attrs[name]
        assert type(b.attrs["gain"]) is np.float32
        assert_equal(b.attrs["codes"], attrs["codes"])
        assert b.attrs["range"].tolist() == [1.5, 2.5]
    if "dims" in peer.keeps:
        assert b.dims == a.dims
    if "coords" in peer.keeps:
        assert b.attrs["coords"]["x"]["data"].tolist() == [5, 6, 7]
    if "fill_value" in peer.keeps:
        assert b.fill_value == a.fill_value


# -- names that are taken, errors, interruption --------------------------------------------------


def test_a_name_that_is_taken_stays(peer, file):
    x, y = sample(peer.shape(4, 6), peer.dtypes[0]), sample(peer.shape(2, 3), peer.dtypes[0])
    quiet(peer.save, xa.from_array(x), file)
    with pytest.raises(xa.ExistsError, match="overwrite=True"):
        quiet(peer.save, xa.from_array(y), file)
    assert_equal(peer.read(file, x), x)
    quiet(peer.save, xa.from_array(y), file, overwrite=True)
    assert_equal(peer.read(file, y), y)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_fails_leaves_nothing_and_takes_nothing(
    peer, file, path, tmp_path, small_steps, monkeypatch, error
):
    # Several pages, where a page is written in one step.
    shape, chunks = ((4, 2, 6), (2, 2, 2)) if 3 in peer.ranks else ((4, 6), (2, 2))
    x = sample(shape, peer.dtypes[0])
    a = xa.from_array(x, chunks=chunks)
    peer.write(file, x)
    there = {p.name for p in tmp_path.iterdir()}
    steps = []

    def add(self, nbytes):
        steps.append(nbytes)
        if len(steps) == 2:
            raise error

    monkeypatch.setattr(transfer.Progress, "add", add)
    with pytest.raises(error):
        peer.load(file, x, path=path)
    steps.clear()
    with pytest.raises(error):
        quiet(peer.save, a, file, overwrite=True)
    steps.clear()
    with pytest.raises(error):
        quiet(peer.save, a, tmp_path / f"other{peer.suffix}")
    assert {p.name for p in tmp_path.iterdir()} == there
    assert_equal(peer.read(file, x), x)


@pytest.mark.parametrize("seed", range(3))
def test_hostile_files_give_errors_of_the_family(peer, file, seed):
    x = sample(peer.shape(5, 7), peer.dtypes[0])
    peer.write(file, x)
    if file.is_dir():
        pytest.skip("the format is a folder of files")
    good = file.read_bytes()
    rng = random.Random(seed)
    for _ in range(30):
        bad = bytearray(good)
        if rng.random() < 0.3:
            del bad[rng.randrange(len(bad)) :]
        for _ in range(rng.randrange(4)):
            if bad and peer.is_tough:
                bad[rng.randrange(min(len(bad), 2048))] = rng.randrange(256)
        file.write_bytes(bad)
        with xa.config.set(max_memory="1 MiB"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                a = peer.load(file, x)
            except xa.ExtArrayError:
                continue
            a[...] if a.nbytes < 1 << 20 else None
            a.close()


def test_there_is_no_such_file(peer, file):
    with pytest.raises(xa.MissingError):
        peer.load(file, sample(peer.shape(2, 2), peer.dtypes[0]))
    with pytest.raises(xa.StorageError):
        quiet(peer.save, xa.zeros(peer.shape(2, 2), peer.dtypes[0]), file / "no" / "folder")


def test_a_closed_array_is_not_saved(peer, file):
    a = xa.zeros(peer.shape(2, 2), peer.dtypes[0])
    a.close()
    with pytest.raises(xa.ClosedError):
        peer.save(a, file)
    with pytest.raises(xa.ArgumentTypeError, match="from_array"):
        peer.save(np.zeros((2, 2)), file)
    assert not file.exists()


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_is_bounded(peer, file, tmp_path, freeing):
    if not peer.streams:
        pytest.skip("the library has whole arrays in memory")
    index = PEERS.index(peer)
    imports = ["peers", *filter(None, [peer.needs])]
    kind = next(k for k in peer.dtypes if np.dtype(k).str[1:] == "f4")
    setup = f"""
from peers import PEERS
peer, file = PEERS[{index}], {str(file)!r}
xa.config.max_memory = "8 MiB"
xa.config.threads = 2
x = np.lib.stride_tricks.as_strided(np.zeros(1, {kind!r}), (40, 512, 512), (0, 0, 0))
a = xa.create({str(tmp_path / "source")!r}, x.shape, {kind!r}, chunks=(16, 64, 64))
small = xa.zeros((4, 4, 4), {kind!r})
peer.save(small, file + {peer.suffix!r})
peer.load(file + {peer.suffix!r}, np.zeros((4, 4, 4), {kind!r}))
"""
    calls = [
        "peer.save(a, file)",
        f"peer.load(file, x, path={str(tmp_path / 'target')!r}).close()",
    ]
    for call, peak in peaks(freeing, setup, calls, imports).items():
        assert peak < 24, call  # of 40 MiB
