"""New axes: nothing moves, all readers learn of them, and no failure leaves a half-made one."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import pickle
import stat
import threading

import format_reader
import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from model import Model, sample
from systems import needs_fork, needs_replaced_open_files

import extarray as xa
from extarray.storage.filesystem import File
from extarray.storage.states import StateReader


def grown(factory, order="C", **options):
    """Return an array with a history on all sides, and its model."""
    model = Model((3, 4), "i4", (2, 3), 7)
    array = factory.create((3, 4), "i4", chunks=(2, 3), order=order, fill_value=7, **options)
    array[...] = model.data[...] = sample("i4", (3, 4))
    for axis, by, side in [(1, 4, "end"), (0, 3, "start"), (1, 2, "start"), (0, 3, "end")]:
        array.extend(axis, by, side)
        model.extend(axis, by, side)
    return array, model


def agree(array, model):
    assert array.shape == model.shape
    assert array.chunks == model.chunks
    assert array.grid == model.grid
    assert array.origin == model.origin
    assert_same(array[...], model.data)
    table = model.replay.table()
    indices = np.indices(table.shape).reshape(table.ndim, table.size).T
    assert array.axial.addresses(indices).tolist() == table.ravel().tolist()
    assert array.axial.indices(table.ravel()).tolist() == indices.tolist()
    for axis in range(array.ndim):
        records = zip(*(part.tolist() for part in array.axial.records(axis)), strict=True)
        assert sorted(records) == [tuple(record) for record in model.replay.records(axis)]


# -- the mapping ---------------------------------------------------------------------------------


@needs_replaced_open_files
@pytest.mark.parametrize("order", "CFZH")
@pytest.mark.parametrize("position", [0, 1, 2, -1, -3])
def test_every_position_and_order(factory, position, order):
    array, model = grown(factory, order)
    old = array.axial
    indices = np.indices(old.grid).reshape(2, -1).T
    addresses = old.addresses(indices)
    array.add_axis(position)
    at = position % 3
    model.add_axis(at)
    agree(array, model)
    assert array.axial.addresses(np.insert(indices, at, 0, axis=1)).tolist() == addresses.tolist()
    for axis, side in itertools.product(range(3), ["end", "start"]):
        array.extend(axis, 2, side)
        model.extend(axis, 2, side)
        agree(array, model)
    values = sample("i4", array.shape, 5)
    array[...] = model.data[...] = values
    agree(array, model)
    if factory.on_disk:
        array.close()
        assert_same(format_reader.read(array.path)[0], model.data)
        place = tuple(n // 2 for n in model.shape)
        assert format_reader.read_element(array.path, place) == model.data[place]
        with factory.open(array, "r+") as array:
            agree(array, model)


@needs_replaced_open_files
@pytest.mark.invariant("I1")
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.sampled_from(["end", "start", "axis"])),
        max_size=12,
    ),
    st.lists(st.integers(0, 3), max_size=2),
)
def test_axial_vectors_agree_with_a_replay(history, extents):
    """Addresses of chunks never change, whatever is added in whatever order."""
    array = xa.create(None, extents, "u1", chunks=(1,) * len(extents))
    model = Model(extents, "u1", (1,) * len(extents))
    for number, by, what in history:
        if what == "axis" and array.ndim < 4:
            array.add_axis(number % (array.ndim + 1))
            model.add_axis(number % (model.data.ndim + 1))
        elif what != "axis" and array.ndim and array.size < 500:
            array.extend(number % array.ndim, by, what)
            model.extend(number % array.ndim, by, what)
    agree(array, model)


@needs_replaced_open_files
def test_from_no_axis_to_three(factory):
    array = factory.create((), "f8", attrs={"unit": "mm"})
    array[()] = 5
    for n in range(3):
        array.add_axis(n, name="xyz"[n], chunk=4 if n == 0 else 1)
        array.extend(n, 2)
        array.extend(n, 1, side="start")
    assert array.shape == (4, 4, 4)
    assert array.chunks == (4, 1, 1)
    assert array.dims == ("x", "y", "z")
    assert array.attrs["unit"] == "mm"
    expected = np.zeros((4, 4, 4))
    expected[1, 1, 1] = 5
    assert_same(array[...], expected)
    array.close()


def test_thirty_two_axes_are_the_most():
    array = xa.create(None, (2,) * 2, "u1", chunks=2)
    array[1, 0] = 3
    for n in range(30):
        array.add_axis(n % 3)
    assert array.ndim == 32
    assert array.sum() == 3
    with pytest.raises(xa.ShapeError, match="it has the maximum of 32"):
        array.add_axis()


# -- chunks of more than one element along the new axis ------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "order", "position", "possible"),
    [
        ((2, 3), "C", 0, True),
        ((2, 3), "C", 1, False),
        ((2, 3), "C", 2, False),
        ((1, 3), "C", 1, True),
        ((2, 3), "F", 2, True),
        ((2, 3), "F", 0, False),
        ((2, 1), "F", 1, True),
        ((2, 2), "Z", 0, True),
        ((2, 2), "Z", 1, False),
        ((4, 4), "H", 0, False),
        ((1, 1), "H", 1, True),
    ],
)
def test_larger_chunks_where_the_one_that_there_is_stays(
    factory, chunks, order, position, possible
):
    values = sample("i2", chunks)
    array = factory.create(chunks, "i2", chunks=chunks, order=order, fill_value=9)
    array[...] = values
    if not possible:
        with pytest.raises(xa.ChunksError, match=r"would move; use chunk=1"):
            array.add_axis(position, chunk=2)
        assert_same(array[...], values)
        array.close()
        return
    array.add_axis(position, chunk=2)
    values = np.expand_dims(values, position)
    array.extend(position, 2)
    expected = np.concatenate([values, np.full_like(values, 9), np.full_like(values, 9)], position)
    assert_same(array[...], expected)
    assert array.grid[position] == 2
    array[...] = expected = sample("i2", array.shape, 4)
    assert_same(array[...], expected)
    array.close()
    if factory.on_disk:
        assert_same(format_reader.read(array.path)[0], expected)


@needs_replaced_open_files
@pytest.mark.parametrize("order", "CFZH")
def test_any_chunk_where_there_is_none(factory, order):
    array = factory.create((0, 3), "i2", chunks=(4, 4), order=order)
    array.add_axis(1, chunk=5)
    assert (array.shape, array.chunks, array.grid) == ((0, 1, 3), (4, 5, 4), (0, 1, 1))
    values = sample("i2", (2, 1, 3))
    array.append(values)
    assert_same(array[...], values)
    array.close()


@needs_replaced_open_files
def test_a_larger_chunk_of_a_sparse_array_has_its_space_too(disk):
    array = disk.create((4, 4), "i2", chunks=(4, 4), sparse=True)
    array[...] = 1
    array.add_axis(chunk=1000)
    array.extend(0, 999)
    array[...] = 2
    assert (array[...] == 2).all()
    array.close()


@needs_replaced_open_files
def test_refusals(factory):
    array, model = grown(factory)
    for call, error, text in [
        (lambda: array.add_axis(3), xa.AxisError, "out of bounds for array of dimension 3"),
        (lambda: array.add_axis(-4), xa.AxisError, "out of bounds"),
        (lambda: array.add_axis(0.0), xa.ArgumentTypeError, "position must be an int"),
        (lambda: array.add_axis(chunk=0), xa.ChunksError, "at least 1"),
        (lambda: array.add_axis(chunk=True), xa.ArgumentTypeError, "chunk must be an int"),
        (lambda: array.add_axis(chunk=2), xa.ChunksError, "chunks do not move"),
        (lambda: array.add_axis(name="t"), xa.ArgumentError, "are unnamed"),
    ]:
        with pytest.raises(error, match=text):
            call()
        agree(array, model)
    empty = factory.create((0,), "i8")
    with pytest.raises(xa.LimitError, match="smaller chunk"):
        empty.add_axis(chunk=2**60)
    for x in (array, empty):
        x.close()
        with pytest.raises(xa.ClosedError):
            x.add_axis()


@needs_replaced_open_files
def test_names(factory):
    with contextlib.closing(factory.create((2, 2), dims=("y", "dim_1"))) as array:
        array.add_axis(1)
        assert array.dims == ("y", "dim_2", "dim_1")
        with pytest.raises(xa.ArgumentError, match="duplicate names"):
            array.add_axis(name="y")
        with pytest.raises(xa.ArgumentTypeError):
            array.add_axis(name=3)
        array.add_axis(-1, "band")
        assert array.dims == ("y", "dim_2", "dim_1", "band")
        assert array.attrs["dims"] == list(array.dims)


# -- views and iterators made for fewer axes -------------------------------------------------------


@needs_replaced_open_files
def test_what_was_made_before_says_so(factory):
    array, _ = grown(factory)
    view, transposed, late = array.lazy[1:, ::2], array.T, array.astype("f8")
    rows, chunks, parts = iter(array), array.chunk_views(), array.iter_chunks()
    news = array.follow(timeout=0)
    for it in (rows, chunks, parts):
        next(it)
    array.add_axis(1)
    array.extend(0, 2, side="start")
    uses = [
        lambda: view[...],
        lambda: view[0, 0],
        lambda: view.write(..., 0),
        lambda: view[0, 0].item(),
        lambda: view.__setitem__((0, 0), 1),
        lambda: view.__setitem__(..., 1),
        lambda: view[[0, 1]],
        lambda: view.sum(),
        lambda: view.dims,
        lambda: transposed.max(),
        lambda: transposed[:, [1, 1]],
        lambda: next(rows),
        lambda: next(chunks),
        lambda: next(parts),
        lambda: next(news),
        lambda: pickle.loads(pickle.dumps(view))[...],
    ]
    before = array[...]
    for use in uses:
        with pytest.raises(xa.ShapeError, match=r"gained an axis"):
            use()
    assert_same(array[...], before)
    assert late.sum() == before.sum()  # the view shows the present array
    array.close()


@pytest.mark.sampled(1)
def test_tasks_of_dask_that_were_made_before_say_so(factory):
    da = pytest.importorskip("dask.array")
    array, model = grown(factory)
    graphs = [array.to_dask(), da.from_array(array, chunks=4), da.ones(model.shape) + array]
    assert_same(graphs[0].compute(scheduler="sync"), model.data)
    array.add_axis()
    for graph in graphs:
        with pytest.raises(xa.ShapeError, match="gained an axis"):
            graph.compute(scheduler="sync")
    assert_same(array.to_dask().compute(scheduler="sync"), model.data[np.newaxis])
    array.close()


@needs_replaced_open_files
def test_datasets_of_xarray_that_were_opened_before_say_so(disk):
    xr = pytest.importorskip("xarray")
    array, model = grown(disk, dims=("y", "x"))
    array.flush()
    with xr.open_dataset(array.path, engine="extarray") as before:
        (name,) = before.data_vars
        array.add_axis(name="t")
        model.add_axis(0)
        with xr.open_dataset(array.path, engine="extarray") as after:
            assert after[name].dims == ("t", "y", "x")
            assert_same(after[name].values, model.data)
    array.close()


@needs_replaced_open_files
def test_an_index_or_a_value_that_adds_an_axis(factory):
    class Adds:
        def __init__(self, array):
            self.array = array

        def __index__(self):
            if self.array.ndim == 2:
                self.array.add_axis()
            return 1

        def __float__(self):
            return float(self.__index__())

    for use in (
        lambda a: a[Adds(a), :],
        lambda a: a[Adds(a) :, 2],
        lambda a: a[Adds(a), [0, 1]],
        lambda a: a.chunk((Adds(a), 0)),
        lambda a: a.oindex[[0, 1], Adds(a)],
    ):
        array = factory.create((3, 4), chunks=(2, 3), fill_value=7)
        found = use(array)  # as if the axis had existed before
        assert array.shape == (1, 3, 4)
        assert found is None or (found == 7).all()
        assert found is None or found.ndim < 3
        array.close()

    for key, value in (
        (lambda a: (Adds(a), slice(None)), lambda a: 5),
        (lambda a: (slice(None), 1), lambda a: [Adds(a)] * 3),
        (lambda a: (1, 1), Adds),
    ):
        array = factory.create((3, 4), chunks=(2, 3))
        array[key(array)] = value(array)
        assert array.shape == (1, 3, 4)
        assert np.count_nonzero(array[...]) == np.zeros((3, 4))[key(array)].size
        array.close()

    class Source:
        shape, dtype = (1, 4), np.dtype("f8")

        def __getitem__(self, box):
            array.add_axis()

    array = factory.create((3, 4), chunks=(2, 3))
    with pytest.raises(xa.ArgumentError, match="during an append"):
        array.append(Source())
    assert array.shape == (3, 4)
    array.close()


@pytest.mark.slow
def test_threads_that_read_and_write_meanwhile(factory):
    """Each thread sees the array before or after the change, or gets an error."""
    array = factory.create((64, 96), "i4", chunks=(16, 32))
    values = np.arange(64 * 96, dtype="i4").reshape(64, 96)
    array[...] = values
    stop, wrong = threading.Event(), []

    def use(work):
        try:
            while not stop.is_set():
                with contextlib.suppress(xa.ShapeError, xa.BoundsError, xa.SelectionError):
                    work()
        except BaseException as error:
            wrong.append(error)

    def same(found):
        found = found.reshape(found.shape[-2:]) if found.size == values.size else found
        assert found.shape == values.shape, found.shape
        assert (found == values).all()

    rows = [3, 60, 5]

    def boxes():
        view = array.lazy[..., ::2]
        same(array[...])
        found = view[...]
        assert (found.reshape(64, 48) == values[:, ::2]).all()

    def queries():
        same(array.read(np.ones(array.shape, bool)).reshape(values.shape))
        found = array.lazy[...].oindex[(*[slice(None)] * (array.ndim - 2), rows, slice(None))]
        assert (found.reshape(3, 96) == values[rows]).all()

    def streams():
        assert array.sum(dtype="i8") == values.sum(dtype="i8")
        same(np.add(array, 0))

    def elements():
        for i in range(0, 64, 7):
            found = array[(*(0,) * (array.ndim - 2), i, 5)]
            assert np.size(found) > 1 or found == values[i, 5]

    def writes():
        part = array.lazy[...]
        part[...] = part.read()

    threads = [
        threading.Thread(target=use, args=(work,))
        for work in (boxes, queries, streams, elements, writes)
    ]
    with xa.config.set(threads=2):
        for thread in threads:
            thread.start()
        try:
            for _ in range(12):
                array.add_axis(0)
                stop.wait(0.01)
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
    if wrong:
        raise wrong[0]
    same(array[...])
    array.close()


# -- readers -------------------------------------------------------------------------------------


@needs_replaced_open_files
def test_a_reader_takes_it_up(disk):
    array, model = grown(disk, attrs={"a": 1})
    before = model.data
    reader, late = disk.open(array), disk.open(array)
    view, news = reader.lazy[1:], reader.follow(timeout=0)
    token = reader.__dask_tokenize__()
    array.add_axis(0)
    model.add_axis(0)
    array.extend(0, 2, side="start")
    model.extend(0, 2, side="start")
    assert_same(reader[...], before)
    assert_same(view[...], before[1:])
    assert reader.refresh()
    assert not reader.refresh()
    agree(reader, model)
    assert reader.__dask_tokenize__() != token
    for use in (lambda: view[...], lambda: next(news)):
        with pytest.raises(xa.ShapeError, match="gained an axis"):
            use()
    for position in (1, 3, 0):  # the late reader learns of all three at once
        array.add_axis(position)
        model.add_axis(position)
        array.append(values := sample("i4", array.shape, position), position)
        model.append(values, position)
    array.attrs["a"] = 2
    assert late.refresh()
    agree(late, model)
    assert late.attrs["a"] == 2
    assert_same(pickle.loads(pickle.dumps(late))[...], model.data)
    for x in (array, reader, late):
        x.close()
    assert reader.closed


@needs_replaced_open_files
@pytest.mark.parametrize("fill", [0, 7])
def test_a_reader_takes_it_up_wherever_it_is_by_then(tmp_path, monkeypatch, fill):
    monkeypatch.chdir(tmp_path)
    os.mkdir("elsewhere")
    with xa.create("a", (4,), "i4", chunks=(2,), fill_value=fill) as array:
        array[...] = [1, 2, 3, 4]
        with xa.open("a") as reader, xa.open("a") as stale:
            monkeypatch.chdir("elsewhere")
            array.add_axis()
            assert reader.refresh()
            assert reader.shape == (1, 4)
            array.shrink(1, 2)
            if fill:
                with pytest.raises(xa.ShapeError, match="gained an axis"):
                    stale[...]
            else:
                assert stale[:2].tolist() == [1, 2]


@needs_replaced_open_files
def test_a_reader_that_looks_before_the_name_is_given(disk, monkeypatch):
    array, model = grown(disk)
    reader = disk.open(array)
    rename = os.replace

    def looked(*names):
        assert reader.refresh()  # the old file announces its successor
        assert not reader.refresh()
        assert reader.ndim == 2
        rename(*names)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", looked)
        array.add_axis()
    assert reader.refresh()
    model.add_axis(0)
    agree(reader, model)
    for x in (array, reader):
        x.close()


@needs_replaced_open_files
def test_a_reader_of_an_array_that_was_replaced_keeps_it(disk):
    array, model = grown(disk)
    reader = disk.open(array)
    array.add_axis()
    array.close()
    other = xa.create(array.path, (2, 2, 2), overwrite=True)
    with pytest.raises(xa.ReplacedError):
        reader.refresh()
    assert_same(reader[...], model.data)
    other.close()
    reader.close()


@needs_fork
@pytest.mark.sampled(1)
def test_a_forked_child_learns_of_it(disk, forked):
    code = """
import os, sys
import extarray as xa
array = xa.create(sys.argv[1], (2, 3), engine=sys.argv[2])
array[...] = 4
to_child, from_parent = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(from_parent)
    os.read(to_child, 1)
    fine = array.mode == "r" and array.refresh() and array.shape == (1, 2, 3)
    os._exit(0 if fine and (array[...] == 4).all() else 1)
array.add_axis()
os.write(from_parent, b"x")
assert os.waitpid(pid, 0)[1] == 0
array.extend(0, 1)
array.close()
"""
    forked(code, disk.folder / "forked", disk.engine)
    with xa.open(disk.folder / "forked") as array:
        assert array.shape == (2, 2, 3)


# -- files ---------------------------------------------------------------------------------------


@needs_replaced_open_files
def test_links_permissions_and_the_lock(tmp_path, engine):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.mkdir()
    xa.create(real / "a", (2, 2), engine=engine).close()
    for suffix in (".xmd", ".xta"):
        os.chmod(real / f"a{suffix}", 0o640)
        os.symlink(real / f"a{suffix}", link / f"b{suffix}")
    with xa.open(link / "b", "r+", engine=engine) as array:
        array.add_axis()
        assert (link / "b.xmd").is_symlink()
        assert stat.S_IMODE(os.stat(real / "a.xmd").st_mode) == 0o640
        for path in (real / "a", link / "b"):
            with pytest.raises(xa.LockedError, match=f"process {os.getpid()}"):
                xa.open(path, "r+")
            with pytest.raises(xa.LockedError):
                xa.create(path, (1,), overwrite=True)
    assert sorted(os.listdir(real)) == ["a.xmd", "a.xta"]
    with xa.open(real / "a", "r+", timeout=0) as array:
        assert array.shape == (1, 2, 2)


@needs_replaced_open_files
def test_a_second_name_of_the_metadata(tmp_path, engine):
    """The other name would keep the old metadata, and writing under it would do harm."""
    with xa.create(tmp_path / "a", (2, 2), "i4", engine=engine) as array:
        array[...] = 3
        os.link(tmp_path / "a.xmd", tmp_path / "b.xmd")
        before = array.info()
        with pytest.raises(xa.StorageError, match=r"second name.*hard link.*copy") as caught:
            array.add_axis(chunk=2)
        assert isinstance(caught.value, OSError)
        assert caught.value.filename == str(tmp_path / "a.xmd")
        assert array.info() == before
        array.append(np.full((1, 2), 4))
        os.unlink(tmp_path / "b.xmd")
        array.add_axis()
        assert array.shape == (1, 3, 2)
    assert xa.check(tmp_path / "a", data=True).ok


@needs_replaced_open_files
def test_a_writer_that_waits_gets_the_new_files(disk):
    array, model = grown(disk)
    found = []

    def wait():
        with disk.open(array, "r+", timeout=60) as second:
            found.append((second.shape, second[...]))

    thread = threading.Thread(target=wait)
    thread.start()
    array.add_axis(1)
    model.add_axis(1)
    array.close()
    thread.join(60)
    assert found[0][0] == model.shape
    assert_same(found[0][1], model.data)


@needs_replaced_open_files
def test_files_that_were_moved_or_replaced(disk):
    array, model = grown(disk)
    moved = array.path.with_name(array.path.name + "-moved")
    os.rename(f"{array.path}.xmd", f"{moved}.xmd")
    with pytest.raises(xa.MissingError, match="moved or replaced"):
        array.add_axis()
    os.rename(f"{moved}.xmd", f"{array.path}.xmd")
    array.add_axis()
    model.add_axis(0)
    agree(array, model)
    array.close()


@pytest.mark.slow
def test_a_long_history(disk):
    """The growth log has several extents, and goes on filling the next one after an added axis."""
    array = disk.create((1, 1), "i2", chunks=1, sparse=True)
    model = Model((1, 1), "i2", (1, 1))
    reader = disk.open(array)
    for segments in (8, 64, 130, 200):
        while array.axial.segments < segments:
            for axis in (0, array.ndim - 1):
                array.extend(axis, 1)
                model.extend(axis, 1)
        array.add_axis(1)
        model.add_axis(1)
        assert reader.refresh()
        array[...] = model.data[...] = sample("i2", array.shape, segments)
        agree(array, model)
        agree(reader, model)
    for x in (array, reader):
        x.close()
    assert_same(format_reader.read(array.path)[0], model.data)
    with disk.open(array, "r+") as array:
        agree(array, model)


@needs_replaced_open_files
def test_what_a_power_cut_leaves_is_what_was_flushed(disk):
    """The new file has a state on the disk, in a superblock that commits do not touch."""
    array, model = grown(disk)
    array.add_axis()
    model.add_axis(0)
    array.extend(1, 3)
    array.extend(0, 3)
    name = f"{array.path}.xmd"
    size = array._store.now.header.header_bytes
    array._store.now.close()  # as if the process had been killed
    with open(name, "r+b") as file:
        for slot in (0, 1):
            file.seek(size + 1024 * slot)
            file.write(bytes(512))
    with pytest.warns(xa.RecoveryWarning), disk.open(array, "r+") as array:
        agree(array, model)


# -- failures ------------------------------------------------------------------------------------

SYSTEM_CALLS = ["open", "fsync", "replace", "fchmod"]
FILE_CALLS = ["write", "truncate", "lengthen", "datasync"]


class Faults:
    """Makes the n-th system call fail."""

    def __init__(self, patch, number, failure):
        self.left = number
        self.done = []
        for place, names in ((os, SYSTEM_CALLS), (File, FILE_CALLS)):
            for name in names:
                patch.setattr(place, name, self.failing(name, getattr(place, name), failure))

    def failing(self, name, real, failure):
        def call(*args, **options):
            self.left -= 1
            if self.left == 0:
                raise failure
            result = real(*args, **options)
            self.done.append(name)
            return result

        return call


def failures():
    return [OSError(errno.ENOSPC, "no space"), OSError(errno.EIO, "i/o"), KeyboardInterrupt()]


@needs_replaced_open_files
@pytest.mark.sampled(3)
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("failure", failures(), ids=["ENOSPC", "EIO", "interrupt"])
def test_a_failure_of_any_call_leaves_the_array_as_it_was(disk, monkeypatch, failure, sealed):
    for number in itertools.count(1):
        array = disk.create((1, 5), "i4", chunks=(1, 8), fill_value=3)
        values = sample("i4", (1, 5), number)
        array[...] = values
        if sealed:
            array.close()
            array = disk.open(array, "r+")
        reader = disk.open(array)
        with monkeypatch.context() as patch:
            faults = Faults(patch, number, failure)
            with contextlib.suppress(xa.StorageError, KeyboardInterrupt):
                array.add_axis(0, chunk=64)
        name = array.path.name
        assert not [n for n in os.listdir(disk.folder) if n.startswith(name) and "new" in n]
        rank = array.ndim
        assert (rank == 3) == ("replace" in faults.done)
        reader.refresh()
        for x in (array, reader):
            assert x.ndim == rank
            assert_same(x[...], values.reshape(x.shape))
        array.extend(0, 2)
        array.attrs["after"] = number
        reader.refresh()
        assert reader.shape == array.shape
        assert reader.attrs["after"] == number
        assert_same(reader[...], array[...])
        assert (array[1:] == 3).all() or rank == 2
        array.flush()
        for x in (array, reader):
            x.close()
        with disk.open(array) as again:
            assert again.ndim == rank
        if faults.left > 0:
            break
    assert number > 6


KILLED = """
import sys
import numpy as np
import extarray as xa
array = xa.open(sys.argv[1], "r+", engine=sys.argv[2])
print("ready", flush=True)
while array.ndim < 32:
    array.append(np.full((1, *array.shape[1:]), array.ndim))
    array.add_axis(int(sys.argv[3]))
    array.attrs["ndim"] = array.ndim
    if array.shape[0] > 6:
        array.shrink(0, 5)
"""


@pytest.mark.slow
def test_killed_at_any_moment(forked, path, engine):
    """A process killed at any moment leaves a valid array that the next process extends."""
    xa.create(path, (1, 2), chunks=(2, 2), attrs={"ndim": 2}, engine=engine).close()
    for number in range(4):
        with xa.open(path) as reader:
            ndim = reader.ndim
            if ndim > 24:
                break
            with forked.start(KILLED, path, engine, number % 2) as process:
                try:
                    assert process.stdout.readline() == "ready\n"
                    while reader.ndim < ndim + 1 + number % 3 and process.poll() is None:
                        reader.refresh()
                        assert reader.attrs["ndim"] in (reader.ndim, reader.ndim - 1)
                        assert reader[...].shape == reader.shape
                finally:
                    process.kill()
        with xa.open(path, "r+", engine=engine) as array:
            assert array.attrs["ndim"] in (array.ndim, array.ndim - 1)
            array.attrs["ndim"] = array.ndim
            shape, before = array.shape, array[...]
            array.add_axis(1)
            array.attrs["ndim"] = array.ndim
            assert_same(array[...], np.expand_dims(before, 1))
            assert array.shape == (shape[0], 1, *shape[1:])
        assert not list(path.parent.glob("*.new"))


@needs_replaced_open_files
def test_a_crash_before_the_name_is_given(disk, monkeypatch, tmp_path):
    """The old file announces a successor that never came: the old file is the array."""
    array, model = grown(disk)
    copy = tmp_path / "copy"
    rename = os.replace

    def crash(temporary, name):
        for suffix in (".xmd", ".xta"):
            with open(f"{array.path}{suffix}", "rb") as source:
                (tmp_path / f"copy{suffix}").write_bytes(source.read())
        left = os.path.basename(temporary).replace(array.path.name, "copy")
        (tmp_path / left).write_bytes(b"remains")
        rename(temporary, name)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        array.add_axis()
    array.close()
    assert_same(format_reader.read(copy)[0], model.data)
    with pytest.warns(xa.RecoveryWarning, match="a copy"):  # copied while its writer was at work
        reader = xa.open(copy)
    with xa.open(copy, "r+", engine=disk.engine) as again:
        agree(again, model)
        again.extend(0, 1)
        assert reader.refresh()
        assert not again._store.now.state.superseded
        assert reader.shape == again.shape
        again.add_axis()
        assert reader.refresh()
        assert reader.ndim == 3
    reader.close()
    assert sorted(os.listdir(tmp_path)) == ["copy.xmd", "copy.xta"]


@needs_replaced_open_files
def test_readers_that_do_not_know_of_the_axis_and_of_a_cut_behind_it(disk):
    """By now, the part cut off is holes, which read as zeros: an error is better."""
    with disk.array((4, 1024), chunks=(1, 1024), fill_value=7) as array:
        array[...] = 3
        with disk.open(array) as reader:
            array.add_axis()
            assert (reader[...] == 3).all()
            array.shrink(1, 2)
            with pytest.raises(xa.ShapeError, match="refresh"):
                reader[...]
            reader.refresh()
            assert reader.shape == (1, 2, 1024)
            assert (reader[...] == 3).all()


@needs_replaced_open_files
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("cut", [True, False])
def test_readers_that_do_not_know_of_several_axes(disk, looks, cut):
    """While nothing has been cut off since the axes came, the reader may read all elements."""
    with disk.array((6, 1024), chunks=(1, 1024), fill_value=7) as array:
        array[...] = 3
        expected = np.full((6, 1024), 3.0)
        with disk.open(array) as reader:
            if cut:
                array.shrink(0, 2)
                expected[4:] = 7
            for number in range(4):
                array.add_axis()
                if number == 2:  # another writer continues the count
                    array.close()
                    array = disk.open(array, "r+")
                if looks:
                    assert_same(reader[...], expected)
            with disk.open(array) as fresh:
                assert_same(reader[...], expected)
                array.add_axis()
                assert_same(reader[...], expected)
                assert_same(fresh[...], array[0])
                array.shrink(5, 1)
                for stale in (reader, fresh):
                    with pytest.raises(xa.ShapeError, match="then lost elements; refresh"):
                        stale[...]
                    stale.refresh()
                    assert_same(stale[...], array[...])
            array.close()


@needs_replaced_open_files
def test_the_number_of_cuts_is_read_behind_the_last_of_them(disk, monkeypatch):
    """The array is cut and gains an axis between the reader's looks at number and bounds."""
    with disk.array((6, 1024), chunks=(1, 1024), fill_value=7) as array:
        array[...] = 3
        with disk.open(array) as reader:
            array.shrink(0, 1)
            read = StateReader.superblocks

            def change_first(states, slots):
                if states is reader._store.states and array.ndim == 2:
                    array.shrink(0, 1)
                    array.add_axis()
                return read(states, slots)

            monkeypatch.setattr(StateReader, "superblocks", change_first)
            assert (reader[:4] == 3).all()
            assert (reader[4:] == 7).all()


@needs_replaced_open_files
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("cut", [True, False])
def test_readers_of_a_pair_that_was_overwritten(path, engine, looks, cut):
    """The file that counts cuts is gone: after a cut, a reader gets an error instead of holes."""
    with xa.create(path, (4, 1024), chunks=(1, 1024), fill_value=7, engine=engine) as array:
        array[...] = 3
        reader = xa.open(path, engine=engine)
        array.add_axis()
        if looks:
            assert (reader[...] == 3).all()
        array.add_axis()
        if cut:
            array.shrink(2, 1)
    with reader, xa.create(path, (2, 3), engine=engine, overwrite=True):
        if cut:
            with pytest.raises(xa.ShapeError, match="lost elements; open it again"):
                reader[...]
        else:
            assert (reader[...] == 3).all()


@needs_replaced_open_files
def test_a_copy_of_metadata_that_have_passed_on_the_number(disk, tmp_path):
    """A copy made at that moment has a number that no other file continues."""
    with disk.array((6, 1024), chunks=(1, 1024), fill_value=7) as array:
        array[...] = 3
        with disk.open(array) as reader:
            array.add_axis()
            metadata = reader._store.now.metadata
            (tmp_path / "copy.xmd").write_bytes(metadata.read(metadata.length, 0))
        data = array.path.with_name(f"{array.path.name}.xta")
        (tmp_path / "copy.xta").write_bytes(data.read_bytes())
    with (
        xa.open(tmp_path / "copy", engine=disk.engine) as before,
        xa.open(tmp_path / "copy", "r+", engine=disk.engine) as copy,
        xa.open(tmp_path / "copy", engine=disk.engine) as reader,
    ):
        for number in range(2):
            for stale in (before, reader):
                assert (stale[: 6 - number] == 3).all()
                assert (stale[6 - number :] == 7).all()
            copy.shrink(0, 1)
        copy.add_axis()
        assert (reader[:4] == 3).all()
        copy.shrink(1, 1)
        with pytest.raises(xa.ShapeError, match="then lost elements"):
            reader[...]


@needs_replaced_open_files
def test_the_files_are_whole_behind_it(disk):
    with disk.array((3, 4), checksum=True) as array:
        array[...] = 1
        array.close()
        with disk.open(array, "r+") as again:
            again.add_axis()
        assert xa.check(array.path, data=True).problems == []


@pytest.mark.parametrize("key", [..., slice(None)], ids=["whole", "all"])
def test_no_view_is_taken_of_a_view_that_lacks_the_new_axis(key):
    a = xa.from_array(np.arange(6).reshape(2, 3))
    view = a.lazy[...]
    assert_same(view.lazy[key][...], a[...])
    a.add_axis()
    with pytest.raises(xa.errors.ShapeError, match="gained an axis"):
        view.lazy[key]
