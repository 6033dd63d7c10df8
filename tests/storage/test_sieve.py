"""Writes through calls: a lone writer may write back gaps between elements, others not (I9)."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import extarray as xa

SHAPE, CHUNKS = (70, 40, 50), (32, 16, 32)
RNG = np.random.default_rng(8)
SELECTIONS = {
    "a plane across the last axis": np.s_[:, :, 33],
    "a plane across the second axis": np.s_[:, 7],
    "steps": np.s_[3::2, 1::3, ::5],
    "backwards": np.s_[::-3, ::-1, 45:3:-7],
    "a small box": np.s_[30:35, 14:20, 29:40],
    "points": tuple(RNG.integers(0, SHAPE, (900, 3)).T),
    "few points": tuple(RNG.integers(0, SHAPE, (6, 3)).T),
    "a mask": RNG.random(SHAPE) < 0.1,
    "planes of a list": np.s_[:, :, [40, 2, 3, 31]],
    "columns of a mask": np.s_[:, :, RNG.random(50) < 0.3],
}

needs_counts = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux counts calls that write"
)


def counts():
    """Return the number of this thread's write calls, and their bytes."""
    found = dict(line.split(": ") for line in Path("/proc/thread-self/io").read_text().splitlines())
    return int(found["syscw"]), int(found["wchar"])


def cost(array, selection, values):
    """Return calls and bytes of an assignment."""
    before = counts()
    array[selection] = values
    after = counts()
    return after[0] - before[0], after[1] - before[1]


@pytest.fixture
def path(tmp_path):
    """Return the path of an array that has grown along all axes, in two orders."""
    with xa.create(tmp_path / "a", (32, 16, 32), "f8", chunks=CHUNKS) as array:
        array.resize((32, 40, 32))
        array.resize((70, 40, 32))
        array.resize(SHAPE)
        array[...] = np.arange(140_000.0).reshape(SHAPE)
    return tmp_path / "a"


@pytest.mark.invariant("I9")
@pytest.mark.parametrize("order", ["C", "F", "H"])
@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"checksum": True}], ids=str)
def test_what_lies_between_stays(tmp_path, order, options):
    model = RNG.random(SHAPE)
    with xa.create(
        tmp_path / "a", SHAPE, chunks=CHUNKS, order=order, engine="pread", **options
    ) as array:
        array[...] = model
        for n, selection in enumerate(SELECTIONS.values()):
            values = np.arange(model[selection].size).reshape(model[selection].shape) + n / 16
            model[selection] = array[selection] = values
            np.testing.assert_array_equal(array[...], model)
        array.extend(1, 5)
        model = np.pad(model, [(0, 0), (0, 5), (0, 0)])
        model[::2, 38:, ::3] = array[::2, 38:, ::3] = 7
    with xa.open(tmp_path / "a") as array:
        np.testing.assert_array_equal(array[...], model)
    assert xa.check(tmp_path / "a").ok


def test_fields(tmp_path):
    kind = np.dtype([("n", "i4"), ("x", "f8"), ("y", "f8")])
    model = np.zeros((60, 50), kind)
    with xa.create(tmp_path / "a", model.shape, kind, chunks=(32, 32), engine="pread") as array:
        for name in ("x", "n", "y"):
            model[name] = RNG.integers(0, 100, model.shape)
            array[name, ...] = model[name]
            model[name][::3, 1::2] = array[name, ::3, 1::2] = 5
        np.testing.assert_array_equal(array[...], model)


@needs_counts
@pytest.mark.parametrize("order", ["C", "H"])
def test_one_writer_makes_few_calls(tmp_path, order):
    with xa.create(tmp_path / "a", SHAPE, chunks=CHUNKS, order=order, engine="pread") as array:
        array[...] = 1
        n_chunks = 3 * 3 * 2
        for name, selection in SELECTIONS.items():
            calls, nbytes = cost(array, selection, 2)
            n = array[selection].size
            assert calls <= (n if name == "few points" else n // 5), name
            assert nbytes <= n_chunks * array.chunk_bytes, name
        assert cost(array, np.s_[:, :, 33], 2)[0] <= n_chunks or order == "H"


@needs_counts
def test_edges_inside_chunks_are_joined(tmp_path):
    """The first and the last chunks of an axis have gaps where the others have none."""
    with xa.create(
        tmp_path / "a", (16, 40, 35), "f8", chunks=(16, 16, 16), engine="pread"
    ) as array:
        array[...] = model = RNG.random((16, 40, 35))
        array.extend(2, 3, side="start")
        model = np.pad(model, [(0, 0), (0, 0), (3, 0)])
        n_chunks = 3 * 4
        values = RNG.random((40, 38))
        calls, nbytes = cost(array, 5, values)
        model[5] = values
        assert calls <= n_chunks  # and not one for each of the 40 rows in a chunk at an edge
        assert nbytes <= n_chunks * 16 * 16 * 8
        np.testing.assert_array_equal(array[...], model)
        before = counts()[0]
        array.append(values[None])
        assert counts()[0] - before <= n_chunks + 4  # of the growth and the commit
        np.testing.assert_array_equal(array[...], np.concatenate([model, values[None]]))
    assert xa.check(tmp_path / "a").ok


@needs_counts
def test_no_page_is_written_that_has_no_element(tmp_path):
    with xa.create(
        tmp_path / "a", (64, 1024), chunks=(64, 1024), sparse=True, engine="pread"
    ) as array:
        calls, nbytes = cost(array, np.s_[:, 5], 2.0)  # rows of 8 KiB
        assert (calls, nbytes) == (64, 64 * 8)
        assert 512 * (tmp_path / "a.xta").stat().st_blocks <= 65 * 4096
        calls, nbytes = cost(array, np.s_[5, ::512], 2.0)
        assert (calls, nbytes) == (2, 2 * 8)


def plain(array, name):
    """Assert that only elements are written."""
    for selection in SELECTIONS.values():
        wanted = np.zeros(SHAPE, bool)
        wanted[selection] = True
        _, nbytes = cost(array, selection, 3)
        assert nbytes == 8 * np.count_nonzero(wanted), name


@pytest.mark.invariant("I9")
@needs_counts
def test_writers_that_share_write_elements_alone(path):
    with xa.open(path, "r+", share=True, engine="pread") as array:
        plain(array, "share")
    with xa.open(path, "r+", share="elements") as array:
        plain(array, "elements")


@needs_counts
def test_beside_writers_of_elements_a_writer_writes_elements_alone(path):
    selection = np.s_[:, :, 33]
    with xa.open(path, "r+", engine="pread") as array:
        assert cost(array, selection, 1)[0] < 100
        with xa.open(path, "r+", share="elements"):
            plain(array, "beside elements")
        assert cost(array, selection, 1)[0] < 100
        other = pickle.loads(pickle.dumps(array))
        plain(array, "beside an unpickled one")
        other.close()
        assert cost(array, selection, 1)[0] < 100


@needs_counts
def test_beside_views_of_chunks_a_writer_writes_elements_alone(path):
    with xa.open(path, "r+", engine="pread") as array:
        view = array.chunk((0, 0, 0))
        plain(array, "beside a view")
        view[1, 2, 3] = 77
        assert array[1, 2, 3] == 77
    with xa.open(path, "r", engine="pread") as reader:
        reader.chunk((0, 0, 0))


@pytest.mark.invariant("I9")
def test_threads_write_into_the_same_chunks(path):
    """Each thread writes separate elements, interleaved in several ways."""
    n_threads = 4
    model = np.zeros(SHAPE)
    with xa.open(path, "r+", engine="pread") as array:
        array[...] = 0
        ready = threading.Barrier(n_threads)

        def write(k):
            ready.wait()
            for n in range(1, 12):
                array[:, :, k::n_threads] = n
                array[k, ::2, k] = array[k, ::2, k] + 0.5
                mask = np.zeros(SHAPE, bool)
                mask[:, 1::3, k::n_threads] = True
                array[mask] = n + 0.25
                array[3, 4, k] = -n

        threads = [threading.Thread(target=write, args=(k,)) for k in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for k in range(n_threads):
            model[:, :, k::n_threads] = 11
            model[k, ::2, k] += 0.5
            model[:, 1::3, k::n_threads] = 11.25
            model[3, 4, k] = -11
        np.testing.assert_array_equal(array[...], model)


@pytest.mark.slow
def test_a_thread_grows_into_what_another_has_cut_off(path):
    """After the growth, a slow write must not bring back what it read before the cut."""
    stop = threading.Event()
    with xa.open(path, "r+", engine="pread") as array:

        def write():
            while not stop.is_set():
                array[:32, :, ::3] = 9

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(20):
                array.shrink(1, 33)
                array.extend(1, 33)
                assert not array[:, 20:, 1::3].any()
                array[:, 20:] = 5
        finally:
            stop.set()
            thread.join()


WRITE = """
import sys
import numpy as np
import extarray as xa
array = xa.open(sys.argv[1], "r+", share="elements")
print("ready", flush=True)
for n in range(int(sys.argv[2])):
    array[:9, :, 1::2] = n
array.close()
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_writer_of_elements_comes_and_goes(path):
    """A lone writer never overwrites the elements, whenever their writer opens the array."""
    with xa.open(path, "r+", engine="pread") as array:
        for rounds in (3, 5):
            command = [sys.executable, "-c", WRITE, str(path), str(rounds)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            n = 0
            while process.poll() is None:
                array[:9, :, ::2] = n
                n += 1
            assert process.stdout.read() == "ready\n"
            process.stdout.close()
            assert process.returncode == 0
            assert (array[:9, :, 1::2] == rounds - 1).all()
            assert (array[:9, :, ::2] == n - 1).all()
