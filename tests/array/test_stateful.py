"""A state machine: after any operations in any order, the array agrees with the model."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from compare import assert_same
from engines import ENGINES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from model import Model, sample
from scratch import new_folder
from strategies import cases, selections, sides
from systems import replaces_open_files, reserves_holes

import extarray as xa

seeds = st.integers(0, 99)
amounts = st.sampled_from([1, 2, 5, 0])


class Machine(RuleBasedStateMachine):
    """One writer on any engine and, for files, one reader that lags behind."""

    engines = tuple(ENGINES)

    def __init__(self):
        super().__init__()
        self.folder = new_folder()
        self.array = self.reader = None
        self.added = []  # positions of the axes that the reader does not know
        self.cut_behind = False  # whether elements were cut off after the first of those came

    @property
    def on_disk(self) -> bool:
        return bool(self.engines)

    @initialize(case=cases(max_ndim=3), data=st.data())
    def create(self, case, data):
        options = {"engine": data.draw(self.engine())} if self.on_disk else {}
        fill = sample(case.dtype, (), 1)[()] if case.filled else None
        self.array = xa.create(
            self.folder / "scene" if self.on_disk else None,
            shape=case.shape,
            dtype=case.dtype,
            chunks=case.chunks,
            order=case.order,
            sparse=case.sparse,
            fill_value=np.zeros((), case.dtype)[()] if fill is None else fill,
            attrs={"step": 0},
            **options,
        )
        self.order = case.order
        self.model = Model(case.shape, case.dtype, case.chunks, fill)
        self.attrs = {"step": 0}

    def engine(self):
        return st.sampled_from(self.engines)

    @property
    def ndim(self):
        return self.model.data.ndim

    growable = precondition(lambda self: self.ndim and self.model.data.size < 3000)
    files = precondition(lambda self: self.on_disk)
    reading = precondition(lambda self: self.reader is not None)

    @growable
    @rule(data=st.data(), by=amounts, side=sides)
    def extend(self, data, by, side):
        axis = data.draw(st.integers(0, self.ndim - 1))
        self.array.extend(axis, by, side)
        self.model.extend(axis, by, side)

    @growable
    @rule(data=st.data(), by=amounts, seed=seeds, side=sides)
    def append(self, data, by, seed, side):
        axis = data.draw(st.integers(0, self.ndim - 1))
        shape = list(self.model.shape)
        shape[axis] = by
        values = sample(self.model.dtype, tuple(shape), seed)
        self.array.append(values, axis, side)
        self.model.append(values, axis, side)

    @precondition(lambda self: self.ndim)
    @rule(data=st.data(), by=amounts, side=sides)
    def shrink(self, data, by, side):
        axis = data.draw(st.integers(0, self.ndim - 1))
        by = min(by, self.model.shape[axis])
        self.array.shrink(axis, by, side)
        self.model.shrink(axis, by, side)
        self.keep()

    @growable
    @rule(data=st.data())
    def resize(self, data):
        changes = st.sampled_from([0, 1, 3, -2])
        shape = tuple(max(0, n + data.draw(changes)) for n in self.model.shape)
        self.array.resize(shape)
        self.model.resize(shape)
        self.keep()

    @growable
    @rule(data=st.data())
    def reserve(self, data):
        shape = tuple(n + data.draw(st.sampled_from([0, 2])) for n in self.model.shape)
        self.array.reserve(shape)
        self.model.reserve(shape)

    @precondition(lambda self: self.ndim < 5 and (not self.on_disk or replaces_open_files()))
    @rule(data=st.data(), chunk=st.sampled_from([1, 1, 3]))
    def add_axis(self, data, chunk):
        position = data.draw(st.integers(0, self.ndim))
        try:
            self.array.add_axis(position, chunk=chunk)
        except xa.ChunksError:
            assert chunk > 1
            assert self.model.replay.size
            return
        self.model.add_axis(position, chunk)
        self.added.append(position)

    @rule(data=st.data(), seed=seeds)
    def write(self, data, seed):
        selection = data.draw(selections(self.model.shape))
        try:
            target = np.shape(self.model.data[selection])
        except IndexError:
            with pytest.raises(xa.BoundsError):
                self.array[selection] = self.model.fill
            return
        values = sample(self.model.dtype, target, seed)
        self.array[selection] = values
        self.model.data[selection] = values

    @rule(data=st.data())
    def read(self, data):
        selection = data.draw(selections(self.model.shape))
        try:
            expected = self.model.data[selection]
        except IndexError:
            return
        assert_same(self.array[selection], expected)

    @precondition(lambda self: self.model.data.size)
    @rule(data=st.data(), seed=seeds)
    def write_through_a_chunk(self, data, seed):
        if self.on_disk and self.array.info()["sparse"] and not reserves_holes():
            return
        index = tuple(data.draw(st.integers(0, n - 1)) for n in self.model.grid)
        view = self.array.chunk(index)
        if self.order in "CF":
            values = sample(self.model.dtype, view.shape, seed)
            assert_same(np.array(view), np.array(self.model.chunk(index)))
            view[...] = values
            self.model.chunk(index)[...] = values
        else:
            assert view.shape == (int(np.prod(self.model.chunks)),)

    @rule(key=st.sampled_from(["a", "b", "step"]), value=st.integers() | st.text(max_size=3))
    def set_attribute(self, key, value):
        self.array.attrs[key] = value
        self.attrs[key] = value

    @precondition(lambda self: self.attrs)
    @rule()
    def delete_attribute(self):
        key = next(iter(self.attrs))
        del self.array.attrs[key]
        del self.attrs[key]

    @rule()
    def flush(self):
        self.array.flush()

    @files
    @rule(data=st.data())
    def reopen(self, data):
        """The reader, if any, stays: closing one side does not disturb the other."""
        self.array.close()
        engine = data.draw(self.engine())
        self.array = xa.open(self.folder / "scene", mode="r+", engine=engine)

    @files
    @precondition(lambda self: self.reader is None)
    @rule(data=st.data())
    def open_reader(self, data):
        self.reader = xa.open(self.folder / "scene", mode="r", engine=data.draw(self.engine()))
        self.look()

    def look(self):
        """Note what the reader sees from now on."""
        self.seen = self.model.box
        self.kept = self.model.box
        self.added, self.cut_behind = [], False

    def keep(self):
        """Reduce it to the elements that were never cut off."""
        self.cut_behind = bool(self.added)
        if self.reader is not None and self.kept is not None:
            known = self.known()
            self.kept = known and [
                (max(a, b), min(c, d)) for (a, c), (b, d) in zip(self.kept, known[1], strict=True)
            ]

    def known(self):
        """Return the model's elements and box on the axes that the reader has; None: cut off.

        Along an axis that the reader lacks, its elements have the initial index 0.
        """
        data, box = self.model.data, self.model.box
        for position in reversed(self.added):
            low, high = box.pop(position)
            if not low <= 0 < high:
                return None
            # The "..." keeps a 0-d result an array: a scalar has no fields and no byte order.
            data = data[(*(slice(None),) * position, -low, ...)]
        return data, box

    @reading
    @rule()
    def refresh(self):
        if self.seen != self.model.box:
            assert self.reader.refresh()
        else:
            self.reader.refresh()
        assert not self.reader.refresh()
        self.look()
        assert dict(self.reader.attrs) == self.attrs

    @reading
    @rule()
    def close_reader(self):
        self.reader.close()
        self.reader = None

    @invariant()
    def agrees(self):
        if self.array is None:
            return
        assert self.array.shape == self.model.shape
        assert self.array.grid == self.model.grid
        assert self.array.origin == self.model.origin
        assert dict(self.array.attrs) == self.attrs
        assert_same(self.array[...], self.model.data[...])

    @invariant()
    def reader_agrees_within_its_bounds(self):
        if self.reader is not None:
            assert self.reader.shape == tuple(b - a for a, b in self.seen)
            assert self.reader.origin == tuple(-a for a, _ in self.seen)
            if self.kept is None:
                return
            data, box = self.known()
            kept = [(a, max(a, b)) for a, b in self.kept]
            theirs = tuple(
                slice(a - n, b - n) for (a, b), (n, _) in zip(kept, self.seen, strict=True)
            )
            ours = tuple(slice(a - n, b - n) for (a, b), (n, _) in zip(kept, box, strict=True))
            try:
                got = self.reader[(*theirs, ...)]
            except xa.ShapeError:
                # If holes do not read as the fill value, the reader cannot tell what is cut off.
                assert self.cut_behind
                assert any(self.model.fill.tobytes())
            else:
                assert_same(got, data[(*ours, ...)])

    @invariant()
    def addresses_agree(self):
        if self.array is None:
            return
        table = self.model.replay.table()
        indices = np.indices(table.shape).reshape(table.ndim, table.size).T
        assert self.array.axial.addresses(indices).tolist() == table.ravel().tolist()

    def teardown(self):
        for array in (self.reader, self.array):
            if array is not None:
                array.close()
        shutil.rmtree(self.folder)


class MemoryMachine(Machine):
    """The same machine for arrays in memory."""

    engines = ()


Machine.TestCase.settings = settings(settings.default, stateful_step_count=30)
MemoryMachine.TestCase.settings = Machine.TestCase.settings
TestFiles = Machine.TestCase
TestMemory = MemoryMachine.TestCase


@pytest.fixture
def machine():
    """Yield a machine that a test drives by hand."""
    machine = Machine()
    yield machine
    machine.teardown()


def begin(machine, shape, dtype, chunks, fill):
    path, shown = machine.folder / "scene", sample(dtype, shape, 3)
    machine.array = xa.create(path, shape, dtype, chunks=chunks, fill_value=fill)
    machine.model = Model(shape, dtype, chunks, fill)
    machine.array[...] = machine.model.data[...] = shown
    machine.order, machine.attrs = "C", {}
    machine.reader = xa.open(path)
    machine.look()


def add_axis(machine, position):
    machine.array.add_axis(position)
    machine.model.add_axis(position, 1)
    machine.added.append(position)


@pytest.mark.thread_unsafe(reason="changes the array of a fixture")
@pytest.mark.parametrize("dtype", ["V5", "S3", ">f8"])
def test_a_reader_of_what_had_no_axes(machine, dtype):
    begin(machine, (), np.dtype(dtype), (), np.zeros((), dtype)[()])
    for position in (0, 1):
        add_axis(machine, position)
        machine.agrees()
        machine.reader_agrees_within_its_bounds()


@pytest.mark.thread_unsafe(reason="changes the array of a fixture")
def test_a_reader_that_does_not_know_of_an_axis_and_a_cut(machine):
    begin(machine, (4,), np.dtype("i4"), (1,), 7)
    add_axis(machine, 0)
    machine.reader_agrees_within_its_bounds()
    machine.array.shrink(1, 2)
    machine.model.shrink(1, 2)
    machine.keep()
    machine.reader_agrees_within_its_bounds()
    with pytest.raises(xa.ShapeError, match="then lost elements"):
        machine.reader[...]
    machine.refresh()
    machine.reader_agrees_within_its_bounds()
