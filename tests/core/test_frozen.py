"""Frozen chunks in the core: reads of raw and frozen chunks, thaws, and freezes beside stores."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from mixed_chunks import freezable

from extarray._core._frozen import Frozen
from extarray._core._mapping import Counter

ENGINES = ["mmap", "pread"]


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def frozen_half(a, f, x):
    """Fill an array, and freeze every other chunk."""
    a[...] = x
    done = f.freeze(np.arange(0, a.axial.size, 2))
    f.settle()
    assert done == list(range(0, a.axial.size, 2))


@pytest.mark.parametrize("order", ["C", "F", "Z"])
def test_reads_of_raw_and_frozen_chunks(tmp_path, engine, order):
    x = np.arange(20 * 30.0).reshape(20, 30)
    with freezable(tmp_path / "a", x.shape, chunks=(4, 4), order=order, engine=engine) as (a, f):
        frozen_half(a, f, x)
        np.testing.assert_array_equal(a[...], x)
        np.testing.assert_array_equal(a[3:17:3, ::-4], x[3:17:3, ::-4])
        np.testing.assert_array_equal(a[7], x[7])
        np.testing.assert_array_equal(a[[0, 19, 5, 5], 3:9], x[[0, 19, 5, 5], 3:9])
        np.testing.assert_array_equal(a[x % 7 == 3], x[x % 7 == 3])
        np.testing.assert_array_equal(a.read((slice(5, 9), slice(2, 25)), order="F"), x[5:9, 2:25])
        for i, j in np.ndindex(20, 30):
            assert a[i, j] == x[i, j]
            assert a[i, j] == x[i, j]
        assert a.sum() == x.sum()
        assert not f.thawed


def test_a_chunk_is_decoded_once_while_there_is_room(tmp_path):
    x = np.arange(64.0).reshape(8, 8)
    with freezable(tmp_path / "a", x.shape, chunks=(4, 4), chunks_at_once=2) as (a, f):
        a[...] = x
        f.freeze()
        f.settle()
        for _ in range(3):
            np.testing.assert_array_equal(a[:4, :4], x[:4, :4])
            assert a[1, 2] == x[1, 2]
        assert f.decoded == [0]
        np.testing.assert_array_equal(a[...], x)  # of too many chunks to keep them
        np.testing.assert_array_equal(a[:4, :4], x[:4, :4])
        assert f.decoded.count(0) == 1
        for i, j in ((0, 4), (4, 0), (0, 0)):
            np.testing.assert_array_equal(a[i : i + 4, j : j + 4], x[i : i + 4, j : j + 4])
        assert f.decoded.count(0) == 2


def test_a_frozen_chunk_that_was_frozen_again_is_read_anew(tmp_path):
    with freezable(tmp_path / "a", (4, 4), chunks=(4, 4)) as (a, f):
        for value in (1.0, 2.0, 3.0):
            a[...] = value
            assert f.freeze() == [0]
            f.settle()
            assert (a[...] == value).all()
            assert a[1, 1] == value
        assert f.thawed == [0, 0]


def test_writes_thaw_the_chunks_that_they_meet(tmp_path, engine):
    x = np.arange(12 * 12.0).reshape(12, 12)
    with freezable(tmp_path / "a", x.shape, chunks=(4, 4), engine=engine) as (a, f):
        a[...] = x
        f.freeze()
        f.settle()
        a[0, 0] = x[0, 0] = -1
        assert f.thawed == [0]
        a[5, :7] = x[5, :7] = -2
        assert sorted(f.thawed) == [0, *sorted(a.axial.address((1, j)) for j in (0, 1))]
        a[[0, 11], [11, 0]] = x[[0, 11], [11, 0]] = -3
        np.testing.assert_array_equal(a[...], x)
        assert len(f.thawed) == 5
        a[...] = x = x + 1
        np.testing.assert_array_equal(a[...], x)
        assert len(f.thawed) == 9


@pytest.mark.parametrize("order", ["C", "Z"])
def test_the_first_writes_to_a_frozen_chunk_leave_it_frozen(tmp_path, engine, order):
    x = np.arange(12 * 12.0).reshape(12, 12)
    with freezable(tmp_path / "a", x.shape, chunks=(4, 4), engine=engine, order=order) as (a, f):
        f.rewrites = True
        a[...] = x
        raw, *others = f.freeze()
        f.settle()
        f.thaw(np.array([raw]))
        f.thawed.clear()
        a[2:10, 1:10] = x[2:10, 1:10] = -1  # whole chunks, parts of others, and of a raw one
        assert sorted(f.rewritten) == others
        assert f.decoded and a.axial.address((1, 1)) not in f.decoded
        np.testing.assert_array_equal(a[...], x)
        for n in (2, 3):
            a[3, 3:10:3] = x[3, 3:10:3] = -n
            np.testing.assert_array_equal(a[...], x)
        assert not f.thawed
        a[3, 3:10:3] = x[3, 3:10:3] = -4
        assert sorted(f.thawed) == sorted(a.axial.address((0, j)) for j in (1, 2))
        np.testing.assert_array_equal(a[...], x)
        assert f.freeze() == sorted([raw, *f.thawed])
        f.settle()
        np.testing.assert_array_equal(a[...], x)


def test_views_of_chunks(tmp_path):
    x = np.arange(64.0).reshape(8, 8)
    with freezable(tmp_path / "a", x.shape, chunks=(4, 4)) as (a, f):
        a[...] = x
        f.freeze()
        f.settle()
        view = a.chunk((1, 1))
        np.testing.assert_array_equal(view, x[4:, 4:])
        assert f.thawed == [a.axial.address((1, 1))]
        view[...] = x[4:, 4:] = 0
        assert f.freeze() == []  # somebody may still write through the view
        np.testing.assert_array_equal(a[...], x)


def test_a_write_during_encoding_keeps_the_chunk_raw(tmp_path, monkeypatch):
    with freezable(tmp_path / "a", (4, 8), chunks=(4, 4)) as (a, f):
        a[...] = 1
        raw = f.raw

        def late(address):
            chunk = raw(address)
            a[0, 0] = 2
            return chunk

        monkeypatch.setattr(f, "raw", late)
        assert f.freeze() == [1]
        monkeypatch.undo()
        assert a[0, 0] == 2
        assert f.freeze() == [0]
        f.settle()
        assert a[0, 0] == 2 and a[1, 1] == 1


def test_growth_leaves_frozen_chunks_alone(tmp_path):
    with freezable(tmp_path / "a", (4, 4), "i4", chunks=(4, 4)) as (a, f):
        x = np.arange(16, dtype="i4").reshape(4, 4)
        a[...] = x
        f.freeze()
        f.settle()
        for axis, side in ((0, "end"), (1, "start"), (0, "start"), (1, "end")):
            new = np.full([4 if j == axis else n for j, n in enumerate(x.shape)], axis + 7, "i4")
            a.append(new, axis=axis, side=side)
            x = np.concatenate((x, new) if side == "end" else (new, x), axis=axis)
            f.freeze()
            f.settle()
            np.testing.assert_array_equal(a[...], x)
        assert not f.thawed


def test_extents_of_the_table_have_their_lengths(tmp_path):
    counter = tmp_path / "counter"
    counter.write_bytes(bytes(8))
    with open(counter, "rb") as file:
        frozen = Frozen(None, 8, None, Counter.file(file.fileno(), 0, True), 3)
    frozen.add_extent(np.zeros(2048, np.uint64))
    with pytest.raises(ValueError, match="extent 1"):
        frozen.add_extent(np.zeros(2048, np.uint64))
    frozen.add_extent(np.zeros(4096, np.uint64))
    for address in (0, 1023, 1024, 3071):
        frozen.set_entry(address, address + 5)
    found = frozen.entries(np.array([0, 1, 1023, 1024, 3071, 3072, 1 << 40]))
    assert found.tolist() == [5, 0, 1028, 1029, 3076, 0, 0]
    with pytest.raises(ValueError, match="3072"):
        frozen.set_entry(3072, 1)


class Frozen3D(RuleBasedStateMachine):
    """An array that freezes, thaws and grows shows what NumPy shows."""

    engine = "mmap"

    @initialize(
        shape=st.tuples(*[st.integers(1, 6)] * 3),
        bound=st.sampled_from([None, 1, 4, 9]),
        rewrites=st.booleans(),
    )
    def create(self, shape, bound, rewrites):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.context = freezable(
            f"{self.folder.name}/a", shape, "i4", bound, chunks=(2, 3, 2), engine=self.engine
        )
        self.a, self.f = self.context.__enter__()
        self.f.rewrites = rewrites
        self.x = np.zeros(shape, "i4")
        self.n = 0

    def next(self, shape):
        self.n += 1
        return np.arange(np.prod(shape), dtype="i4").reshape(shape) + 1000 * self.n

    @rule(data=st.data())
    def write(self, data):
        box = tuple(
            slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in self.x.shape
        )
        self.a[box] = self.x[box] = self.next(self.x[box].shape)

    @rule(data=st.data())
    def write_points(self, data):
        index = tuple(
            np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=4, max_size=4)))
            for n in self.x.shape
        )
        self.n += 1
        self.a[index] = self.x[index] = self.n

    @rule(axis=st.integers(0, 2), by=st.integers(1, 3), side=st.sampled_from(["start", "end"]))
    def append(self, axis, by, side):
        if self.x.shape[axis] > 12:
            return
        new = self.next([by if j == axis else n for j, n in enumerate(self.x.shape)])
        self.f.room_for(1 << 12)
        self.a.append(new, axis=axis, side=side)
        self.x = np.concatenate((self.x, new) if side == "end" else (new, self.x), axis=axis)

    @rule(every=st.integers(1, 3))
    def freeze(self, every):
        self.f.freeze(np.arange(0, self.a.axial.size, every))

    @rule()
    def settle(self):
        self.f.settle()

    @rule(data=st.data())
    def read_some(self, data):
        step = data.draw(st.sampled_from([1, 2, -1, -3]))
        axis = data.draw(st.integers(0, 2))
        key = tuple(slice(None, None, step) if j == axis else slice(None) for j in range(3))
        np.testing.assert_array_equal(self.a[key], self.x[key])
        at = tuple(data.draw(st.integers(0, n - 1)) for n in self.x.shape)
        assert self.a[at] == self.x[at]
        mask = self.x % 3 == 1
        np.testing.assert_array_equal(self.a[mask], self.x[mask])

    @invariant()
    def is_right(self):
        if hasattr(self, "a"):
            np.testing.assert_array_equal(self.a[...], self.x)

    def teardown(self):
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)
            self.folder.cleanup()


class FrozenByCalls(Frozen3D):
    engine = "pread"


TestFrozen3D = Frozen3D.TestCase
TestFrozenByCalls = FrozenByCalls.TestCase
for case in (TestFrozen3D, TestFrozenByCalls):
    case.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


@pytest.mark.slow
@pytest.mark.parametrize("rewrites", [False, True])
@pytest.mark.parametrize("bound", [None, 6])
def test_threads_read_write_freeze_and_thaw(tmp_path, engine, bound, rewrites):
    """Every thread writes to elements of its own, and finds in them what it wrote last."""
    shape, chunks, n_threads, rounds = (96, 40), (4, 5), 4, 300
    wrong, is_over = [], threading.Event()
    with freezable(tmp_path / "a", shape, "i8", bound, chunks=chunks, engine=engine) as (a, f):
        f.thaw_lock = threading.Lock()
        f.rewrites = rewrites
        thaw = f.thaw

        def thaw_alone(addresses):
            with f.thaw_lock:
                thaw(addresses)

        f.thaw = thaw_alone

        def work(first):
            rng = np.random.default_rng(first)
            mine = np.zeros(shape, "i8")[:, first::n_threads]
            for n in range(1, rounds):
                i, j = rng.integers(0, shape[0] - 4), rng.integers(0, mine.shape[1] - 3)
                box = slice(i, i + 4), slice(first + j * n_threads, None, n_threads)
                mine[i : i + 4, j:] = n
                a[box] = n
                k = rng.integers(0, shape[0], 5)
                mine[k, j] = -n
                a[k, first + j * n_threads] = -n
                if not np.array_equal(a[:, first::n_threads], mine):
                    wrong.append((first, n, "box"))
                if not np.array_equal(a[k][:, first::n_threads], mine[k]):
                    wrong.append((first, n, "rows"))
                at = int(k[0]), int(j)
                if a[at[0], first + at[1] * n_threads] != mine[at]:
                    wrong.append((first, n, "element"))

        def freeze():
            rng = np.random.default_rng(99)
            while not is_over.is_set():
                f.freeze(rng.integers(0, a.axial.size, 12))
                f.settle()
                is_over.wait(0.002)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(n_threads)]
        freezer = threading.Thread(target=freeze)
        for thread in (freezer, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        is_over.set()
        freezer.join()
        assert wrong == []
        assert f.thawed
        if bound is None:  # otherwise, boxes have too many chunks
            assert bool(f.rewritten) == rewrites


@given(
    st.lists(st.booleans(), min_size=9, max_size=9),
    st.tuples(st.integers(0, 11), st.integers(0, 11)),
)
@settings(deadline=None, max_examples=30)
def test_any_set_of_frozen_chunks(tmp_path_factory, which, at):
    x = np.arange(144.0).reshape(12, 12)
    folder = tmp_path_factory.mktemp("any")
    with freezable(folder / "a", x.shape, chunks=(4, 4), chunks_at_once=3) as (a, f):
        a[...] = x
        f.freeze(np.flatnonzero(which))
        f.settle()
        i, j = sorted(at)
        np.testing.assert_array_equal(a[i:, : j + 1], x[i:, : j + 1])
        np.testing.assert_array_equal(a[[j, i, i]], x[[j, i, i]])
