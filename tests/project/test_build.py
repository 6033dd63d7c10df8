"""A build that cannot succeed says why."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "setup.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pip brings a compiler there")


@pytest.fixture(scope="module")
def require_compiler():
    """The function of setup.py, without the rest of it, which translates all modules."""
    tree = ast.parse(SETUP.read_text(encoding="utf-8"))
    (function,) = (n for n in tree.body if getattr(n, "name", None) == "require_compiler")
    names = {m.__name__: m for m in (os, shlex, shutil, sys, sysconfig)} | {"Path": Path}
    exec(compile(ast.Module([function], []), "setup.py", "exec"), names)
    return names["require_compiler"]


def test_a_missing_compiler_is_told_in_a_sentence(require_compiler, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -pthread")
    with pytest.raises(SystemExit) as caught:
        require_compiler()
    told = str(caught.value)
    assert "the C compiler 'no-such-compiler' is not there: install GCC or Clang" in told
    assert "\n" not in told


def test_missing_headers_of_python_are_told_in_a_sentence(require_compiler, monkeypatch, tmp_path):
    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(SystemExit, match=r"headers are not in .*: install them \('apt install"):
        require_compiler()
    (tmp_path / "Python.h").touch()
    require_compiler()
