"""Copies of sparse arrays stay sparse, however they are made, and have the same elements."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from systems import disk_bytes

import extarray as xa
from extarray.errors import ArgumentTypeError, ChecksumError
from extarray.storage import filesystem

SHAPE, CHUNKS = (800, 1200), (40, 60)
PIXELS = SHAPE[0] * SHAPE[1] * 8


def space(path) -> int:
    """Return the bytes on the disk of an array's elements, as the system counts them."""
    return disk_bytes(f"{path}.xta")


def fill(a) -> np.ndarray:
    """Write to a few elements in chunks far apart; return all elements."""
    model = np.full(a.shape, a.fill_value, a.dtype)
    for key in (np.s_[205:300, 330:390], np.s_[0, 0], np.s_[-1, 700]):
        a[key] = model[key] = 1.5
    a[17, 17] = model[17, 17] = -0.0
    return model


@pytest.fixture
def sparse(path, engine):
    """Yield a sparse array and its elements."""
    with xa.create(path, SHAPE, chunks=CHUNKS, sparse=True, engine=engine) as a:
        model = fill(a)
        yield a, model


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


WAYS = {
    "copy": lambda a, to: a.copy(to),
    "copy with other chunks": lambda a, to: a.copy(to, (100, 30)),
    "copy in another order": lambda a, to: a.copy(to, order="H"),
    "copy with checksums": lambda a, to: a.copy(to, checksum=True),
    "repack": lambda a, to: a.repack(to),
    "rechunk": lambda a, to: a.rechunk((30, 100), to),
    "rechunk by little memory": lambda a, to: a.rechunk((8, 400), to, max_memory="400 KiB"),
    "rechunk on threads": lambda a, to: a.rechunk((30, 100), to, workers=2),
    "rechunk, verified": lambda a, to: a.rechunk((30, 100), to, verify=True),
    "rechunk a transposed view": lambda a, to: xa.rechunk(a.T.lazy[...].T, to),
    "rechunk a view": lambda a, to: xa.rechunk(a.lazy[:, :], to, chunks=(30, 100)),
    "from_array": lambda a, to: xa.from_array(a, to, CHUNKS),
    "from_array of a view": lambda a, to: xa.from_array(a.lazy[:], to, CHUNKS),
    "from_array of what is cast": lambda a, to: xa.from_array(a.astype("f8"), to, CHUNKS),
    "from_array of NumPy's": lambda a, to: xa.from_array(a[...], to, CHUNKS, sparse=True),
    "from_array like it": lambda a, to: xa.from_array(a[...], to, like=a),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_copy_is_as_sparse(sparse, path, tmp_path, way):
    a, model = sparse
    a.flush()
    with way(a, tmp_path / "copy") as b:
        assert b.info()["sparse"]
        assert_same(b[...].view("u8"), model.view("u8"))
        b.flush()
    # Chunks may differ: allow for a few of them, and some pages at the ends of each.
    assert space(tmp_path / "copy") < 4 * space(path) + 600_000 < PIXELS / 2
    assert xa.check(tmp_path / "copy", data=True).ok


def test_so_is_one_in_place(sparse, path):
    a, model = sparse
    with a.rechunk((30, 100), in_place=True) as b:
        assert_same(b[...].view("u8"), model.view("u8"))
    assert space(path) < 800_000


def test_the_flag_decides(sparse, tmp_path):
    a, model = sparse
    for number, way in enumerate(
        (
            lambda a, to, sparse: a.copy(to, sparse=sparse),
            lambda a, to, sparse: a.repack(to, sparse=sparse),
            lambda a, to, sparse: a.rechunk((30, 100), to, sparse=sparse),
            lambda a, to, sparse: xa.from_array(a, to, CHUNKS, sparse=sparse),
        )
    ):
        dense, holes = (tmp_path / f"{number}{name}" for name in ("dense", "holes"))
        with way(a, dense, False) as b:
            assert not b.info()["sparse"]
            assert_same(b[...], model)
            assert space(dense) >= PIXELS
            with way(b, holes, True) as c:  # from an array that has all of its space
                assert_same(c[...], model)
                assert space(holes) < 800_000
        with pytest.raises(ArgumentTypeError, match="sparse"):
            way(a, tmp_path / "no", "yes")


def test_a_copy_to_memory(sparse):
    a, model = sparse
    assert_same(a.copy()[...].view("u8"), model.view("u8"))
    assert_same(a.rechunk((30, 100))[...].view("u8"), model.view("u8"))


@pytest.mark.parametrize("value", [7.0, np.nan, -0.0])
def test_other_fill_values_stay_right(path, engine, tmp_path, value):
    """Written zeros are not the fill value; the copies have no holes, as the array has none."""
    options = {"chunks": (4, 6), "sparse": True, "fill_value": value, "engine": engine}
    with xa.create(path, (16, 24), **options) as a:
        model = fill_small(a)
        for number, b in enumerate(
            (
                a.copy(tmp_path / "b0"),
                a.rechunk((3, 5), tmp_path / "b1"),
                xa.from_array(a, tmp_path / "b2", fill_value=0),
            )
        ):
            with b:
                assert_same(b[...].view("u8"), model.view("u8"))
                b.extend(0, 1)
                expected = 0 if number == 2 else value
                assert b[-1].tobytes() == np.full(24, expected).tobytes()


def fill_small(a):
    model = np.full(a.shape, a.fill_value, a.dtype)
    a[4:8] = model[4:8] = 0
    a[9, 9] = model[9, 9] = 3
    return model


def test_another_dtype(sparse, tmp_path):
    """The text of zero is not zero bytes."""
    a, model = sparse
    small = a.lazy[:80, :120]
    for dtype in ("f4", "i2", "S5", "c16", "U4"):
        with xa.rechunk(small, tmp_path / dtype, dtype=dtype) as b:
            assert_same(b[...], model[:80, :120].astype(dtype))


VIEWS = {
    "steps": np.s_[::3, 5:900:7],
    "backwards": np.s_[::-1, ::-2],
    "an index": np.s_[17],
    "a list": np.s_[[0, 17, 5, 799]],
    "a new axis": np.s_[None, 16:20],
    "nothing": np.s_[5:5],
    "a hole": np.s_[500:600, 900:],
}


@pytest.mark.parametrize("key", VIEWS.values(), ids=VIEWS)
def test_views(sparse, tmp_path, key):
    a, model = sparse
    for number, view in enumerate((a.lazy[key], a.T.lazy[..., : 800 if key is not None else 0].T)):
        expected = model[key] if not number else model
        with xa.rechunk(view, tmp_path / f"b{number}") as b:
            assert_same(b[...], expected)


@given(data=st.data())
def test_any_history(factory, data):
    """A copy is right after growth at both ends, cuts and scattered writes."""
    ndim = data.draw(st.integers(1, 3))
    draw = st.integers(0, 4)
    chunks = tuple(data.draw(st.integers(1, 3)) for _ in range(ndim))
    shape = tuple(data.draw(draw) for _ in range(ndim))
    with factory.array(shape, "i2", chunks=chunks, sparse=True) as a:
        for _ in range(data.draw(st.integers(0, 8))):
            axis, side = (
                data.draw(st.integers(0, ndim - 1)),
                data.draw(st.sampled_from(["end", "start"])),
            )
            step = data.draw(st.integers(0, 3))
            if step == 0:
                a.extend(axis, data.draw(draw), side)
            elif step == 1:
                a.shrink(axis, data.draw(st.integers(0, a.shape[axis])), side)
            elif a.size:
                a[tuple(data.draw(st.integers(0, n - 1)) for n in a.shape)] = data.draw(draw)
        other = tuple(data.draw(st.integers(1, 4)) for _ in range(ndim))
        assert_same(a.copy(chunks=other)[...], a[...])
        assert_same(xa.rechunk(a.T, chunks=other[::-1])[...], a[...].T)


def test_what_was_not_flushed_is_copied(path, tmp_path, engine):
    """Unflushed data may be in the system's cache alone."""
    options = {"chunks": (1, 1 << 16), "sparse": True, "engine": engine}
    with xa.create(path, (24, 1 << 16), "u1", **options) as a:
        expected = np.zeros(24, "u1")
        for i in range(0, 24, 3):
            a[i, i * 1000] = 7  # through the mapping, or by a system call
            expected[i] = 7
            with a.copy(tmp_path / f"b{i}") as b, xa.open(path) as reader:
                assert_same(b[...].max(axis=1), expected)
                assert_same(reader.copy()[...].max(axis=1), expected)


def test_a_hole_in_the_place_of_elements_is_damage(path, tmp_path):
    with xa.create(path, SHAPE, chunks=CHUNKS, sparse=True, checksum=True) as a:
        fill(a)
    size = CHUNKS[0] * CHUNKS[1] * 8
    with open(f"{path}.xta", "r+b") as file:
        data = bytearray(file.read())
        data[:size] = bytes(size)
        file.truncate(0)
        file.seek(0)
        for at in range(0, len(data), 4096):  # turn zeros into holes
            if any(data[at : at + 4096]):
                file.seek(at)
                file.write(data[at : at + 4096])
        file.truncate(len(data))
    with xa.open(path) as a, pytest.raises(ChecksumError, match="chunk 0"):
        a.copy(tmp_path / "copy")
    with xa.open(path, verify="never") as a, a.copy(tmp_path / "copy") as b:
        assert b[0, 0] == 0 and b[205, 330] == 1.5


def test_where_holes_are_not_told_a_copy_is_sparse_all_the_same(sparse, tmp_path, monkeypatch):
    a, model = sparse
    kind = a._store.now.data.file_system
    monkeypatch.setattr(filesystem, "_HIDES_DATA", {kind})
    with a.copy(tmp_path / "b") as b:
        assert_same(b[...].view("u8"), model.view("u8"))
    assert space(tmp_path / "b") < 800_000


@pytest.mark.slow
def test_far_more_elements_than_anybody_could_read(path, tmp_path):
    shape = 10**5, 10**6
    with xa.create(path, shape, "u1", chunks=(2000, 5000), sparse=True) as a:
        a[5, 7], a[-1, -1], a[5 * 10**4, 3] = 3, 4, 5
        with a.copy(tmp_path / "b") as b:
            assert (b[5, 7], b[-1, -1], b[5 * 10**4, 3], b[6, 7]) == (3, 4, 5, 0)
        with xa.rechunk(a.lazy[: 4 * 10**4], tmp_path / "c", chunks=(5000, 2000)) as c:
            assert (c[5, 7], c[6, 7]) == (3, 0)
    assert space(tmp_path / "b") < 5 * 10**7  # a chunk has 10 MB
