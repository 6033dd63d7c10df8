"""Invariants: docs/design.md tells which modules keep each, and which files of tests hold it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "design.md"
NAME = re.compile(r"\bI[1-9]\d?\b")

pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="the documentation is not part of this tree"
)


def number(name: str) -> int:
    return int(name[1:])


def keepers(sources: dict[str, str]) -> dict[str, set[str]]:
    """The modules, `room/name`, whose comments and docstrings name each invariant."""
    found = defaultdict(set)
    for module, text in sources.items():
        for name in NAME.findall(text):
            found[name].add(module)
    return found


def sources() -> dict[str, str]:
    root = ROOT / "extarray"
    return {
        path.relative_to(root).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.suffix in {".py", ".pyx", ".pxd", ".h"}
    }


def marks(tree: ast.AST) -> list[tuple[str, str]]:
    """Invariants and the functions that are marked with them."""
    return [
        (name.value, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.invariant"
        for name in mark.args
    ]


def holders() -> dict[str, set[str]]:
    """For each invariant, the files of the tests that are marked with it, without their suffix."""
    found = defaultdict(set)
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.invariant(" in text:
            file = path.relative_to(ROOT / "tests").with_suffix("").as_posix()
            for name, _test in marks(ast.parse(text)):
                found[name].add(file)
    return found


def table() -> str:
    """The table as `docs/design.md` shows it; `python FILE` prints it."""
    kept, held = keepers(sources()), holders()
    rows = ["| invariant | kept by | held by |", "| --- | --- | --- |"]
    for name in sorted({*kept, *held}, key=number):
        cells = (", ".join(f"`{each}`" for each in sorted(found[name])) for found in (kept, held))
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def test_the_page_on_the_design_has_the_table():
    assert table() in PAGE.read_text(encoding="utf-8"), "put in what this file prints"


def test_each_invariant_is_kept_somewhere_and_held_by_a_test():
    stated = re.findall(r"^\*\*(I\d+) — ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert stated == sorted(set(stated), key=number)
    assert set(keepers(sources())) == set(holders()) == set(stated)


def test_names_and_marks_are_found():
    assert keepers({"a/b": "x = I4  # I3, I12\n", "c": '"""(I3)"""'}) == {
        "I3": {"a/b", "c"},
        "I4": {"a/b"},
        "I12": {"a/b"},
    }
    text = "@pytest.mark.slow\n@pytest.mark.invariant('I2', 'I4')\ndef test_a(): pass\n"
    assert marks(ast.parse(text)) == [("I2", "test_a"), ("I4", "test_a")]


if __name__ == "__main__":
    print(table())
