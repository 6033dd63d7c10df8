"""The commands: their effects on files, their output, and their refusals."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unicodedata
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems import (
    IS_POSIX,
    lacking_elsewhere,
    needs_any_names,
    needs_posix,
    needs_reports_of_holes,
)

import extarray as xa
from extarray import cli
from extarray.array import growth
from extarray.cli._command import WrongCall
from extarray.cli._output import plain, table
from extarray.cli._selection import parse_selection, parse_value
from extarray.common.formatting import format_bytes


@pytest.fixture
def run(capsys):
    """Return a function that runs a command here; it returns the status and the output."""

    def run(*words):
        status = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def done(run):
    """Return a function that runs a command, which must succeed; it returns the output."""

    def done(*words):
        found = run(*words)
        if found.status and (reason := lacking_elsewhere(found.err)):
            pytest.skip(reason)
        assert (found.status, found.err) == (0, "")
        return found.out

    return done


@pytest.fixture
def scene(path):
    """A small array in files, with a history and names of axes."""
    with xa.create(path, (2, 3), "i4", chunks=2, dims=("y", "x")) as a:
        a[...] = np.arange(6).reshape(2, 3)
        a.extend("x", 2)
    return path


def elements(path):
    with xa.open(path) as a:
        return a[...]


def pipe(monkeypatch, data):
    """Replace the standard input by one with these bytes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def npy(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def process(script, *words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "extarray", *map(str, words)],
        env=script.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("width", [70, 80])
def test_tables_fit_the_terminal(tmp_path, done, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    dims = ("time", "latitude", "longitude")
    xa.create(
        tmp_path / "temperature-at-the-surface", (365, 18, 36), "f4", dims=dims, compression="zlib"
    ).close()
    xa.create(tmp_path / "b", (3,)).close()
    lines = done("ls", tmp_path).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) > 3
    monkeypatch.delenv("COLUMNS")
    assert len(done("ls", tmp_path).splitlines()) == 3, "a line for each where no terminal is"


class TestSelection:
    @pytest.mark.parametrize(
        ("text", "index"),
        [
            ("[3:10, :, 5]", np.s_[3:10, :, 5]),
            ("3:10, :, 5", np.s_[3:10, :, 5]),
            ("[::-1, ..., -2]", np.s_[::-1, ..., -2]),
            ("[[0, 2], 1]", ([0, 2], 1)),
            ("[0, 2], [1, 3]", ([0, 2], [1, 3])),
            ("[['a', 'b']]", ["a", "b"]),
            ("['a']", "a"),
            ("newaxis, None:2", (None, slice(None, 2))),
            ("[True, False],", ([True, False],)),
            ("[]", None),
            ("...", Ellipsis),
        ],
    )
    def test_texts(self, text, index):
        if index is None:
            with pytest.raises(WrongCall):
                parse_selection(text)
        else:
            assert parse_selection(text) == index

    @pytest.mark.parametrize(
        "text",
        [
            "__import__('os').system('true')",
            "0]; print(1",
            "a[0]",
            "n",
            "1.5",
            "1 + 1",
            "[1 for _ in 'ab']",
            "(lambda: 0)()",
            "f'{1}'",
            "b'x'",
            "1:2:3:4",
            "1j",
            "[" * 500,
            "1," * 10_000,
            "\0",
            "",
        ],
    )
    def test_what_is_no_selection(self, text):
        with pytest.raises(WrongCall, match="is not a valid selection"):
            parse_selection(text)

    @given(st.text(max_size=30))
    def test_any_text_is_an_index_or_refused(self, text):
        try:
            index = parse_selection(text)
        except WrongCall:
            return
        for part in index if isinstance(index, tuple) else (index,):
            assert part is None or isinstance(part, (int, str, list, slice, type(...)))

    parts = st.one_of(
        st.integers(-9, 9),
        st.slices(9),
        st.lists(st.integers(-9, 9), min_size=1, max_size=3),
        st.just(...),
    )

    @given(st.lists(parts, min_size=1, max_size=4).map(tuple))
    def test_what_numpy_writes_is_read(self, index):
        def text(part):
            if isinstance(part, slice):
                ends = (part.start, part.stop, part.step)
                return ":".join("" if end is None else str(end) for end in ends)
            return "..." if part is ... else str(part)

        assert parse_selection(f"[{', '.join(map(text, index))},]") == index


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("1e3", 1000.0),
        ("1+2j", 1 + 2j),
        ("[1, [2]]", [1, [2]]),
        ("mm", "mm"),
    ],
)
def test_values(text, value):
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.array([1.0, np.nan, -np.inf]), [1.0, "NaN", "-Infinity"]),
        (np.array(["2024-01-01", "NaT"], "M8[D]"), ["2024-01-01", "NaT"]),
        (np.array([1, 2], "m8[s]"), ["1 seconds", "2 seconds"]),
        (np.array([(1, 2.5)], "i4,f8"), [[1, 2.5]]),
        (np.array([1 + 2j]), [[1.0, 2.0]]),
        (np.array([b"a\xff"]), ["a\\xff"]),
        (np.array([["a"], ["µ"]]), [["a"], ["µ"]]),
        ({"a": (np.uint8(3), None, True)}, {"a": [3, None, True]}),
        ([slice(1, 2), np.dtype("u2")], [[1, 2], "uint16"]),
    ],
)
def test_what_json_gets(value, shown):
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == shown


def test_columns():
    assert table([("a", "bbb"), ("cc", "d")], left=(0,), indent=" ") == " a   bbb\n cc    d"


def test_tables_are_in_colours_on_a_terminal(scene, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with xa.open(scene, "r+") as a:
        a.dims = ["[red]y", "x\x1b[2J"]
    assert cli.main(["history", str(scene)]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert "\x1b[1" in head
    assert "[red]y" in first, "names are no markup"
    assert "\x1b" not in first + second, "and move no cursor"


@needs_posix("error of its own for links in a circle")
def test_folders_with_links_that_lead_nowhere(scratch, run):
    """A dangling link does not end a listing."""
    (scratch / "inner").mkdir()
    for name in ("a", "inner/b"):
        xa.create(scratch / name, 3).close()
    (scratch / "self.xmd").symlink_to("self.xmd")
    (scratch / "inner" / "up").symlink_to("..")
    (scratch / "loop").symlink_to("loop")
    found = run("ls", scratch)
    assert (found.status, found.err) == (1, "")
    assert [line.split()[0] for line in found.out.splitlines()] == ["name", "a", "inner/", "self"]
    assert "Too many levels" in found.out
    found = run("tree", scratch)
    assert (found.status, found.err) == (1, "")
    lines = found.out.splitlines()[1:]
    assert [line.strip("│├└─ ").split()[0] for line in lines] == ["a", "inner/", "b", "self"]
    found = json.loads(run("tree", scratch, "--json").out)
    assert [(each["name"], "error" in each) for each in found] == [
        ("a", False),
        ("inner", False),
        ("self", True),
    ]
    assert [each["name"] for each in found[1]["entries"]] == ["b"]
    assert run("check", scratch).out.endswith("2 of 3 arrays without errors\n")


def test_a_packed_file_2000_folders_deep(scratch, run, done):
    with xa.open_group(scratch / "flat", "w") as g:
        g["a"] = np.arange(3)
        xa.pack(g, scratch / "flat.xap")
    with (
        zipfile.ZipFile(scratch / "flat.xap") as flat,
        zipfile.ZipFile(scratch / "deep.xap", "w") as made,
    ):
        for name in flat.namelist():
            made.writestr(name if name == "dataset.json" else "x/" * 2000 + name, flat.read(name))
    assert done("ls", scratch / "deep.xap").split()[-1] == "x/"
    lines = done("tree", scratch / "deep.xap").splitlines()
    assert len(lines) == 2002
    assert lines[-1].strip() == "└── a  3  int64"
    assert run("tree", scratch / "deep.xap", "--json").err.endswith("too deeply for JSON\n")


#: Sets the window's title, clears the screen, adds a false line, and reverses text.
HOSTILE = "a\x1b]0;owned\x07\x9b2J\nall: ok\u202eb\x7f"
#: As much of it as a name of a file may have.
HOSTILE_FILE = HOSTILE if IS_POSIX else "a\x9b2J\u202eb\x7f"


def hostile_folder(folder):
    """Make a folder in which every name is a hostile one."""
    with xa.open_group(folder / HOSTILE_FILE, "w") as group:
        with group.create(HOSTILE_FILE, (2, 3), dims=["y", HOSTILE], chunks=2) as a:
            a.attrs[HOSTILE] = HOSTILE
            a.extend(1, 2)
        group.attrs[HOSTILE] = HOSTILE
    (folder / HOSTILE_FILE / f"{HOSTILE_FILE}2.xmd").write_bytes(b"damaged")
    xa.to_npy(xa.zeros(3), folder / f"{HOSTILE_FILE}.npy")
    return folder / HOSTILE_FILE


@pytest.mark.parametrize(
    "words",
    [
        "ls {folder}",
        "ls {folder} --json",
        "tree {folder}",
        "tree {folder} --json",
        "info {array}",
        "dump {array}",
        "history {array}",
        "show {array}",
        "follow {array} --count 1 --timeout 0.01",
        "attrs {array}",
        "attrs {array} {name}",
        "attrs {array} --json",
        "attrs {folder}",
        "attrs {array} {name}2",
        "check {array}",
        "check {array}2",
        "check {folder}",
        "check {folder} --json",
        "plot {array} --text",
        "advise {array} --grow {name}2",
        "extend {array} --axis {name}2 --by 1",
        "info {array}2",
        "info {folder}",
        "info {array} {name}",
        "info --{name}",
        "{name}",
        "show {array} [{name}]",
        "plot {array} {name}",
        "rm {array}3",
        "mv {array} {array}2",
        "pack {folder} {folder}.xap",
        "unpack {folder} {array}",
        "rechunk {array} {array} --chunks 1",
        "import {folder}.npy {array}2",
        "export {array} {folder}.{name}",
        "bench {array}",
    ],
)
def test_no_name_reaches_the_terminal_as_it_is(scratch, run, words):
    """Names of files, axes and attributes, and the arguments themselves, are escaped."""
    folder = hostile_folder(scratch)
    given = {"folder": folder, "array": folder / HOSTILE_FILE, "name": HOSTILE}
    found = run(*(word.format(**given) for word in words.split(" ")))
    shown = found.out + found.err
    assert not {c for c in shown if unicodedata.category(c) == "Cc" and c != "\n"}
    assert "\u202e" not in shown
    assert "all: ok" not in [line[:7] for line in shown.split("\n")]
    if words.endswith("--json") and not words.startswith("check"):
        name = HOSTILE if words.startswith("attrs") else HOSTILE_FILE
        assert repr(name) in repr(json.loads(found.out)), "and programs get it as it is"


class TestLooking:
    def test_info_as_json(self, scene, done):
        facts = json.loads(done("info", scene, "--json"))
        assert (facts["shape"], facts["dtype"], facts["dims"]) == ([2, 5], "int32", ["y", "x"])
        assert facts["attrs"] == {"dims": ["y", "x"]}

    @pytest.mark.parametrize("selection", ["...", "[0, -1]", "[:, 1:3]", "[[1, 0], 2]"])
    def test_show(self, scene, done, selection):
        want = elements(scene)[parse_selection(selection)]
        assert done("show", scene, selection) == f"{want}\n"
        assert json.loads(done("show", scene, selection, "--json")) == want.tolist()

    def test_show_takes_negative_indices_for_no_options(self, scene, done):
        assert done("show", scene, "-1") == f"{elements(scene)[-1]}\n"

    @pytest.mark.parametrize("shape", [(2000,), (7, 300), (3, 40, 20), (6, 400), (1001, 1)])
    @pytest.mark.parametrize("dtype", ["f8", "i4"])
    def test_many_elements_are_printed_as_numpy_does_by_those_at_the_edges(
        self, path, done, shape, dtype
    ):
        values = (np.random.default_rng(0).normal(size=shape) * 1e4).astype(dtype)
        xa.from_array(values, path=path).close()
        assert done("show", path) == f"{values}\n"
        with np.printoptions(threshold=sys.maxsize):
            assert done("show", path, "--all") == f"{values}\n"

    def test_show_of_what_is_too_large_to_be_read(self, path, done):
        xa.create(path, (1 << 20, 1 << 20), "u1", chunks=1 << 14, sparse=True).close()
        row = "[0 0 0 ... 0 0 0]"
        assert done("show", path) == (f"[{row}\n {row}\n {row}\n ...\n {row}\n {row}\n {row}]\n")

    def test_show_of_what_is_not_there(self, scene, run):
        found = run("show", scene, "[0, 9]")
        assert (found.status, found.out) == (1, "")
        found = run("show", scene, "open('x')")
        assert (found.status, found.out) == (2, "")
        assert "is not a valid selection" in found.err

    def test_dump(self, path, done):
        with xa.create(
            path, (2, 2), "f4", attrs={"unit": "mm", "a b": [1, 2]}, dims=["y", "x"]
        ) as a:
            a[...] = [[0.5, 1], [2, np.nan]]
        assert done("dump", path) == (
            "extarray scene {\n"
            "dimensions:\n    y = 2 ;\n    x = 2 ;\n"
            "variables:\n    float32 scene(y, x) ;\n"
            '        scene:unit = "mm" ;\n        scene:"a b" = 1, 2 ;\n'
            "        scene:_chunks = 2, 2 ;\n        scene:_fill_value = 0.0 ;\n"
            '        scene:_order = "C" ;\n'
            'data:\n    scene =\n        0.5, 1.0,\n        2.0, "NaN" ;\n}\n'
        )
        assert "data:" not in done("dump", path, "--header")

    def test_history(self, scene, done):
        lines = done("history", scene).splitlines()
        assert lines[0].startswith("segment  axis  by  first index  start address  chunks")
        assert [line.split()[:6] for line in lines[1:]] == [
            ["0", "y", "1", "0", "0", "2"],
            ["1", "x", "1", "2", "2", "1"],
        ]
        found = json.loads(done("history", scene, "--json"))
        assert found[1] == {"axis": 1, "start_index": 2, "by": 1, "start_address": 2, "size": 1}

    def test_follow(self, scene, done, monkeypatch):
        with xa.open(scene, "r+") as writer:
            # The command sleeps after its first look, and the writer appends meanwhile.
            monkeypatch.setattr(growth.time, "sleep", lambda seconds: writer.append([[7] * 5]))
            out = done("follow", scene, "--axis", "y", "--count", "1", "--json")
        assert json.loads(out) == {"selection": [[2, 3], [0, 5]], "data": [[7] * 5]}

    def test_follow_ends_after_a_time_without_news(self, scene, done):
        assert done("follow", scene, "--timeout", "0") == ""

    @pytest.mark.slow
    def test_ctrl_c_is_the_usual_end_of_following(self, script, scene):
        follower = process(script, "follow", scene)
        writer = xa.open(scene, "r+")
        lines = []
        reader = threading.Thread(target=lambda: lines.append(follower.stdout.readline()))
        reader.start()
        deadline = time.monotonic() + 60
        while reader.is_alive() and time.monotonic() < deadline:
            writer.append([[7] * 5])  # the follower may not have begun yet
            reader.join(0.1)
        writer.close()
        follower.send_signal(signal.SIGINT)
        _, err = follower.communicate(timeout=250)
        assert lines[0].endswith(", 0:5]\n")
        assert (follower.returncode, err) == (0, "")


class TestChanging:
    def test_create(self, path, done):
        done(
            *("create", path, "--shape", "4,3", "--dtype", "f4", "--chunks", "2,2"),
            *("--fill", "nan", "--dims", "y,x", "--order", "F", "--sparse", "--checksum"),
        )
        with xa.open(path) as a:
            info = a.info()
            assert (a.shape, a.dtype, a.chunks, a.dims) == ((4, 3), np.float32, (2, 2), ("y", "x"))
            assert (a.order, info["sparse"], info["checksum"]) == ("F", True, True)
            assert np.isnan(a[...]).all()

    def test_create_overwrites_nothing_unless_asked(self, path, run, done):
        done("create", path, "--shape", "4")
        found = run("create", path, "--shape", "5")
        assert (found.status, found.out) == (1, "")
        done("create", path, "--shape", "5", "--overwrite")
        assert elements(path).shape == (5,)

    @pytest.mark.parametrize(
        "words",
        [
            ["--shape", "4,x"],
            ["--shape", "-1"],
            ["--shape", "4", "--dtype", "no"],
            ["--shape", "4", "--dtype", "O"],
            ["--shape", "4", "--dtype", "u1", "--fill", "300"],
            ["--shape", "4", "--chunks", "1,2"],
            [],
        ],
    )
    def test_what_cannot_be_created_is_a_wrong_call(self, path, run, words):
        found = run("create", path, *words)
        assert (found.status, found.out) == (2, "")
        assert found.err
        assert not path.with_name("scene.xmd").exists()

    def test_create_records(self, path, done):
        done("create", path, "--shape", "2", "--dtype", "x:f4,n:i2")
        done("set", path, "[1]", "[0.5, 3]")
        assert elements(path).tolist() == [(0.0, 0), (0.5, 3)]
        assert done("show", path, "['n']") == "[0 3]\n"

    def test_growth(self, scene, done):
        before = elements(scene)
        done("extend", scene, "--axis", "1", "--by", "1", "--side", "start")
        done("shrink", scene, "--axis", "x", "--by", "2")
        want = np.concatenate([np.zeros((2, 1), "i4"), before], axis=1)[:, :-2]
        np.testing.assert_array_equal(elements(scene), want)

    def test_growth_of_what_is_written_to_waits_as_long_as_it_is_told(self, scene, run):
        with xa.open(scene, "r+"):
            begun = time.monotonic()
            found = run("extend", scene, "--by", "1", "--timeout", "0.3")
            assert time.monotonic() - begun >= 0.3
        assert found.status == 1
        assert found.err.startswith("extarray extend: ")

    @pytest.mark.parametrize(
        "words", [["--by", "x"], [], ["--by", "-1"], ["--by", "1", "--side", "up"]]
    )
    def test_wrong_growth(self, scene, run, words):
        found = run("extend", scene, *words)
        assert (found.status, found.out) == (2, "")
        assert elements(scene).shape == (2, 5)

    @pytest.mark.parametrize("kind", ["npy", "fortran npy", "npz", "array", "pipe", "h5"])
    def test_append(self, scene, tmp_path, done, monkeypatch, kind):
        before, data = elements(scene), np.arange(10, 20, dtype="i4").reshape(2, 5)
        source = tmp_path / "data.npy"
        if kind.endswith("npy"):
            np.save(source, np.asfortranarray(data) if kind.startswith("f") else data)
        elif kind == "npz":
            source = tmp_path / "data.npz"
            np.savez_compressed(source, data=data)
        elif kind == "array":
            source = tmp_path / "other"
            xa.from_array(data, path=source).close()
        elif kind == "h5":
            with pytest.importorskip("h5py").File(tmp_path / "data.h5", "w") as file:
                file["group/data"] = data
            source = f"{tmp_path / 'data.h5'}:/group/data"
        else:
            source = "-"
            pipe(monkeypatch, npy(data))
        done("append", scene, source, "--axis", "y")
        np.testing.assert_array_equal(elements(scene), np.concatenate([before, data]))

    def test_a_pipe_that_ends_early_leaves_the_array_as_it_was(self, scene, run, monkeypatch):
        before = elements(scene)
        pipe(monkeypatch, npy(np.zeros((100, 5), "i4"))[:-100])
        found = run("append", scene, "-")
        assert (found.status, found.out) == (1, "")
        assert "is truncated" in found.err
        np.testing.assert_array_equal(elements(scene), before)

    def test_set(self, scene, done, monkeypatch):
        want = elements(scene)
        done("set", scene, "[0, :]", "-5")
        done("set", scene, "[1, 1:3]", "[8, 9]")
        want[0], want[1, 1:3] = -5, (8, 9)
        np.testing.assert_array_equal(elements(scene), want)
        pipe(monkeypatch, npy(np.arange(2, dtype="i4")))
        done("set", scene, "[:, 4]", "-")
        want[:, 4] = [0, 1]
        np.testing.assert_array_equal(elements(scene), want)

    @pytest.mark.parametrize("value", ["1.5", "x", "[1, [2, 3]]", "99999999999", "nan", "1+2j"])
    def test_a_value_that_would_become_another_is_refused(self, scene, run, value):
        before = elements(scene)
        found = run("set", scene, "[0]", value)
        assert (found.status, found.out) == (1, "")
        assert "is not a value of data type int32" in found.err
        np.testing.assert_array_equal(elements(scene), before)

    def test_set_texts_and_dates(self, tmp_path, done):
        for dtype, value, want in [
            ("U4", "ab", "ab"),
            ("U4", "12", "12"),
            ("M8[D]", "2024-02-29", np.datetime64("2024-02-29")),
            ("?", "true", True),
            ("c16", "1+2j", 1 + 2j),
        ]:
            path = tmp_path / value
            xa.create(path, (2,), dtype).close()
            done("set", path, "[1]", value)
            assert elements(path)[1] == want

    def test_attrs(self, scene, done):
        done("attrs", scene, "unit=mm", "gain=0.5", "list=[1, 2]", "text=a=b")
        with xa.open(scene) as a:
            want = {"dims": ["y", "x"], "unit": "mm", "gain": 0.5, "list": [1, 2], "text": "a=b"}
            assert a.attrs.asdict() == want
        assert done("attrs", scene, "unit") == "mm\n"
        assert "list=[1, 2]\n" in done("attrs", scene)
        assert json.loads(done("attrs", scene, "--json")) == want
        done("attrs", scene, "--delete", "gain", "n=1")
        assert json.loads(done("attrs", scene, "n", "unit", "--json")) == {"n": 1, "unit": "mm"}

    @pytest.mark.parametrize(
        ("words", "status"), [(["no"], 1), (["--delete", "no"], 1), (["a=1", "unit"], 2)]
    )
    def test_wrong_attrs(self, scene, run, words, status):
        found = run("attrs", scene, *words)
        assert (found.status, found.out) == (status, "")
        assert found.err


class TestExchange:
    @pytest.mark.parametrize("name", ["data.npy", "data.npz", "data.h5:/a/b", "data.nc:/b"])
    def test_there_and_back(self, scene, tmp_path, run, done, name):
        for suffix, module in ((".h5", "h5py"), (".nc", "netCDF4")):
            if suffix in name:
                pytest.importorskip(module)
        file = f"{tmp_path}/{name}"
        xa.from_array(elements(scene), path=tmp_path / "plain").close()
        done("export", tmp_path / "plain", file)
        done("import", file, tmp_path / "back", "--chunks", "2")
        np.testing.assert_array_equal(elements(tmp_path / "back"), elements(scene))
        with xa.open(tmp_path / "back") as a:
            assert a.chunks == (2, 2)
        found = run("export", tmp_path / "plain", file)
        assert found.status == 1, "nothing is overwritten unless asked"
        done("export", tmp_path / "plain", file, "--overwrite", "-s", "[0]")
        done("import", file, tmp_path / "back", "--overwrite")
        np.testing.assert_array_equal(elements(tmp_path / "back"), elements(scene)[0])

    @pytest.mark.filterwarnings("ignore:.*names of the axes")
    def test_from_any_format_to_any_other(self, tmp_path, run, done):
        pytest.importorskip("h5py")
        x = np.arange(12.0).reshape(3, 4)
        np.savez(tmp_path / "x.npz", level=x, other=x + 1)
        done("convert", f"{tmp_path}/x.npz:/level", tmp_path / "x.h5", "-o", "compression=gzip")
        done("convert", f"{tmp_path}/x.h5:/level", tmp_path / "x.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)
        done("convert", tmp_path / "x.npy", tmp_path / "array")
        np.testing.assert_array_equal(elements(tmp_path / "array"), x)
        done("convert", tmp_path / "array", tmp_path / "y.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x)
        found = run("convert", tmp_path / "x.h5", tmp_path / "y.npy")
        assert found.status == 1 and "overwrite" in found.err
        (tmp_path / "t.csv").write_text("a,b\n1,x\n")
        assert run("convert", tmp_path / "t.csv", tmp_path / "t.npy").status == 0
        assert np.load(tmp_path / "t.npy").tolist() == [(1, "x")]
        assert run("convert", tmp_path / "x.npy", tmp_path / "z.csv").status == 2
        done("convert", tmp_path / "t.csv", tmp_path / "t.h5", "--all")
        done("convert", tmp_path / "t.h5", tmp_path / "t", "--all")
        assert elements(tmp_path / "t" / "a").tolist() == [1]
        assert not [name for name in tmp_path.iterdir() if name.name.startswith(".extarray-")]

    def test_options_of_a_format(self, tmp_path, run, done):
        np.arange(12, dtype="u2").tofile(tmp_path / "data.raw")
        file = tmp_path / "data.raw"
        done("import", file, tmp_path / "a", "-o", "shape=4,3", "-o", "dtype=u2")
        assert elements(tmp_path / "a").shape == (4, 3)
        for words in (["-o", "no=1"], ["-o", "shape"], ["--format", "no"], []):
            found = run("import", file, tmp_path / "b", *words)
            assert (found.status, found.out) == (2, ""), words
            assert not (tmp_path / "b.xmd").exists()

    @pytest.mark.slow
    def test_what_is_lost_is_told_in_a_line(self, script, scene, tmp_path):
        exported = process(script, "export", scene, tmp_path / "data.npy")
        out, err = exported.communicate(timeout=250)
        assert (exported.returncode, out) == (0, "")
        assert err.startswith("extarray export: warning: ")
        assert err.count("\n") == 1

    @pytest.mark.slow
    def test_a_pipe(self, script, scene, tmp_path):
        words = [sys.executable, "-m", "extarray"]
        with subprocess.Popen(
            [*words, "export", scene, "-"], stdout=subprocess.PIPE, env=script.environment
        ) as one:
            other = subprocess.run(
                [*words, "import", "-", tmp_path / "copy"],
                stdin=one.stdout,
                capture_output=True,
                env=script.environment,
                timeout=250,
                check=False,
            )
        assert (one.returncode, other.returncode, other.stdout, other.stderr) == (0, 0, b"", b"")
        np.testing.assert_array_equal(elements(tmp_path / "copy"), elements(scene))

    @pytest.mark.parametrize("shape", [(), (0, 3), (3, 4, 5)])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_what_comes_through_a_pipe(self, tmp_path, monkeypatch, capfdbinary, shape, order):
        values = np.asarray(np.random.default_rng(0).random(shape), order=order)
        pipe(monkeypatch, npy(values))
        assert cli.main(["import", "-", str(tmp_path / "a")]) == 0
        np.testing.assert_array_equal(elements(tmp_path / "a"), values)
        capfdbinary.readouterr()
        assert cli.main(["export", str(tmp_path / "a"), "-"]) == 0
        np.testing.assert_array_equal(np.load(io.BytesIO(capfdbinary.readouterr().out)), values)

    @pytest.mark.parametrize("data", [b"", b"text", npy(np.zeros(9))[:-1], b"\x93NUMPY\x01\x00"])
    def test_what_is_no_npy_file_makes_no_array(self, tmp_path, run, monkeypatch, data):
        pipe(monkeypatch, data)
        found = run("import", "-", tmp_path / "a")
        assert (found.status, found.out) == (1, "")
        assert os.listdir(tmp_path) == []

    def test_objects_do_not_come_through_a_pipe(self, tmp_path, run, monkeypatch):
        pipe(monkeypatch, npy(np.array([{}])))
        found = run("import", "-", tmp_path / "a")
        assert found.status == 1
        assert "Python objects" in found.err


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        where = tmp_path / "folder"
        (where / "sub" / "deep").mkdir(parents=True)
        (where / "empty").mkdir()
        xa.create(where / "a", (2, 3), "u1", dims=("y", "x")).close()
        xa.create(where / "sub" / "deep" / "b", (4,)).close()
        return where

    def test_ls(self, folder, done, monkeypatch):
        lines = done("ls", folder).splitlines()
        assert lines[0].split()[:2] == ["name", "shape"]
        assert [line.split()[0] for line in lines[1:]] == ["a", "empty/", "sub/"]
        assert "y=2, x=3" in lines[1]
        found = json.loads(done("ls", folder, "--json"))
        assert [(one["name"], one["kind"]) for one in found] == [
            ("a", "array"),
            ("empty", "folder"),
            ("sub", "folder"),
        ]
        monkeypatch.chdir(folder)
        assert done("ls").splitlines() == lines
        assert json.loads(done("ls", "a", "--json")) == found[:1]

    def test_tree(self, folder, done):
        assert done("tree", folder).splitlines()[1:] == [
            "├── a  y=2, x=3  uint8",
            "└── sub/",
            "    └── deep/",
            "        └── b  4  float64",
        ]
        found = json.loads(done("tree", folder, "--json"))
        assert found[1]["entries"][0]["entries"][0]["name"] == "b"

    def test_a_damaged_array_does_not_hide_the_others(self, folder, run):
        metadata = folder / "a.xmd"
        metadata.write_bytes(b"\0" * metadata.stat().st_size)
        for command in ("ls", "tree"):
            found = run(command, folder)
            assert found.status == 1
            assert "damaged or unreadable" in found.out
            assert "sub/" in found.out

    def test_copy(self, scene, tmp_path, run, done):
        done("copy", scene, tmp_path / "other", "--chunks", "3", "--order", "F")
        with xa.open(tmp_path / "other") as a:
            assert (a.chunks, a.order, a.dims) == ((3, 3), "F", ("y", "x"))
        np.testing.assert_array_equal(elements(tmp_path / "other"), elements(scene))
        assert run("copy", scene, tmp_path / "other").status == 1
        (tmp_path / "folder").mkdir()
        done("copy", scene, tmp_path / "folder", "--checksum")
        assert json.loads(done("info", tmp_path / "folder" / "scene", "--json"))["checksum"]
        np.testing.assert_array_equal(elements(tmp_path / "folder" / "scene"), elements(scene))

    def test_mv(self, scene, tmp_path, run, done):
        want = elements(scene)
        (tmp_path / "folder").mkdir()
        done("mv", scene, tmp_path / "folder")
        place = tmp_path / "folder" / "scene"
        np.testing.assert_array_equal(elements(place), want)
        assert sorted(os.listdir(tmp_path)) == ["folder"]
        xa.create(tmp_path / "other", (9,)).close()
        assert run("mv", place, tmp_path / "other").status == 1
        assert elements(tmp_path / "other").shape == (9,)
        np.testing.assert_array_equal(elements(place), want)
        done("mv", place, tmp_path / "other", "--overwrite")
        np.testing.assert_array_equal(elements(tmp_path / "other"), want)
        assert os.listdir(tmp_path / "folder") == []

    def test_errors_name_the_folder_that_is_missing_and_options_of_the_command(
        self, scene, tmp_path, run, done
    ):
        assert "no such folder" in run("mv", scene, tmp_path / "nowhere" / "b").err
        done("pack", scene, tmp_path / "a.xap")
        found = run("pack", scene, tmp_path / "a.xap")
        assert found.status == 1
        assert "give --overwrite to replace" in found.err
        # An option that the command lacks keeps its Python name.
        found = run("show", tmp_path / "a.xap" / "nothing")
        assert "--" not in found.err

    def test_rm(self, folder, run, done):
        done("rm", folder / "a", folder / "sub/deep/b.xmd")
        assert os.listdir(folder / "sub" / "deep") == []
        found = run("rm", folder / "a")
        assert found.status == 1
        assert "there is no file" in found.err
        found = run("rm", "--force", folder)
        assert found.status == 1
        assert folder.exists()

    def test_what_is_written_to_stays(self, scene, tmp_path, run):
        with xa.open(scene, "r+") as a:
            for words in (["rm", scene], ["rm", "--force", scene], ["mv", scene, tmp_path / "b"]):
                assert run(*words).status == 1
            a[0, 0] = 9
        assert elements(scene)[0, 0] == 9

    def test_a_damaged_array_is_removed_where_asked(self, scene, run, done):
        metadata = scene.with_name("scene.xmd")
        metadata.write_bytes(b"\0" * metadata.stat().st_size)
        assert run("rm", scene).status == 1
        assert metadata.exists()
        done("rm", "--force", scene)
        assert os.listdir(scene.parent) == []


class TestGroups:
    @pytest.fixture
    def group(self, tmp_path):
        with xa.open_group(tmp_path / "group", "w") as g:
            g.create("time", shape=2, dtype="i8", dims=["time"])
            g.create("station/wind", shape=(2, 3), dims=["time", "x"])
            g["other"] = np.arange(3)
        return tmp_path / "group"

    def test_arrays_of_a_folder_grow_together(self, group, run, done):
        done("extend", group, "--axis", "time", "--by", "2")
        assert elements(group / "time").shape == (4,)
        assert elements(group / "station" / "wind").shape == (4, 3)
        assert elements(group / "other").shape == (3,)
        assert run("extend", group, "--by", "2").status == 2

    def test_attrs_of_a_folder(self, group, done):
        done("attrs", group, "title=masts")
        assert done("attrs", group, "title") == "masts\n"
        assert xa.open_group(group).attrs.asdict() == {"title": "masts"}
        done("attrs", group, "--delete", "title")
        assert json.loads(done("attrs", group, "--json")) == {}

    def test_pack_and_unpack_a_folder(self, group, tmp_path, run, done):
        file = tmp_path / "all.xap"
        done("pack", group, file)
        assert run("pack", group, file).status == 1
        assert done("tree", file).splitlines()[1:] == done("tree", group).splitlines()[1:]
        assert [one["name"] for one in json.loads(done("ls", file, "--json"))] == [
            "other",
            "station",
            "time",
        ]
        assert done("show", f"{file}/other") == "[0 1 2]\n"
        done("unpack", file, tmp_path / "back")
        np.testing.assert_array_equal(elements(tmp_path / "back" / "other"), range(3))

    def test_a_folder_is_packed_with_chunks_in_another_order(self, group, tmp_path, run, done):
        file = tmp_path / "all.xap"
        done("pack", group, file, "--order", "hilbert")
        assert done("tree", file).splitlines()[1:] == done("tree", group).splitlines()[1:]
        assert len(json.loads(done("ls", file, "--json"))) == 3
        done("check", file, "--data")
        done("unpack", file, tmp_path / "back")
        np.testing.assert_array_equal(elements(tmp_path / "back" / "other"), range(3))
        found = run("pack", group, tmp_path / "w.xap", "--order", "w")
        assert "no array to pack has the axis 'w'" in found.err

    def test_an_array_packed_in_another_order_is_one_to_commands(self, tmp_path, done):
        xa.create(tmp_path / "a", (4, 4), "i2", chunks=(2, 2)).close()
        done("extend", tmp_path / "a", "--axis", "1", "--by", "4")
        done("set", tmp_path / "a", "[:]", "7")
        file = tmp_path / "a.xap"
        done("pack", tmp_path / "a", file, "--order", "hilbert")
        facts = json.loads(done("info", file, "--json"))
        assert facts["chunk_order"] == "hilbert"
        assert "hilbert" in done("info", file)
        assert done("show", file, "[0]") == "[7 7 7 7 7 7 7 7]\n"
        assert json.loads(done("ls", file, "--json"))[0]["shape"] == [4, 8]
        done("copy", file, tmp_path / "b")
        np.testing.assert_array_equal(elements(tmp_path / "b"), np.full((4, 8), 7))
        done("export", file, tmp_path / "a.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.full((4, 8), 7))
        assert "ok" in done("check", file, "--data").lower()
        done("pack", file, tmp_path / "y.xap", "--order", "0")
        assert json.loads(done("info", tmp_path / "y.xap", "--json"))["chunk_order"] == 0

    def test_an_array_is_packed_compressed(self, tmp_path, run, done):
        x = np.arange(40_000, dtype="i4").reshape(200, 200) // 50
        xa.from_array(x, tmp_path / "a", chunks=(50, 100)).close()
        file = tmp_path / "a.xap"
        done("pack", tmp_path / "a", file, "--compression", "zstd:5:shuffle", "--order", "0")
        assert file.stat().st_size < x.nbytes // 2
        facts = json.loads(done("info", file, "--json"))
        assert facts["compression"] == "zstd:5:shuffle"
        assert facts["ratio"] == x.nbytes / facts["stored_bytes"]
        assert f"ratio            {facts['ratio']:.2f}" in done("info", file)
        assert ", zstd:5:shuffle" in done("ls", file)
        assert json.loads(done("ls", file, "--json"))[0]["compression"] == "zstd:5:shuffle"
        done("check", file, "--data")
        done("unpack", file, tmp_path / "b")
        np.testing.assert_array_equal(elements(tmp_path / "b"), x)
        found = run("pack", tmp_path / "a", tmp_path / "c.xap", "--compression", "lzf")
        assert found.status == 2 and "no codec 'lzf'" in found.err

    @pytest.mark.parametrize("asked", [None, "zlib:3:shuffle", "none"])
    def test_new_arrays_are_compressed(self, tmp_path, done, monkeypatch, asked):
        x = np.arange(40_000, dtype="i4").reshape(200, 200)
        xa.from_array(x, tmp_path / "a", chunks=(50, 100), compression="zlib").close()
        np.save(tmp_path / "x.npy", x)
        words = [] if asked is None else ["--compression", asked]
        done("create", tmp_path / "created", "--shape", "3,4", *words)
        done("import", tmp_path / "x.npy", tmp_path / "imported", *words)
        with open(tmp_path / "x.npy", "rb") as file:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
            done("import", "-", tmp_path / "piped", *words)
        done("copy", tmp_path / "a", tmp_path / "copied", *words)
        done("rechunk", tmp_path / "a", tmp_path / "cut", "--chunks", "40", *words)
        for name in ("created", "imported", "piped", "copied", "cut"):
            with xa.open(tmp_path / name) as a:
                found, is_copy = a._store.now.frozen, name in ("copied", "cut")
                wanted = None if asked == "none" else asked or ("zlib" if is_copy else None)
                assert (None if found is None else str(found.codec)) == wanted
                np.testing.assert_array_equal(a[...], x if name != "created" else np.zeros((3, 4)))

    @needs_reports_of_holes
    def test_compressed_arrays_are_listed_with_what_they_take(self, tmp_path, done):
        x = np.arange(40_000, dtype="i4").reshape(200, 200)
        xa.from_array(x, tmp_path / "a", chunks=(50, 100), compression="zlib:3").close()
        facts = json.loads(done("info", tmp_path / "a", "--json"))
        assert facts["disk_bytes"] < x.nbytes < facts["file_bytes"]
        listed = done("ls", tmp_path)
        assert f"zlib:3, ratio {facts['ratio']:.2f}, 8 of 8 chunks frozen" in listed
        (entry,) = json.loads(done("ls", tmp_path, "--json"))
        for key in ("compression", "ratio", "frozen_chunks", "disk_bytes"):
            assert entry[key] == facts[key]
        assert "cp` of GNU" in done("info", tmp_path / "a")

    def test_floats_are_rounded(self, tmp_path, done, run):
        np.save(tmp_path / "x.npy", [1.1, 2.3])
        done("import", tmp_path / "x.npy", tmp_path / "a", "--significant-bits", "2")
        done("copy", tmp_path / "a", tmp_path / "b", "--significant-bits", "1")
        assert [elements(tmp_path / name).tolist() for name in "ab"] == [[1.0, 2.5], [1.0, 2.0]]
        found = run("copy", tmp_path / "a", tmp_path / "c", "--significant-bits", "90")
        assert found.status == 2 and "must be 1 to 52" in found.err

    def test_a_packed_group_is_a_group_to_commands(self, group, tmp_path, done):
        file = tmp_path / "all.xap"
        done("attrs", group, "title=masts")
        done("pack", group, file)
        assert done("attrs", file, "title") == "masts\n"
        done("pack", file, tmp_path / "again.xap")
        assert (
            done("tree", tmp_path / "again.xap").splitlines()[1:]
            == (done("tree", group).splitlines()[1:])
        )
        pytest.importorskip("h5py", reason="writes HDF5")
        done("export", file, tmp_path / "all.h5")
        done("import", "--all", tmp_path / "all.h5", tmp_path / "back")
        np.testing.assert_array_equal(elements(tmp_path / "back" / "other"), range(3))

    @pytest.mark.process
    @pytest.mark.slow
    def test_packed_files_go_through_pipes(self, group, scene, tmp_path, script):
        def command(*words, data=b"", status=0):
            ran = subprocess.run(
                [sys.executable, "-m", "extarray", *map(str, words)],
                env=script.environment,
                input=data,
                capture_output=True,
                timeout=250,
                check=False,
            )
            assert ran.returncode == status, ran.stderr
            return ran

        for source, target in (group, tmp_path / "g"), (scene, tmp_path / "s"):
            packed = command("pack", source, "-").stdout
            command("unpack", "-", target, data=packed)
        np.testing.assert_array_equal(elements(tmp_path / "g" / "other"), range(3))
        np.testing.assert_array_equal(elements(tmp_path / "s"), elements(scene))
        told = command("unpack", "-", tmp_path / "t", data=packed[:-1], status=1).stderr
        assert b"standard input" in told
        assert not list(tmp_path.glob("t*"))

    def test_pack_and_unpack_an_array(self, scene, tmp_path, run, done):
        file = tmp_path / "one.xap"
        done("pack", scene, file)
        assert json.loads(done("ls", file, "--json"))[0]["shape"] == [2, 5]
        done("unpack", file, tmp_path / "back")
        np.testing.assert_array_equal(elements(tmp_path / "back"), elements(scene))
        assert run("unpack", file, tmp_path / "back").status == 1
        done("unpack", file, tmp_path / "back", "--overwrite")
        assert run("extend", file, "--by", "1").status == 1

    @pytest.mark.parametrize("name", ["all.h5", "all.zarr"])
    def test_whole_files(self, group, tmp_path, run, done, name):
        pytest.importorskip("h5py" if name.endswith("h5") else "zarr")
        done("export", group, tmp_path / name)
        done("import", tmp_path / name, tmp_path / "back", "--all")
        np.testing.assert_array_equal(elements(tmp_path / "back" / "other"), range(3))
        assert elements(tmp_path / "back" / "station" / "wind").shape == (2, 3)
        for words in (["export", group, "-"], ["export", group, tmp_path / "all.npy"]):
            assert run(*words).status == 2
        found = run("import", tmp_path / name, tmp_path / "one")
        assert found.status == 1
        assert "station/wind" in found.err, "it names the arrays that there are"


class TestWork:
    def test_rechunk(self, scene, tmp_path, run, done):
        done("rechunk", scene, tmp_path / "b", "--chunks", "5,1", "--axes", "x,y", "--verify")
        with xa.open(tmp_path / "b") as b:
            assert (b.chunks, b.dims) == ((5, 1), ("x", "y"))
        np.testing.assert_array_equal(elements(tmp_path / "b"), elements(scene).T)
        done("rechunk", scene, "--in-place", "--chunks", "1", "--dtype", "f8")
        with xa.open(scene) as a:
            assert (a.chunks, a.dtype) == ((1, 1), np.float64)
        for words in ([], [tmp_path / "c", "--in-place"], [tmp_path / "c", "--max-memory", "1"]):
            assert run("rechunk", scene, *words).status == 2

    def test_repack(self, scene, tmp_path, run, done):
        assert "no compression" in run("repack", scene).err
        path = tmp_path / "b"
        x = np.random.default_rng(1).integers(0, 9, (40, 40))
        with xa.create(path, x.shape, int, chunks=(4, 40), compression="zlib") as a:
            for n in range(3):
                a[...] = x + n
                a.freeze()
        before = os.path.getsize(f"{path}.xtz")
        out = done("repack", path)
        after = os.path.getsize(f"{path}.xtz")
        assert after < before / 2
        assert out == f"{format_bytes(before)} before, {format_bytes(after)} now\n"
        np.testing.assert_array_equal(elements(path), x + 2)

    def test_plan(self, scene, done):
        out = done("rechunk", scene, "--plan", "--chunks", "1")
        assert out == f"{xa.rechunk_plan(scene, chunks=1)}\n"
        assert sorted(os.listdir(scene.parent)) == ["scene.xmd", "scene.xta"]

    def test_advise(self, path, done):
        xa.create(path, (40, 8, 8), "u2", sparse=True, dims=("time", "y", "x")).close()
        words = ["--read", ":,1,1*10", "--read", "1,:,:", "--grow", "time"]
        found = json.loads(done("advise", path, *words, "--json"))
        advice = xa.advise_chunks((40, 8, 8), "u2", [((None, 1, 1), 10), ((1, None, None), 1)], [0])
        assert tuple(found["chunks"]) == tuple(advice)
        assert found["cost"] == advice.cost
        assert done("advise", path, *words).startswith(advice.explanation)
        found = json.loads(done("advise", path, *words, "--store", "hdf5", "--json"))
        access = [((None, 1, 1), 10), ((1, None, None), 1)]
        assert found["cost"] == xa.advise_chunks((40, 8, 8), "u2", access, 0, store="hdf5").cost

    def test_bench_says_which_direction_is_better(self, tmp_path, run):
        found = run("bench", tmp_path, "--size", "4 KiB", "--repeat", "1")
        assert found.status == 0
        assert found.out.endswith("; above 1, extarray is faster\n")
        found = run("bench", tmp_path / "none")
        assert (found.status, found.out) == (1, "")
        assert found.err.endswith(f"no such folder: {str(tmp_path / 'none')!r}\n")

    def test_bench(self, tmp_path, done):
        words = ["bench", tmp_path, "--size", "64 KiB", "--repeat", "1"]
        found = json.loads(done(*words, "--json"))
        assert {"write all", "read all", "append a plane at axis 2"} <= {
            row["what"] for row in found
        }
        assert all(row["extarray"] > 0 for row in found)
        assert "ratio" in done(*words)
        assert os.listdir(tmp_path) == []

    def test_check_as_json(self, scene, run, done):
        found = json.loads(done("check", scene, "--json"))
        assert found["ok"]
        assert json.loads(done("check", scene.parent, "--json")) == [found]
        with open(f"{scene}.xta", "r+b") as file:
            file.truncate(1)
        bad = run("check", scene, "--json")
        assert bad.status == 1
        assert not json.loads(bad.out)["ok"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        ["copy", "big", "new", "--chunks", "32"],
        ["import", "big.npy", "new", "--chunks", "32"],
        ["append", "grown", "big.npy"],
        ["append", "grown", "big"],
        ["export", "big", "new.npy"],
        ["export", "group", "new.h5"],
        ["pack", "big", "new"],
        ["pack", "group", "new"],
        ["unpack", "big.xap", "new"],
        ["unpack", "group.xap", "new"],
    ],
    ids=" ".join,
)
def test_ctrl_c_leaves_nothing_half_done(forked, tmp_path, words):
    """The signal comes during the copy: no file has taken the name, and no other is left."""
    big = np.ones((1 << 11, 1 << 13), "u1")
    np.save(tmp_path / "big.npy", big)
    with xa.from_array(big, path=tmp_path / "big", chunks=64) as a:
        xa.pack(a, tmp_path / "big.xap")
    with xa.open_group(tmp_path / "group", "w") as g:
        g["inner/big"] = big
        xa.pack(g, tmp_path / "group.xap")
    xa.create(tmp_path / "grown", (0, big.shape[1]), "u1").close()
    before = set(os.listdir(tmp_path))
    code = (
        "import os, signal, sys\n"
        "from extarray import cli\n"
        "from extarray.common.progress import Progress\n"
        "Progress.add = lambda self, n: signal.raise_signal(signal.SIGINT)\n"
        f"os.chdir({str(tmp_path)!r})\n"
        f"status = cli.main({words!r})\n"
        "assert status == 130, status\n"
    )
    forked(code)
    assert set(os.listdir(tmp_path)) == before
    with xa.open(tmp_path / "grown") as a:
        assert a.shape[0] == 0


@pytest.mark.slow
def test_what_an_interruption_leaves_of_rechunk_is_gone_on_with(forked, tmp_path):
    xa.from_array(np.arange(1 << 16).reshape(256, 256), path=tmp_path / "a", chunks=16).close()
    words = ["rechunk", str(tmp_path / "a"), str(tmp_path / "b"), "--chunks", "64"]
    code = (
        "import contextlib, io, os, signal\n"
        "from extarray import cli\n"
        "from extarray.common.progress import Progress\n"
        "Progress.add = lambda self, n: signal.raise_signal(signal.SIGINT)\n"
        "with contextlib.redirect_stderr(io.StringIO()) as err:\n"
        f"    assert cli.main({words!r}) == 130\n"
        "assert '--resume continues' in err.getvalue()\n"
    )
    forked(code)
    assert not (tmp_path / "b.xmd").exists()
    assert any("rechunk" in name for name in os.listdir(tmp_path))
    cli.main([*words, "--resume"])
    np.testing.assert_array_equal(elements(tmp_path / "b"), elements(tmp_path / "a"))
    assert {name.split(".")[0] for name in os.listdir(tmp_path)} == {"a", "b"}
    assert len(os.listdir(tmp_path)) == 4


class TestCompletion:
    def complete(self, monkeypatch, run, text):
        words = text.split(" ")
        monkeypatch.setenv("_EXTARRAY_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", text)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        return {line.partition(",")[2] for line in run().out.splitlines()}

    def test_commands_options_and_arrays(self, scene, monkeypatch, run):
        monkeypatch.chdir(scene.parent)
        (scene.parent / "sub").mkdir()
        (scene.parent / "some.txt").touch()
        assert self.complete(monkeypatch, run, "extarray hi") == {"history"}
        assert self.complete(monkeypatch, run, "extarray info --j") == {"--json"}
        assert self.complete(monkeypatch, run, "extarray info s") == {"scene", "sub/"}
        typed = f"extarray info {scene.parent.as_posix()}/sc"
        assert self.complete(monkeypatch, run, typed) == {scene.as_posix()}

    @needs_any_names
    def test_a_name_that_is_two_answers_is_none(self, scene, monkeypatch, run):
        monkeypatch.chdir(scene.parent)
        (scene.parent / "so\nplain,other.xmd").touch()
        assert self.complete(monkeypatch, run, "extarray info s") == {"scene"}

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_scripts(self, done, shell):
        assert "_EXTARRAY_COMPLETE" in done("completion", shell)
