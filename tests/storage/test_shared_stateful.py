"""A state machine: several writers of one array act in any order."""

from __future__ import annotations

import shutil
import threading

import pytest
from compare import assert_same
from engines import ENGINES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from model import Model, sample
from scratch import new_folder
from strategies import cases, sides

import extarray as xa
from extarray.array.growth import write_source
from extarray.array.life import let_go
from extarray.common.limits import limits

pytestmark = pytest.mark.skipif(not limits.has_range_locks, reason="needs locks that Linux has")

HANDLES = 3
amounts = st.sampled_from([1, 2, 5])
writers = st.integers(0, HANDLES - 1)
seeds = st.integers(0, 99)
endings = st.sampled_from(["well", "well", "fail", "die"])


def die(array):
    """Do to an open array what the death of its process does."""
    array._store.writers.ticket = 0
    array._store.now.close()
    let_go(array)


class Source:
    """Data that an append waits for."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype
        self.entered, self.go = threading.Event(), threading.Event()
        self.end = None

    def __getitem__(self, selection):
        self.entered.set()
        assert self.go.wait(60)
        if self.end is not None:
            self.end()
            raise RuntimeError("no more data")
        return self.values[selection]


class Append:
    """An append by another thread that already has its place."""

    def __init__(self, number, array, values, axis, side):
        self.number, self.array, self.values = number, array, values
        self.axis, self.side = axis, side
        self.source, self.error, self.over = Source(values), None, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.source.entered.wait(60)

    def run(self):
        try:
            self.array.append(self.source, self.axis, self.side)
        except (RuntimeError, xa.ClosedError) as error:
            self.error = error

    def fail(self, how):
        """Write all of the elements, then fail."""

        def end():
            policy, place = self.array._writers, self.array._store.writers._own
            by = place.stop - place.start
            write_source(
                self.array, self.values, *policy._box(self.array, place.axis, place.start, by)
            )
            if how == "die":
                die(self.array)

        self.source.end = end

    def join(self):
        self.thread.join(60)
        assert not self.thread.is_alive()


class Machine(RuleBasedStateMachine):
    """Writers that share an array, a reader that lags behind, and slow appends."""

    def __init__(self):
        super().__init__()
        self.folder = new_folder()
        self.path = self.folder / "scene"
        self.arrays = {}  # by number; the reader is number -1
        self.seen = {}  # the bounds that each knows
        self.kept = {}  # the part of them never cut off since
        self.appends = []  # in order of their beginning
        self.model = None

    @initialize(case=cases(max_ndim=2, min_ndim=1), compression=st.sampled_from([None, "zlib"]))
    def create(self, case, compression):
        fill = sample(case.dtype, (), 1)[()] if case.filled else None
        self.model = Model(case.shape, case.dtype, case.chunks, fill)
        xa.create(
            self.path,
            shape=case.shape,
            dtype=case.dtype,
            chunks=case.chunks,
            order=case.order,
            sparse=case.sparse,
            fill_value=self.model.fill[()],
            compression=compression,
        ).close()
        self.attrs = {}

    @property
    def ndim(self):
        return self.model.data.ndim

    @property
    def busy(self):
        return {append.number for append in self.appends}

    def look(self, number):
        self.seen[number] = self.kept[number] = self.model.box

    def keep(self):
        for number, kept in self.kept.items():
            pairs = zip(kept, self.model.box, strict=True)
            self.kept[number] = [(max(a, b), min(c, d)) for (a, c), (b, d) in pairs]

    def writer(self, number, engine=ENGINES[0]):
        """Return an idle writer."""
        if number in self.busy:
            number = next(n for n in range(HANDLES) if n not in self.busy)
        if number not in self.arrays:
            self.arrays[number] = xa.open(self.path, "r+", share=True, engine=engine)
        self.look(number)
        return self.arrays[number]

    idle = precondition(lambda self: self.model is not None and not self.appends)
    small = precondition(lambda self: self.model.data.size < 2000)
    free = precondition(lambda self: len(self.appends) < HANDLES)

    # -- alone

    @idle
    @small
    @rule(
        n=writers,
        data=st.data(),
        by=amounts,
        side=sides,
        how=st.sampled_from(["extend", "shrink", "resize", "reserve"]),
    )
    def change(self, n, data, by, side, how):
        array = self.writer(n)
        axis = data.draw(st.integers(0, self.ndim - 1))
        if how == "extend":
            array.extend(axis, by, side)
            self.model.extend(axis, by, side)
        elif how == "shrink":
            by = min(by, self.model.shape[axis])
            array.refresh()
            array.shrink(axis, by, side)
            self.model.shrink(axis, by, side)
        elif how == "resize":
            changes = st.sampled_from([0, 1, 3, -2])
            shape = tuple(max(0, n + data.draw(changes)) for n in self.model.shape)
            array.resize(shape)
            self.model.resize(shape)
        else:
            array.reserve(tuple(n + data.draw(st.sampled_from([0, 2])) for n in self.model.shape))
        self.keep()
        self.look(n)

    # -- also during appends

    @free
    @rule(n=writers, key=st.sampled_from("ab"), value=st.none() | st.integers() | st.text())
    def look_or_tell(self, n, key, value):
        array = self.writer(n)
        if value is None:
            array.flush()
            array.refresh()
            assert not array.refresh()
        else:
            array.attrs[key] = self.attrs[key] = value
        assert array.shape == self.model.shape
        assert dict(array.attrs) == self.attrs

    @rule(data=st.data(), seed=seeds)
    def write(self, data, seed):
        """Write within the bounds that the writer knows, which may be old."""
        numbers = sorted(n for n in self.arrays if n >= 0 and n not in self.busy)
        if not numbers:
            return
        number = data.draw(st.sampled_from(numbers))
        array, seen = self.arrays[number], self.seen[number]
        box = []
        for a, b in seen:
            low = data.draw(st.integers(a, b))
            box.append((low, data.draw(st.integers(low, b))))
        values = sample(self.model.dtype, tuple(b - a for a, b in box), seed)
        array[tuple(slice(a - s, b - s) for (a, b), (s, _) in zip(box, seen, strict=True))] = values
        both = [
            (max(a, c), max(a, c, min(b, d)))
            for (a, b), (c, d) in zip(box, self.model.box, strict=True)
        ]
        target = [slice(a - n, b - n) for (a, b), (n, _) in zip(both, self.model.box, strict=True)]
        source = [slice(a - n, b - n) for (a, b), (n, _) in zip(both, box, strict=True)]
        if all(a < b for a, b in both):
            self.model.data[tuple(target)] = values[tuple(source)]

    # -- appends

    @free
    @small
    @rule(n=writers, data=st.data(), by=amounts, seed=seeds, side=sides)
    def begin_append(self, n, data, by, seed, side):
        axis = data.draw(st.integers(0, self.ndim - 1))
        self.begin(n, axis, by, seed, side)

    @idle
    @small
    @rule(n=writers, data=st.data(), by=amounts, seed=seeds, side=sides)
    def append(self, n, data, by, seed, side):
        array = self.writer(n)
        axis = data.draw(st.integers(0, self.ndim - 1))
        shape = list(self.model.shape)
        shape[axis] = by
        values = sample(self.model.dtype, tuple(shape), seed)
        array.append(values, axis, side)
        self.model.append(values, axis, side)
        self.look(n)

    @precondition(lambda self: self.appends)
    @rule(data=st.data(), how=endings)
    def end_append(self, data, how):
        self.end(data.draw(st.sampled_from([a for a in self.appends if not a.over])), how)

    @idle
    @small
    @rule(
        data=st.data(),
        all_=st.lists(st.tuples(amounts, seeds, endings), min_size=2, max_size=HANDLES),
        side=sides,
    )
    def append_together(self, data, all_, side):
        axis = data.draw(st.integers(0, self.ndim - 1))
        for n, (by, seed, _) in enumerate(all_):
            self.begin(n, axis, by, seed, side)
        pairs = list(zip(self.appends, [how for *_, how in all_], strict=False))
        for append, how in data.draw(st.permutations(pairs)):
            self.end(append, how)

    def begin(self, n, axis, by, seed, side):
        if self.appends:  # others would wait
            axis, side = self.appends[0].axis, self.appends[0].side
        array = self.writer(n)
        n = next(number for number, other in self.arrays.items() if other is array)
        shape = list(self.model.shape)
        shape[axis] = by
        values = sample(self.model.dtype, tuple(shape), seed)
        if values.size:
            self.appends.append(Append(n, array, values, axis, side))
        elif self.appends:
            array.refresh()
        else:
            array.append(values, axis, side)
            self.model.append(values, axis, side)
        self.look(n)

    def end(self, append, how):
        append.over = True
        if how != "well":
            append.fail(how)
        append.source.go.set()
        if how != "well":
            append.join()
            assert append.error is not None
            self.appends.remove(append)
        while self.appends and self.appends[0].over:
            first = self.appends.pop(0)
            first.join()
            assert first.error is None
            self.model.append(first.values, first.axis, first.side)
            self.look(first.number)
        if how == "fail":
            append.array.refresh()
            self.look(append.number)
        elif how == "die":
            self.forget(append.number)

    # -- coming and going

    def forget(self, number):
        for store in (self.arrays, self.seen, self.kept):
            store.pop(number, None)

    @free
    @rule(n=writers, how=st.sampled_from(["close", "die"]), engine=st.sampled_from(ENGINES))
    def reopen(self, n, how, engine):
        if n in self.busy:
            return
        if n in self.arrays:
            self.arrays[n].close() if how == "close" else die(self.arrays[n])
            self.forget(n)
        self.writer(n, engine)

    @idle
    @rule(by=amounts)
    def alone(self, by):
        """A lone writer opens when all others have gone; it freezes chunks when it closes."""
        for number in [n for n in self.arrays if n >= 0]:
            with pytest.raises(xa.LockedError):
                xa.open(self.path, "r+")
            self.arrays[number].close()
            self.forget(number)
        with xa.open(self.path, "r+") as array:
            with pytest.raises(xa.LockedError):
                xa.open(self.path, "r+", share=True)
            array.extend(0, by)
            self.model.extend(0, by)

    @rule()
    def read(self):
        if self.model is not None:
            if -1 not in self.arrays:
                self.arrays[-1] = xa.open(self.path)
            self.arrays[-1].refresh()
            self.look(-1)

    # -- invariants

    @invariant()
    def all_agree(self):
        if self.model is None:
            return
        with xa.open(self.path) as array:
            assert array.shape == self.model.shape
            assert array.origin == self.model.origin
            assert dict(array.attrs) == self.attrs
            assert_same(array[...], self.model.data[...])
        for number, array in self.arrays.items():
            if number not in self.busy:
                self.agrees(array, self.seen[number], self.kept[number])

    def agrees(self, array, seen, kept):
        assert array.shape == tuple(b - a for a, b in seen)
        kept = [(a, max(a, b)) for a, b in kept]
        theirs = tuple(slice(a - n, b - n) for (a, b), (n, _) in zip(kept, seen, strict=True))
        ours = tuple(
            slice(a - n, b - n) for (a, b), (n, _) in zip(kept, self.model.box, strict=True)
        )
        assert_same(array[(*theirs, ...)], self.model.data[(*ours, ...)])

    def teardown(self):
        for append in self.appends:
            append.source.end = lambda: None
            append.source.go.set()
        for append in self.appends:
            append.join()
        for array in self.arrays.values():
            array.close()
        shutil.rmtree(self.folder)


Machine.TestCase.settings = settings(
    settings.default, max_examples=settings.default.max_examples // 2, stateful_step_count=20
)
TestShared = Machine.TestCase
