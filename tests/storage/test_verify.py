"""Damaged chunks are never copied, summed anew or, with verified reads, returned."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import pickle
import threading
from pathlib import Path

import format_reader
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems import needs_replaced_open_files

import extarray as xa
from extarray.errors import ChecksumError, CorruptError
from extarray.grid.chunking import elements_of_chunk

SHAPE, CHUNKS = (5, 7), (2, 3)
# Elements of chunk 4, in the middle, and of chunk 8, at the end of the bounds.
MIDDLE = np.s_[2:4, 3:6]
MODEL = np.arange(35, dtype="<i4").reshape(SHAPE)


def create(path, **options):
    with xa.create(path, SHAPE, "<i4", chunks=CHUNKS, checksum=True, **options) as a:
        a[...] = MODEL


def spoil(path, address, byte=5):
    """Change a byte of a chunk."""
    with open(f"{path}.xta", "r+b") as file:
        file.seek(address * 24 + byte)
        old = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([old[0] ^ 0x40]))


def files(path):
    return [Path(f"{path}{end}").read_bytes() for end in (".xmd", ".xta")]


def elements(path):
    return Path(f"{path}.xta").read_bytes()[: 9 * 24]


def is_damaged(path, address=4):
    """Tell whether only this chunk mismatches its sum, and nothing is in doubt."""
    return format_reader.wrong_sums(path) == ([address], False)


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    with xa.config.set(engine=request.param):
        yield request.param


@pytest.fixture
def damaged(path, engine):
    create(path)
    spoil(path, 4)
    return path


COPIES = {
    "copy": lambda a, to: a.copy(to).close(),
    "copy with other chunks": lambda a, to: a.copy(to, chunks=(5, 1)).close(),
    "copy without sums": lambda a, to: a.copy(to, checksum=False).close(),
    "copy to memory": lambda a, to: a.copy(),
    "repack": lambda a, to: a.repack(to).close(),
    "rechunk": lambda a, to: xa.rechunk(a, to, chunks=(3, 3)).close(),
    "rechunk, verified": lambda a, to: xa.rechunk(a, to, chunks=(3, 3), verify=True).close(),
    "rechunk a view": lambda a, to: xa.rechunk(a.T, to, chunks=(3, 3)).close(),
    "rechunk to memory": lambda a, to: xa.rechunk(a, chunks=(3, 3)),
    "from_array": lambda a, to: xa.from_array(a, to).close(),
    "from_array of a view": lambda a, to: xa.from_array(a.lazy[1:, ::2], to).close(),
    "from_array, cast": lambda a, to: xa.from_array(a.astype("f8"), to).close(),
}
INTO = {
    "append": lambda a, b: b.append(a),
    "append a view": lambda a, b: b.append(a.lazy[::-1]),
    "assign": lambda a, b: b.write(..., a),
    "assign a view": lambda a, b: b.write(..., a.lazy[:, ::-1]),
    "assign what is cast": lambda a, b: b.write(..., a.astype("i8")),
    "assign to a view": lambda a, b: b.lazy[...].write(..., a),
    "assign to points": lambda a, b: b.write([4, 1, 2, 3, 0], a),
    "copyto": lambda a, b: np.copyto(b, a),
    "ufunc": lambda a, b: np.add(a, 1, out=b),
}


@pytest.mark.invariant("I11")
@pytest.mark.parametrize("way", COPIES.values(), ids=COPIES)
def test_no_copy_of_a_damaged_chunk(damaged, tmp_path, way):
    before, to = files(damaged), tmp_path / "copy"
    with xa.open(damaged) as a:
        with pytest.raises(ChecksumError) as caught:
            way(a, to)
        assert (caught.value.chunk, caught.value.box) == (4, (slice(2, 4), slice(3, 6)))
        np.testing.assert_array_equal(a[:2], MODEL[:2])
        a[2:4, 3:6]  # unverified reads pass
    assert files(damaged) == before
    assert not Path(f"{to}.xmd").exists()


@pytest.mark.parametrize("way", INTO.values(), ids=INTO)
def test_damage_does_not_get_into_another_array(damaged, tmp_path, way):
    with (
        xa.open(damaged) as a,
        xa.create(tmp_path / "b", SHAPE, "<i4", chunks=(5, 7), checksum=True) as b,
    ):
        with pytest.raises(ChecksumError, match="chunk 4"):
            way(a, b)
        assert b.shape == SHAPE
        assert not b[...].any()
    assert is_damaged(damaged)


def test_nor_within_an_array(damaged):
    with xa.open(damaged, "r+") as a:
        for way in (
            lambda: a.__iadd__(1),
            lambda: a.lazy[0:2].write(..., a.lazy[2:4]),
            lambda: a.write(np.s_[0:2], a.lazy[2:4]),
            lambda: a.write(np.s_[0, 0], a.lazy[3, 5]),
            lambda: a.append(a),
            lambda: np.negative(a, out=a),
        ):
            with pytest.raises(ChecksumError, match="chunk 4"):
                way()
        assert a.shape == SHAPE
    assert is_damaged(damaged)


PARTS = {
    "box": lambda a: a.write(np.s_[2:4, 3:5], 9),
    "larger box": lambda a: a.write(np.s_[1:5, 2:5], 9),
    "element": lambda a: a.write(np.s_[3, 4], 9),
    "element by brackets": lambda a: a.__setitem__((3, 4), 9),
    "steps": lambda a: a.write(np.s_[::2, ::2], 9),
    "backwards": lambda a: a.write(np.s_[3:1:-1, 4:2:-1], 9),
    "cast": lambda a: a.write(np.s_[2:4, 3:5], 9.5),
    "points": lambda a: a.vindex.__setitem__(([0, 2], [0, 3]), 9),
    "list": lambda a: a.write([2, 3], 9),
    "mask": lambda a: a.write(MODEL == 17, 9),
    "where": lambda a: np.add(a, 1, out=a, where=MODEL == 17),
    "masked": lambda a: a.write(np.s_[2, :], np.ma.masked_equal(MODEL[2], 17)),
    "view": lambda a: a.lazy[2:4, 4:].write(..., 9),
    "view of a chunk": lambda a: a.chunk((1, 1)),
    "copyto": lambda a: np.copyto(a, 9, where=MODEL == 17),
    "put": lambda a: np.put(a, [17], 9),
}


@pytest.mark.invariant("I11")
@pytest.mark.parametrize("way", PARTS.values(), ids=PARTS)
def test_no_new_sum_for_a_part_of_a_damaged_chunk(damaged, way):
    before = elements(damaged)
    with xa.open(damaged, "r+") as a:
        with pytest.raises(ChecksumError, match=r"elements are \[2:4, 3:6\]"):
            way(a)
        a.flush()
        assert elements(damaged) == before
    assert is_damaged(damaged)
    with xa.open(damaged, "r+", verify="never") as a:
        way(a)
        a[0, 0] = 3
    if way is not PARTS["view of a chunk"]:
        assert elements(damaged) != before
    assert format_reader.wrong_sums(damaged) == ([], False)  # accepted as it is


@pytest.mark.invariant("I11")
def test_nor_by_growth(path, engine):
    create(path)
    spoil(path, 8)
    with xa.open(path, "r+") as a:
        for axis, data in ((0, MODEL[:1]), (1, MODEL[:, :2])):
            with pytest.raises(ChecksumError, match=r"chunk 8 .*elements are \[4:5, 6:7\]"):
                a.append(data, axis)
        assert a.shape == SHAPE
        a.extend(0, 1)  # writes no elements
        with pytest.raises(ChecksumError):
            a[5] = 1
    assert is_damaged(path, 8)


@needs_replaced_open_files
def test_nor_by_an_axis_with_more_elements_a_chunk(path):
    with xa.create(path, (3,), "<i4", chunks=6, checksum=True) as a:
        a[...] = 1
    spoil(path, 0)
    with xa.open(path, "r+") as a:
        with pytest.raises(ChecksumError):
            a.add_axis(0, chunk=2)
        a.add_axis(0)
        assert a.shape == (1, 3)
    assert is_damaged(path, 0)


WHOLES = {
    "box": np.s_[2:4, 3:6],
    "all": np.s_[...],
    "more": np.s_[1:, 2:],
    "backwards": np.s_[3:1:-1, ::-1],
}


@pytest.mark.parametrize("key", WHOLES.values(), ids=WHOLES)
@pytest.mark.parametrize("value", [7, 7.0, np.full(1, 7)], ids=["int", "float", "array"])
def test_a_whole_chunk_heals(damaged, key, value):
    model = MODEL.copy()
    model[key] = 7
    with xa.open(damaged, "r+", verify="read") as a:
        with pytest.raises(ChecksumError):
            a[2, 3]
        a[key] = value
        np.testing.assert_array_equal(a[...], model)
    assert format_reader.wrong_sums(damaged) == ([], False)


@pytest.mark.parametrize("byte", [0, 20], ids=["inside the bounds", "outside them"])
def test_a_chunk_at_the_end_heals_with_what_lies_outside(path, engine, byte):
    create(path, fill_value=3)
    spoil(path, 8, byte)
    with xa.open(path, "r+") as a:
        a[4, 6] = 50
        a.extend(0, 1)
        a.extend(1, 2)
        assert a[4:, 6:].tolist() == [[50, 3, 3], [3, 3, 3]]
    assert format_reader.wrong_sums(path) == ([], False)


def test_a_large_cast_heals_as_a_whole(path):
    with xa.create(path, (64, 64), "<i4", chunks=(9, 64), checksum=True) as a:
        a[...] = 1
    spoil(path, 30)
    with xa.open(path, "r+") as a, xa.config.set(max_memory=4 * 9 * 64 * 4):
        a[...] = np.full((64, 64), 2.0)
    assert format_reader.wrong_sums(path) == ([], False)


READS = {
    "element": np.s_[2, 3],
    "box": MIDDLE,
    "all": np.s_[...],
    "points": ([0, 2], [0, 3]),
    "mask": MODEL == 17,
    "steps": np.s_[::3, ::2],
}


@pytest.mark.parametrize("key", READS.values(), ids=READS)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_reads_are_verified_if_asked(damaged, key, mode):
    with xa.open(damaged, mode) as a:
        a[key]
    with xa.open(damaged, mode, verify="read") as a:
        np.testing.assert_array_equal(a[:2], MODEL[:2])
        if key is not READS["steps"]:
            with pytest.raises(ChecksumError, match="chunk 4"):
                a[key]
        for way in (lambda: a.sum(), lambda: a.chunk((1, 1)), lambda: a.T[4], lambda: a[...] + 1):
            with pytest.raises(ChecksumError, match="chunk 4"):
                way()
    with xa.config.set(verify="read"), xa.open(damaged, mode) as a, pytest.raises(ChecksumError):
        a[2:, 3]
    assert is_damaged(damaged)


def _again(value):
    """Unpickle a value as another process does, with the default setting."""
    pickled = pickle.dumps(value)
    with xa.config.set(verify="write"):
        return pickle.loads(pickled)


PICKLED = {
    "array": lambda a: _again(a)[2, 3],
    "array, pickled twice": lambda a: _again(_again(a))[MIDDLE],
    "view": lambda a: _again(a.lazy[1:, ::-1])[...],
    "view of a view": lambda a: _again(a.lazy[1:].lazy[:, 3:])[1],
    "cast": lambda a: _again(a.astype("f8"))[...],
    "chunk of a Zarr store": lambda a: _again(a.as_zarr_store()).get_sync("c/1/1"),
}


@pytest.mark.parametrize("way", PICKLED.values(), ids=PICKLED)
def test_pickles_keep_how_reads_are_verified(damaged, way):
    if way is PICKLED["chunk of a Zarr store"]:
        pytest.importorskip("zarr")
    with xa.open(damaged, verify="read") as a, pytest.raises(ChecksumError):
        way(a)
    with xa.config.set(verify="read"), xa.open(damaged) as a, pytest.raises(ChecksumError):
        way(a)
    for verify in ("write", "never"):
        with xa.open(damaged, verify=verify) as a:
            way(a)


@pytest.mark.parametrize("verify", ["never", "write", "read"])
def test_so_do_pickles_of_a_writer(damaged, verify):
    """Pickles leave the writer's checksums in doubt, so damage is unknown until a repair."""
    with xa.open(damaged, "r+", verify=verify) as a, _again(a) as again:
        assert again._store.now.verify == verify


def test_so_do_pickles_of_one_that_is_made(path):
    with xa.config.set(verify="read"):
        made = xa.create(path, SHAPE, "<i4", chunks=CHUNKS, checksum=True)
    with made, _again(made) as again:
        assert again._store.now.verify == "read"


def test_a_group_hands_on_how_reads_are_verified(tmp_path, engine):
    with xa.open_group(tmp_path / "g", "w"):
        create(tmp_path / "g" / "a")
    spoil(tmp_path / "g" / "a", 4)
    with xa.open_group(tmp_path / "g", verify="read") as g:
        for group in (g, _again(g)):
            with pytest.raises(ChecksumError):
                group["a"][MIDDLE]
    with xa.config.set(verify="read"):
        g = xa.open_group(tmp_path / "g")
    with pytest.raises(ChecksumError):
        g["a"][MIDDLE]
    with pytest.raises(ValueError, match="verify 'always' is not valid"):
        xa.open_group(tmp_path / "g", verify="always")


def test_a_dataset_of_xarray_hands_it_on(damaged):
    xr = pytest.importorskip("xarray")
    with xa.config.set(verify="read"), xr.open_dataset(damaged, engine="extarray") as dataset:
        (name,) = dataset.data_vars
        pickled = pickle.dumps(dataset)
    with pickle.loads(pickled) as again, pytest.raises(ChecksumError):
        again[name][2:4].load()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_verify_what_they_read(path, method):
    create(path)
    spoil(path, 4)
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        with xa.open(path, verify="read") as a:
            for value in (a, a.lazy[:, ::1], a.astype("f8")):
                with pytest.raises(ChecksumError, match="chunk 4"):
                    pool.submit(np.sum, value).result(60)
        with xa.open(path) as a:
            assert pool.submit(np.sum, a).result(60) != MODEL.sum()


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_dask_verifies_what_it_reads(path, scheduler):
    pytest.importorskip("dask.array")
    create(path)
    spoil(path, 4)
    with xa.open(path, verify="read") as a:
        for graph in (a.to_dask(), a.T.to_dask(), a.lazy[1:].to_dask()):
            with pytest.raises(ChecksumError, match="chunk 4"):
                graph.sum().compute(scheduler=scheduler)
        assert a.to_dask()[0, 0].compute(scheduler=scheduler) == 0


@needs_replaced_open_files
def test_what_is_replaced_in_place_is_opened_as_it_was(damaged):
    with pytest.raises(ChecksumError):
        xa.rechunk(xa.open(damaged, verify="read"), chunks=(5, 7), in_place=True)
    with xa.rechunk(xa.open(damaged, verify="never"), chunks=(5, 7), in_place=True) as b:
        np.testing.assert_array_equal(b[:2], MODEL[:2])


def test_what_fits_is_read_and_written(path, engine):
    create(path)
    model = MODEL.copy()
    with xa.open(path, "r+", verify="read") as a:
        np.testing.assert_array_equal(a[...], model)
        a[2:4, 4:] = model[2:4, 4:] = 8
        a[1, 1] = model[1, 1] = 9
        a.flush()
        a.append(model[:2])
        a.shrink(1, 2, side="start")
        model = np.concatenate([model, model[:2]])[:, 2:]
        a.append(model[:, :3], 1, side="start")
        model = np.concatenate([model[:, :3], model], 1)
        np.testing.assert_array_equal(a[...], model)
        np.testing.assert_array_equal(a.copy()[...], model)
    assert format_reader.wrong_sums(path) == ([], False)


def test_nothing_of_many_points_is_written(damaged):
    """Values cast in parts are not written in part, either."""
    with xa.open(damaged, "r+") as a:
        with pytest.raises(ChecksumError):
            a[[0, 1, 2], [0, 0, 5]] = [90, 91, 92]
        with pytest.raises(ChecksumError), xa.config.set(max_memory=64):
            a[:3] = np.full((3, 7), 9.0)
        assert not a._store.now.sums.in_doubt
        np.testing.assert_array_equal(a[:2], MODEL[:2])


def test_each_chunk_once(path, monkeypatch):
    create(path)
    with xa.open(path, "r+", verify="read") as a:
        seen = []
        keeper = a._store.chunk_sums
        compared = keeper._compared()
        monkeypatch.setattr(keeper, "_comparison", (*keeper._comparison[:2], compared))
        different = compared._different
        monkeypatch.setattr(
            compared, "_different", lambda some: seen.extend(some) or different(some)
        )
        for _ in range(2):
            a[...]
            a[2, 2] = 5
            a.flush()
            a.copy()
        assert sorted(seen) == list(range(9))


def test_doubt_is_no_damage(path, forked):
    """A killed writer's elements can be read, copied and overwritten."""
    code = """
import os, sys
import extarray as xa
a = xa.open(sys.argv[1], "r+")
a[2, 3] = 77
os._exit(9)
"""
    create(path)
    with pytest.raises(AssertionError, match="exit status 9"):
        forked(code, path)
    with xa.open(path, "r+", verify="read") as a:
        assert a[2, 3] == 77
        assert a.copy()[2, 3] == 77
        a[2, 4] = 78
        with xa.open(path, verify="read") as reader:
            assert reader[2, 3:5].tolist() == [77, 78]


def test_a_reader_beside_a_writer(path):
    create(path)
    with xa.open(path, verify="read") as reader, xa.open(path, "r+") as a:
        a[2, 3] = 77
        assert reader[2, 3] == 77
        a.flush()
        assert reader[...].sum() == a[...].sum()
        a.append(np.ones((1500, 7), "i4"))  # grows the table
        a.flush()
        assert reader.refresh()
        assert reader[...].sum() == a[...].sum()


def test_threads_write_parts_of_chunks_that_nobody_knows(path):
    """No thread mistakes another's concurrent writes for damage."""
    with xa.create(path, (64, 256), "u2", chunks=(64, 8), checksum=True) as a:
        a[...] = 1
    with xa.open(path, "r+", verify="read") as a:
        gate, errors = threading.Barrier(4), []

        def write(first):
            try:
                gate.wait()
                for column in range(0, 256, 8):
                    a[first::4, column : column + 5] = first + 2
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not errors
        assert a[:4, 0].tolist() == [2, 3, 4, 5]
    assert format_reader.wrong_sums(path) == ([], False)


def test_the_error_says_where_and_what_to_do(damaged):
    with xa.open(damaged, verify="read") as a, pytest.raises(ChecksumError) as caught:
        a[3, 3]
    error = caught.value
    assert isinstance(error, CorruptError)
    assert isinstance(error, ValueError)
    assert (error.start, error.stop) == (96, 120)
    assert error.filename == f"{damaged}.xta"
    for words in ("chunk 4", "[2:4, 3:6]", "bytes 96 to 119", f"'{damaged}.xta'", "verify='never'"):
        assert words in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.chunk, copy.box) == (str(error), 4, error.box)


def test_origins_count(path):
    create(path)
    with xa.open(path, "r+") as a:
        a.extend(0, 3, side="start")
        a.shrink(1, 2, side="start")
    spoil(path, 4)
    with xa.open(path, verify="read") as a, pytest.raises(ChecksumError) as caught:
        a[...]
    assert caught.value.box == (slice(5, 7), slice(1, 4))


def test_wrong_settings(path):
    create(path)
    with pytest.raises(ValueError, match="verify 'always' is not valid; use one of never"):
        xa.open(path, verify="always")
    with pytest.raises(ValueError, match="verify True is not valid"):
        xa.config.set(verify=True)


WAYS = st.sampled_from(
    ["element", "box", "list", "mask", "append", "extend", "shrink", "chunk", "flush", "copy"]
)


@pytest.mark.slow
@given(
    ways=st.lists(WAYS, max_size=10),
    seed=st.integers(0, 9999),
    order=st.sampled_from("CFZH"),
    engine=st.sampled_from(["mmap", "pread"]),
    fill=st.sampled_from([0, 7]),
    verify=st.sampled_from(["write", "read"]),
    sparse=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_what_fits_is_what_was_written(
    tmp_path_factory, ways, seed, order, engine, fill, verify, sparse
):
    """After any operations on an array with a damaged chunk, matching sums mean no damage."""
    folder = tmp_path_factory.mktemp("verify")
    path = folder / "a"
    rng = np.random.default_rng(seed)
    create(path, order=order, engine=engine, fill_value=fill, sparse=sparse)
    model = MODEL.copy()
    with xa.open(path, "r+", engine=engine) as a:
        a.shrink(0, 1)  # chunks cut off have sums, too
        model = model[:-1]
    spoil(path, int(rng.integers(9)), int(rng.integers(24)))
    with xa.open(path, "r+", engine=engine, verify=verify) as a:
        for number, way in enumerate(ways, 100):
            axis, side = int(rng.integers(2)), str(rng.choice(["end", "start"]))
            by = int(rng.integers(1, 4))
            changed = model.copy()
            shape = [by if j == axis else n for j, n in enumerate(model.shape)]
            new = np.full(shape, number if way == "append" else fill, "i4")
            try:
                if way == "flush":
                    a.flush()
                elif way == "copy":
                    np.testing.assert_array_equal(a.copy()[...], model)
                elif way in ("append", "extend"):
                    if way == "append":
                        a.append(new, axis, side)
                    else:
                        a.extend(axis, by, side)
                    parts = [model, new] if side == "end" else [new, model]
                    changed = np.concatenate(parts, axis)
                elif way == "shrink":
                    n = model.shape[axis]
                    by = min(by, n)
                    a.shrink(axis, by, side)
                    kept = range(by, n) if side == "start" else range(n - by)
                    changed = np.take(model, kept, axis)
                elif model.size and way == "chunk":
                    index = [int(rng.integers(n)) for n in a.grid]
                    view = a.chunk(index)
                    if view.flags.writeable and order in "CF":
                        view[...] = number
                        box = elements_of_chunk(index, a.chunks, a._store.now.state.offset, a.shape)
                        changed[box] = number
                    del view
                elif model.size:
                    i, j = (int(rng.integers(n)) for n in model.shape)
                    height, width = (int(rng.integers(1, 8)) for _ in range(2))
                    key = {
                        "element": (i, j),
                        "box": np.s_[i : i + height, j : j + width],
                        "list": ([i, 0], [j, 0]),
                    }.get(way, rng.random(model.shape) < 0.3)
                    a[key] = number
                    changed[key] = number
            except ChecksumError:
                continue
            model = changed
    wrong, in_doubt = format_reader.wrong_sums(path)
    if not wrong:
        np.testing.assert_array_equal(format_reader.read(path)[0], model)
    assert not in_doubt
