"""The same calls write the same bytes with every release, on every system."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import written_files

EXPECTED = Path(written_files.__file__).with_name("data") / "written.json"


def without_codecs(checksums):
    """Leave out files with compressed chunks, whose bytes belong to the codec's library."""
    return {name: value for name, value in checksums.items() if "compressed" not in name}


@pytest.mark.slow
def test_the_same_calls_write_the_same_bytes():
    found = without_codecs(written_files.checksums())
    expected = without_codecs(json.loads(EXPECTED.read_text(encoding="utf-8")))
    assert len(expected) > 60
    assert found == expected
