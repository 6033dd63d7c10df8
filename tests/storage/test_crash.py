"""After a crash, the files open in the state before a commit or after it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same, same_values
from model import sample

import extarray as xa


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("by", [2, 5])
def test_a_crash_before_the_commit_leaves_the_state_before(disk, by, tmp_path):
    """New elements with old metadata, as a crash during an append leaves them."""
    with disk.array((3, 3), "i4", chunks=(4, 2)) as array:
        array[...] = expected = sample("i4", (3, 3))
        array.flush()
        for_crash = tmp_path / "crashed"
        shutil.copyfile(f"{array.path}.xmd", f"{for_crash}.xmd")
        array.append(sample("i4", (by, 3), 3))
        array.flush()
        shutil.copyfile(f"{array.path}.xta", f"{for_crash}.xta")
    with xa.open(for_crash, mode="r", engine=disk.engine) as crashed:
        assert_same(crashed[...], expected)
    with xa.open(for_crash, mode="r+", engine=disk.engine) as crashed:
        crashed.extend(0, by)
        assert_same(crashed[:3], expected)
        assert not crashed[3:].any(), "what was never committed must not show"


def copy_pair(source, target) -> None:
    for suffix in (".xmd", ".xta"):
        shutil.copyfile(f"{source}{suffix}", f"{target}{suffix}")


def state_of(path):
    with xa.open(path) as array:
        return array[...], dict(array.attrs)


def torn(before: bytes, after: bytes):
    """Yield files as a crash while writing may leave them, with part of the changes on disk.

    Cut the changes in file order and in reverse, at every changed byte (of long changes, at some);
    also keep each changed sector alone, as a disk may reorder them.
    """
    before = before.ljust(len(after), b"\0")
    changed = [i for i in range(len(after)) if before[i] != after[i]]
    for cut in (*changed[:100], *changed[100::97], changed[-1]):
        yield after[:cut] + before[cut:]
        yield before[:cut] + after[cut:]
    for sector in {i // 512 for i in changed}:
        low, high = 512 * sector, 512 * sector + 512
        yield before[:low] + after[low:high] + before[high:]
        yield after[:low] + before[low:high] + after[high:]


COMMITS = {
    "new segment": lambda a: a.extend(0, 3),
    "same segment": lambda a: a.extend(1, 3),
    "inside a chunk": lambda a: a.extend(1, 1),
    "append": lambda a: a.append(np.full((2, a.shape[1]), 9, "i4")),
    "resize": lambda a: a.resize((a.shape[0] + 5, a.shape[1] + 5)),
    "attribute": lambda a: a.attrs.update(b=2, c="text" * 9),
    "large attribute": lambda a: a.attrs.update(b="text" * 999),
}


@pytest.mark.invariant("I2")
@pytest.mark.filterwarnings("ignore:.*are not verified:extarray.errors.RecoveryWarning")  # copies
@pytest.mark.slow
@pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS.keys())
@pytest.mark.parametrize("segments", [2, 64])
def test_torn_commits(disk, scratch, commit, segments):
    """With 64 segments, the growth log needs new room."""
    crashed = scratch / "crashed"
    with disk.array((2, 2), "i4", chunks=2, attrs={"a": 1}) as array:
        array[...] = sample("i4", (2, 2))
        array.extend(1, 1)
        for step in range(segments - 2):
            array.extend(step % 2, 2)
        assert array.info()["segments"] == segments
        copy_pair(array.path, crashed)
        before = Path(f"{crashed}.xmd").read_bytes(), state_of(crashed)
        commit(array)
        copy_pair(array.path, crashed)
        after = Path(f"{crashed}.xmd").read_bytes(), state_of(crashed)
    assert after[0] != before[0]
    seen = set()
    for image in torn(before[0], after[0]):
        Path(f"{crashed}.xmd").write_bytes(image)
        values, attrs = state_of(crashed)
        matches = [
            number
            for number, (_, state) in enumerate((before, after))
            if attrs == state[1]
            and values.shape == state[0].shape
            and same_values(values, state[0])
        ]
        assert matches, (values, attrs)
        seen.update(matches)
    assert seen == {0, 1}


KILLED = """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1], mode="r+", engine=sys.argv[2]) as array:
    print("ready", flush=True)
    for _ in range(1000):  # were it not killed, it must end all the same
        row = array.shape[0]
        array.append(np.full((1, array.shape[1]), row, "i4"))
        if row % 5 == 0:
            array.append(np.repeat(np.arange(row + 1, dtype="i4")[:, None], 2, axis=1), axis=1)
        array.attrs["rows"] = row
"""


@pytest.mark.slow
def test_killed_while_it_grows(forked, path, engine):
    """After each kill the array opens, holds whole appends only, and still grows."""
    xa.create(path, shape=(1, 1), dtype="i4", chunks=(4, 3), fill_value=-1).close()
    with xa.open(path, mode="r+") as array:
        array[...] = 0
    for _ in range(4):
        rows = xa.open(path).shape[0]
        with forked.start(KILLED, path, engine) as process:
            try:
                assert process.stdout.readline() == "ready\n"
                with xa.open(path) as reader:
                    while reader.shape[0] < rows + 7 and process.poll() is None:
                        reader.refresh()
            finally:
                process.kill()
        with xa.open(path, mode="r+", engine=engine) as array:
            rows, columns = array.shape
            expected = np.repeat(np.arange(rows, dtype="i4")[:, None], columns, axis=1)
            assert_same(array[...], expected)
            assert array.attrs["rows"] in (rows - 1, rows - 2)
            array.extend(1, 1)
            assert (array[:, columns] == -1).all()
            array[:, columns] = np.arange(rows)
