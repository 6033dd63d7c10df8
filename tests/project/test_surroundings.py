"""In any surroundings, programs of a run start alike, and its files are its own."""

from __future__ import annotations

import fcntl
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from giving_back import GivesBack
from surroundings import KEPT, PREFIX, Folder

LOOKS = """
import sys
print(sys.stdout.write_through, sys.flags.optimize, sys.warnoptions)
import extarray as xa
print(xa.config.engine)
"""

INNER = f"""
import subprocess, sys, tempfile

def test_what_programs_see(tmp_path):
    found = subprocess.check_output([sys.executable, "-c", {LOOKS!r}], text=True)
    print("seen", *found.split())
    print("in", tmp_path)
    print("for a time in", tempfile.mkdtemp())
"""


def inner(tmp_path, text, *options, **environment):
    """Run a test with the suite's conftest, as a run of its own."""
    file = tmp_path / "test_inner.py"
    file.write_text(text)
    places = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    command = [sys.executable, "-m", "pytest", "-s", "-c", os.devnull, "-p", "conftest"]
    return subprocess.run(
        [*command, "-p", "no:zarr", "-p", "no:cacheprovider", *options, file],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), **environment},
        cwd=tmp_path,
        timeout=250,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-n", "1", "--capture=fd", "-rP"]])
def test_programs_do_not_see_how_the_caller_likes_python(tmp_path, options):
    """A program that does not flush would otherwise pass on one machine, and hang on another."""
    if options:
        pytest.importorskip("xdist")
    done = inner(
        tmp_path,
        INNER,
        *options,
        PYTHONUNBUFFERED="1",
        PYTHONOPTIMIZE="1",
        PYTHONWARNINGS="error",
        EXTARRAY_ENGINE="pread",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seen False 0 [] auto\n" in done.stdout


@pytest.mark.slow
def test_a_run_has_a_folder_of_its_own_and_removes_it(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    done = inner(tmp_path, INNER, TMPDIR=str(place))
    assert done.returncode == 0, done.stdout + done.stderr
    (files,) = (line[3:] for line in done.stdout.splitlines() if line.startswith("in "))
    (others,) = (line[14:] for line in done.stdout.splitlines() if line.startswith("for a time"))
    for found in (Path(files), Path(others)):
        assert found.is_relative_to(place) and not found.exists()
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_the_files_of_a_test_that_failed_stay(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    text = "def test_this(tmp_path):\n    (tmp_path / 'left').touch()\n    assert not 'right'\n"
    done = inner(tmp_path, text, TMPDIR=str(place))
    assert done.returncode == 1
    (left,) = place.rglob("left")
    (told,) = (line for line in done.stdout.splitlines() if line.startswith("files of tests"))
    assert left.is_relative_to(told.rpartition(": ")[2])


def test_no_run_removes_the_folder_of_another_that_lives(tmp_path):
    living, ended = [Folder(tmp_path) for _ in range(2)], []
    for folder in living:
        (folder.temporary / "file").touch()
        os.utime(folder.path / "lock", (0, 0))
    for _ in range(KEPT + 3):
        ended.append(Folder(tmp_path))
        ended[-1].end(remove=False)
    assert all((folder.temporary / "file").exists() for folder in living)
    there = [folder for folder in ended if folder.path.exists()]
    assert len(there) <= KEPT and there[-1] is ended[-1]
    for folder in living:
        folder.end(remove=False)
    last = Folder(tmp_path)
    assert not any(folder.path.exists() for folder in living)
    last.end(remove=True)
    assert not last.path.exists()


def test_this_run_holds_the_lock_of_its_folder():
    base = Path(tempfile.gettempdir()).parent
    if not base.name.startswith(PREFIX):
        pytest.skip("--basetemp asks for another folder")
    with open(base / "lock", "rb") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_program_in_a_terminal_has_one_and_is_read_to_its_end(forked):
    code = """
import sys
print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty())
print("much" * 30_000, "end", sep="")
sys.exit(3)
"""
    status, shown = forked.run_in_terminal(code)
    lines = shown.splitlines()
    assert (status, lines[0], lines[1][-7:]) == (3, "True True True", "muchend")
    assert forked("import sys; print(sys.stdout.isatty())") == "False\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells what is in use")
def test_garbage_goes_back_to_the_system():
    gives = GivesBack()
    gives.look()
    gc.disable()
    try:
        before = gives.kept
        cycle = [np.ones(20 << 20, "f8")]
        cycle.append(cycle)
        del cycle
        assert gives.look()
        assert gives.kept < before + (32 << 20)
        assert not gives.look()
    finally:
        gc.enable()
