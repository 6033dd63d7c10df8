"""CONTRIBUTING.md: its commands run existing tests and stages, whatever is installed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the page is not part of this tree")

#: A plugin of pytest as others install it: it warns when it is configured.
PLUGIN = """
import warnings

def pytest_configure(config):
    warnings.warn("a default is not set", DeprecationWarning)
"""


def commands() -> list[str]:
    """The commands of the page's console blocks, without comments."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line[2:].partition(" #")[0].strip() for line in lines if line.startswith("$ ")]


def words_of_pytest(command: str) -> list[str] | None:
    """Return the arguments of a command that runs pytest, or None for another command."""
    words = shlex.split(command)
    names = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    return names[1:] if names[:1] == ["pytest"] else None


def collect(*words, **environment):
    """Collect tests as the command would, in a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1", **environment},
        cwd=ROOT,
        timeout=250,
        check=False,
    )


def runs_of_pytest():
    found = [words for command in commands() if (words := words_of_pytest(command)) is not None]
    return [pytest.param(words, id=shlex.join(words)) for words in found]


@pytest.mark.slow
@pytest.mark.parametrize("words", runs_of_pytest())
def test_each_run_of_tests_selects_some(words):
    """A run that names no file looks at one of many tests, to be short."""
    if not any(word.startswith("tests/") for word in words):
        words = [*words, "tests/storage/test_shared.py"]
    done = collect(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9]\d*(/\d+)? tests? collected", done.stdout, re.MULTILINE)


def test_there_are_runs_of_pytest():
    assert len(runs_of_pytest()) >= 4
    assert words_of_pytest("pip install pytest") is None
    assert words_of_pytest("A=1 pytest x -k 'a b'") == ["x", "-k", "a b"]


def test_stages_and_programs_are_there():
    text, run = PAGE.read_text(encoding="utf-8"), ROOT / ".ci" / "run"
    if run.is_file():
        script = run.read_text(encoding="utf-8")
        stages = set(" ".join(re.findall(r'^\w+_stages="(.*)"$', script, re.MULTILINE)).split())
        called = {
            w
            for c in re.findall(r"\.ci/run((?: [a-z]+)+)", "\n".join(commands()))
            for w in c.split()
        }
        assert called
        assert called <= stages
    programs = set(re.findall(r"python (tests/\S+\.py)", text))
    assert programs
    assert [name for name in programs if not (ROOT / name).is_file()] == []


@pytest.mark.slow
@pytest.mark.skipif(
    not (ROOT / ".ci").is_dir() or shutil.which("git") is None, reason="needs git, and .ci"
)
def test_long_subjects_of_commits_are_found_from_the_check_on(tmp_path):
    """Commits that were made before the check, or join others, may be longer."""

    def git(*words):
        who = ["-c", "user.name=A", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True)

    def checked():
        script = ROOT / ".ci" / "check_subjects.py"
        words = [sys.executable, script, tmp_path]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.returncode, re.findall(r"characters, 72 at most: (\w)", done.stdout)

    assert checked() == (0, [])  # no repository
    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "a" * 73)
    git("branch", "before")
    assert checked() == (0, [])
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "check_subjects.py").touch()
    git("add", ".")
    git("commit", "-m", "b" * 72)
    git("commit", "--allow-empty", "-m", "c" * 72, "-m", "d" * 100)
    git("switch", "before")
    git("commit", "--allow-empty", "-m", "e" * 10)
    git("switch", "main")
    git("merge", "before", "-m", "f" * 80)
    assert checked() == (0, [])
    git("commit", "--allow-empty", "-m", "g" * 73)
    assert checked() == (1, ["g"])


@pytest.mark.slow
def test_a_plugin_for_asyncio_does_not_matter(tmp_path):
    """pytest-asyncio warns when it is configured, and warnings are errors here."""
    (tmp_path / "plugin_for_asyncio.py").write_text(PLUGIN)
    info = tmp_path / "plugin_for_asyncio-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: plugin-for-asyncio\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text("[pytest11]\nasyncio = plugin_for_asyncio\n")
    file, environment = "tests/project/test_layers.py", {"PYTHONPATH": str(tmp_path)}
    done = collect(file, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    # A run that does not disable the plugin shows that pytest finds it.
    done = collect(file, "-o", "addopts=--import-mode=importlib -p no:zarr", **environment)
    assert "a default is not set" in done.stdout + done.stderr
    assert done.returncode != 0
