"""Messages of commands name commands and options, and not functions of Python."""

from __future__ import annotations

import ast
import inspect
import os
import re
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray import cli
from extarray.common.hints import for_shell, hint

PACKAGE = Path(xa.__file__).parent
FUNCTIONS = [name for name in xa.__all__ if inspect.isroutine(getattr(xa, name))]
NAMED = re.compile(rf"\bextarray\.({'|'.join(FUNCTIONS)})\b")
#: Modules with messages that programs alone see.
OF_PROGRAMS = {
    "array/array.py", "array/creation.py", "array/facts.py", "array/folders.py", "array/life.py",
    "array/lazy.py", "array/rechunk.py", "array/resizing.py", "common/calls.py",
    "formats/description.py", "formats/hdf5.py", "formats/hdf5_parts.py", "formats/netcdf.py",
    "interop/described.py", "numpy_api/manipulation.py", "storage/names.py",
}  # fmt: skip
#: Words that are of no use in a shell.
PYTHON = re.compile(
    rf"\bextarray\.({'|'.join(FUNCTIONS)})\b|\bxa\.|\w=(True|False)\b|mode='|\ba\.\w+\("
    r"|\brefresh\(|\bastype\b|\bengine='"
)


def texts_of(path):
    """Yield the strings of a module that name functions, outside of docstrings and hints."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    passed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            passed.add(id(node.value))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "hint":
            passed |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            named = NAMED.search(node.value)
            if named is not None and id(node) not in passed:
                yield node.value


def test_messages_that_name_functions_have_words_for_the_shell():
    found = {
        path.relative_to(PACKAGE).as_posix(): texts
        for path in sorted(PACKAGE.rglob("*.py"))
        if (texts := list(texts_of(path)))
    }
    others = {name: texts for name, texts in found.items() if name not in OF_PROGRAMS}
    assert others == {}


def test_a_hint_is_for_who_reads_it():
    assert hint("a.copy(path)", "extarray copy") == "a.copy(path)"
    with for_shell():
        with for_shell():
            pass
        assert hint("a.copy(path)", "extarray copy") == "extarray copy"
    assert hint("a.copy(path)", "extarray copy") == "a.copy(path)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with xa.create("a", (4, 6), "i2", chunks=(2, 3), dims=("y", "x")) as a:
        a[...] = np.arange(24).reshape(4, 6)
    xa.create("plain", (3,), "f8").close()
    xa.create("texts", (2,), "U2", dims=("x",)).close()
    with xa.create("summed", (4,), "u1", checksum=True) as a:
        a[...] = 1
    with open("summed.xta", "r+b") as file:
        file.write(b"\7")
    xa.pack(xa.open("a"), "a.xap")
    Path("text.txt").write_text("hello")
    np.save("floats.npy", np.ones((1, 6)))
    np.save("long.npy", np.array(["four"]))
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    os.mkdir("group")
    xa.create("group/b", (2,)).close()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["info", "text.txt"], "extarray import"),
        (["info", "nothere"], "nothere"),
        (["info", "group"], repr(os.path.join("group", "b"))),
        (["index", "a"], "folder"),
        (["extend", "a.xap", "--by", "1"], "extarray unpack"),
        (["attrs", "a.xap", "unit=mm"], "extarray unpack"),
        (["create", "a", "--shape", "3"], "--overwrite"),
        (["import", "floats.npy", "a"], "--overwrite"),
        (["extend", "plain", "--axis", "x", "--by", "1"], "extarray attrs PATH"),
        (["append", "a", "floats.npy"], "extarray rechunk --dtype"),
        (["append", "texts", "long.npy"], "convert the values first"),
        (["copy", "summed", "b"], "EXTARRAY_VERIFY=never"),
        (["pack", "summed", "b.xap"], "extarray check --data"),
        (["export", "texts", "texts.fits"], "extarray rechunk --dtype"),
        (["create", "b", "--shape", "3", "--compression", "lzf"], "zstd"),
        (["rechunk", "a", "b", "--chunks", "4", "--max-memory", "1"], "--max-memory"),
        (["plot", "a", "growth", "--text", "--at", "0=0", "--at", "1=0"], "--at AXIS=INDEX"),
    ],
)
def test_a_failure_names_commands_and_options(folder, capsys, words, told):
    if words[-1].endswith(".fits"):
        pytest.importorskip("astropy")
    assert cli.main(words) in (1, 2)
    err = capsys.readouterr().err
    assert told in err
    assert PYTHON.search(err) is None, err


def test_an_array_without_compression(folder, capsys):
    xa.create("raw", (2,)).close()
    assert cli.main(["repack", "raw"]) == 2
    assert "extarray copy --compression" in capsys.readouterr().err


def test_a_writer_that_is_in_the_way(folder, capsys):
    with xa.open("a", "r+"):
        for words in (["extend", "a", "--by", "1"], ["mv", "a", "b"], ["rm", "a"]):
            assert cli.main(words) == 1
            err = capsys.readouterr().err
            assert "--timeout" in err
            assert PYTHON.search(err) is None, err


def test_the_report_of_a_check(folder, capsys):
    for words in (["check", "a", "--data"], ["check", "a.xap"], ["check", "plain"]):
        cli.main(words)
        out = capsys.readouterr().out
        assert "not checked" in out and "extarray c" in out
        assert PYTHON.search(out) is None, out


def test_options_of_formats_are_typed_as_options(folder, capsys):
    Path("t.csv").write_text("a,a\n1,2\n")
    assert cli.main(["import", "t.csv", "t"]) == 1
    assert "-o header=false" in capsys.readouterr().err
    assert cli.main(["import", "t.csv", "t", "-o", "header=false"]) == 0


def test_what_is_not_checked_is_told_once(folder, capsys):
    for name in "bcd":
        xa.create(f"group/{name}", (2,), overwrite=True).close()
    assert cli.main(["check", "group", "--data"]) == 0
    out = capsys.readouterr().out
    assert out.count("extarray copy --checksum") == 1
    assert "not checked in 3 arrays: elements" in out
