"""A commit of several arrays, as seen inside the block, after it, and elsewhere."""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import re
import threading
from pathlib import Path

import format_reader
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from injected import at_every_place, needs_no_tracing
from systems import needs_links, needs_replaced_open_files

import extarray as xa
from extarray._core._history import record_at
from extarray.array import group
from extarray.common.system import MAPS_FREELY
from extarray.storage.filesystem import File


@pytest.fixture
def trio(tmp_path, engine):
    """Yield arrays that share an axis: two in files, one in memory."""
    made = [
        xa.create(tmp_path / "data", (2, 3), "i4", chunks=(2, 2), engine=engine, fill_value=-1),
        xa.create(tmp_path / "time", (2,), "i8", chunks=4, engine=engine),
        xa.create(None, (2, 2), "f4", chunks=2),
    ]
    for number, array in enumerate(made):
        array[...] = number
    yield made
    for array in made:
        array.close()


def facts(array):
    """Return everything that a rolled-back block must restore."""
    segments = [record_at(array.axial, s) for s in range(array.axial.segments)]
    found = [array.shape, array.grid, array.origin, segments, dict(array.attrs)]
    if array.path is not None and (MAPS_FREELY or array.info()["engine"] != "mmap"):
        # Elsewhere a file that is mapped stays long.
        found.append(os.path.getsize(f"{array.path}.xta"))
    return found, array[...].tolist()


def grow(arrays, by, value=7):
    for array in arrays:
        array.append(np.full((by, *array.shape[1:]), value, array.dtype))


@contextlib.contextmanager
def broken(arrays):
    """Run a block that ends by an exception."""
    with pytest.raises(ZeroDivisionError), xa.commit(arrays):  # noqa: PT012
        yield
        raise ZeroDivisionError


# -- the block -----------------------------------------------------------------------------------


def test_all_grow_together(trio):
    data, time, memory = trio
    readers = [xa.open(array.path) for array in (data, time)]
    with xa.commit(trio):
        grow(trio, 5)
        data.extend(1, 2)
        data.extend(0, 1, side="start")
        data.attrs["unit"] = "K"
        time.attrs["unit"] = "s"
        assert data.shape == (8, 5) and data.attrs["unit"] == "K"
        assert not xa.refresh(readers)
        assert [reader.shape for reader in readers] == [(2, 3), (2,)]
        assert not any(reader.refresh() for reader in readers)
    assert xa.refresh(readers)
    assert not xa.refresh(readers)
    for array, reader in zip(trio, readers, strict=False):
        assert (reader[...] == array[...]).all()
        assert dict(reader.attrs) == dict(array.attrs)
        assert (format_reader.read(str(array.path))[0] == array[...]).all()
        reader.close()
    assert memory.shape == (7, 2)
    assert data[:, 0].tolist() == [-1, 0, 0, 7, 7, 7, 7, 7]
    assert data.attrs["unit"] == "K"


def test_what_does_not_change_takes_no_part(trio):
    """None change, or one, or others than the first: each commits in the usual way."""
    data, time, memory = trio
    sequence = data._store.now.state.sequence
    with xa.commit(trio):
        pass
    with xa.commit([]):
        pass
    with xa.commit([data, time]):
        time.attrs["a"] = 1
    assert xa.open(time.path).attrs["a"] == 1
    assert data._store.now.state.sequence == sequence
    with xa.commit([memory, data]):
        data.extend(0, 0)
        data.extend(1, 1)
    with xa.open(data.path) as reader:
        assert reader.shape == (2, 4)


@pytest.mark.parametrize("viewed", [False, True])
@pytest.mark.parametrize("unclean", [False, True])
def test_an_exception_takes_all_back(trio, unclean, viewed):
    if unclean:
        for array in trio:
            array.extend(0, 3)
            array.shrink(0, 3)
    before = [facts(array) for array in trio]
    seen = [(array.shape, array.origin, dict(array.attrs), array[...].tolist()) for array in trio]
    data, time, memory = trio
    views = []
    with broken(trio):
        grow(trio, 1)
        grow(trio, 50)
        data.append(np.full((data.shape[0], 3), 5), axis=1, side="start")
        time.attrs["a"] = memory.attrs["a"] = 1
        time.shrink(0, 1)
        memory.shrink(0, 2, side="start")
        if viewed:
            views += [data.chunk((9, 0)), time.chunk(9), memory.chunk((9, 0))]
    if viewed:  # the grids keep chunks that views show
        shown = zip(trio, seen, strict=True)
        assert all((a.shape, a.origin, dict(a.attrs), a[...].tolist()) == was for a, was in shown)
    else:
        assert [facts(array) for array in trio] == before
    for view in views:
        view[...] = 3
        assert (view == 3).all()
    for array, fill in zip(trio, (-1, 0, 0), strict=True):
        shape = array.shape
        array.extend(0, 60)
        assert (array[shape[0] :] == fill).all()
    del views[:]
    for array in (data, time):
        with xa.open(array.path) as reader:
            assert (reader[...] == array[...]).all()


def test_what_an_exception_took_back_meets_no_other_growth(trio):
    """Views stand in for other threads' writes that begin in the block and end after it."""
    before = [array[...] for array in trio]
    views = []
    with broken(trio):
        grow(trio, 50)
        trio[0].append(np.full((52, 3), 5), axis=1, side="start")
        views += [array.chunk((9, *(0,) * (array.ndim - 1))) for array in trio]
    for array, expected, view, fill in zip(trio, before, views, (-1, 0, 0), strict=True):
        assert np.array_equal(array[...], expected)
        array.extend(array.ndim - 1, 60)
        view[...] = 3
        assert (view == 3).all()
        if array.ndim > 1:  # with one axis, the view shows the same elements
            assert (array[:, expected.shape[1] :] == fill).all()
            array.extend(0, 60)
        assert np.array_equal(array[tuple(map(slice, expected.shape))], expected)
        array.extend(0, 1, side="start")
        assert np.array_equal(array[1 : len(expected) + 1][..., : expected.shape[-1]], expected)
    shown = [array[...] for array in trio]
    del view, views[:]
    for array, expected in zip(trio, shown, strict=True):
        array.flush()
        assert np.array_equal(array[...], expected)
        if array.path:
            with xa.open(array.path) as reader:
                assert np.array_equal(reader[...], expected)
            assert xa.check(array.path, data=True).ok


@needs_no_tracing
@pytest.mark.parametrize("in_use", [False, True])
def test_no_thread_meets_half_of_a_growth_taken_back(tmp_path, engine, in_use):
    """Looks stand in for other threads, which run wherever the interpreter switches to them."""
    path = tmp_path / "a"
    arrays = [
        xa.create(path, (6, 5), "i4", chunks=(2, 2), engine=engine, sparse=True, checksum=True),
        xa.create(None, (6, 5), "i4", chunks=(2, 2)),
    ]
    elements = np.arange(1, 31, dtype="i4").reshape(6, 5)
    places = []

    def look(place):
        places.append(place)
        for array in arrays:
            indices = map(operator.add, np.indices(elements.shape), array.origin)
            assert np.array_equal(array.vindex[tuple(indices)], elements), place
            for chunk in np.ndindex(array.grid):
                array.chunk(chunk)

    for array in arrays:
        array[...] = elements
    with contextlib.ExitStack() as looks, broken(arrays):
        for array in arrays:
            array.extend(0, 7)
            array.extend(1, 9, side="start")
            array.extend(0, 3, side="start")
        used = [array.chunk((0, 0)) for array in arrays] if in_use else []
        looks.enter_context(at_every_place(look, group))
    del used
    assert any("_take_back" in place for place in places)
    for array in arrays:
        assert np.array_equal(array[...], elements)
        assert (array.grid == (3, 3)) != in_use
        array.extend(1, 9, side="start")
        assert np.array_equal(array[:, 9:], elements)
        array.close()
    assert xa.check(path, data=True).ok


def test_what_is_caught_in_the_block_is_no_end_of_it(trio):
    data, time, _ = trio
    with xa.commit(trio):
        grow(trio, 3)
        with pytest.raises(xa.ShapeError):
            data.append(np.ones((2, 9)))

        class Broken:
            shape, dtype = (4, 3), np.dtype("i4")

            def __getitem__(self, box):
                raise RuntimeError("gone")

        with pytest.raises(RuntimeError, match="gone"):
            data.append(Broken())
        time.extend(0, 1)
    for array, rows in ((data, 5), (time, 6)):
        with xa.open(array.path) as reader:
            assert reader.shape[0] == rows
    data.extend(0, 10)
    assert (data[5:] == -1).all()


def test_a_window_that_rolls(trio):
    data, time, _ = trio
    sizes = []
    for step in range(40):
        with xa.commit(trio):
            grow(trio, 4, step)
            for array in trio:
                array.shrink(0, array.shape[0] - 6, side="start")
        sizes.append(data.info()["disk_bytes"] + time.info()["disk_bytes"])
    assert max(sizes[10:]) == max(sizes[10:20]), "space is bounded"
    expected = [38, 38, 39, 39, 39, 39]
    for array in trio:
        assert array.reshape(6, -1)[:, 0].tolist() == expected
    for array in (data, time):
        with xa.open(array.path) as reader:
            assert reader.reshape(6, -1)[:, 0].tolist() == expected


def test_what_the_block_cuts_stays_until_its_end(trio):
    grow(trio, 20)
    before = [facts(array)[1] for array in trio]
    with broken(trio):
        for array in trio:
            array.shrink(0, 15)
            with pytest.raises(xa.ArgumentError, match="was cut in this block of extarray.commit"):
                array.extend(0, 1)
            with pytest.raises(xa.ArgumentError, match="was cut in this block of extarray.commit"):
                array.append(np.zeros((1, *array.shape[1:]), array.dtype))
            array.extend(0, 1, side="start")
    assert [facts(array)[1] for array in trio] == before
    with xa.commit(trio):
        for array in trio:
            array.shrink(0, 15)
    for array, fill in zip(trio, (-1, 0, 0), strict=True):
        array.extend(0, 15)
        assert (array[7:] == fill).all()


def test_reserve_counts_with_the_others(trio):
    data, time, _ = trio
    with xa.commit([data, time]):
        data.reserve((40, 40))
        time.extend(0, 1)
    with xa.open(data.path) as reader:
        assert reader.grid == data.grid == (20, 20) and reader.shape == (2, 3)
    with broken([data, time]):
        data.reserve((80, 80))
    assert data.grid == (20, 20)


# -- refusals ------------------------------------------------------------------------------------


def test_errors(trio):
    data, time, memory = trio
    reader, closed = xa.open(data.path), xa.zeros((2, 2))
    closed.close()
    for arrays, kind, text in [
        ([data, data], xa.ArgumentError, "is given twice"),
        (data, xa.ArgumentTypeError, "give a list"),
        ([data, np.zeros(3)], xa.ArgumentTypeError, "give a list"),
        ([data, closed], xa.ClosedError, "is closed"),
    ]:
        for function in (xa.commit, xa.refresh):
            with pytest.raises(kind, match=text), contextlib.ExitStack() as stack:
                stack.enter_context(function(arrays))
    with pytest.raises(xa.ReadOnlyError, match="cannot commit"), xa.commit([data, reader]):
        raise AssertionError
    with xa.commit([data, time]):
        with pytest.raises(xa.ArgumentError, match="nest commits"), xa.commit([memory]):
            raise AssertionError
        for array in (data, time):
            with pytest.raises(xa.ArgumentError, match="cannot flush"):
                array.flush()
            with pytest.raises(xa.ArgumentError, match="cannot close"):
                array.close()
            assert not array.refresh()
        data.extend(0, 1)
        with pytest.raises(xa.LockedError):
            xa.open(data.path, "r+")
    data.extend(0, 1)
    reader.close()

    class Nested:
        shape, dtype = (1, 3), np.dtype("i4")

        def __getitem__(self, box):
            with xa.commit([time, data]):
                raise AssertionError

    with pytest.raises(xa.ArgumentError, match="during an append"):
        data.append(Nested())
    grow([time], 1)
    assert time.shape == (3,)


def test_paths_that_have_no_room(tmp_path):
    arrays = [xa.zeros((0,), path=tmp_path / f"{i}{'x' * 150}", chunks=1) for i in range(25)]
    with (
        pytest.raises(xa.ArgumentError, match="cannot commit 25 arrays together"),
        xa.commit(arrays),
    ):
        grow(arrays, 1)
    assert all(array.shape == (0,) for array in arrays)
    with xa.commit(arrays[:20]):
        grow(arrays[:20], 1)
    for array in arrays:
        array.close()


# -- threads, processes, places ------------------------------------------------------------------


def test_other_threads_wait(trio):
    data, time, _ = trio
    began, order = threading.Event(), []

    def other():
        began.wait()
        time.extend(0, 10)
        order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    with xa.commit([data, time]):
        began.set()
        thread.join(0.05)
        time.extend(0, 1)
        order.append("block")
    thread.join()
    assert order == ["block", "other"] and time.shape == (13,)


def test_blocks_of_two_threads_do_not_wait_in_a_circle(trio):
    def run(arrays):
        for _ in range(30):
            with xa.commit(arrays):
                for array in arrays:
                    array.extend(0, 1)

    threads = [threading.Thread(target=run, args=(a,)) for a in (trio, trio[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {array.shape[0] for array in trio} == {62}


FORKED = """
import os, sys
import numpy as np
import extarray as xa
from extarray.array import group
a = xa.zeros((2, 2), path=sys.argv[1], chunks=2)
b, m = xa.zeros((2,), path=sys.argv[2]), xa.zeros((1,))
try:
    with xa.commit([a, b, m]):
        a.append(np.ones((30, 2)))
        b.append(np.ones(30))
        m.extend(0, 1)
        child = os.fork()
        if not child:
            assert a.shape == (2, 2) and b.shape == (2,) and m.shape == (2,), (a.shape, b.shape)
            assert not a[...].any() and a.mode == "r"
            with xa.commit([m]):
                m.extend(0, 5)
            raise SystemExit(0)
except SystemExit:
    assert a.shape == (2, 2) and m.shape == (7,)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(a.shape, xa.open(sys.argv[2]).shape)
a.close()
b.close()
"""


@pytest.mark.slow
def test_a_forked_child_is_in_no_block(tmp_path, forked):
    assert forked(FORKED, tmp_path / "a", tmp_path / "b") == "(32, 2) (32,)\n"


@needs_links
def test_places(tmp_path, monkeypatch):
    """Sibling folders, a link, a move of all of them, another working directory."""
    (tmp_path / "one" / "deep").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "two")
    monkeypatch.chdir(tmp_path / "one")
    a, b = xa.zeros((1,), path="deep/a"), xa.zeros((1,), path="../link/ü b")
    monkeypatch.chdir(tmp_path)
    finish(a, b, lambda: grow([a, b], 2))
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("one", "two"):
        (tmp_path / name).rename(moved / name)
    with xa.open(moved / "two" / "ü b") as reader:
        assert reader.shape == (3,)
    assert format_reader.read(str(moved / "two" / "ü b"))[0].shape == (3,)
    (moved / "one").rename(moved / "lost")
    with (
        pytest.warns(xa.RecoveryWarning, match="is missing"),
        xa.open(moved / "two" / "ü b") as b,
    ):
        assert b.shape == (1,)
    with pytest.warns(xa.RecoveryWarning), xa.open(moved / "two" / "ü b", "r+") as b:
        assert b.shape == (1,)
    (moved / "lost").rename(moved / "one")
    with xa.open(moved / "two" / "ü b") as b:
        assert b.shape == (1,), "the writer has decided"


def linked(folder, *names):
    """Put the files of a pair into separate folders, or one; return links to them."""
    link = folder / "links" / "b"
    for suffix, name in zip((".xmd", ".xta"), names, strict=True):
        file = (folder / name).with_name(f"{Path(name).name}{suffix}")
        file.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{folder / 'b'}{suffix}").rename(file)
        Path(f"{link}{suffix}").symlink_to(os.path.relpath(file, link.parent))
    return link


@needs_links
@pytest.mark.parametrize("decides", [0, 1])
@pytest.mark.parametrize("at_once, later", [(0, 1), (1, 0), (0, 0)])
def test_links_to_files(tmp_path, decides, at_once, later):
    """An array has one place, whatever name opened it."""
    (tmp_path / "links").mkdir()
    for name in "abc":
        xa.zeros((1,), path=tmp_path / name).close()
    links = linked(tmp_path, "deep/down/b", "deep/down/b"), tmp_path / "deep" / "down" / "b"
    a, b = xa.open(tmp_path / "a", "r+"), xa.open(links[at_once], "r+")
    finish(*((b, a) if decides else (a, b)), lambda: grow([a, b], 2))
    places = [tmp_path / "a", links[later]]
    for place in places:
        assert format_reader.read(str(place))[0].shape == (3,)
        with xa.open(place) as reader:
            assert reader.shape == (3,)
    # The coordinator forgets its decision after settling the other member.
    with (
        xa.open(places[decides], "r+") as first,
        xa.open(tmp_path / "c", "r+") as c,
        xa.commit([first, c]),
    ):
        grow([first, c], 1)
    for place in (places[1 - decides], *links[decides:]):
        with xa.open(place) as reader:
            assert reader.shape == (3 + (place in links and decides),)


@needs_links
@pytest.mark.parametrize("decides", [0, 1])
def test_links_to_files_of_other_names(tmp_path, decides):
    """Only the links form a pair."""
    (tmp_path / "links").mkdir()
    for name in "abc":
        xa.zeros((1,), path=tmp_path / name).close()
    places = [tmp_path / "a", linked(tmp_path, "deep/down/1", "data/2")]
    a, b = (xa.open(place, "r+") for place in places)
    finish(*((b, a) if decides else (a, b)), lambda: grow([a, b], 2))
    with (
        xa.open(places[decides], "r+") as first,
        xa.open(tmp_path / "c", "r+") as c,
        xa.commit([first, c]),
    ):
        assert first.shape == (3,)
        grow([first, c], 1)
    assert xa.open(places[1 - decides]).shape == (3,)


def finish(a, b, change):
    """Commit two arrays with a writer that dies once it has decided; leave both that way."""
    from extarray.storage import group_member

    class Died(BaseException):
        pass

    def die(self):
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_member.GroupShare, "secure", die)
        patch.setattr(group_member.GroupShare, "finish", die)
        with pytest.raises(Died), xa.commit([a, b]):
            change()
    for array in (a, b):
        array._store.now.metadata.close()
        array._store.now.data.close()


@needs_replaced_open_files
def test_the_coordinator_is_another_array_now(tmp_path):
    a, b = (xa.zeros((1,), path=tmp_path / name) for name in "ab")
    finish(a, b, lambda: grow([a, b], 2))
    xa.create(tmp_path / "a", (9,), overwrite=True).close()
    # Replacing the coordinator settles the members that need its decision.
    with xa.open(tmp_path / "b") as reader:
        assert reader.shape == (3,)


def test_shared_openings_of_one_array(tmp_path):
    """Refuse them before taking locks, where each would wait for the other."""
    xa.zeros((1,), path=tmp_path / "a").close()
    with (
        xa.open(tmp_path / "a", "r+", share=True) as a,
        xa.open(tmp_path / "a", "r+", share=True) as b,
        pytest.raises(xa.ArgumentError, match="share"),
        xa.commit([a, b]),
    ):
        pass


def test_elements_appended_where_the_block_has_cut(factory):
    """The elements lie in one chunk, which the end of the block would have freed."""
    with factory.array((1,), "i8", chunks=4096) as array:
        array[0] = 5
        with xa.commit([array]):
            array.shrink(0, 1, side="start")
            array.append([9])
        assert array[...].tolist() == [9]


@needs_replaced_open_files
def test_an_axis_that_comes_while_arrays_are_looked_at(tmp_path, monkeypatch):
    with xa.zeros((1, 3), path=tmp_path / "a") as a, xa.zeros((1,), path=tmp_path / "b") as b:
        readers = [xa.open(tmp_path / name) for name in "ab"]
        look = group._refresh

        def late(members):
            monkeypatch.setattr(group, "_refresh", look)
            a.add_axis()
            with xa.commit([a, b]):
                a.extend(1, 1)
                b.extend(0, 1)
            return look(members)

        monkeypatch.setattr(group, "_refresh", late)
        assert xa.refresh(readers)
        assert [reader.shape for reader in readers] == [(1, 2, 3), (2,)]
        for reader in readers:
            reader.close()


def test_a_decision_is_remembered_until_it_is_needed_no_more(tmp_path):
    """A commit with other arrays settles the remaining members of the previous group."""
    a, b = (xa.zeros((1,), path=tmp_path / name) for name in "ab")
    finish(a, b, lambda: grow([a, b], 2))
    with xa.open(tmp_path / "a", "r+") as a, xa.zeros((1,), path=tmp_path / "c") as c:
        assert a.shape == (3,)
        for _ in range(2):
            with xa.commit([a, c]):
                grow([a, c], 1)
        with xa.open(tmp_path / "b") as b:
            assert b.shape == (3,)
    with xa.open(tmp_path / "b", "r+") as b, xa.open(tmp_path / "c", "r+") as c:
        assert b.shape == c.shape == (3,)
        with xa.commit([b, c]):
            grow([b, c], 1)
    assert xa.open(tmp_path / "b").shape == xa.open(tmp_path / "c").shape == (4,)


def test_a_reader_sees_a_decision_that_nobody_has_finished(tmp_path):
    a, b = (xa.zeros((1,), path=tmp_path / name) for name in "ab")
    readers = [xa.open(tmp_path / name) for name in "ab"]
    alone = xa.open(tmp_path / "b")
    finish(a, b, lambda: grow([a, b], 2))
    assert alone.refresh() and alone.shape == (3,) and not alone.refresh()
    assert xa.refresh(readers) and not xa.refresh(readers)
    assert [reader.shape for reader in readers] == [(3,), (3,)]
    late = [xa.open(tmp_path / name) for name in "ba"]
    assert [reader.shape for reader in late] == [(3,), (3,)]
    with xa.open(tmp_path / "b", "r+") as b:
        grow([b], 1)
    assert xa.refresh(late[:1]) and late[0].shape == (4,)
    for reader in (*readers, *late, alone):
        reader.close()


def test_a_refresh_of_damaged_files_changes_nothing(tmp_path):
    a, b = (xa.zeros((1,), path=tmp_path / name, chunks=1) for name in "ab")
    readers = [xa.open(tmp_path / name) for name in "ab"]
    with xa.commit([a, b]):
        grow([a, b], 2)
    with Path(tmp_path / "b.xmd").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(2 * 1024))
    with pytest.raises(xa.CorruptError, match=r"b\.xmd"):
        xa.refresh(readers)
    assert [reader.shape for reader in readers] == [(1,), (1,)]
    for array in (*readers, a, b):
        array.close()


@pytest.mark.parametrize("damage", ["log", "attributes", "reading"])
def test_a_refresh_that_fails_names_the_file(tmp_path, monkeypatch, damage):
    a, b = (xa.zeros((1, 1), path=tmp_path / name, chunks=1) for name in "ab")
    readers = [xa.open(tmp_path / name) for name in "ab"]
    with xa.commit([a, b]):
        for array in (a, b):
            array.extend(1, 1)
            array.attrs["unit"] = "mm"
    state = b._store.now.state
    at = b._store.now.header.first_extent + 16 if damage == "log" else state.attrs_offset
    if damage == "reading":
        real, refused = File.read, readers[1]._store.now.metadata

        def read(file, *args):
            if file is refused:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(file, *args)

        monkeypatch.setattr(File, "read", read)
    else:
        with Path(tmp_path / "b.xmd").open("r+b") as file:
            file.seek(at)
            file.write(bytes(100))
    for refresh in (lambda: xa.refresh(readers), readers[1].refresh):
        with pytest.raises(
            (xa.CorruptError, xa.StorageError), match=re.escape(f"{tmp_path}{os.sep}b")
        ):
            refresh()
    assert [reader.shape for reader in readers] == [(1, 1), (1, 1)]
    monkeypatch.undo()
    for array in (*readers, a, b):
        array.close()


# -- against a model -----------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "prepend", "extend", "attr", "cut", "window"]),
        st.integers(0, 2),
        st.integers(1, 5),
    ),
    max_size=6,
)


class Twin:
    """An array and its NumPy model."""

    def __init__(self, array):
        self.array, self.model, self.attrs = array, array[...], {}

    def apply(self, what, by, value):
        array, rest = self.array, self.model.shape[1:]
        rows = np.full((by, *rest), value, self.model.dtype)
        if what == "append":
            array.append(rows)
            self.model = np.concatenate([self.model, rows])
        elif what == "prepend":
            array.append(rows, side="start")
            self.model = np.concatenate([rows, self.model])
        elif what == "extend":
            array.extend(0, by)
            self.model = np.concatenate([self.model, np.zeros_like(rows)])
        elif what == "attr":
            self.attrs = {**self.attrs, "a": "x" * by * 500}
            array.attrs["a"] = self.attrs["a"]
        elif what == "cut":
            by = min(by, len(self.model))
            array.shrink(0, by)
            self.model = self.model[: len(self.model) - by]
        else:
            by = min(by, len(self.model))
            array.shrink(0, by, side="start")
            self.model = self.model[by:]

    def check(self, array):
        assert np.array_equal(array[...], self.model)
        assert dict(array.attrs) == self.attrs


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(blocks=st.lists(st.tuples(STEPS, st.booleans(), st.booleans()), max_size=6))
def test_blocks_against_numpy(tmp_path_factory, blocks):
    folder = tmp_path_factory.mktemp("model")
    made = [
        xa.create(folder / "a", (1, 2), "i4", chunks=(3, 2)),
        xa.create(folder / "b", (3,), "u1", chunks=2),
        xa.create(None, (2, 2), "i2", chunks=2),
    ]
    twins = [Twin(array) for array in made]
    readers = [xa.open(folder / name) for name in "ab"]
    value = 0
    for steps, fails, reopens in blocks:
        before = [(twin.model, twin.attrs) for twin in twins]
        try:
            with xa.commit(made):
                for what, number, by in steps:
                    value = value % 100 + 1
                    twin = twins[number]
                    with contextlib.suppress(xa.ArgumentError):  # growth at a side that was cut
                        twin.apply(what, by, value)
                    twin.check(twin.array)
                if fails:
                    raise KeyError
        except KeyError:
            for twin, (model, attrs) in zip(twins, before, strict=True):
                twin.model, twin.attrs = model, attrs
        xa.refresh(readers)
        for twin in twins:
            twin.check(twin.array)
        for twin, reader in zip(twins, readers, strict=False):
            twin.check(reader)
            assert np.array_equal(format_reader.read(str(reader.path))[0], twin.model)
        if reopens:
            for number in range(2):
                made[number].close()
                made[number] = xa.open(readers[number].path, "r+")
                twins[number].array = made[number]
    for array in (*made, *readers):
        array.close()


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_that_was_cut_off_in_the_block_is_not_said_to_be_on_the_disk(tmp_path, alone):
    """Lost elements must not read as zeros, just as after `flush` and single commits."""
    with (
        xa.create(tmp_path / "data", (2, 3), "i4", chunks=(2, 2), durability="commit") as a,
        xa.create(tmp_path / "time", (2,), "i8", chunks=4, durability="commit") as b,
    ):
        name, before = f"{a.path}.xta", (a.shape, b.shape)
        with (  # noqa: PT012
            pytest.raises(xa.errors.TruncatedError, match=r"data.xta' has 0 bytes"),
            xa.commit([a, b]),
        ):
            a.extend(0, 4)
            if not alone:
                b.extend(0, 4)
            whole = os.path.getsize(name)
            os.truncate(name, 0)
        assert (a.shape, b.shape) == before
        os.truncate(name, whole)
