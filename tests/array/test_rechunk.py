"""Layout transformations of arrays: elements, files, memory, interruptions."""

from __future__ import annotations

import errno
import io
import itertools
import math
import os
import re
import signal
import subprocess
import threading

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from peaks import peaks
from systems import needs_links, needs_replaced_open_files
from tasks import Counted, tasks

import extarray as xa
from extarray.common.limits import limits
from extarray.format.suffixes import file_names
from extarray.maintenance import execute
from extarray.maintenance.execute import Mover
from extarray.maintenance.rechunk_plan import plan_passes
from extarray.maintenance.transform import Transformation
from extarray.storage import names


def files_of(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def cube(path):
    """Yield an array with a history on both sides, and its elements."""
    values = np.arange(11 * 9 * 7).reshape(11, 9, 7)
    with xa.create(
        path, (5, 9, 7), "i4", chunks=(3, 4, 2), fill_value=-1, dims=("t", "y", "x")
    ) as a:
        a.attrs["unit"] = "mm"
        a[...] = values[4:9]
        a.append(values[9:])
        a.append(values[:4], side="start")
        yield a, values.astype("i4")


# -- elements ------------------------------------------------------------------------------------


@given(tasks((40, 24, 12)))
def test_each_element_is_moved_once_in_the_memory_of_the_plan(problem):
    task, budget = problem
    source = np.random.default_rng(0).integers(0, 60000, task.shape, "u2")
    for p in plan_passes(task, budget):
        target = Counted(np.zeros_like(source))
        mover = Mover(p, Counted(source), target)
        assert mover.nbytes <= p.memory <= budget
        moved = sum(n for template in p.templates() for n in mover.move(template))
        assert moved == source.size
        assert (target.times == 1).all()
        assert_same(target.values, source)


@pytest.mark.parametrize("order", ["C", "F", "Z", "H"])
def test_chunks_order_axes_and_what_belongs_to_them(cube, tmp_path, order):
    a, values = cube
    with xa.rechunk(
        a, tmp_path / "new", chunks=(2, 5, 3), axes=(2, 0, -2), order=order, max_memory=1000
    ) as b:
        assert (b.chunks, b.order, b.mode) == ((2, 5, 3), order, "r+")
        assert b.path == tmp_path / "new"
        assert_same(b[...], values.transpose(2, 0, 1))
        assert b.dims == ("x", "t", "y")
        assert dict(b.attrs) == {"dims": ["x", "t", "y"], "unit": "mm"}
        assert b.fill_value == -1
        assert b.axial.segments == 1
        b.append(values.transpose(2, 0, 1)[:1])
    assert files_of(tmp_path) == ["new.xmd", "new.xta", "scene.xmd", "scene.xta"]
    with xa.open(tmp_path / "new") as b:
        assert_same(b[:7], values.transpose(2, 0, 1))


@given(data=st.data())
def test_any_chunks_in_any_memory(factory, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    chunks = st.lists(st.integers(1, 6), min_size=len(shape), max_size=len(shape))
    old, new = data.draw(chunks), data.draw(chunks)
    values = np.arange(math.prod(shape), dtype="f4").reshape(shape)
    axes = data.draw(st.permutations(range(len(shape))))
    least = 4 * (math.prod(old) + math.prod(new))
    with factory.array(shape, "f4", chunks=old) as a:
        a[...] = values
        memory = data.draw(st.integers(least, 4 * least))
        b = xa.rechunk(a, chunks=new, axes=axes, max_memory=memory)
        assert_same(b[...], values.transpose(axes))


def test_sources(cube, tmp_path):
    a, values = cube
    a.flush()
    assert_same(xa.rechunk(a.path, chunks=4)[...], values)
    assert_same(xa.rechunk(a.T, chunks=4)[...], values.T)
    view = a.lazy[::2, 1:, ::-1]
    assert_same(xa.rechunk(view, axes=(1, 0, 2))[...], values[::2, 1:, ::-1].transpose(1, 0, 2))
    lost = xa.rechunk(np.expand_dims(a, 0))
    assert lost.shape == (1, 11, 9, 7)
    assert dict(lost.attrs) == {"unit": "mm"}


def test_another_dtype(cube):
    a, values = cube
    b = xa.rechunk(a, dtype="f8", chunks=(5, 5, 5), max_memory="4 KiB")
    assert_same(b[...], values.astype("f8"))
    assert b.fill_value == -1.0
    assert_same(xa.rechunk(b, dtype="i2")[...], values.astype("i2"))


@pytest.mark.parametrize(
    "kind",
    ["g", "G", np.dtype([("a", "u1"), ("b", "c16"), ("c", [("d", "i2"), ("e", "g")])], align=True)],
)
def test_bytes_without_a_meaning(cube, kind):
    a, values = cube
    kind = np.dtype(kind)
    a = xa.from_array(values, chunks=(3, 4, 2))
    b = xa.rechunk(a, chunks=(2, 9, 5), dtype=kind, verify=True)
    assert_same(b[...], values.astype(kind))
    if kind.names:
        assert b._store.now.header.fill == bytes(kind.itemsize)


def test_numbers_in_words():
    b = xa.rechunk(xa.from_array(np.array(["1", "22"])), dtype="i4")
    assert_same(b[...], np.array([1, 22], "i4"))
    assert b.fill_value == 0


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_small_shapes(tmp_path, shape):
    a = xa.full(shape, 7)
    with xa.rechunk(a, tmp_path / "new") as b:
        assert_same(b[...], a[...])
    assert xa.rechunk(a).shape == shape


def test_several_passes(tmp_path):
    values = np.arange(160 * 144).reshape(160, 144)
    a = xa.from_array(values, chunks=(32, 9))
    plan = xa.rechunk_plan(a, chunks=(5, 16), max_memory=8 * 800)
    assert len(plan.passes) == 2
    with xa.rechunk(a, tmp_path / "new", chunks=(5, 16), max_memory=8 * 800, verify=True) as b:
        assert_same(b[...], values)
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


def test_each_chunk_is_read_and_written_once(tmp_path, monkeypatch):
    a = xa.from_array(np.arange(160 * 144).reshape(160, 144), chunks=(32, 9))
    visits, fetch = np.zeros(a.grid, int), xa.ExtArray._fetch

    def counted(self, selection=..., out=None, order="C"):
        if self._released() is a:
            rows, columns = selection
            assert rows.start % 32 == columns.start % 9 == 0
            visits[
                rows.start // 32 : -(-rows.stop // 32), columns.start // 9 : columns.stop // 9
            ] += 1
        return fetch(self, selection, out, order)

    monkeypatch.setattr(xa.ExtArray, "_fetch", counted)
    monkeypatch.setattr(limits, "rechunk_step_bytes", 1)
    xa.rechunk(a, tmp_path / "new", chunks=(5, 16), max_memory=8 * 1344).close()
    assert (visits == 1).all()


# -- copies --------------------------------------------------------------------------------------


def test_copies_go_through_several_passes_where_they_must(tmp_path):
    values = np.arange(64 * 64).reshape(64, 64)
    a = xa.from_array(values, chunks=(1, 64))
    with xa.config.set(max_memory=4096), a.copy(tmp_path / "new", chunks=(64, 1)) as b:
        assert_same(b[...], values)
    with xa.config.set(max_memory=1):
        assert_same(a.copy(chunks=(64, 1))[...], values)
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


def test_a_transposed_view_on_the_disk(cube, tmp_path):
    a, values = cube
    with xa.from_array(a.T, tmp_path / "turned", chunks=(3, 3, 3)) as b:
        assert_same(b[...], values.T)


# -- errors --------------------------------------------------------------------------------------


def test_too_little_memory(cube):
    a, _ = cube
    with pytest.raises(xa.ArgumentError, match="max_memory=596 or more"):
        xa.rechunk(a, chunks=5, max_memory=4 * (24 + 125) - 1)
    xa.rechunk(a, chunks=5, max_memory=4 * (24 + 125))


def test_tables_of_orders_are_part_of_the_memory(cube):
    a, values = cube
    before = 0
    # While the first table is made, and while elements move.
    for order, n, least in ("Z", 5, 3 * 1000), ("H", 3, 1000 + 216 + 4 * (125 + 27)):
        table, wanted = 8 * n**3, {"chunks": n, "order": order}
        for make in (xa.rechunk, xa.rechunk_plan):
            with pytest.raises(xa.ArgumentError, match=f"of their orders, needs {least} bytes"):
                make(a, max_memory=least - 1, **wanted)
        plan = xa.rechunk_plan(a, max_memory=least, **wanted)
        assert plan.table_bytes == before + table
        assert plan.table_bytes < plan.memory <= least
        a = xa.rechunk(a, max_memory=least, **wanted)
        assert_same(a[...], values)
        before = table
    with pytest.raises(xa.ArgumentError, match=f"needs {3 * 8 * 27} bytes"):
        xa.rechunk_plan((11, 9, 7), source_chunks=3, chunks=3, order="H", max_memory=600)


def test_what_is_not_possible(cube, tmp_path):
    a, _ = cube
    with pytest.raises(xa.ExistsError):
        xa.rechunk(a, a.path)
    with pytest.raises(xa.ArgumentError, match="leave out the path"):
        xa.rechunk(a, tmp_path / "new", in_place=True)
    with pytest.raises(xa.ArgumentTypeError, match="src must be .* not ndarray; .*from_array"):
        xa.rechunk(np.zeros(3))
    with pytest.raises(xa.ArgumentTypeError, match="view"):
        xa.rechunk(a.T, in_place=True)
    with pytest.raises(xa.ArgumentError, match="memory"):
        xa.rechunk(xa.zeros(3), in_place=True)
    with pytest.raises(xa.ArgumentError, match="order"):
        xa.rechunk(a, order="X")
    with pytest.raises(xa.ArgumentError, match="threads"):
        xa.rechunk(a, workers=0)
    with pytest.raises(xa.ArgumentError, match="each of the 3 axes once"):
        xa.rechunk(a, axes=(0, 1))
    with pytest.raises(xa.ArgumentError, match="each of the 3 axes once"):
        xa.rechunk(a, axes=(0, 1, -2))
    with pytest.raises(xa.AxisError, match="axis 3 is out of bounds"):
        xa.rechunk(a, axes=(0, 1, 3))
    with pytest.raises(xa.ArgumentTypeError, match="sequence of axes"):
        xa.rechunk(a, axes="012")
    with pytest.raises(xa.ChunksError):
        xa.rechunk(a, chunks=(0, 1, 1))
    with pytest.raises(xa.MissingError):
        xa.rechunk(tmp_path / "nothing")
    with pytest.raises(xa.LockedError):
        xa.rechunk(a.path, in_place=True)
    a.close()
    with pytest.raises(xa.ClosedError):
        xa.rechunk(a)
    assert files_of(tmp_path) == ["scene.xmd", "scene.xta"]


def test_a_failing_copy_leaves_nothing(cube, tmp_path, monkeypatch):
    a, _ = cube

    def fail(self, template):
        raise RuntimeError("stop")

    monkeypatch.setattr(Mover, "move", fail)
    with pytest.raises(RuntimeError):
        a.copy(tmp_path / "new")
    assert files_of(tmp_path) == ["scene.xmd", "scene.xta"]


def test_verification_finds_what_was_not_written(cube, tmp_path, monkeypatch):
    a, values = cube
    move = Mover.move

    def forgetful(self, template):
        yield from itertools.islice(move(self, template), 1)

    monkeypatch.setattr(limits, "rechunk_step_bytes", 1)
    monkeypatch.setattr(execute.Mover, "move", forgetful)
    arguments = {"chunks": (2, 5, 3), "max_memory": 2000}
    with pytest.raises(xa.StorageError, match="read back differently"):
        xa.rechunk(a, tmp_path / "new", verify=True, **arguments)
    monkeypatch.undo()
    with xa.rechunk(a, tmp_path / "new", verify=True, **arguments) as b:
        assert_same(b[...], values)


# -- interruptions -------------------------------------------------------------------------------


class Stopped(BaseException):
    """Stands for a user's interrupt."""


def stop_after(monkeypatch, n):
    """Stop a transformation after n templates; return a list of those that were moved."""
    moved, move = [], Mover.move

    def counted(self, template):
        if len(moved) == n:
            raise Stopped
        moved.append(template)
        yield from move(self, template)

    monkeypatch.setattr(Mover, "move", counted)
    return moved


TWO = {"chunks": (64, 1), "max_memory": 8 * 64 * 8}


@pytest.mark.parametrize(("arguments", "n_templates"), [(TWO, 16)])
@pytest.mark.parametrize("stop", [0, 3, 8, 13])
@pytest.mark.parametrize("resume", [True, False])
def test_interrupted_work_goes_on_or_starts_anew(
    tmp_path, monkeypatch, arguments, n_templates, stop, resume
):
    monkeypatch.setattr(limits, "rechunk_step_bytes", 1)
    values = np.arange(64 * 64).reshape(64, 64)
    a = xa.from_array(values, chunks=(1, 64))
    assert sum(p.n_templates for p in xa.rechunk_plan(a, **arguments).passes) == n_templates
    with monkeypatch.context() as patch:
        stop_after(patch, stop)
        with pytest.raises(Stopped):
            xa.rechunk(a, tmp_path / "new", **arguments)
    assert not (tmp_path / "new.xmd").exists()
    moved = stop_after(monkeypatch, -1)
    with xa.rechunk(a, tmp_path / "new", resume=resume, **arguments) as b:
        assert_same(b[...], values)
        assert dict(b.attrs) == {}
    assert len(moved) == (n_templates - stop if resume else n_templates)
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


def test_only_two_passes_are_on_the_disk_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "rechunk_step_bytes", 1)
    values = np.arange(64 * 64).reshape(64, 64)
    a = xa.from_array(values, chunks=(1, 64))
    arguments = {"chunks": (64, 1), "max_memory": 2 * 8 * 64}
    passes = xa.rechunk_plan(a, **arguments).passes
    assert len(passes) == 4
    begin = Transformation._begin

    def stop(self, places, i):
        if i == 3:
            raise Stopped
        return begin(self, places, i)

    with monkeypatch.context() as patch:
        patch.setattr(Transformation, "_begin", stop)
        with pytest.raises(Stopped):
            xa.rechunk(a, tmp_path / "new", **arguments)
    assert files_of(tmp_path) == ["new.rechunk-3.xmd", "new.rechunk-3.xta"]
    moved = stop_after(monkeypatch, -1)
    with xa.rechunk(a, tmp_path / "new", resume=True, **arguments) as b:
        assert_same(b[...], values)
    assert len(moved) == passes[3].n_templates
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


def test_work_that_was_interrupted_at_its_very_end_goes_on(tmp_path, monkeypatch):
    def stop(*arguments):
        raise Stopped

    values = np.arange(64 * 64).reshape(64, 64)
    a = xa.from_array(values, chunks=(1, 64))
    with monkeypatch.context() as patch:
        patch.setattr("extarray.maintenance.transform.Transformation.check", stop)
        with pytest.raises(Stopped):
            xa.rechunk(a, tmp_path / "new", **TWO)
    with xa.rechunk(a, tmp_path / "new", resume=True, **TWO) as b:
        assert_same(b[...], values)
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


def test_what_is_left_of_other_work_is_not_used(tmp_path, monkeypatch):
    a = xa.from_array(np.arange(64 * 64).reshape(64, 64), chunks=(1, 64))
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stopped):
            xa.rechunk(a, tmp_path / "new", **TWO)
    other = xa.from_array(np.zeros((64, 64)), chunks=(1, 64))
    with xa.rechunk(other, tmp_path / "new", resume=True, **TWO) as b:
        assert not b[...].any()
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda a: a, lambda a: a.T),
        (lambda a: a, lambda a: a.lazy[::-1]),
        (lambda a: a.lazy[:, [0, *range(63)]], lambda a: a.lazy[:, [1, *range(63)]]),
        (lambda a: a, lambda a: a.append(a[:8]) or a.shrink(0, 8, side="start") or a),
    ],
)
def test_what_is_left_of_other_elements_is_not_used(tmp_path, monkeypatch, one, other):
    monkeypatch.setattr(limits, "rechunk_step_bytes", 1)
    arguments = {"chunks": (16, 4), "max_memory": 6000}
    a = xa.from_array(np.arange(64 * 64).reshape(64, 64), chunks=(8, 8))
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(Stopped):
            xa.rechunk(one(a), tmp_path / "new", **arguments)
    src = other(a)
    with xa.rechunk(src, tmp_path / "new", resume=True, **arguments) as b:
        assert_same(b[...], src[...])
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


def test_what_a_kill_has_left_of_a_pass_that_was_being_created_is_removed(tmp_path):
    left = [tmp_path / f"new.rechunk-1{suffix}.0123456789ab.new" for suffix in (".xmd", ".xta")]
    for file in left:
        file.touch()
        os.utime(file, (0, 0))
    xa.rechunk(xa.zeros((4, 4)), tmp_path / "new", chunks=2).close()
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


def test_the_folder_is_searched_once_for_what_earlier_passes_have_left(tmp_path, monkeypatch):
    some = [tmp_path / f"new.rechunk-{i}.xmd.0123456789ab.new" for i in (2, 16)]
    for file in some:
        file.touch()
        os.utime(file, (0, 0))
    kept = tmp_path / "new.rechunk-2.other"
    kept.touch()
    searched = []
    search = names._beside
    monkeypatch.setattr(
        names, "_beside", lambda *given: searched.append(given[0]) or search(*given)
    )
    # Creating an array also looks for unfinished files of that name.
    monkeypatch.setattr(names, "_look_seldom", lambda name, look: None)
    xa.rechunk(xa.zeros((4, 4)), tmp_path / "new", chunks=2).close()
    assert searched == [file_names(tmp_path / "new")]
    assert files_of(tmp_path) == ["new.rechunk-2.other", "new.xmd", "new.xta"]


KILLED = """
import os, signal, sys
import extarray as xa
from extarray.common.limits import limits
from extarray.maintenance.execute import Mover
limits.journal_interval = 0
move, count = Mover.move, 0
def killing(self, template):
    global count
    count += 1
    if count > 5:
        os.kill(os.getpid(), signal.SIGKILL)
    yield from move(self, template)
Mover.move = killing
xa.rechunk(sys.argv[1], sys.argv[2] or None, chunks=(64, 1), max_memory=4096,
           in_place=not sys.argv[2])
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("in_place", [False, True])
def test_killed_work_goes_on(tmp_path, forked, monkeypatch, capsys, in_place):
    monkeypatch.setattr(limits, "rechunk_step_bytes", 1 << 23)
    values = np.arange(64 * 64).reshape(64, 64)
    xa.from_array(values, tmp_path / "old", chunks=(1, 64)).close()
    path = "" if in_place else str(tmp_path / "new")
    process = forked.start(KILLED, tmp_path / "old", path)
    with process:
        process.stdin.close()
        assert process.wait(timeout=250) == -signal.SIGKILL
    with xa.open(tmp_path / "old") as a:
        assert_same(a[...], values)
    moved = stop_after(monkeypatch, -1)
    with xa.rechunk(
        tmp_path / "old",
        path or None,
        chunks=(64, 1),
        max_memory=4096,
        in_place=in_place,
        resume=True,
    ) as b:
        assert_same(b[...], values)
    assert len(moved) == 16 - 5
    assert "continues" in capsys.readouterr().err
    left = ["old.xmd", "old.xta"] if in_place else ["new.xmd", "new.xta", "old.xmd", "old.xta"]
    assert files_of(tmp_path) == left


@pytest.mark.parametrize("from_path", [True, False])
def test_in_place_what_is_finished_is_not_done_again(tmp_path, capsys, from_path):
    values = np.arange(6).reshape(2, 3)
    xa.from_array(values, tmp_path / "a", chunks=(1, 2)).close()
    job = {"axes": (1, 0), "chunks": 2, "in_place": True}
    with xa.rechunk(tmp_path / "a", resume=True, **job) as a:
        uuid = a._identity
    assert capsys.readouterr().err == ""
    src = tmp_path / "a" if from_path else xa.open(tmp_path / "a", "r+")
    with xa.rechunk(src, resume=True, **job) as a:
        assert a._identity == uuid
        assert_same(a[...], values.T)
        a.append(values.T[:1])  # open for writing, so it may grow
    assert "nothing left to do" in capsys.readouterr().err
    with xa.rechunk(tmp_path / "a", **job) as a:  # without resume it is done again
        assert_same(a[...], np.concatenate([values.T, values.T[:1]]).T)
    other = {**job, "axes": None}
    with xa.rechunk(tmp_path / "a", resume=True, **other) as a:
        assert a.shape == (2, 4)
        assert a._identity != uuid
    # A copy does not carry the note.
    with xa.open(tmp_path / "a") as a:
        a.copy(tmp_path / "b").close()
    xa.rechunk(tmp_path / "b", resume=True, progress=False, **other).close()
    assert capsys.readouterr().err == ""


def test_what_is_finished_elsewhere_is_not_done_again(tmp_path, capsys):
    a = xa.from_array(np.arange(6).reshape(2, 3), tmp_path / "a", chunks=(1, 2))
    job = {"path": tmp_path / "b", "chunks": (2, 1), "resume": True}
    xa.rechunk(a, **job).close()
    with xa.rechunk(a, **job) as b:
        assert_same(b[...], a[...])
    assert "nothing left to do" in capsys.readouterr().err
    with pytest.raises(FileExistsError):
        xa.rechunk(a, **{**job, "resume": False})
    with pytest.raises(FileExistsError):  # done for other elements
        xa.rechunk(a.lazy[:, ::-1], **job)
    a.append(a[:1])
    with pytest.raises(FileExistsError):  # done for fewer elements
        xa.rechunk(a, **job)
    a.close()


@pytest.mark.parametrize("resume", [True, False])
def test_an_array_of_the_name_of_a_pass_is_left_alone(tmp_path, resume):
    a = xa.from_array(np.arange(64 * 64).reshape(64, 64), chunks=(1, 64))
    with xa.from_array(np.arange(3), tmp_path / "new.rechunk-1") as mine:
        mine.attrs["mine"] = True
    with pytest.raises(xa.ExistsError, match="another path"):
        xa.rechunk(a, tmp_path / "new", resume=resume, **TWO)
    with pytest.raises(xa.ExistsError, match="another path"):
        a.copy(tmp_path / "new")
    with xa.open(tmp_path / "new.rechunk-1") as mine:
        assert_same(mine[...], np.arange(3))


@pytest.mark.parametrize("resume", [True, False])
def test_what_is_complete_but_has_no_name_is_done_again(tmp_path, monkeypatch, resume):
    def stop(*arguments):
        raise Stopped

    a = xa.from_array(np.arange(64 * 64).reshape(64, 64), chunks=(1, 64))
    a.attrs["unit"] = "m"
    with monkeypatch.context() as patch:
        patch.setattr("extarray.storage.file_store.FileStore.move", stop)
        with pytest.raises(Stopped):
            xa.rechunk(a, tmp_path / "new", **TWO)
    with xa.rechunk(a, tmp_path / "new", resume=resume, **TWO) as b:
        assert_same(b[...], a[...])
        assert b.attrs["unit"] == "m"
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


@pytest.mark.parametrize("resume", [True, False])
def test_work_that_somebody_is_at_is_left_alone(tmp_path, monkeypatch, resume):
    a = xa.from_array(np.arange(64 * 64).reshape(64, 64), chunks=(1, 64))
    move = Mover.move

    def meet(self, template):
        monkeypatch.setattr(Mover, "move", move)
        before = files_of(tmp_path)
        with pytest.raises(xa.LockedError):
            xa.rechunk(a, tmp_path / "new", resume=resume, **TWO)
        with pytest.raises(xa.LockedError):
            a.copy(tmp_path / "new")
        assert files_of(tmp_path) == before
        yield from move(self, template)

    monkeypatch.setattr(Mover, "move", meet)
    with xa.rechunk(a, tmp_path / "new", **TWO) as b:
        assert_same(b[...], a[...])


# -- in place ------------------------------------------------------------------------------------


@needs_replaced_open_files
@pytest.mark.parametrize("how", ["path", "writer", "reader"])
def test_in_place(path, how):
    values = np.arange(20).reshape(4, 5)
    a = xa.from_array(values, path, chunks=(1, 5))
    if how != "writer":
        a.close()
    src = {"path": path, "writer": a, "reader": xa.open(path) if how == "reader" else None}[how]
    with xa.open(path) as other:
        with xa.rechunk(src, chunks=(4, 1), in_place=True) as b:
            assert b.chunks == (4, 1)
            assert b.path == path
            with pytest.raises(xa.LockedError):
                xa.open(path, "r+")
            b[0, 0] = 100
        # Those that have the old array open keep it.
        assert_same(other[...], values)
    if how != "path":
        assert src.closed
    with xa.open(path) as again:
        assert (again.chunks, again[0, 0]) == ((4, 1), 100)
    assert files_of(path.parent) == ["scene.xmd", "scene.xta"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("in_place", [True, False])
def test_killed_at_each_name(tmp_path, in_place, at):
    """The target first gets temporary names from `create`, then its own from `move`."""
    values = np.arange(20).reshape(4, 5)
    xa.from_array(values, tmp_path / "old", chunks=(1, 5)).close()
    path = None if in_place else tmp_path / "new"
    pid = os.fork()
    if pid == 0:
        counted, publish = itertools.count(1), names.publish
        names.publish = lambda *a: os._exit(9) if next(counted) == at else publish(*a)
        xa.rechunk(tmp_path / "old", path, chunks=(4, 1), in_place=in_place)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    with xa.open(tmp_path / "old", "r+") as a:
        assert_same(a[...], values)
        if in_place:
            a[0] = values[0] = 7
    again = {"chunks": (4, 1), "in_place": in_place, "resume": True}
    with xa.rechunk(tmp_path / "old", path, **again) as found:
        assert found.chunks == (4, 1)
        assert_same(found[...], values)
    # Files that a creation left under temporary names disturb nobody.
    left = [name for name in files_of(tmp_path) if not name.endswith(".new")]
    assert len(left) == (2 if in_place else 4)


@needs_links
def test_in_place_through_links_and_from_another_folder(tmp_path, monkeypatch):
    values = np.arange(20).reshape(4, 5)
    (tmp_path / "big").mkdir()
    xa.from_array(values, tmp_path / "big" / "a", chunks=(1, 5)).close()
    for name in ("a.xmd", "a.xta"):
        (tmp_path / name).symlink_to(tmp_path / "big" / name)
    monkeypatch.chdir(tmp_path)
    a = xa.open("a", "r+")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    with xa.rechunk(a, chunks=(4, 1), in_place=True) as b:
        assert b.chunks == (4, 1)
    assert (tmp_path / "a.xmd").is_symlink()
    assert (tmp_path / "a.xta").is_symlink()
    assert files_of(tmp_path / "elsewhere") == []
    assert files_of(tmp_path / "big") == ["a.xmd", "a.xta"]
    with xa.open(tmp_path / "a") as b:
        assert_same(b[...], values)


def test_a_name_that_is_taken_meanwhile(tmp_path):
    values = np.arange(20).reshape(4, 5)
    with xa.from_array(values, tmp_path / "old") as a:
        (tmp_path / "new.xmd").touch()
        with pytest.raises(xa.ExistsError):
            a._store.move(tmp_path / "new", False)
        assert a.path == tmp_path / "old"
        assert files_of(tmp_path) == ["new.xmd", "old.xmd", "old.xta"]
        (tmp_path / "new.xmd").unlink()
        a._store.move(tmp_path / "new", False)
        a.append(values)
        assert a.path == tmp_path / "new"
    with xa.open(tmp_path / "new") as b:
        assert_same(b[4:], values)


# -- the method, and texts that get longer ------------------------------------------------------


def test_the_method_is_the_function(tmp_path):
    values = np.arange(24).reshape(4, 6)
    a = xa.from_array(values, chunks=2, dims=("y", "x"))
    for path in (None, tmp_path / "new"):
        with a.rechunk((3, 1), path, axes=("x", "y"), order="F", dtype="f4") as b:
            assert (b.chunks, b.dims, b.order, b.dtype) == ((3, 1), ("x", "y"), "F", np.float32)
            assert_same(b[...], values.T.astype("f4"))
    with pytest.raises(xa.ExistsError):
        a.rechunk(1, tmp_path / "new")


@needs_replaced_open_files
@pytest.mark.parametrize("kind", ["U", "S"])
def test_a_column_of_texts_is_widened_under_its_name(tmp_path, kind):
    texts = np.array(["ab", "abcd"], kind)
    a = xa.create(tmp_path / "a", (2,), f"{kind}4", fill_value="-", dims=["band"], chunks=3)
    a[...] = texts
    a.attrs["unit"] = "nm"
    longer = np.array(["abc", "abcdefghi"], kind)
    for data in (longer, longer.tolist(), xa.from_array(longer), xa.from_array(longer).lazy[...]):
        with pytest.raises(xa.CastingError, match="strings of 9 char") as caught:
            a.append(data)
        assert a.shape == (2,)
    call = re.search(r"a = (a\.rechunk\(.*?\))", str(caught.value)).group(1)
    old, a = a, eval(call)  # the error's own advice works
    assert old.closed
    assert a.path == tmp_path / "a"
    a.append(longer)
    a.extend(0, 1)
    assert_same(a[...], np.append(np.append(texts, longer), np.array(["-"], kind)))
    assert (a.dims, a.attrs["unit"], a.chunks) == (("band",), "nm", (3,))
    a.close()
    assert files_of(tmp_path) == ["a.xmd", "a.xta"]
    assert xa.check(tmp_path / "a").ok


def test_texts_that_fit_into_a_wider_dtype_are_taken():
    a = xa.from_array(np.array(["ab", "abcd"]))
    a.append(np.array(["abc"], "U9"))
    a.append(np.array(["abcdefghi"]).astype(a.dtype))
    a.append(["x"])
    assert_same(a[...], np.array(["ab", "abcd", "abc", "abcd", "x"]))


# -- memory, threads, progress -------------------------------------------------------------------

SETUP = """
import os, tempfile
folder = tempfile.TemporaryDirectory()
xa.config.threads = 2
for name, chunks in ("rows", (8, 2048)), ("squares", (200, 170)):
    with xa.create(f"{folder.name}/{name}", (2048, 2048), chunks=chunks) as a:
        for i in range(0, 2048, 128):
            a[i:i + 128] = i
def run(name, memory, **options):
    xa.rechunk(f"{folder.name}/{name}", f"{folder.name}/new", max_memory=memory, **options).close()
    for suffix in "xmd", "xta":
        os.unlink(f"{folder.name}/new.{suffix}")
run("rows", "64 MiB", chunks=(300, 300))
"""


@pytest.mark.slow
def test_the_memory_bound_holds(freeing):
    calls = {
        'run("rows", "8 MiB", chunks=(2048, 8))': 8,
        'run("squares", "10 MiB", chunks=(300, 128))': 10,
        'run("squares", "4 MiB", chunks=(300, 128), axes=(1, 0))': 4,
        'run("rows", "6 MiB", chunks=(2048, 8), dtype="f4")': 6,
        'run("squares", "6 MiB", chunks=(300, 128), verify=True)': 6,
        'run("rows", "32 MiB", chunks=(1024, 1024), order="H")': 32,
    }
    grown = peaks(freeing, SETUP, list(calls))
    # 5 MiB: the interpreter itself, and what the kernels stage for each thread.
    assert {call: mib for call, mib in grown.items() if mib > calls[call] + 5} == {}


def test_workers(tmp_path):
    values = np.random.default_rng(0).random((2048, 1200))
    a = xa.from_array(values, chunks=(16, 1200))
    with xa.rechunk(a, tmp_path / "new", chunks=(2048, 16), workers=3) as b:
        assert_same(b[...], values)


def share_all(monkeypatch):
    """Let threads share work that is otherwise too small."""
    monkeypatch.setattr(limits, "rechunk_step_bytes", 1)
    monkeypatch.setattr(limits, "share_bytes", 1)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_threads_share_the_templates(tmp_path, monkeypatch, checksum, engine):
    share_all(monkeypatch)
    threads, move = set(), Mover.move

    def noted(self, template):
        threads.add(threading.get_ident())
        # Let the other threads have their turn.
        barrier.wait(timeout=60)
        yield from move(self, template)

    barrier = threading.Barrier(3)
    monkeypatch.setattr(Mover, "move", noted)
    values = np.random.default_rng(0).random((96, 64))
    xa.from_array(values, tmp_path / "old", chunks=(1, 64), checksum=checksum).close()
    with (
        xa.open(tmp_path / "old", engine=engine) as a,
        xa.rechunk(a, tmp_path / "new", chunks=(32, 1), workers=3, verify=True) as b,
    ):
        assert_same(b[...], values)
        assert len(threads) == 3
        b.close()
        assert xa.check(tmp_path / "new").ok


def test_threads_have_the_memory_together(monkeypatch):
    share_all(monkeypatch)
    made, init = [], Mover.__init__

    def counted(self, p, *rest):
        init(self, p, *rest)
        made.append(p.memory)

    monkeypatch.setattr(Mover, "__init__", counted)
    a = xa.from_array(np.arange(64 * 64).reshape(64, 64), chunks=(1, 64))
    for n, memory in enumerate([70 << 10, 2 * 70 << 10, 3 * 70 << 10], 1):
        made.clear()
        xa.rechunk(a, chunks=(64, 1), max_memory=memory, workers=8)
        assert sum(made) <= memory
        assert len(made) >= min(n, 2)


@pytest.mark.parametrize("where", ["caller", "another"])
def test_a_thread_that_fails_ends_the_work(tmp_path, monkeypatch, where):
    """All threads stop, there is no target, and the work done is recorded."""
    share_all(monkeypatch)
    values = np.arange(64 * 64).reshape(64, 64)
    a = xa.from_array(values, chunks=(1, 64))
    caller, move, count = threading.get_ident(), Mover.move, itertools.count()
    barrier, failed = threading.Barrier(2), threading.Event()
    before = threading.active_count()

    def failing(self, template):
        if next(count) < 2:
            barrier.wait(timeout=60)  # wait until both have begun
        elif (threading.get_ident() == caller) == (where == "caller"):
            failed.set()
            raise Stopped
        else:
            failed.wait(timeout=60)
        yield from move(self, template)

    arguments = {"chunks": (8, 1), "workers": 2}
    with monkeypatch.context() as patch:
        patch.setattr(Mover, "move", failing)
        with pytest.raises(Stopped):
            xa.rechunk(a, tmp_path / "new", **arguments)
    assert threading.active_count() == before
    assert not (tmp_path / "new.xmd").exists()
    with xa.rechunk(a, tmp_path / "new", resume=True, **arguments) as b:
        assert_same(b[...], values)
    assert files_of(tmp_path) == ["new.xmd", "new.xta"]


PROGRESS = """
import sys
from extarray.common.limits import limits
sys.stderr.isatty = lambda: True
limits.progress_interval = 0
import numpy as np, extarray as xa
xa.rechunk(xa.from_array(np.arange(6.)), chunks=2, progress=sys.argv[1] == "True")
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bar", [True, False])
@pytest.mark.parametrize("shown", [True, False])
def test_progress_on_a_terminal(script, shown, bar):
    """A bar of tqdm, or a line without it."""
    if bar:
        pytest.importorskip("tqdm")
    hide = "" if bar else "import importlib.util; importlib.util.find_spec = lambda name: None\n"
    done = subprocess.run(
        script.command(hide + PROGRESS, shown),
        capture_output=True,
        text=True,
        timeout=250,
        env=script.environment,
        check=True,
    )
    text = "rechunk: 100%|" if bar else "rechunk: 100% of 48 B"
    assert (text in done.stderr) is shown
    assert done.stdout == ""


def test_no_progress_elsewhere(capsys):
    xa.rechunk(xa.zeros(5), chunks=2)
    assert capsys.readouterr() == ("", "")


class Closed(io.StringIO):
    """A terminal that has gone away."""

    def isatty(self):
        return True

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def closed_file():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, object(), closed_file(), Closed()])
def test_work_goes_on_without_a_terminal(monkeypatch, stream):
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(limits, "progress_interval", 0)
    assert_same(xa.rechunk(xa.from_array(np.arange(6)), chunks=2)[...], np.arange(6))
