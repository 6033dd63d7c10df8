"""dask graphs hold an array, not its elements, on every scheduler."""

from __future__ import annotations

import operator
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases

import extarray as xa

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
tokenize = dask.base.tokenize


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def filled(factory):
    with factory.array((50, 40), "i4", chunks=(7, 9)) as array:
        array[...] = np.arange(2000).reshape(50, 40)
        yield array


#: Ways to a dask array.
WAYS = {
    "to_dask": lambda a: a.to_dask(),
    "from_array": lambda a: da.from_array(a),
    "asarray": lambda a: da.asarray(a),
    "astype": lambda a: da.from_array(a.astype(a.dtype)),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@pytest.mark.slow
@ways
@given(case=cases())
def test_the_same_elements(factory, way, case):
    with built(factory, case) as (array, model):
        graph = way(array)
        assert isinstance(graph, da.Array)
        assert isinstance(graph._meta, np.ndarray)
        # For 0-d arrays dask returns scalars of native byte order.
        assert_same(np.asarray(graph.compute(), model.dtype), model.data)


@ways
def test_nothing_is_loaded_for_a_graph(tmp_path, way):
    """The array has 8 TiB: reading or copying it would fail."""
    shape = (2**20, 2**20)
    with xa.create(tmp_path / "huge", shape, "f8", chunks=(512, 512), sparse=True) as array:
        graph = way(array)
        array[-1, -1] = 5
        assert graph[-1, -3:].compute().tolist() == [0, 0, 5]
        assert array.info()["disk_bytes"] < 2**24


@ways
def test_tasks_read_what_is_there_when_they_run(filled, way):
    graph = way(filled)
    filled[0, 0] = -1
    assert graph[0, 0].compute() == -1


def test_copies_of_others_are_copies(filled):
    """Only dask's own function gets the array itself."""

    def from_array(array):
        return array.copy()

    assert from_array(filled) is not filled
    assert type(filled.astype("f4").copy()) is np.ndarray


@pytest.mark.parametrize("way", ["to_dask", "from_array"])
@pytest.mark.parametrize(
    ("size", "expected"), [("4 kiB", (28, 36)), ("1 kiB", (14, 18)), ("1 GiB", (50, 40))]
)
def test_tasks_take_groups_of_whole_chunks(filled, way, size, expected):
    with dask.config.set({"array.chunk-size": size}):
        graph = WAYS[way](filled)
    assert graph.chunksize == expected
    for cuts, chunk in zip(graph.chunks, filled.chunks, strict=True):
        assert all(n % chunk == 0 for n in cuts[:-1])


def test_chunks_as_asked(filled):
    assert filled.to_dask(chunks=(10, -1)).chunks == ((10,) * 5, (40,))
    assert filled.to_dask(chunks={0: 25}).chunksize[0] == 25
    assert filled.to_dask(chunks=((20, 30), 40)).chunks == ((20, 30), (40,))


def test_a_group_is_one_task(filled):
    graph = filled.to_dask(chunks=(25, 40))
    with dask.config.set({"optimization.fuse.active": True}):
        (optimized,) = dask.optimize(graph)
    n_reads = len([key for key in optimized.__dask_graph__() if isinstance(key, tuple)])
    assert n_reads == 2


def test_operators_with_dask_arrays(filled):
    graph = da.ones((50, 40), dtype="i4", chunks=25)
    for late in [graph - filled, np.subtract(graph, filled)]:
        assert isinstance(late, da.Array)
        assert_same(late.compute(), 1 - filled[...])
    for late in [filled - graph, np.subtract(filled, graph)]:
        assert isinstance(late, da.Array)
        assert_same(late.compute(), filled[...] - 1)


#: Functions of one of our arrays and one of dask's that dask implements.
MIXED = {
    "where": lambda x, y: np.where(y > 700, x, 0),
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "stack": lambda x, y: np.stack([y, x]),
    "dot": lambda x, y: np.dot(x, y.T),
    "tensordot": lambda x, y: np.tensordot(y, x, ((0,), (0,))),
    "clip": lambda x, y: np.clip(x, y, 900),
    "isclose": lambda x, y: np.isclose(y, x),
    "matmul": lambda x, y: y.T @ x,
    "outer": lambda x, y: (
        np.add.outer(x[0], y[0]) if isinstance(x, np.ndarray) else np.add.outer(x.lazy[0], y[0])
    ),
    "comparison": lambda x, y: x == y,
    "divmod": lambda x, y: np.divmod(x, y)[1],
}


@pytest.mark.parametrize("function", MIXED.values(), ids=MIXED.keys())
def test_functions_of_both_are_late(filled, function):
    n = filled[...]
    graph = da.from_array(n[:, ::-1] % 1000 + 1, chunks=20)
    got = function(filled, graph)
    assert isinstance(got, da.Array)
    np.testing.assert_array_equal(got.compute(), function(n, graph.compute()))


#: Calls that dask lacks, or does not check for: its arrays are computed.
COMPUTED = {
    "array_equal": lambda x, y: np.array_equal(y, x),
    "sum where": lambda x, y: np.sum(x, where=y > 700),
    "reduce where": lambda x, y: np.add.reduce(x, axis=1, where=y > 700),
    "ufunc where": lambda x, y: np.add(x, 1, where=y > 700, out=np.zeros(x.shape, int)),
    "out of NumPy": lambda x, y: np.add(x, y, out=np.zeros(x.shape, int)),
}


@pytest.mark.parametrize("function", COMPUTED.values(), ids=COMPUTED.keys())
def test_arrays_of_dask_are_computed(filled, function):
    n = filled[...]
    graph = da.from_array(n[:, ::-1] % 1000 + 1, chunks=20)
    got = function(filled, graph)
    assert not isinstance(got, da.Array)
    np.testing.assert_array_equal(got, function(n, graph.compute()))
    with xa.config.set(max_result=1000), pytest.raises(MemoryError, match="computing one of dask"):
        function(filled, graph)


#: Ways to write a result of dask's to one of our arrays.
INTO = {
    "+=": lambda x, y: operator.iadd(x, y),
    "+= broadcast": lambda x, y: operator.iadd(x, y[0]),
    "out": lambda x, y: np.add(y, 1, out=x),
    "out, where": lambda x, y: np.add(y, 1, out=x, where=y > 700),
    "out, cast": lambda x, y: np.true_divide(y, 2, out=x, casting="unsafe"),
    "two": lambda x, y: np.divmod(y, 3, out=(x, x.copy()))[0],
    "sum": lambda x, y: np.sum(np.stack([y, y]), axis=0, out=x),
    "clip": lambda x, y: np.clip(y, 5, 9, x),
    "copyto": lambda x, y: np.copyto(x, y) or x,
    "itself": lambda x, y: np.add(x[::-1] if isinstance(x, np.ndarray) else x.lazy[::-1], y, out=x),
}


@pytest.mark.parametrize("function", INTO.values(), ids=INTO.keys())
def test_results_go_into_an_array(filled, function):
    n = filled[...]
    graph = da.from_array(n[:, ::-1] % 1000 + 1, chunks=20)
    assert function(filled, graph) is filled
    function(n, graph.compute())
    np.testing.assert_array_equal(filled[...], n)


def test_results_that_do_not_fit(filled):
    graph = filled.to_dask()
    with pytest.raises(xa.CastingError, match="Cannot cast output from dtype\\('float64'\\)"):
        np.true_divide(graph, 2, out=filled)
    with pytest.raises(ValueError, match="broadcast"):
        np.add(graph, 1, out=filled.lazy[:10])
    for change in (
        lambda: np.copyto(graph, filled),
        lambda: np.add.at(graph, 0, filled.lazy[0]),
        lambda: np.add.reduce(filled, out=graph),
    ):
        with pytest.raises(TypeError):
            change()


@pytest.mark.slow
def test_a_result_larger_than_memory_goes_into_an_array(tmp_path):
    shape = (2**17, 2**8)
    with xa.create(tmp_path / "large", shape, "u1", chunks=(2**11, 2**8), sparse=True) as array:
        with xa.config.set(max_result=1000):
            array += da.ones(shape, dtype="u1", chunks=(2**15, -1))
        assert array[-1, -1] == 1


# -- schedulers ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheduler", "on_disk", "way"),
    [
        ("threads", True, "to_dask"),
        ("threads", True, "from_array"),
        ("threads", False, "to_dask"),
        ("threads", False, "from_array"),
        # Processes are slow to start.
        ("processes", True, "to_dask"),
        ("processes", False, "from_array"),
    ],
)
def test_schedulers(request, path, scheduler, on_disk, way):
    if scheduler == "processes":
        request.getfixturevalue("shared_memory")
    with xa.create(path if on_disk else None, (50, 40), chunks=10) as array:
        array[...] = np.arange(2000).reshape(50, 40)
        with dask.config.set({"array.chunk-size": "8 kiB"}):
            graph = WAYS[way](array)
        assert graph.npartitions == 4
        means = graph.mean(axis=0).compute(scheduler=scheduler, num_workers=1)
        assert np.allclose(means, array[...].mean(axis=0))


@pytest.fixture
def cluster(shared_memory):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.Client(processes=True, **options) as client:
        yield client


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.filterwarnings("default")  # distributed warns
def test_distributed(cluster, path):
    def store_there(path, values):  # pickled by value: workers do not find this module
        with xa.open(path, "r+") as array:
            da.store(da.from_array(values, chunks=7), array, lock=False, scheduler="threads")

    def fill(block, array=None, block_info=None):
        place = tuple(slice(*ends) for ends in block_info[0]["array-location"])
        array[place] = block * 3
        return block[:1, :1]

    values = np.arange(2000.0).reshape(50, 40)
    with xa.create(path, (50, 40), chunks=10) as array:
        array[...] = values
        for source in (array, array.copy(), array.astype("i2")):
            for graph in (da.from_array(source, chunks=20), xa.ExtArray.to_dask(array, 20)):
                assert graph.sum().compute(scheduler=None) == 1999000
        # The client extends and flushes, the workers fill, including parts of chunks.
        for n in range(1, 4):
            array.extend(0, 25)
            rows = slice(25 + 25 * n, 50 + 25 * n)
            new = da.from_array(values[:25], chunks=7) + n
            da.store(new, array, regions=(rows, slice(None)), lock=False, scheduler=None)
            assert (array[rows] == values[:25] + n).all()
        array.flush()
        assert (array[:50] == values).all()
        # dask must not reuse results read before the change.
        before = array.to_dask(20)
        assert before.sum().persist(scheduler=None).compute(scheduler=None) == array[...].sum()
        da.store(da.full((125, 40), 2.0, chunks=(13, 40)), array, lock=False, scheduler=None)
        assert array.to_dask(20).name != before.name
        assert array.to_dask(20).sum().compute(scheduler=None) == 2 * 125 * 40
        # Blocks that write by themselves.
        source = da.from_array(values, chunks=(11, 40))
        done = source.map_blocks(fill, array=array, dtype=float, meta=np.empty((0, 0)))
        done.compute(scheduler=None)
        assert (array[:50] == values * 3).all()
        assert (array[50:] == 2).all()
    cluster.submit(store_there, path, values + 1).result(60)
    with xa.open(path) as array:
        assert (array[:50] == values + 1).all()
    assert xa.check(path).ok


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.filterwarnings("default")  # distributed warns
def test_a_worker_that_is_killed_has_its_blocks_written_by_others(cluster, path, tmp_path):
    def fill(rows, array, flag):
        import os
        import signal

        array[rows] = rows.start + 1
        if rows.start == 40 and not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return rows.start

    with xa.create(path, (100, 30), "i4", chunks=(7, 9)) as array:
        array[95:] = -1
        tasks = [
            cluster.submit(fill, slice(n, n + 5), array, str(tmp_path / "flag"), pure=False)
            for n in range(0, 95, 5)
        ]
        assert cluster.gather(tasks) == list(range(0, 95, 5))
        assert (tmp_path / "flag").exists()
        want = np.repeat(np.r_[np.arange(0, 95, 5) + 1, -1], 5)
        assert (array[...] == want[:, np.newaxis]).all()
        array.append(np.zeros((1, 30), "i4"))
    assert xa.check(path).ok


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.filterwarnings("default")  # distributed warns
def test_xarray_of_blocks_on_workers(cluster, path):
    """The process that computes writes: this one, which computes by itself here, or workers."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("extarray.interop.xarray")
    x = np.arange(600.0).reshape(30, 20)
    chunked = xr.DataArray(da.from_array(x, chunks=(7, 20)) * 2, dims=("y", "x"))
    chunked.extarray.to_extarray(path)
    with xa.open(path, "r+") as array:
        assert (array[...] == 2 * x).all()
        da.store((chunked + 1).data, array, lock=False, scheduler=None)
        assert (array[...] == 2 * x + 1).all()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("shared_memory")
def test_workers_on_two_hosts(private_network, script, path):
    """Two network namespaces share a file system: the client extends, both hosts fill."""
    pytest.importorskip("distributed")
    pytest.importorskip("xarray")
    here = Path(__file__).parent
    program = [sys.executable, here / "two_hosts.py", path]
    done = subprocess.run(
        [*private_network, "sh", here / "two_hosts.sh", *program],
        capture_output=True,
        text=True,
        env=script.environment,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with xa.open(path) as array:
        assert array.shape == (60, 40)


# -- storing -------------------------------------------------------------------------------------


@given(case=cases(min_ndim=1, max_ndim=3), data=st.data())
def test_store_without_a_lock(factory, case, data):
    """Blocks cut across chunks, and threads write to one chunk at the same time."""
    with built(factory, case) as (array, model):
        region, shape = [], []
        for n in array.shape:
            low, high = sorted([data.draw(st.integers(0, n)), data.draw(st.integers(0, n))])
            region.append(slice(low, high))
            shape.append(high - low)
        values = sample(case.dtype, tuple(shape), seed=4)
        blocks = data.draw(st.sampled_from([1, 2, 3]))
        source = da.from_array(values, chunks=blocks)
        with dask.config.set(scheduler="threads", num_workers=4):
            da.store(source, array, lock=False, regions=tuple(region))
        model.data[tuple(region)] = values
        assert_same(array[...], model.data)


def test_store_while_others_read(factory):
    with factory.array((300, 300), "i8", chunks=64) as array, factory.array((300, 300)) as other:
        other[...] = np.arange(90000).reshape(300, 300)
        graph = other.to_dask(chunks=(33, 47)) * 2
        with dask.config.set(scheduler="threads", num_workers=8):
            da.store(graph.astype("i8"), array, lock=False)
        assert (array[...] == 2 * other[...]).all()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("shared_memory")
@pytest.mark.parametrize("durability", ["flush", "commit"])
def test_store_from_other_processes(path, durability):
    with xa.create(path, (10, 10), "i8", chunks=3, durability=durability) as array:
        graph = da.ones((10, 10), dtype="i8", chunks=5)
        da.store(graph, array, lock=False, scheduler="processes", num_workers=1)
        assert (array[...] == 1).all()


# -- names ---------------------------------------------------------------------------------------


CHANGES = {
    "one element": lambda a: a.__setitem__((0, 0), 5),
    "a slice": lambda a: a.__setitem__(slice(2), 5),
    "write": lambda a: a.write(..., 5),
    "append": lambda a: a.append(np.zeros((1, 40), "i4")),
    "extend": lambda a: a.extend(0, 1),
    "extend inside a chunk": lambda a: a.resize(51, axis=0),
    "out": lambda a: np.add(a, 1, out=a),
    "in place": lambda a: a.__iadd__(1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_name_changes_with_the_array(filled, change):
    before = tokenize(filled)
    filled[...]
    filled.attrs["unit"] = "mm"
    assert tokenize(filled) == before
    assert da.from_array(filled).name == da.from_array(filled).name
    assert filled.to_dask().name == filled.to_dask().name
    change(filled)
    assert tokenize(filled) != before
    assert tokenize(filled) == tokenize(filled)


def test_a_name_is_new_where_a_view_may_write(filled):
    view = filled.chunk((0, 0))
    before = tokenize(filled)
    view[0, 0] = 3
    assert tokenize(filled) != before


def test_names_of_readers(disk):
    with (
        disk.array((4,), "i4", chunks=2) as array,
        disk.open(array) as first,
        disk.open(array) as second,
    ):
        before = tokenize(first)
        assert before == tokenize(second)
        assert before != tokenize(array)
        array.extend(0, 1)
        assert first.refresh()
        assert tokenize(first) != before
        assert tokenize(first) != tokenize(second), "they show different states"
        second.refresh()
        assert tokenize(first) == tokenize(second)
        first.chunk((0,))
        assert tokenize(first) == tokenize(second)


def test_a_name_tells_that_another_process_wrote(path):
    with xa.create(path, 4, "i4", engine="pread") as array, xa.open(path) as reader:
        before = tokenize(reader)
        time.sleep(0.02)  # let the file system's clock tick
        array[0] = 1
        assert tokenize(reader) != before


def test_names_of_different_arrays(memory):
    with memory.array(3) as first, memory.array(3) as second:
        assert tokenize(first) != tokenize(second)
        assert tokenize(first.astype("f4")) != tokenize(first.astype("f2"))
        assert tokenize(first.astype("f4")) == tokenize(first.astype("f4"))
        assert tokenize(first.astype("f4")) != tokenize(second.astype("f4"))


def test_a_closed_array(factory):
    with factory.array(3) as array:
        array.close()
        with pytest.raises(xa.ClosedError):
            array.to_dask()
        with pytest.raises(xa.ClosedError):
            tokenize(array)
