"""Docstrings begin with a verb or a noun, never with a clause."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "extarray"
SOURCES = sorted(p for p in ROOT.rglob("*") if p.suffix in {".py", ".pyx"})

_CLAUSE = re.compile(r"(What|Who|Have|Which|Whether|Where|How|When)\b")
# The ast module cannot parse Cython; there a string that begins a line is a docstring.
_CYTHON_DOCSTRING = re.compile(
    r'^[ \t]*[rRuU]?(?P<quotes>"""|\'\'\'|"|\')(?P<text>.*?)(?P=quotes)', re.MULTILINE | re.DOTALL
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(text: str, suffix: str):
    """Yield (line, text) of each docstring of a source."""
    if suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, _DOCUMENTED):
                found = ast.get_docstring(node)
                if found is not None:
                    yield node.body[0].lineno, found
    else:
        for match in _CYTHON_DOCSTRING.finditer(text):
            yield text.count("\n", 0, match.start("quotes")) + 1, match["text"].strip()


def clauses(documented, name: str) -> list[str]:
    """Return file, line and first line of each docstring that begins with a clause."""
    return [
        f"{name}:{line}: {found.splitlines()[0]}"
        for line, found in documented
        if _CLAUSE.match(found)
    ]


@pytest.mark.slow
def test_no_docstring_begins_with_a_clause():
    counts, found = Counter(), []
    for path in SOURCES:
        name = path.relative_to(ROOT.parent).as_posix()
        documented = list(docstrings(path.read_text(encoding="utf-8"), path.suffix))
        counts[path.suffix] += len(documented)
        found += clauses(documented, name)
    assert not found, "\n".join(found)
    assert counts[".py"] > 100 and counts[".pyx"] > 100


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.py", '"""What it is."""', 1),
        ("a.py", 'class A:\n    """\n    Where it is.\n    """', 2),
        ("a.py", 'async def f():\n    r"""Whether it is."""', 2),
        ("a.pyx", 'cdef class A:\n    cdef int f(self) nogil:\n        """How it is."""', 3),
        ("a.pyx", "def f():\n    '''\n    When it is.\n    '''", 2),
        ("a.pyx", 'def f():\n    "Have it done."', 2),
    ],
)
def test_a_clause_is_found(name, text, line):
    (found,) = clauses(docstrings(text, Path(name).suffix), name)
    assert found.startswith(f"{name}:{line}: ")


@pytest.mark.parametrize("name", ["a.py", "a.pyx"])
def test_what_is_no_clause_is_not_found(name):
    text = 'def f():\n    """Whatever it is, tell\n    what it is."""\n    x = "What"\n'
    assert clauses(docstrings(text, Path(name).suffix), name) == []
