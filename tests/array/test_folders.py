"""Groups: folders as mappings of arrays and groups, changed together; hostile names are refused."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
from systems import (
    needs_any_names,
    needs_forgotten_locks,
    needs_links,
    needs_posix,
    needs_replaced_open_files,
)

import extarray as xa
from extarray import errors
from extarray.array.life import open_in_files
from extarray.common import system
from extarray.maintenance import group_files


@pytest.fixture
def group(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("time", 2, "i8", dims=["time"])
        g.create("north/wind", (2, 3), dims=["time", "x"])
        g["scene"] = np.arange(6).reshape(2, 3)
        yield g


def test_a_group_is_a_mapping(group):
    assert list(group) == ["north", "scene", "time"]
    assert len(group) == 3
    assert "scene" in group and "north/wind" in group and "north/none" not in group
    assert group["scene"].sum() == 15
    assert isinstance(group["north"], xa.Group)
    assert list(group["north"]) == ["wind"]
    assert group["north/wind"] is group["north"]["wind"]
    assert group.get("none") is None
    assert dict(group.arrays()).keys() == {"scene", "time"}
    assert dict(group.groups()).keys() == {"north"}
    assert [name for name, _ in group.walk()] == ["north", "north/wind", "scene", "time"]
    assert [name for name, _ in group["north"].walk()] == ["wind"]
    assert (group.name, group["north"].name) == ("/", "/north")
    with pytest.raises(
        KeyError, match="no member 'none'; its members are 'north', 'scene', 'time'"
    ):
        group["none"]
    with pytest.raises(errors.VariableError):
        del group["none"]


def test_a_group_is_its_folder(group):
    folder = group.path
    xa.ones(4, path=folder / "made by others").close()
    assert group["made by others"].sum() == 4
    (folder / "notes.txt").write_text("no array")
    assert "notes.txt" not in group
    with xa.open_group(folder) as reader:
        assert list(reader) == [*group] == ["made by others", "north", "scene", "time"]
        assert reader["scene"].mode == "r"


@needs_replaced_open_files
def test_members_are_made_and_removed(group):
    a = group.create("deep/er/a", (2,), fill_value=3, dims=["x"], checksum=True)
    assert (a.mode, a.dims, a[0]) == ("r+", ("x",), 3)
    assert list(group["deep"]) == ["er"]
    assert list(group.require_group("deep/er")) == ["a"]
    empty = group.create_group("empty/inner")
    assert list(empty) == []
    for name in ("deep", "deep/er/a", "scene"):
        with pytest.raises(errors.ExistsError):
            group.create(name, 3)
        with pytest.raises(errors.ExistsError):
            group.create_group(name)
        with pytest.raises(errors.ExistsError):
            group[name] = [1]
    for make in (group.create_group, lambda name: group.create(name, 2)):
        with pytest.raises(errors.ExistsError, match="is an array"):
            make("scene/a")
    with pytest.raises(errors.ExistsError):
        group.require_group("scene")
    with pytest.raises(errors.ArgumentError):
        group.create("x", 3, overwrite=True)
    del group["deep/er/a"]
    assert a.closed
    assert "deep/er" in group and "deep/er/a" not in group
    wind = group["north/wind"]
    del group["north"]
    assert wind.closed
    assert list(group) == ["deep", "empty", "scene", "time"]


def test_attributes_of_groups(group):
    group.attrs["title"] = "weather"
    group["north"].attrs.update(scale=np.float32(0.5), where=("a", 1))
    with xa.open_group(group.path) as reader:
        assert dict(reader.attrs) == {"title": "weather"}
        assert dict(reader["north"].attrs) == {"scale": np.float32(0.5), "where": ("a", 1)}
        with pytest.raises(errors.ReadOnlyError):
            reader.attrs["title"] = "other"
    del group.attrs["title"]
    assert dict(group.attrs) == {}
    with pytest.raises(errors.ArgumentTypeError):
        group.attrs["x"] = object()
    (group.path / "dataset.json").write_text("[]")
    with pytest.raises(errors.FormatError):
        dict(group.attrs)


@needs_replaced_open_files
def test_members_are_moved(group):
    a, wind = group["scene"], group["north/wind"]
    group.move("scene", "new/place")
    a[0, 0] = 7
    assert group["new/place"] is a and a.path == group.path / "new" / "place"
    group.move("north", "new/north")
    assert wind.path == group.path / "new" / "north" / "wind"
    wind[...] = 4
    wind.extend(0, 1)
    wind.flush()
    wind.add_axis(0)
    assert group["new"]["north/wind"] is wind
    with pytest.raises(errors.ExistsError):
        group.move("time", "new/north")
    with pytest.raises(errors.VariableError):
        group.move("none", "x")
    with pytest.raises(errors.ArgumentError):
        group.move("new", "new/inside")
    group.close()
    with xa.open_group(group.path.parent / "g") as g:
        assert g["new/north/wind"].shape == (1, 3, 3)
        assert g["new/place"][0, 0] == 7


def test_arrays_with_an_axis_grow_together(group):
    before = {name: group[name][...] for name in ("time", "north/wind")}
    group.extend("time", 4)
    assert group["time"].shape == (6,) and group["north/wind"].shape == (6, 3)
    group.extend("time", 1, side="start")
    assert group["north/wind"].origin == (1, 0)
    for name, values in before.items():
        assert np.array_equal(group[name][1:3], values)
    assert group["scene"].shape == (2, 3)
    with pytest.raises(errors.AxisError, match="'time', 'x'"):
        group.extend("y", 1)
    group["time"].extend(0, 1)
    with pytest.raises(errors.ShapeError, match="7 in 'north/wind', 8 in 'time'"):
        group.extend("time", 1)
    assert group["north"].extend("time", 1) is None
    assert group["north/wind"].shape == (8, 3)


def test_a_failed_growth_leaves_all_as_they_were(group):
    with pytest.raises(errors.LimitError):
        group.extend("time", 2**62)
    assert group["time"].shape == (2,) and group["north/wind"].shape == (2, 3)
    with xa.open(group.path / "time") as t:
        assert t.shape == (2,)


@pytest.mark.process
@pytest.mark.slow
def test_a_kill_in_growth_leaves_all_or_none(tmp_path, forked):
    names = [f"a{n}" for n in range(4)]
    with xa.open_group(tmp_path / "g", "w") as g:
        for name in names:
            g.create(name, (0, 8), dims=["time", "x"])
    code = (
        "import sys, extarray as xa; g = xa.open_group(sys.argv[1], 'r+'); g.extend('time', 1);\n"
        "print(flush=True)\nwhile True: g.extend('time', 1)"
    )
    seen = set()
    for n in range(12):
        with forked.start(code, tmp_path / "g") as process:
            process.stdout.readline()
            time.sleep(0.003 * n)
            process.kill()
        with xa.open_group(tmp_path / "g") as g:
            (extent,) = {g[name].shape[0] for name in names}
        seen.add(extent)
    assert len(seen) == 12


def test_a_writer_of_another_array_does_not_hinder_growth(group):
    group.close()
    with xa.open_group(group.path, "r+") as other, xa.open_group(group.path, "r+") as g:
        other.create("apart", 2, dims=["y"])
        g.create("steps", 2, dims=["t"])
        g.extend("t", 3)
        assert g["steps"].shape == (5,)
        with pytest.raises(errors.LockedError):
            g.extend("y", 1)


MODES = {"r": False, "r+": False, "a": True, "w": True, "w-": True}


@needs_replaced_open_files
@pytest.mark.parametrize(("mode", "makes"), MODES.items())
def test_modes(mode, makes, tmp_path):
    if makes:
        with xa.open_group(tmp_path / "new" / "g", mode) as g:
            assert g.mode == "r+"
            g["a"] = [1, 2]
    else:
        with pytest.raises(errors.MissingError):
            xa.open_group(tmp_path / "new" / "g", mode)
    folder = tmp_path / "g"
    with xa.open_group(folder, "w") as g:
        g["a"] = [1, 2]
        g["b/c"] = [1, 2]
        g["b"].attrs["x"] = 1
    if mode == "w-":
        with pytest.raises(errors.ExistsError):
            xa.open_group(folder, mode)
        return
    with xa.open_group(folder, mode) as g:
        assert list(g) == ([] if mode == "w" else ["a", "b"])
        if mode == "r":
            for change in (
                lambda: g.create("x", 3),
                lambda: g.create_group("x"),
                lambda: g.move("a", "x"),
                lambda: g.extend("x", 1),
                lambda: g.__setitem__("x", [1]),
                lambda: g.__delitem__("a"),
            ):
                with pytest.raises(errors.ReadOnlyError):
                    change()


_STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "ctypes.dlsym"}


def killed_at(number, function):
    """Run a function in a process killed at one of its steps; tell whether it was killed."""
    pid = os.fork()
    if not pid:
        left = [number]

        def count(event, args):
            if event in _STEPS:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        function()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def replaced_by_none(path):
    xa.open_group(path, "w").close()


def replaced_by_a_tree(path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("extarray.interop.xarray")
    other = xr.DataTree.from_dict({"/": xr.Dataset(), "/south": xr.Dataset({"b": ("x", [5, 6])})})
    other.extarray.to_extarray(path, mode="w")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("replace", [replaced_by_none, replaced_by_a_tree])
def test_a_kill_in_the_replacement_of_a_group_leaves_it_or_its_successor(
    tmp_path, monkeypatch, replace, exchanges
):
    if not exchanges:
        monkeypatch.setattr(group_files, "exchange", lambda one, other: False)
    elif not system.exchange(*map(str, (tmp_path, tmp_path))):
        pytest.skip("the system exchanges no names")
    path = tmp_path / "g"

    def content(folder):
        with xa.open_group(folder) as g:
            return {n: a[...].tolist() for n, a in g.walk() if isinstance(a, xa.ExtArray)}

    def make():
        for each in os.listdir(tmp_path):
            shutil.rmtree(tmp_path / each)
        with xa.open_group(path, "w-") as g:
            g["a"], g["north/b"] = [1, 2], [3, 4]
            g.attrs["title"] = "old"
        os.chmod(path, 0o750)
        return content(path)

    old = make()
    replace(path)
    new = content(path)
    assert new != old and os.listdir(tmp_path) == ["g"]
    assert replace is not replaced_by_none or path.stat().st_mode & 0o777 == 0o750
    seen = set()
    for number in range(1, 100):
        make()
        if not killed_at(number, lambda: replace(path)):
            break
        if path.exists():
            found = content(path)
            assert found in (old, new)
            seen.add(found == old)
        else:  # killed between two renames
            assert not exchanges
            (moved,) = [name for name in os.listdir(tmp_path) if name.endswith(".old")]
            assert content(tmp_path / moved) == old
            seen.add("between")
        replace(path)
        assert content(path) == new
        left = [name for name in os.listdir(tmp_path) if name.endswith(".new")]
        assert not any(os.listdir(tmp_path / name) for name in left)  # empty: may be in use
    else:
        raise AssertionError("it has no end")
    assert seen == ({True, False} if exchanges else {True, False, "between"})


@needs_replaced_open_files
def test_a_group_in_which_the_process_is_at_work_is_replaced_where_it_is(group, monkeypatch):
    group.close()
    monkeypatch.chdir(group.path / "north")
    inode = group.path.stat().st_ino
    with xa.open_group("..", "w") as g:
        assert list(g) == [] and group.path.stat().st_ino == inode


def test_nothing_but_a_group_is_replaced(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a"] = [1]
        g["b/c"] = [2]
        with pytest.raises(errors.LockedError):
            xa.open_group(tmp_path / "g", "w")
    (tmp_path / "g" / "b" / "thesis.tex").write_text("")
    with pytest.raises(errors.ExistsError, match=r"thesis\.tex"):
        xa.open_group(tmp_path / "g", "w")
    with xa.open_group(tmp_path / "g") as g:
        assert g["a"][0] == 1 and g["b/c"][0] == 2
    xa.zeros(3, path=tmp_path / "array").close()
    with pytest.raises(errors.MissingError, match="is an array"):
        xa.open_group(tmp_path / "array")
    with pytest.raises(errors.MissingError, match="neither a folder"):
        xa.open_group(tmp_path / "array.xmd")
    with pytest.raises(errors.ArgumentError):
        xa.open_group(tmp_path, "rw")
    with pytest.raises(errors.ArgumentTypeError):
        xa.open_group(3)


@pytest.mark.parametrize(
    "name",
    ["..", "../g", "a/../../x", "/time", "/etc/passwd", "", ".", "./time", "north//wind", "a\0b"]
    + ["north/", "a.xmd", "a.xta/b", "dataset.json", "dataset.json/x", "a\\b"],
)
def test_hostile_names_are_refused(group, name):
    assert name not in group
    for use in (
        lambda: group[name],
        lambda: group.create(name, 3),
        lambda: group.create_group(name),
        lambda: group.require_group(name),
        lambda: group.move("scene", name),
        lambda: group.move(name, "x"),
        lambda: group.__setitem__(name, [1]),
        lambda: group.__delitem__(name),
    ):
        with pytest.raises(errors.ArgumentError):
            use()
    assert list(group) == ["north", "scene", "time"]
    with pytest.raises(errors.ArgumentTypeError):
        group[3]


@needs_links
def test_links_out_of_the_group_are_refused(group, tmp_path):
    xa.ones(3, path=tmp_path / "secret").close()
    (tmp_path / "outside").mkdir()
    xa.ones(3, path=tmp_path / "outside" / "b").close()
    for suffix in (".xmd", ".xta"):
        os.symlink(tmp_path / f"secret{suffix}", group.path / f"link{suffix}")
    os.symlink(tmp_path / "outside", group.path / "out")
    os.symlink(group.path / "north", group.path / "in")
    for name in ("link", "out", "out/b"):
        with pytest.raises(errors.ArgumentError, match="leads out"):
            group[name]
        with pytest.raises(errors.ArgumentError, match="leads out"):
            del group[name]
    for name in ("in", "in/wind"):
        assert name not in group
    with pytest.raises(errors.ExistsError):
        group.create("in", 3)
    with pytest.raises(errors.ArgumentError, match="leads out"):
        group.create("out/new", 3)
    assert "cannot be opened: ArgumentError" in repr(group)
    assert xa.open(tmp_path / "secret").sum() == 3
    # A link to the group itself is allowed.
    os.symlink(group.path, tmp_path / "name")
    with xa.open_group(tmp_path / "name") as g:
        assert g["scene"].sum() == 15


def test_closing(tmp_path):
    g = xa.open_group(tmp_path / "g", "w")
    a, b = g.create("a", 3), g.create("in/b", 3)
    inner = g["in"]
    inner.close()
    assert b.closed and not a.closed
    assert g["in/b"].shape == (3,)
    a.close()
    assert not g["a"].closed
    g.close()
    g.close()
    assert g.closed and inner.closed
    for use in (lambda: g["a"], lambda: list(g), lambda: len(g), lambda: g.attrs["x"], g.flush):
        with pytest.raises(errors.ClosedError):
            use()
    assert repr(g).endswith("closed>")
    with xa.open_group(tmp_path / "g") as g:  # a reader closes with its last reference
        a = g["a"]
        assert g["a"] is a


@pytest.mark.slow
def test_a_group_keeps_few_writers_open_beside_those_that_somebody_has(tmp_path):
    names = [f"a{n:03}" for n in range(100)]
    with xa.open_group(tmp_path / "g", "w") as g:
        first = g.create("a000", 3, "i8")
        for n, name in enumerate(names[1:], 1):
            g[name] = np.full(3, n)
        open_ones = [a for a in open_in_files() if a.path.parent == g.path]
        assert len(open_ones) == 64 and first in [a for a in open_ones if a is first]
        del open_ones
        assert [g[name].sum() for name in names] == [3 * n for n in range(100)]
        assert not first.closed and g["a000"] is first
        last = g["a099"]
        all_of_them = [g[name] for name in names]  # more than the limit, but all in use here
        assert not any(a.closed for a in all_of_them) and all_of_them[-1] is last
        with xa.commit(all_of_them):
            for a in all_of_them:
                a.extend(0, 1)
        del all_of_them, a
        for name in names:
            g[name][3] = 1
        for n in range(100, 300):
            g.create(f"a{n}", 1)
        assert len([a for a in open_in_files() if a.path.parent == g.path]) <= 200
    with xa.open_group(tmp_path / "g") as g:
        assert [g[name][...].sum() for name in names] == [3 * n + 1 for n in range(100)]


@needs_any_names
def test_a_group_is_shown_as_a_tree(group):
    (group.path / "bad.xmd").write_bytes(b"damaged")
    assert repr(group).splitlines() == [
        f"<extarray.Group '/': '{group.path}', mode 'r+'>",
        "├── bad  cannot be opened: FormatError",
        "├── north",
        "│   └── wind  (2, 3) float64  time, x",
        "├── scene  (2, 3) int64",
        "└── time  (2,) int64  time",
    ]
    html = group._repr_html_()
    assert html.count("<ul>") == html.count("</ul>") == 2
    assert html.count("<li>") == html.count("</li>") == 5
    group.create_group("<script>")
    assert "<script>" not in group._repr_html_()
    for n in range(300):
        group.create_group(f"many/{n}")
    assert repr(group).splitlines()[-1] == "└── ..."
    shutil.rmtree(group.path / "many")


def test_a_packed_group_is_a_group(group, tmp_path):
    group.attrs["title"] = "weather"
    group["north"].attrs["x"] = 1
    group.create_group("empty")
    group["north/wind"][...] = 5
    xa.pack(group, tmp_path / "g.xap")
    group["scene"][...] = 0
    with xa.open_group(tmp_path / "g.xap") as g:
        assert list(g) == ["empty", "north", "scene", "time"]
        assert g["scene"].sum() == 15 and g["north/wind"].sum() == 30
        assert dict(g.attrs) == {"title": "weather"} and dict(g["north"].attrs) == {"x": 1}
        assert [n for n, _ in g.walk()] == ["empty", "north", "north/wind", "scene", "time"]
        assert repr(g).splitlines()[1:] == repr(group).splitlines()[1:]
        for name in ("../x", "none", "/scene"):
            assert name not in g
        with pytest.raises(errors.ReadOnlyError):
            g.create("x", 3)
        with pytest.raises(errors.ReadOnlyError):
            g.attrs["x"] = 1
        xa.pack(g["north"], tmp_path / "north.xap")
    with xa.open_group(tmp_path / "g.xap" / "north") as g:
        assert list(g) == ["wind"] and dict(g.attrs) == {"x": 1}
    with xa.open_group(tmp_path / "north.xap") as g:
        assert g["wind"].sum() == 30 and dict(g.attrs) == {"x": 1}
    for mode in ("r+", "a", "w", "w-"):
        with pytest.raises(errors.ReadOnlyError, match="unpack"):
            xa.open_group(tmp_path / "g.xap", mode)
    with pytest.raises(errors.MissingError):
        xa.open_group(tmp_path / "g.xap" / "none")
    xa.unpack(tmp_path / "g.xap", tmp_path / "copy")
    with xa.open_group(tmp_path / "copy", "r+") as g:
        g.extend("time", 2)
        assert g["north/wind"].shape == (4, 3) and list(g) == ["empty", "north", "scene", "time"]


def test_a_group_is_pickled_as_its_place(group, tmp_path):
    xa.pack(group, tmp_path / "g.xap")
    with xa.open_group(tmp_path / "g.xap") as packed:
        for each in (group, packed):
            with pickle.loads(pickle.dumps(each["north"])) as found:
                assert (found.name, found.mode, found["wind"].shape) == ("/north", "r", (2, 3))
            assert list(pickle.loads(pickle.dumps(each))) == list(each)
    with pytest.raises(errors.ClosedError):
        pickle.dumps(packed)


def test_groups_with_one_array_or_none_stay_groups(tmp_path):
    for names in ([], ["a"]):
        with xa.open_group(tmp_path / "g", "w") as g:
            for name in names:
                g[name] = [1]
            xa.pack(g, tmp_path / "g.xap", overwrite=True)
        xa.unpack(tmp_path / "g.xap", tmp_path / f"h{len(names)}")
        with xa.open_group(tmp_path / f"h{len(names)}") as g:
            assert list(g) == names


def test_a_group_is_packed_at_one_moment(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("a", 1, dims=["t"])
        g.create("b", 1, dims=["t"])
        with xa.open_group(tmp_path / "g") as reader:
            a = reader["a"]
            g.extend("t", 1)
            xa.pack(reader, tmp_path / "g.xap")
            assert a.shape == (2,)
    with xa.open_group(tmp_path / "g.xap") as g:
        assert g["a"].shape == g["b"].shape == (2,)


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.process
@pytest.mark.slow
def test_more_arrays_are_packed_than_files_can_be_open(mode, tmp_path):
    n = 150
    with xa.open_group(tmp_path / "g", "w") as g:
        for i in range(n):
            with g.create(f"{i % 3}/{i}", (2, 3), "i4") as a:
                a[...] = i
                a.attrs["number"] = i
    code = (
        "import resource, sys, extarray as xa\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))\n"
        "with xa.open_group(sys.argv[1], sys.argv[2]) as g:\n"
        "    first = g['0/0']\n"
        "    xa.pack(g, sys.argv[3], progress=False)\n"
        "xa.unpack(sys.argv[3], sys.argv[4])\n"
        "print(repr(xa.open_group(sys.argv[4])))"
    )
    names = [tmp_path / "g", mode, tmp_path / "g.xap", tmp_path / "h"]
    shown = subprocess.run(
        [sys.executable, "-c", code, *names], check=True, capture_output=True, text=True
    ).stdout
    assert shown.count("int32") == n
    with xa.open_group(tmp_path / "h") as g:
        for _, array in g.walk():
            if isinstance(array, xa.ExtArray):
                assert np.all(array[...] == array.attrs["number"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "n",
    [4, pytest.param(30, marks=needs_forgotten_locks)],  # all kept open, or only some
)
def test_what_is_packed_while_others_commit_is_of_one_moment(n, tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        for i in range(n):
            g.create(f"a{i:02}", (0, 2), dims=["t", "x"])
        done, has_grown = threading.Event(), threading.Event()

        def grow():
            while not done.wait(0.05):
                g.extend("t", 1)
                has_grown.set()

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            extents = []
            for turn in range(4):
                target = tmp_path / f"{turn}.xap"
                has_grown.clear()
                assert has_grown.wait(60)
                with xa.open_group(tmp_path / "g") as reader:
                    xa.pack(reader, target)
                with xa.open_group(target) as packed:
                    (extent,) = {array.shape[0] for _, array in packed.arrays()}
                extents.append(extent)
        finally:
            done.set()
            thread.join()
    assert extents == sorted(set(extents))


def test_an_array_that_is_replaced_while_it_is_packed_is_no_mixture(tmp_path, monkeypatch):
    with xa.open_group(tmp_path / "g", "w") as g:
        for i in range(20):
            g[f"a{i:02}"] = np.full(3, i)

    def replace(done, total):
        xa.from_array([1.5], path=tmp_path / "g" / "a19", overwrite=True).close()

    with xa.open_group(tmp_path / "g") as g, pytest.raises(errors.StorageError, match="replaced"):
        xa.pack(g, tmp_path / "g.xap", progress=replace)
    assert os.listdir(tmp_path) == ["g"]


def test_a_group_is_removed_whole_or_not_at_all(group, tmp_path, monkeypatch):
    group.close()

    def fail(*args, **kwargs):
        raise OSError("no more")

    with xa.open_group(group.path, "r+") as g:
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", fail)
            with pytest.raises(errors.StorageError):
                del g["north"]
        assert "north" not in g
        assert "north" not in repr(g)
        (left,) = [name for name in os.listdir(group.path) if name.endswith(".new")]
        assert left.startswith("north.")
        with xa.open_group(group.path / "north", "w-") as again:
            again["fresh"] = [1]
        assert os.path.isdir(group.path / left)
        xa.pack(g, tmp_path / "g.xap")
    with xa.open_group(tmp_path / "g.xap") as g:
        assert list(g["north"]) == ["fresh"]


# -- hostile folders -------------------------------------------------------------------------------


@pytest.fixture
def deep(scratch):
    """Yield a packed file in which an array lies 2,000 folders deep."""
    with xa.open_group(scratch / "flat", "w") as g:
        g["a"] = np.arange(3)
        xa.pack(g, scratch / "flat.xap")
    with (
        zipfile.ZipFile(scratch / "flat.xap") as flat,
        zipfile.ZipFile(scratch / "deep.xap", "w") as made,
    ):
        for name in flat.namelist():
            made.writestr(name if name == "dataset.json" else "x/" * 2000 + name, flat.read(name))
    return scratch / "deep.xap"


def test_a_packed_group_2000_folders_deep(deep, scratch):
    with xa.open_group(deep) as g:
        found = dict(g.walk())
        assert len(found) == 2001
        name, a = list(found.items())[-1]
        assert (name, a[...].tolist()) == ("x/" * 2000 + "a", [0, 1, 2])
        assert len(repr(g).splitlines()) < 300
        xa.pack(g, scratch / "again.xap")
    with xa.open_group(scratch / "again.xap") as g:
        assert g["x/" * 2000 + "a"].sum() == 3
    assert xa.check(deep, data=True).ok


@pytest.mark.slow
def test_folders_deeper_than_the_limit_of_recursion(scratch):
    """A damaged member ends the unpacking as such, and leaves nothing; folders link and go."""
    depth = sys.getrecursionlimit() + 50
    with xa.open_group(scratch / "flat", "w") as g:
        g["a"] = np.arange(3)
        xa.pack(g, scratch / "flat.xap")
    with (
        zipfile.ZipFile(scratch / "flat.xap") as flat,
        zipfile.ZipFile(scratch / "deep.xap", "w") as made,
    ):
        for name in ("a.xmd", "a.xta"):
            made.writestr("x/" * depth + name, flat.read(name))
    image = (scratch / "deep.xap").read_bytes()
    at = image.index(np.arange(3).tobytes())
    (scratch / "damaged.xap").write_bytes(image[:at] + b"!" + image[at + 1 :])
    with pytest.raises(xa.errors.CorruptError, match="CRC"):
        xa.unpack(scratch / "damaged.xap", scratch / "new")
    assert not list(scratch.glob("new*"))
    xa.unpack(scratch / "deep.xap", scratch / "new")
    inner = "/".join("x" * depth)
    (scratch / "other").mkdir()
    group_files.link_rest(str(scratch / "new"), str(scratch / "other"))
    assert os.path.samefile(scratch / "new" / inner / "a.xta", scratch / "other" / inner / "a.xta")
    group_files.sweep(str(scratch / "new"), str(scratch / "other"))
    assert not (scratch / "new").exists()
    left = scratch / "new.0123456789ab.new"
    (scratch / "other").rename(left)
    assert group_files.remove_left_folders([str(left)]) == [f"{left} was removed"]
    assert not left.exists()


@needs_replaced_open_files
def test_members_that_are_removed_meanwhile(group):
    """An iteration goes on with the members that are left."""
    folder = group.path
    with xa.open_group(folder) as reader:
        left = iter(reader.arrays())
        names = []
        for name, _ in reader.walk():
            names.append(name)
            for suffix in (".xmd", ".xta"):
                (folder / f"time{suffix}").unlink(missing_ok=True)
            shutil.rmtree(folder / "north", ignore_errors=True)
        assert names == ["north", "scene"]
        assert [name for name, _ in left] == ["scene"]
        group.create("later", 2)
        walk = reader.walk()
        next(walk)
        reader.close()
        with pytest.raises(xa.ClosedError):
            next(walk)


@needs_replaced_open_files
@pytest.mark.parametrize("what", ["items", "values"])
def test_views_of_members_that_are_removed_meanwhile(group, what):
    folder = group.path
    with xa.open_group(folder) as reader:
        assert [name for name, _ in reader.items()] == ["north", "scene", "time"]
        assert len(reader.values()) == 3
        found = []
        for each in getattr(reader, what)():
            found.append(each[1] if what == "items" else each)
            for suffix in (".xmd", ".xta"):
                (folder / f"time{suffix}").unlink(missing_ok=True)
        assert [type(each) for each in found] == [xa.Group, xa.ExtArray]
        assert found[1].shape == reader["scene"].shape


@pytest.mark.parametrize(
    "kind", [pytest.param("mkfifo", marks=needs_posix("named pipes")), "mkdir"]
)
def test_attributes_that_are_no_file(group, kind):
    """Reading does not block on a pipe."""
    (group.path / "dataset.json").unlink(missing_ok=True)
    getattr(os, kind)(group.path / "dataset.json")
    with xa.open_group(group.path, "r+") as reader:
        with pytest.raises(xa.StorageError, match="not a regular file"):
            reader.attrs.get("title")
        with pytest.raises(xa.StorageError):
            reader.attrs["title"] = "new"


@needs_links
def test_links_that_lead_nowhere(group):
    """Such links are members, as the files exist; the tree says that they cannot be opened."""
    folder = group.path
    (folder / "self.xmd").symlink_to("self.xmd")
    (folder / "gone.xmd").symlink_to("none.xmd")
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to(".")
    with xa.open_group(folder) as reader:
        assert list(reader) == ["gone", "north", "scene", "self", "time"]
        assert "self" in reader and "loop" not in reader and "up" not in reader
        with pytest.raises(xa.StorageError, match="Too many levels"):
            reader["self"]
        with pytest.raises(xa.MissingError):
            reader["gone"]
        assert repr(reader).count("cannot be opened") == 2
        with pytest.raises(xa.MissingError):
            dict(reader.walk())
