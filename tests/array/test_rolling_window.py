"""A rolling window whose files start over beside a reader."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from systems import needs_replaced_open_files

import extarray as xa

READER = """
import sys
import extarray as xa
with xa.open(sys.argv[1]) as a:
    print("ready", flush=True)
    for line in sys.stdin:
        if a.replaced:  # the files that it has open are left as they were
            before = a[:, 0]
            assert (before[1:] - before[:-1] == 1).all(), before
        a.refresh(on_replaced="reopen")
        print(a.replaced, *a[:, 0], flush=True)
"""


def roll(a, first, stop):
    for n in range(first, stop):
        a.append([[n] * a.shape[1]])
        a.shrink(0, 1, side="start")


def copied_bytes(path, target):
    """Return what a copy by a tool that fills holes takes."""
    shutil.copyfile(f"{path}.xta", target)
    return os.path.getsize(target)


@needs_replaced_open_files
@pytest.mark.slow
def test_files_start_over_beside_a_reader(path, tmp_path, script):
    values = np.repeat(np.arange(8)[:, None], 64, 1)
    a = xa.from_array(values, path, chunks=(1, 64))
    process = script.start(READER, path)

    def seen_by_reader():
        process.stdin.write("look\n")
        process.stdin.flush()
        return process.stdout.readline().split()

    try:
        assert process.stdout.readline().split() == ["ready"]
        size = copied_bytes(path, tmp_path / "copy")
        handles, n = [], 8
        for _ in range(3):
            roll(a, n, n + 500)
            n += 500
            assert copied_bytes(path, tmp_path / "copy") > 50 * size
            expected = ["False", *map(str, range(n - 8, n))]
            assert seen_by_reader() == expected
            a = a.rechunk(in_place=True, progress=False)
            assert copied_bytes(path, tmp_path / "copy") <= size + 4096
            assert seen_by_reader() == expected
            if os.path.isdir("/proc/self/fd"):
                handles.append(len(os.listdir("/proc/self/fd")))
        assert len(set(handles)) <= 1
        roll(a, n, n + 3)
        assert seen_by_reader() == ["False", *map(str, range(n - 5, n + 3))]
    finally:
        process.kill()
        process.communicate()
        a.close()
