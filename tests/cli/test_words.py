"""Every argument and option of every command, given words that make no sense there."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest

import extarray as xa
from extarray import cli

click = pytest.importorskip("click")

#: Commands that wait for events, or that measure.
LONG = {"bench", "demo", "follow", "serve", "view"}
COMMANDS = {k: v for k, v in cli.command_line().commands.items() if k not in LONG}
#: Valid values of arguments, for the cases that try another argument.
GOOD = {"target": "new", "data": "d.npy", "selection": "0", "value": "1", "kind": "growth"}
GOOD |= {"names": "units", "shell": "bash"}
NEEDED = {"extend": ["--axis", "y", "--by", "1"], "shrink": ["--axis", "y", "--by", "1"]}
NEEDED |= {"append": ["--axis", "y"], "rechunk": ["--chunks", "2,2"], "create": ["--shape", "3"]}
NEEDED["advise"] = ["--read", "0"]


def make(folder):
    """Fill a folder with an array, a folder, and files that are not arrays."""
    with xa.create(folder / "a", (4, 6), "f4", chunks=(2, 3), dims=("y", "x")) as a:
        a[...] = np.arange(24).reshape(4, 6)
        a.attrs["units"] = "K"
    np.save(folder / "d.npy", np.ones((2, 6), "f4"))
    (folder / "text.txt").write_text("hello")
    (folder / "empty").write_bytes(b"")
    (folder / "folder").mkdir()


def contents(folder):
    """Return the contents of a folder; for arrays their elements, as writers leave notes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".xmd":
            with xa.open(path.with_suffix("")) as a:
                found[name] = a.shape, a.origin, a.dtype, a.chunks, dict(a.attrs), a[...].tobytes()
        elif path.is_file() and path.suffix != ".xta":
            found[name] = path.read_bytes()
    return found


@pytest.fixture
def folder(scratch, monkeypatch):
    monkeypatch.chdir(scratch)
    make(scratch)
    return scratch


def words_of(name):
    """Return arguments with which a command can run, and the places of those to replace."""
    arguments = [p for p in COMMANDS[name].params if isinstance(p, click.Argument)]
    words = [GOOD.get(p.name, "new" if name == "create" else "a") for p in arguments]
    if name == "import":
        words = ["d.npy", "new"]
    return words, range(len(words))


def check(name, words, folder, before, capsys):
    """Require that a command succeeds, or refuses in one line and changes nothing."""
    try:
        status = cli.main([name, *words])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    called = f"{name} {words}: {status} {err!r}"
    assert status in (0, 1, 2), called
    assert "Traceback" not in err, called
    if status:
        assert err.strip(), called
        assert len([line for line in err.splitlines() if "Usage" not in line]) <= 3, called
    if status == 2 or (status and name != "check"):
        assert contents(folder) == before, called
    elif contents(folder) != before:
        shutil.rmtree(folder)
        folder.mkdir()
        make(folder)
    return status, out, err


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("word", ["nonsense", "1:2:0", "-1", ""])
def test_options_with_words_that_make_no_sense(name, word, folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = contents(folder)
    words, _ = words_of(name)
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option) and not option.is_flag and option.name != "help":
            given = [*words, *NEEDED.get(name, []), option.opts[0], word]
            check(name, given, folder, before, capsys)
            before = contents(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_arguments_that_name_something_else(name, folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    words, places = words_of(name)
    for place in places:
        for word in (
            "missing",
            "text.txt",
            "empty",
            "folder",
            "d.npy",
            "a.xta",
            "a.xmd",
            "1:2:0",
            "",
        ):
            before = contents(folder)
            given = [*words[:place], word, *words[place + 1 :], *NEEDED.get(name, [])]
            check(name, given, folder, before, capsys)


# Skip `show` and `set`: a selection may begin with a minus sign.
@pytest.mark.parametrize("name", sorted({*cli.command_line().commands} - {"set", "show"}))
def test_an_option_that_there_is_not_is_refused(name, capsys):
    status = cli.main([name, "--no-such-option"])
    err = capsys.readouterr().err
    assert status == 2 and "--no-such-option" in err and "Traceback" not in err


@pytest.mark.parametrize("name", sorted(cli.command_line().commands))
def test_too_many_arguments_are_refused(name, capsys):
    arguments = [
        p for p in cli.command_line().commands[name].params if isinstance(p, click.Argument)
    ]
    if any(p.nargs == -1 for p in arguments):
        pytest.skip("it takes any number")
    status = cli.main([name, *["a"] * (len(arguments) + 1)])
    assert status == 2 and "a" in capsys.readouterr().err


# -- output compared with Python's results --------------------------------------------------------


def printed(*words, capsys):
    assert cli.main(list(words)) == 0
    return capsys.readouterr().out


def test_json_is_what_python_has(folder, capsys):
    info = json.loads(printed("info", "a", "--json", capsys=capsys))
    with xa.open("a") as a:
        found = a.info()
        assert info["shape"] == list(a.shape) and info["chunks"] == list(a.chunks)
        assert info["dtype"] == a.dtype.str.lstrip("<|") or info["dtype"] == str(a.dtype)
        assert info["file_bytes"] == found["file_bytes"]
    rows = json.loads(printed("history", "a", "--json", capsys=capsys))
    assert len(rows) >= 1
    report = json.loads(printed("check", "a", "--json", capsys=capsys))
    assert report


@pytest.mark.parametrize(
    "text",
    ["0", "1:3", "..., 2", "[0, 2]", "-1, ::-2", "[[True, False, True, False]]", ":, [1, 4]"],
)
def test_show_prints_what_numpy_prints(folder, capsys, text):
    with xa.open("a") as a:
        key = text if text.startswith("[") else f"[{text}]"
        want = np.array2string(np.asarray(eval(f"a{key}", {"a": a[...]})))
    assert printed("show", "a", text, capsys=capsys).strip() == want.strip()


def test_values_are_set_as_numpy_sets_them(folder, capsys):
    x = np.arange(24, dtype="f4").reshape(4, 6)
    for selection, value in (
        ("0, 1", "5"),
        ("1:3", "-2.5"),
        ("..., [0, 5]", "7"),
        ("3", "[1,2,3,4,5,6]"),
    ):
        printed("set", "a", selection, value, capsys=capsys)
        key = eval(f"np.index_exp[{selection}]", {"np": np})
        x[key] = json.loads(value)
        with xa.open("a") as a:
            np.testing.assert_array_equal(a[...], x)


def test_growth_by_the_command_is_growth_by_python(folder, capsys):
    printed("extend", "a", "--axis", "x", "--by", "3", capsys=capsys)
    printed("extend", "a", "--axis", "y", "--by", "2", "--side", "start", capsys=capsys)
    printed("shrink", "a", "--axis", "0", "--by", "1", capsys=capsys)
    with xa.open("a") as a:
        assert a.shape == (5, 9) and a.origin == (2, 0)
        np.testing.assert_array_equal(a[2:, :6], np.arange(24).reshape(4, 6)[:3])
