"""The suffixes of arrays' files, which few modules spell out."""

import ast
from pathlib import Path

import pytest

import extarray
from extarray.format import suffixes
from extarray.format.suffixes import file_names, is_of_pair, split_name, without_suffix

ROOT = Path(extarray.__file__).parent
SUFFIXES = {*suffixes.PAIR, suffixes.PACKED}


@pytest.mark.parametrize("stem", ["scene", "run.2024", "a/b.c/d", ".hidden", "ünïcode", "x.xap"])
def test_names_of_a_pair_lead_back_to_the_stem(stem):
    assert file_names(stem) == (f"{stem}.xmd", f"{stem}.xta")
    for name in file_names(stem):
        assert is_of_pair(name)
        assert split_name(name) == (stem, name[-4:])
        assert without_suffix(name) == stem


@pytest.mark.parametrize(
    "name", ["scene", ".xmd", "..xta", "a/...xmd", "a/.xta", "scene.xap", "scene.XMD", "xmd", ""]
)
def test_other_names_have_no_suffix(name):
    assert not is_of_pair(name)
    assert split_name(name) == (name, "")
    assert without_suffix(name) == name


def literals(source):
    """Suffixes that a module writes down; but names in formatted texts are for messages."""
    tree = ast.parse(source)
    told = {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    values = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in told]
    texts = [v.decode("latin-1") if isinstance(v, bytes) else v for v in values]
    return [t for t in texts if isinstance(t, str) and t.removeprefix("*") in SUFFIXES]


def test_literals_are_found():
    source = """f(".xmd", b".xta", x.glob("*.xmd"), "in '.xmd' or", "scene.xta", f"{path}.xta")"""
    assert literals(source) == [".xmd", ".xta", "*.xmd"]


def test_the_suffixes_are_written_down_once():
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if literals(path.read_text(encoding="utf-8"))
    }
    assert found == {"format/suffixes.py"}
