"""Hypothesis chooses the same examples in every run, or those of a seed that it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROPERTY = """
from hypothesis import given
from hypothesis import strategies as st

@given(st.integers(0, 2**62))
def test_numbers(number):
    print("drawn", number)
"""


@pytest.fixture
def drawn(tmp_path):
    """Return a function that runs a property with the suite's conftest: its numbers and seed."""
    file = tmp_path / "test_numbers.py"
    file.write_text(PROPERTY)
    known = {name: value for name, value in os.environ.items() if name != "HYPOTHESIS_PROFILE"}
    known["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])

    def run(*options, **environment):
        command = [sys.executable, "-m", "pytest", "-s", "-c", os.devnull, "-p", "conftest"]
        command += ["-p", "no:zarr"]  # as in the suite: loading zarr takes half of a start
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", *options, file],
            capture_output=True,
            text=True,
            env=known | environment,
            cwd=tmp_path,
            timeout=250,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        seed = re.search(r"--hypothesis-seed=(\d+)", done.stdout)
        return re.findall(r"drawn (\d+)", done.stdout), seed and seed.group(1)

    return run


def test_fixed_examples(drawn):
    first, seed = drawn(CI="")
    assert seed is None
    assert len(first) == 30
    assert drawn(CI="1") == (first, None)


def test_examples_of_a_seed(drawn):
    first, seed = drawn(HYPOTHESIS_PROFILE="explore")
    assert len(first) == 100
    assert drawn(f"--hypothesis-seed={seed}", HYPOTHESIS_PROFILE="explore") == (first, seed)
    fewer, _ = drawn(f"--hypothesis-seed={int(seed) + 1}")
    assert len(fewer) == 30
    assert fewer != first[:30]
