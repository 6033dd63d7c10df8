"""Names that a system allows for files, held against Python's list of them."""

from __future__ import annotations

import ntpath
import sys

import pytest

from extarray.common.file_names import problem_on_windows

RESERVED = [
    *("con", "nul", "NUL", "aux", "prn", "com1", "LPT9", "com¹", "conin$", "CONOUT$"),
    *("nul.xmd", "con.a.b", "com1 .xta", "a?", "a*", 'a"', "a<", "a|b", "a\tb", "a.", "a "),
]
#: The name of a stream inside a file, which is no file of its own.
STREAM = "a:b"
FREE = ["a", "console", "annul", "com", "com10", "lpt", "a.b", ".a", "a b", "été", "nul-1", "con_"]


@pytest.mark.parametrize("name", [*RESERVED, STREAM])
def test_names_that_windows_has_for_no_file(name):
    assert problem_on_windows(name) is not None


@pytest.mark.parametrize("name", FREE)
def test_names_that_windows_has_for_files(name):
    assert problem_on_windows(name) is None


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Python 3.13 brought the list")
@pytest.mark.parametrize("name", [*RESERVED, *FREE])
def test_python_knows_the_same_names(name):
    assert ntpath.isreserved(name) == (problem_on_windows(name) is not None)
