"""Text for a terminal: control characters are spelt out, all others stay."""

from __future__ import annotations

import ast
import io
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems import needs_posix

import extarray as xa
from extarray.common.terminal import print_text, printable

ROOT = Path(xa.__file__).parent
#: ESC and its C1 form, a line break, and a name that shows from right to left.
HOSTILE = "a\x1b]0;owned\x07\x9b2J\r\nb\u202ec\x7f"


def controls(text):
    """Return the characters that a terminal obeys."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Zl", "Zp") or c in "\u202e\u2066"}


@given(st.lists(st.characters()))
def test_all_else_is_as_it_was(characters):
    shown = [printable(c) for c in characters]
    assert printable("".join(characters)) == "".join(shown)
    assert not controls("".join(shown))
    for c, text in zip(characters, shown, strict=True):
        assert text == c or (text == repr(c)[1:-1] and not c.isprintable())


def test_letters_are_those_of_python():
    assert printable(HOSTILE) == r"a\x1b]0;owned\x07\x9b2J\r\nb\u202ec\x7f"
    assert printable("C:\\dir\u00e9 \u6771\U0001f469\u200d\U0001f680") == (
        "C:\\dir\u00e9 \u6771\U0001f469\u200d\U0001f680"
    )


def test_lines_stay_lines_and_an_encoding_takes_what_it_can():
    stream = io.TextIOWrapper(io.BytesIO(), "ascii", newline="")
    print_text("one\ntwo\t\u00e9 \udcff", stream=stream)
    assert stream.buffer.getvalue() == b"one\ntwo\\t\\xe9 \\udcff\n"


def test_nothing_else_prints():
    """Any other call would pass file names to the terminal as they are."""
    found = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            text = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
            if text in ("print", "sys.stdout.write", "sys.stderr.write", "click.echo"):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert found == []


@pytest.mark.parametrize(
    "name", [pytest.param(HOSTILE, marks=needs_posix("name with control characters")), "plain"]
)
def test_texts_of_arrays_and_groups(scratch, name):
    """A name cannot imitate a line of its own."""
    folder = scratch / name
    with xa.open_group(folder, "w") as group:
        a = group.create(name, (2, 3), dims=["x", f"{name}2"], attrs={name: name})
        info, tree = str(a.info()), repr(group)
    (folder / name).with_name(f"{name}.xta").unlink()
    report = xa.check(folder / name)
    assert not report.ok
    for text, n in ((info, None), (tree, 2), (str(report), 4)):
        lines = text.split("\n")
        assert not any(map(controls, lines))
        assert n is None or len(lines) == n
