"""The pair of files: names, damage, locks, partners, and modes of opening."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same, same_values
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from systems import IS_ROOT, needs_fork, needs_modes, needs_replaced_open_files

import extarray as xa
from extarray._core._file import UNSUPPORTED
from extarray.common import system
from extarray.common.limits import limits
from extarray.common.system import MAPS_FREELY
from extarray.errors import ArgumentError, StaleWarning
from extarray.storage import filesystem, lock, reading
from extarray.storage.filesystem import File, shares_blocks


def names(folder) -> list[str]:
    return sorted(entry.name for entry in Path(folder).iterdir())


@pytest.fixture
def scene(path):
    """Return a closed array with two growths, and its values."""
    with xa.create(path, shape=(3, 5), dtype="i4", chunks=(2, 2), attrs={"a": 1}) as array:
        array[...] = sample("i4", (3, 5))
        array.extend(1, 2)
        array.append(sample("i4", (2, 7), 1))
        values = array[...]
    return path, values


# Names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scene", "run.2024", ".hidden", "x.xmd.old", "größe ", "a.npy"])
@pytest.mark.parametrize("suffix", ["", ".xmd", ".xta"])
def test_suffixes_are_appended_never_replaced(tmp_path, name, suffix):
    given_path = tmp_path / (name + suffix)
    with xa.create(given_path, shape=(2,), dtype="u1") as array:
        assert array.path == tmp_path / name
        assert isinstance(array.path, Path)
    assert names(tmp_path) == sorted([name + ".xmd", name + ".xta"])
    for again in ("", ".xmd", ".xta"):
        with xa.open(tmp_path / (name + again)) as array:
            assert array.path == tmp_path / name


def test_paths_of_every_kind(tmp_path, monkeypatch):
    class Like:
        def __fspath__(self):
            return str(tmp_path / "like")

    monkeypatch.chdir(tmp_path)
    for given_path, name in [
        (Like(), "like"),
        ("text", "text"),
        (b"bytes", "bytes"),
        (Path("relative"), "relative"),
    ]:
        xa.create(given_path, shape=(1,), dtype="u1").close()
        assert (tmp_path / f"{name}.xmd").exists()
        xa.open(given_path).close()


@pytest.mark.parametrize("bad", [3, 1.5, object(), ["scene"], True])
def test_what_is_no_path(bad):
    with pytest.raises(TypeError):
        xa.create(bad, shape=(1,))
    with pytest.raises(TypeError):
        xa.open(bad)


@pytest.mark.parametrize("bad", ["", ".xmd", "folder/", "folder/.", "..", "a\0b"])
def test_paths_that_name_no_file(bad):
    with pytest.raises(xa.ArgumentError, match="path"):
        xa.create(bad, shape=(1,))
    with pytest.raises(xa.ArgumentError, match="path"):
        xa.open(bad)


def test_open_needs_a_path():
    with pytest.raises(TypeError):
        xa.open(None)


def test_a_changed_working_directory_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with xa.create("scene", shape=(1,), dtype="u1", chunks=1) as array:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir("other")
        array.extend(0, 5)
        array.attrs["a"] = 1
        array.flush()
        array.refresh()
        assert array.info()["metadata_bytes"] == (tmp_path / "scene.xmd").stat().st_size
    assert names(tmp_path) == ["other", "scene.xmd", "scene.xta"]
    assert names(tmp_path / "other") == []


# Existing and missing files ----------------------------------------------------------------------


@pytest.mark.parametrize("left", ["xmd", "xta", "both"])
def test_an_existing_pair_is_not_overwritten_unasked(scene, left):
    path, _ = scene
    for suffix in {"xmd", "xta"} - {left} if left != "both" else ():
        Path(f"{path}.{suffix}").unlink()
    before = {name: (path.parent / name).read_bytes() for name in names(path.parent)}
    with pytest.raises(xa.ExistsError, match="overwrite=True") as caught:
        xa.create(path, shape=(1,))
    assert isinstance(caught.value, FileExistsError)
    assert "scene" in str(caught.value)
    assert {name: (path.parent / name).read_bytes() for name in names(path.parent)} == before


@needs_replaced_open_files
@pytest.mark.parametrize("left", ["xmd", "xta", "both"])
def test_an_existing_pair_is_overwritten_if_asked(scene, left):
    path, _ = scene
    for suffix in {"xmd", "xta"} - {left} if left != "both" else ():
        Path(f"{path}.{suffix}").unlink()
    with xa.create(path, shape=(4,), dtype="f4", overwrite=True) as array:
        assert not array[...].any()
        assert dict(array.attrs) == {}
    with xa.open(path) as array:
        assert array.shape == (4,)
        assert array.dtype == np.float32


def test_two_that_create_at_once(path):
    """One of the two wins, and its files stay whole."""
    for _ in range(50):
        start, made, refused = threading.Barrier(2), [], []

        def create(value, start=start, made=made, refused=refused):
            start.wait()
            try:
                made.append(xa.full((1,), value, path=path))
            except xa.ExistsError as error:
                refused.append(error)

        threads = [threading.Thread(target=create, args=(value,)) for value in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == len(refused) == 1
        (winner,) = made
        winner.extend(0, 2)
        with xa.open(path) as reader:
            assert_same(reader[...], winner[...])
        winner.close()
        xa.open(path, mode="r+").close()
        assert names(path.parent) == ["scene.xmd", "scene.xta"]
        for suffix in (".xmd", ".xta"):
            Path(f"{path}{suffix}").unlink()


def test_a_failed_creation_leaves_nothing(path):
    for options in [
        {"shape": (2, -1)},
        {"shape": (2,), "dtype": object},
        {"shape": (2,), "chunks": 0},
        {"shape": (2,), "order": "Q"},
        {"shape": (2,), "attrs": {"a": {1, 2}}},
        {"shape": (2,), "engine": "nope"},
        {"shape": (2,), "dtype": "i4", "fill_value": "text"},
        {"shape": (2**62,), "dtype": "f8"},
    ]:
        with pytest.raises((xa.ExtArrayError, ValueError, TypeError)):
            xa.create(path, **options)
        assert names(path.parent) == [], options


def test_a_failed_overwrite_leaves_the_old_array(scene):
    path, values = scene
    with pytest.raises(xa.ExtArrayError):
        xa.create(path, shape=(2,), chunks=0, overwrite=True)
    with pytest.raises(xa.LimitError):
        xa.create(path, shape=(2**62,), dtype="f8", overwrite=True)
    with xa.open(path) as array:
        assert_same(array[...], values)


@needs_replaced_open_files
def test_overwriting_leaves_open_readers_what_they_see(scene):
    """Open readers keep the old files, which no longer have a name."""
    path, values = scene
    with xa.open(path) as reader:
        view = reader.chunk((0, 0))
        xa.create(path, shape=(1,), dtype="u1", overwrite=True).close()
        assert_same(reader[...], values)
        assert_same(np.array(view), values[:2, :2])
        with pytest.raises(xa.ReplacedError):
            reader.refresh()
        assert_same(reader[...], values)


@needs_replaced_open_files
def test_overwriting_while_a_reader_opens(path, monkeypatch):
    """The pair is replaced between its two files; the reader must not mix old and new."""
    writers = [xa.full((4,), 1, path=path, chunks=2)]
    real_open = system.open_file

    def replace_between(name, *args, **options):
        if str(name).endswith(".xta") and len(writers) == 1:
            writers[0].close()
            writers.append(None)  # the next line opens files too
            writers[1] = xa.create(
                path, shape=(4,), dtype="i8", chunks=4, fill_value=2, overwrite=True
            )
        return real_open(name, *args, **options)

    monkeypatch.setattr(system, "open_file", replace_between)
    try:
        with xa.open(path) as reader:
            assert reader.chunks == (4,)
            assert reader[...].tolist() == [2] * 4
    finally:
        monkeypatch.undo()
        writers[1].close()


@pytest.mark.slow
def test_opening_while_a_writer_comes_and_goes(forked, path):
    """While a writer opens, grows and closes repeatedly, a reader always finds a whole pair."""
    xa.full((1, 2), 5, path=path, chunks=(2, 2)).close()
    code = """
import sys
import extarray as xa
for step in range(150):
    with xa.open(sys.argv[1], mode="r+") as array:
        array.extend(step % 2, 1 + step % 3)
        array.attrs["text"] = "x" * 3 * step
"""
    with forked.start(code, path) as writer:
        seen = []
        while writer.poll() is None:
            with xa.open(path) as reader:
                seen.append(reader.shape)
                assert reader[0, 0] == reader[-1, -1] == 5
                reader.refresh()
                assert reader[-1, -1] == 5
        assert writer.returncode == 0
    assert seen == sorted(seen)
    with xa.open(path) as array:
        assert array.shape[0] + array.shape[1] == 3 + 50 * 6
        assert (array[...] == 5).all()


def test_overwriting_a_locked_pair_is_refused(scene):
    path, values = scene
    with xa.open(path, mode="r+") as writer:
        with pytest.raises(xa.LockedError):
            xa.create(path, shape=(1,), overwrite=True)
        assert_same(writer[...], values)


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("missing", ["xmd", "xta", "both", "folder"])
def test_missing_files(scene, mode, missing):
    path, _ = scene
    for suffix in ("xmd", "xta"):
        if missing in (suffix, "both"):
            Path(f"{path}.{suffix}").unlink()
    if missing == "folder":
        path = path.parent / "none" / "scene"
    before = names(path.parent) if path.parent.exists() else None
    with pytest.raises(xa.MissingError, match="scene") as caught:
        xa.open(path, mode=mode)
    if missing in ("xmd", "xta"):
        assert f"scene.{missing}" in str(caught.value)
    assert (names(path.parent) if path.parent.exists() else None) == before


def test_creation_in_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        xa.create(tmp_path / "none" / "scene", shape=(1,))
    assert isinstance(caught.value, xa.ExtArrayError)
    assert caught.value.filename == str(tmp_path / "none")
    assert names(tmp_path) == []


def test_names_of_files_in_the_making_are_not_told(tmp_path):
    with pytest.raises(OSError, match="cannot create") as caught:
        xa.create(tmp_path / ("a" * 300), shape=(1,))
    assert caught.value.filename == system.long_name(str(tmp_path / ("a" * 300 + ".xta")))
    assert ".new" not in str(caught.value)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_array(tmp_path, kind):
    path = tmp_path / "t.npy"
    if kind == "file":
        np.save(path, np.zeros(3))
    else:
        path.mkdir()
    for mode in ("r", "r+"):
        with pytest.raises(xa.MissingError, match=r"t\.npy'.*from_npy") as caught:
            xa.open(path, mode)
        assert caught.value.filename == (str(path) if kind == "file" else f"{path}.xmd")


def test_a_folder_in_the_place_of_a_file(path):
    Path(f"{path}.xmd").mkdir()
    with pytest.raises(xa.StorageError, match="scene"):
        xa.open(path)
    with pytest.raises(xa.StorageError, match="scene"):
        xa.create(path, shape=(1,), overwrite=True)


@pytest.mark.parametrize("mode", ["w", "a", "x", "rb", "", None, 1])
def test_modes(scene, mode):
    with pytest.raises(xa.ExtArrayError, match="mode"):
        xa.open(scene[0], mode=mode)


# Damage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_foreign_partner(scene, mode):
    path, _ = scene
    other = path.with_name("other")
    with xa.open(path) as array:
        array.copy(other).close()
    shutil.copyfile(f"{other}.xta", f"{path}.xta")
    with pytest.raises(xa.PartnerError, match=r"scene\.xta"):
        xa.open(path, mode=mode)


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("whose", ["own", "another"])
def test_elements_that_look_like_a_seal(path, tmp_path, mode, whose):
    """Such bytes count as elements, with a live or dead writer, and before their commit."""
    with xa.create(path, (64,), "u1", chunks=(96,)) as array:
        array[...] = 1
    stored = path
    if whose == "another":
        stored = tmp_path / "stored"
        xa.create(stored, (64,), "u1", chunks=(64,)).close()
    elements = np.fromfile(f"{stored}.xta", "u1")[-96:]
    died = tmp_path / "died"

    def copy(name):
        for suffix in (".xmd", ".xta"):
            shutil.copyfile(f"{path}{suffix}", f"{name}{suffix}")

    with xa.open(path, "r+") as array:
        array.resize(96)
        array.append(elements)
        array.flush()
        copy(died)
        with xa.open(path) as reader:
            assert (reader[96:] == elements).all()
        # A growth with elements in the file, but without its commit.
        commit = array._store.commit

        def copied(*args):
            copy(tmp_path / "half")
            commit(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(array._store, "commit", copied)
            array.append(elements)
    assert not any(p.severity == "error" for p in xa.check(died).problems)
    with xa.open(died, mode) as array:
        assert (array[96:] == elements).all()
    with xa.open(tmp_path / "half", mode) as array:
        assert (array[96:] == elements).all() and len(array) == 192


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_more_than_the_metadata_says(scene, mode):
    """A closed file ends with its seal; any other end means another file."""
    path, _ = scene
    with open(f"{path}.xta", "ab") as file:
        file.write(b"more")
    with pytest.raises(xa.FormatError, match=r"scene\.xta"):
        xa.open(path, mode=mode)


def test_a_renamed_pair_is_a_pair(scene):
    path, values = scene
    other = path.with_name("other.name")
    for suffix in (".xmd", ".xta"):
        os.rename(f"{path}{suffix}", f"{other}{suffix}")
    with xa.open(other) as array:
        assert_same(array[...], values)


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_truncated_principal_array(scene, mode, keep):
    path, _ = scene
    with xa.open(path) as array:
        allocated = array.info()["allocated_bytes"]
    short = int(allocated * keep) if keep else 0
    os.truncate(f"{path}.xta", short)
    with pytest.raises(xa.TruncatedError, match=r"scene\.xta"):
        xa.open(path, mode=mode)
    assert os.path.getsize(f"{path}.xta") == short


def open_or_refuse(path):
    """Return the values of a pair, or the class of its FormatError; other errors escape."""
    try:
        with xa.open(path) as array:
            return array[...], dict(array.attrs)
    except xa.FormatError as error:
        return type(error)


def places_of_interest(data: bytes):
    """Return every nonzero byte, its neighbours, and some of the other bytes."""
    used = {i for i, byte in enumerate(data) if byte}
    around = {i + d for i in used for d in (-1, 1)} & set(range(len(data)))
    return sorted(used | around | set(range(0, len(data), 97)))


def test_every_damaged_byte_is_detected(scene):
    """After any flipped bit of the metadata, an older commit opens, or a clear error is raised.

    A commit may be lost, but no wrong value may appear.
    """
    path, values = scene
    file = Path(f"{path}.xmd")
    good = file.read_bytes()
    commits = [values.shape, (3, 7), (3, 5)]
    refused = 0
    for position in places_of_interest(good):
        damaged = bytearray(good)
        damaged[position] ^= 1 << (position % 8)
        file.write_bytes(damaged)
        result = open_or_refuse(path)
        if isinstance(result, type):
            refused += 1
            continue
        got, attrs = result
        assert got.shape in commits, position
        assert same_values(got, values[tuple(slice(n) for n in got.shape)]), position
        assert attrs in ({"a": 1}, {}), position
    assert refused > 64, "the header at least has to be refused"


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize(("by", "told"), [(2, "newer"), (-1, "copy the array through NumPy")])
def test_another_version(scene, mode, by, told):
    """The major version follows the eight bytes of the signature."""
    path, _ = scene
    file = Path(f"{path}.xmd")
    data = bytearray(file.read_bytes())
    (major,) = struct.unpack_from("<H", data, 8)
    struct.pack_into("<H", data, 8, major + by)
    file.write_bytes(data)
    with pytest.raises(xa.VersionError, match=rf"scene.*{major + by}.*{told}"):
        xa.open(path, mode=mode)
    assert file.read_bytes() == data


@pytest.mark.parametrize("content", [b"", b"\0", b"\x89HDF\r\n\x1a\n", b"no metadata\n" * 1000])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_of_another_kind(scene, content, mode):
    path, _ = scene
    file = Path(f"{path}.xmd")
    file.write_bytes(content)
    with pytest.raises(xa.FormatError, match=r"scene\.xmd"):
        xa.open(path, mode=mode)
    assert file.read_bytes() == content


def test_truncated_metadata(scene):
    """Any prefix of the metadata gives an older state or an error, never a crash."""
    path, values = scene
    file = Path(f"{path}.xmd")
    good = file.read_bytes()
    for length in {*range(0, len(good), max(1, len(good) // 200)), len(good) - 1}:
        file.write_bytes(good[:length])
        result = open_or_refuse(path)
        if not isinstance(result, type):
            got = result[0]
            assert same_values(got, values[tuple(slice(n) for n in got.shape)])
    file.write_bytes(good[: len(good) // 4])
    assert isinstance(open_or_refuse(path), type)


@given(data=st.data())
def test_random_damage(scene_bytes, data):
    """Several damaged bytes never cause another error, or a crash."""
    path, good = scene_bytes
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    Path(f"{path}.xmd").write_bytes(damaged)
    open_or_refuse(path)


@pytest.fixture(scope="module")
def scene_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "scene"
    with xa.create(path, shape=(3,), dtype=[("x", "i4")], chunks=2, attrs={"a": [1]}) as array:
        array.extend(0, 4)
    return path, Path(f"{path}.xmd").read_bytes()


# Locks -------------------------------------------------------------------------------------------

OPEN_FOR_WRITING = """
import sys
import extarray as xa
try:
    xa.open(sys.argv[1], mode="r+", timeout=0).close()
except xa.LockedError as error:
    print("locked", error)
else:
    print("opened")
"""


WITHOUT_RANGES = """
from extarray.common.limits import limits
limits.has_range_locks = False
"""


def test_one_writer_in_a_process(disk):
    with disk.array((2,), "u1") as array:
        with pytest.raises(xa.LockedError, match=array.path.name) as caught:
            disk.open(array, mode="r+")
        assert isinstance(caught.value, BlockingIOError)
        array.close()
        with disk.open(array, mode="r+") as second, pytest.raises(xa.LockedError):
            disk.open(second, mode="r+")


@pytest.mark.slow
def test_a_writer_of_this_process_is_told_apart(scene, forked):
    """For example, a cell of a notebook runs again."""
    path, _ = scene
    mine = rf"this process already has it open \(process {os.getpid()} on .*\); close that array"
    with xa.open(path, mode="r+"):
        with pytest.raises(xa.LockedError, match=mine):
            xa.create(path, (2, 3), overwrite=True)
        with pytest.raises(xa.LockedError, match=mine):
            xa.open(path, mode="r+")
        assert "another writer" in forked(OPEN_FOR_WRITING, path)


@pytest.mark.slow
def test_where_the_system_locks_whole_files_alone(scene, forked, monkeypatch):
    """On macOS, range locks have another form."""
    path, values = scene
    monkeypatch.setattr(limits, "has_range_locks", False)
    writer = xa.open(path, mode="r+")
    for timeout in (0, 0.02):
        with pytest.raises(xa.LockedError, match="this process already has it open"):
            xa.open(path, mode="r+", timeout=timeout)
    with pytest.raises(xa.LockedError):
        xa.create(path, (1,), overwrite=True)
    assert "locked" in forked(WITHOUT_RANGES + OPEN_FOR_WRITING, path)
    with xa.open(path) as reader:
        assert_same(reader[...], values)
        writer.extend(0, 1)
        assert reader.refresh()
    assert not lock.is_held(writer._store.now.metadata)  # the system cannot tell
    assert xa.check(path).ok
    first, second = writer._store.now.data, File.open(f"{path}.xta", os.O_RDWR)
    with lock.holding(first, 5, 1), pytest.raises(BlockingIOError), second as fd:
        system.lock_whole(fd, system.EXCLUSIVE)
    with lock.holding(second, 5, 1):
        pass
    second.close()
    writer.add_axis()
    with pytest.raises(xa.LockedError):
        xa.open(path, mode="r+")
    writer.close()
    with xa.open(path, mode="r+", timeout=0) as again:
        assert again.shape == (1, len(values) + 1, *values.shape[1:])


@pytest.mark.invariant("I6")
@pytest.mark.slow
def test_one_writer_among_processes(scene, forked):
    path, _ = scene
    with xa.open(path, mode="r+"):
        assert str(os.getpid()) in forked(OPEN_FOR_WRITING, path), "the holder's pid is named"
    assert forked(OPEN_FOR_WRITING, path).strip() == "opened"


# Each holder waits for a line, with the lock held.
HOLDERS = {
    "create": """
class Source:
    shape, dtype = (4, 4), np.dtype("i4")
    def __getitem__(self, selection):
        values = np.zeros((4, 4), "i4")[selection]
        if values.size == 1:  # a sample, to see the dtype
            return values
        wait()
        raise OSError("no data")
with contextlib.suppress(OSError):
    xa.from_array(Source(), path, overwrite=True)
""",
    "check": """
xa.check(path, data=True, repair=True, progress=wait)
""",
    "check damaged": """
with open(path + ".xmd", "r+b") as file:
    file.write(bytes(8))
xa.check(path, data=True, repair=True, progress=wait)
""",
    "rechunk": """
from extarray.maintenance.workers import Crew
move = Crew.move
def slowly(self, *given):
    wait()
    move(self, *given)
Crew.move = slowly
xa.rechunk(path, chunks=(1, 4), in_place=True).close()
""",
    "add_axis": """
with xa.open(path, "r+") as array:
    array.add_axis()
    wait()
""",
    "share": """
with xa.open(path, "r+", share=True):
    wait()
""",
}

HOLD = """
import contextlib, sys
import numpy as np
import extarray as xa
path, waits = sys.argv[1], [1]
def wait(*progress):
    if waits:
        waits.clear()
        print("ready", flush=True)
        sys.stdin.readline()
"""


@pytest.mark.invariant("I6")
@pytest.mark.slow
@pytest.mark.parametrize("what", HOLDERS)
def test_whoever_has_the_lock_is_named(path, forked, what):
    xa.ones((4, 4), "i4", path=path, chunks=(2, 2), checksum=what != "share").close()
    with forked.start(HOLD + HOLDERS[what], path) as holder:
        try:
            assert holder.stdout.readline() == "ready\n"
            who = re.escape(f"(process {holder.pid} on {socket.gethostname()})")
            for ask in (
                lambda: xa.open(path, "r+"),
                lambda: xa.create(path, (2,), overwrite=True),
                lambda: xa.check(path, repair=True),
                lambda: xa.rechunk(path, chunks=2, in_place=True),
            ):
                with pytest.raises(xa.LockedError, match=rf"another writer {who} (has|shares) it"):
                    ask()
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert holder.wait(60) == 0
        finally:
            holder.kill()
    with File.open(f"{path}.xmd", os.O_RDONLY) as fd:
        assert str(holder.pid).encode() not in os.read(fd, 1 << 20), "the note is gone"


class Naps:
    """Replaces the naps of a waiting opener: each nap calls the next function."""

    def __init__(self, monkeypatch, *steps):
        self.steps = list(steps)
        monkeypatch.setattr(time, "sleep", self)

    def __call__(self, seconds):
        self.steps.pop(0)()


def write_note(file, header, text):
    """Leave a note as another writer does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_own_note", text.encode)
        lock.note_holder(file, header, True)


@pytest.mark.parametrize("share", [False, True])
def test_who_has_just_taken_the_lock_is_about_to_say_so(scene, monkeypatch, share):
    """Between the lock and its note, there is no note, or that of a dead writer."""
    path, _ = scene
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    waiting = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(waiting, stdin=subprocess.PIPE, text=True) as alive,
        File.open(f"{path}.xmd", os.O_RDWR) as fd,
        xa.open(path) as reader,
    ):
        holder, header = File(os.dup(fd)), reader._store.now.header
        lock.acquire(holder, path, 0)
        for text in ("7 elsewhere", f"{alive.pid} {socket.gethostname()}"):
            lock.note_holder(holder, header, False)
            pid, host = text.split()
            steps = [f"{gone.pid} {socket.gethostname()}", "", text]
            with monkeypatch.context() as patch:
                Naps(patch, *(functools.partial(write_note, holder, header, s) for s in steps))
                with pytest.raises(xa.LockedError, match=rf"process {pid} on {re.escape(host)}\)"):
                    xa.open(path, "r+", share=share)
        lock.note_holder(holder, header, False)
        with monkeypatch.context() as patch:
            Naps(patch, lambda: None, lambda: lock.release(holder))
            with xa.open(path, "r+", share=share) as array:
                assert array.mode == "r+"
        holder.close()


@pytest.mark.invariant("I6")
@pytest.mark.slow
def test_closing_a_reader_does_not_drop_the_lock(scene, forked):
    path, _ = scene
    with xa.open(path, mode="r+") as writer:
        xa.open(path).close()
        with pytest.raises(xa.LockedError):
            xa.open(path, mode="r+")
        Path(f"{path}.xmd").read_bytes()  # closing another descriptor drops no lock
        assert forked(OPEN_FOR_WRITING, path).startswith("locked")
        writer.extend(0, 1)


@pytest.mark.invariant("I4")
def test_readers_and_the_writer_do_not_mind_each_other(scene):
    path, _ = scene
    with xa.open(path) as first, xa.open(path, mode="r+") as writer, xa.open(path) as second:
        writer[0, 0] = 5
        assert first[0, 0] == second[0, 0] == 5
    assert xa.open(path, mode="r+").close() is None


def test_timeout_passes(scene):
    path, _ = scene
    with xa.open(path, mode="r+"), pytest.raises(xa.LockedError):
        xa.open(path, mode="r+", timeout=0.02)


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("timeout", [-1, True, "soon", float("nan")])
def test_timeout_that_is_none(scene, mode, timeout):
    path, _ = scene
    with pytest.raises((ValueError, TypeError), match="timeout must be"):
        xa.open(path, mode=mode, timeout=timeout)


@pytest.mark.parametrize("timeout", [60, None])
def test_timeout_waits_for_the_other_writer(scene, timeout):
    path, values = scene
    writer = xa.open(path, mode="r+")
    entered, results = threading.Event(), []

    def wait():
        entered.set()
        try:
            with xa.open(path, mode="r+", timeout=timeout) as array:
                results.append(array[...])
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    entered.wait()
    thread.join(0.05)
    assert not results, "it has to wait"
    writer.close()
    thread.join()
    assert_same(results[0], values)


@pytest.mark.parametrize(
    "timeout", [0, 0.01, np.int64(0), np.float32(0.01), Fraction(1, 100), 10**400, float("inf")]
)
@pytest.mark.parametrize("share", [False, True])
def test_timeouts_of_all_kinds(scene, timeout, share):
    """Any real number works, even one that no float can hold."""
    with xa.open(scene[0], mode="r+", timeout=timeout, share=share) as array:
        assert list(array.follow(timeout=min(timeout, 0))) == []
    if timeout < 1:
        with xa.open(scene[0], mode="r+"), pytest.raises(xa.LockedError):
            xa.open(scene[0], mode="r+", timeout=timeout, share=share)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
def test_timeouts_that_cannot_be(scene, timeout):
    with pytest.raises(xa.ExtArrayError, match="timeout"):
        xa.open(scene[0], mode="r+", timeout=timeout)


def test_a_writer_that_was_killed_holds_nothing(scene, forked):
    path, values = scene
    killed = forked.start(
        "import sys, extarray as xa\n"
        "array = xa.open(sys.argv[1], mode='r+')\n"
        "array[0, 0] = 77\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n",
        path,
    )
    with killed:
        assert killed.stdout.readline() == "ready\n"
        with pytest.raises(xa.LockedError, match=str(killed.pid)):
            xa.open(path, mode="r+")
        killed.kill()
    with xa.open(path, mode="r+") as array:
        assert array[0, 0] == 77
        assert_same(array[1:], values[1:])
        array.extend(0, 3)


FORK = r"""
import os, sys
import numpy as np
import extarray as xa
array = xa.open(sys.argv[1], mode="r+", engine=sys.argv[2])
expected = array[...]
if os.fork() == 0:
    # The child lives until its parents' parent closes the pipe.
    same = bool((array[...] == expected).all())
    try:
        array.extend(0, 1)
    except xa.ReadOnlyError:
        os.write(1, f"child reads {same}\n".encode())
    sys.stdin.read()
    os._exit(0)
if sys.argv[3] == "close":
    array.close()
    try:
        xa.open(sys.argv[1], mode="r+").close()
    except xa.LockedError as error:
        os.write(1, f"{error}\n".encode())
    else:
        os.write(1, b"opened again\n")
os._exit(0)
"""


@needs_fork
@pytest.mark.sampled(1)
@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("how", ["close", "exit"])
def test_a_forked_child_does_not_hold_the_lock(scene, forked, engine, how, has_ranges, monkeypatch):
    path, _ = scene
    code = FORK
    if not has_ranges:
        monkeypatch.setattr(limits, "has_range_locks", False)
        code = WITHOUT_RANGES + FORK
    with forked.start(code, path, engine, how) as parent:
        lines = [parent.stdout.readline()]
        if how == "close":
            lines.append(parent.stdout.readline())
        assert "child reads True\n" in lines
        parent_status = parent.wait(60)
        # The child is still alive: it waits for the end of its input.
        with xa.open(path, mode="r+") as array:
            array.extend(0, 1)
        parent.stdin.close()
    assert parent_status == 0
    if how == "close":
        assert "opened again\n" in lines


# Media and rights --------------------------------------------------------------------------------

READ_ONLY_MEDIUM = """
import subprocess, sys
import numpy as np
import extarray as xa
folder, engine = sys.argv[1:]
mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder]
subprocess.run(mount, check=True)
path = f"{folder}/scene"
with xa.create(path, shape=(5,), dtype="i4", chunks=2) as array:
    array[...] = [0, 1, 2, 3, 4]
# The mount alone: a remount of the file system repeats its options, with a uid that this namespace
# does not have.
subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
with xa.open(path, engine=engine) as array:
    assert array[...].tolist() == [0, 1, 2, 3, 4]
    assert array.chunk((1,)).tolist() == [2, 3]
    assert array.refresh() is False
for call in (
    lambda: xa.open(path, mode="r+", engine=engine),
    lambda: xa.create(f"{folder}/new", shape=(1,), engine=engine),
    lambda: xa.create(path, shape=(1,), overwrite=True, engine=engine),
):
    try:
        call()
    except xa.StorageError as error:
        assert "Read-only file system" in str(error), error
    else:
        raise AssertionError("a read-only medium was written")
"""


@pytest.mark.sampled(1)
def test_read_only_medium(private_mount, script, tmp_path, engine):
    script(READ_ONLY_MEDIUM, tmp_path, engine, prefix=private_mount)


LARGER_THAN_THE_DISK = """
import errno, os, sys
import fulldisk
import extarray as xa
folder, engine = sys.argv[1:]
fulldisk.mount(folder, "4m")
free = os.statvfs(folder).f_bfree

# Some file systems fill the disk before they refuse, and leave it full.
def posix_fallocate(*args):
    raise AssertionError("the disk was filled to see whether it is large enough")

os.posix_fallocate = posix_fallocate
calls = [
    lambda: xa.create(f"{folder}/reserved", 2**31, "u1", engine=engine),
    lambda: xa.create(f"{folder}/filled", 2**31, "u1", sparse=True, fill_value=7, engine=engine),
]
sparse = xa.create(f"{folder}/sparse", 2**31, "u1", chunks=2**31, sparse=True, engine=engine)
if engine == "mmap":  # a store needs the space of its chunk first, but for single elements
    calls.append(lambda: sparse.write(slice(2), 1))
for call in calls:
    try:
        call()
    except xa.StorageError as error:
        assert error.errno == errno.ENOSPC, error
    else:
        raise AssertionError("2 GiB in 4 MiB")
sparse.close()
assert os.statvfs(folder).f_bfree > free - 100
"""


@pytest.mark.sampled(1)
def test_what_is_larger_than_the_disk(private_mount, script, tmp_path, engine):
    script(LARGER_THAN_THE_DISK, tmp_path, engine, prefix=private_mount)


def test_the_size_of_a_disk(tmp_path):
    """2**62 bytes exceed any disk, and a few bytes fit on every one."""
    with contextlib.closing(File.open(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)) as file:
        assert file.exceeds_disk(2**62)
        assert not file.exceeds_disk(2**20)
        assert file.reserve(0, 2**62) in (errno.ENOSPC, UNSUPPORTED)
        assert file.disk_bytes() == 0


def test_runs_of_bytes(tmp_path):
    data = np.random.default_rng(0).integers(0, 256, 1000, np.uint8)
    data.tofile(tmp_path / "file")

    def read(places, **part):
        target = np.zeros(10 * len(places), np.uint8)
        file = File.open(str(tmp_path / "file"), os.O_RDONLY, **part)
        with contextlib.closing(file):
            done = file.read_runs(target, np.array(places, np.int64), 10)
        return target[:done].tolist()

    def expected(*runs):
        return np.concatenate([data[low:high] for low, high in runs]).tolist()

    assert read([700, 3, 990, 3]) == expected((700, 710), (3, 13), (990, 1000), (3, 13))
    assert read([3, 995, 3]) == expected((3, 13), (995, 1000))
    assert read([0, 45, 0], start=100, size=50) == expected((100, 110), (145, 150))


READ_ONLY_FOLDER = """
import os, subprocess, sys
import numpy as np
import extarray as xa
folder, engine = sys.argv[1:]
os.mkdir(f"{folder}/rw"), os.mkdir(f"{folder}/ro")
with xa.create(f"{folder}/rw/scene", shape=(2, 3), dtype="i4", chunks=2) as writer:
    subprocess.run(["mount", "--bind", f"{folder}/rw", f"{folder}/ro"], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", f"{folder}/ro"], check=True)
    with xa.open(f"{folder}/ro/scene", engine=engine) as reader:
        writer.append(np.ones((1, 3), "i4"))
        assert reader.refresh() and reader[2].tolist() == [1, 1, 1]
        writer.shrink(0, 2, side="start")
        assert reader.refresh() and reader[...].tolist() == [[1, 1, 1]]
"""


@pytest.mark.sampled(1)
def test_read_only_folder_while_a_writer_grows(private_mount, script, tmp_path, engine):
    script(READ_ONLY_FOLDER, tmp_path, engine, prefix=private_mount)


@needs_modes
def test_files_without_the_right_to_write(scene):
    path, values = scene
    for suffix in (".xmd", ".xta"):
        os.chmod(f"{path}{suffix}", 0o444)
    with xa.open(path) as array:
        assert_same(array[...], values)
    if not IS_ROOT:  # the superuser could write
        with pytest.raises(PermissionError) as caught:
            xa.open(path, mode="r+")
        assert isinstance(caught.value, xa.StorageError)


# Closing -----------------------------------------------------------------------------------------


def test_files_hold_what_was_committed_without_a_close(disk):
    """Another process, or one after a crash, sees every commit at once."""
    with disk.array((2, 2), "i4", chunks=2) as array:
        array.append(np.full((3, 2), 7))
        array.attrs["a"] = 1
        with disk.open(array) as reader:
            assert reader.shape == (5, 2)
            assert dict(reader.attrs) == {"a": 1}
            assert reader[2:].tolist() == [[7, 7]] * 3


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "input/output error"), KeyboardInterrupt()])
def test_descriptors_whose_closing_fails_are_given_up(scene, monkeypatch, number, mode, error):
    """The descriptors' numbers soon belong to other files."""
    path, _ = scene
    array = xa.open(path, mode=mode)
    store, close = array._store, os.close
    fds = []
    for file in (store.now.metadata, store.now.data):
        with file as fd:
            fds.append(fd)

    def fail(fd):
        close(fd)
        if fd == fds[number]:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", fail)
        with pytest.raises(xa.StorageError if isinstance(error, OSError) else KeyboardInterrupt):
            array.close()
    assert array.closed
    for fd in fds:
        with pytest.raises(OSError, match=r"[Bb]ad file descriptor|WinError 6"):
            os.fstat(fd)
    with open(path.with_name("other"), "w+b") as first, open(first.name, "r+b") as second:
        assert {first.fileno(), second.fileno()} == set(fds)
        first.write(b"v" * 100_000)
        first.flush()
        array.close()
        store.__del__()
        assert Path(first.name).read_bytes() == b"v" * 100_000
        os.fstat(second.fileno())
    xa.open(path, "r+").close()


def test_an_array_may_outlive_its_modules(tmp_path, engine, monkeypatch):
    """When Python ends, the names of modules are None before the last objects go."""
    xa.from_array(np.arange(3), tmp_path / "a").close()
    array = xa.open(tmp_path / "a", engine=engine)
    with monkeypatch.context() as patch:
        for name in [name for name in vars(reading) if not name.startswith("__")]:
            patch.setattr(reading, name, None)
        array._store.__del__()
    assert array._store.now.metadata.closed
    array.close()


def test_a_note_about_the_holder_has_its_place(scene):
    """The place is right even if the file was damaged meanwhile."""
    path, values = scene
    array = xa.open(path, "r+")
    with open(f"{path}.xmd", "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        first = file.seek(0) or file.read(4096)
        file.seek(0)
        file.write(first[:8] + b"\xff" * 16)
        file.flush()
        array.close()
        assert file.seek(0, os.SEEK_END) == size
        file.seek(0)
        file.write(first[:64])
    assert_same(xa.open(path)[...], values)


def test_a_forgotten_writer_warns(disk):
    array = disk.create((2,), "u1")
    path = array.path
    with pytest.warns(ResourceWarning, match=path.name):
        del array
    xa.open(path, mode="r+").close()


def test_a_forgotten_reader_does_not_warn(scene):
    array = xa.open(scene[0])
    del array


@pytest.mark.slow
def test_a_reader_that_lives_until_the_end_says_nothing(script, scene):
    """An object that outlives the modules (an open xarray dataset) finds them gone at exit."""
    code = """
import sys
import extarray as xa
class Keeper:
    def __init__(self):
        self.array = xa.open(sys.argv[1])
    def __del__(self):
        self.array.close()
Keeper.instance = Keeper()
sys.keeper = Keeper
"""
    done = subprocess.run(
        script.command(code, scene[0]), env=script.environment, capture_output=True, check=True
    )
    assert done.stderr == b""


def test_leaving_the_block_closes_even_after_an_error(scene):
    with pytest.raises(RuntimeError, match="inside"), xa.open(scene[0], mode="r+") as array:
        raise RuntimeError("inside")
    assert array.closed
    xa.open(scene[0], mode="r+").close()


def test_engines_read_each_others_files(scene):
    path, values = scene
    usual = "mmap" if MAPS_FREELY else "pread"
    for writer, reader in [("mmap", "pread"), ("pread", "mmap"), ("auto", "auto")]:
        with (
            xa.open(path, mode="r+", engine=writer) as array,
            xa.open(path, engine=reader) as other,
        ):
            array[1] = values[1] = sample("i4", (7,), len(values))
            assert_same(other[...], values)
            array.append(values[:1])
            values = np.concatenate([values, values[:1]])
            assert other.refresh()
            assert_same(other[...], values)
            assert array.info()["engine"] == (writer if writer != "auto" else usual)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(0xEF53, "mmap"), (0x01021994, "mmap"), (0x6969, "pread"), (0x0BD00BD0, "pread")],
    ids=["ext4", "tmpfs", "NFS", "Lustre"],
)
def test_the_engine_follows_the_file_system(scene, monkeypatch, kind, expected):
    monkeypatch.setattr(File, "file_system", kind)
    with xa.open(scene[0]) as array:
        assert array.info()["engine"] == (expected if MAPS_FREELY else "pread")
    if expected == "mmap":
        with xa.open(scene[0], engine="mmap") as array:
            assert array.info()["engine"] == "mmap"
        return
    with pytest.warns(StaleWarning, match="old elements"):
        array = xa.open(scene[0], engine="mmap")
    with array:
        assert array.info()["engine"] == "mmap"
    with pytest.raises(ArgumentError, match="hosts may share"):
        xa.open(scene[0], "r+", engine="mmap")
    with pytest.raises(ArgumentError, match="hosts may share"):
        xa.create(scene[0], 3, engine="mmap", overwrite=True)
    assert_same(xa.open(scene[0])[...], scene[1])


@needs_replaced_open_files
@pytest.mark.parametrize(
    ("kind", "holes"),
    [(0x9123683E, True), (0x2FC12FC1, True), (0xCA451A4E, True), (0xEF53, False), (0, False)],
    ids=["Btrfs", "ZFS", "bcachefs", "ext4", "unknown"],
)
def test_what_compresses_is_left_holes(path, tmp_path, monkeypatch, kind, holes):
    def is_sparse(array):
        with array:
            return array.info()["sparse"]

    monkeypatch.setattr(filesystem, "file_system_of", lambda fd: kind)
    assert is_sparse(xa.create(path, (4,))) is holes
    assert is_sparse(xa.create(path, (4,), sparse=False, overwrite=True)) is False
    assert is_sparse(xa.create(path, (4,), sparse=True, overwrite=True)) is True
    memory = xa.zeros((3, 4), chunks=2)
    assert is_sparse(memory.copy(f"{path}-copy")) is holes
    assert is_sparse(xa.rechunk(memory, f"{path}-rechunked", chunks=3)) is holes
    assert is_sparse(xa.from_array([1, 2], f"{path}-elements")) is holes
    with pytest.raises(xa.MissingError, match="no such folder"):
        xa.create(tmp_path / "no" / "scene", (4,))
    # Files are made at the link's target.
    monkeypatch.undo()
    (tmp_path / "far").mkdir()
    place = os.path.samestat
    there = os.stat(tmp_path / "far")
    for suffix in ("xmd", "xta"):
        os.symlink(tmp_path / "far" / f"scene.{suffix}", tmp_path / f"link.{suffix}")
    monkeypatch.setattr(
        filesystem, "file_system_of", lambda fd: kind if place(os.fstat(fd), there) else 0
    )
    assert is_sparse(xa.create(tmp_path / "link", (4,), overwrite=True)) is holes


@pytest.mark.parametrize("shared", [None, 0, 255, 256, 700])
def test_a_writer_on_xfs_does_not_map_shared_blocks(path, monkeypatch, shared):
    """The system reports 701 extents of four KiB, one of which may be shared."""
    fcntl = pytest.importorskip("fcntl")

    def fiemap(fd, request, buffer):
        start, length, flags, _, room, _ = struct.unpack_from("=QQIIII", buffer)
        assert (request, flags, len(buffer)) == (0xC020660B, 0, 32 + 56 * room)
        assert start % 4096 == 0
        assert start + length == 2**64 - 1
        told = range(start // 4096, min(701, start // 4096 + room))
        struct.pack_into("=I", buffer, 20, len(told))
        for place, n in enumerate(told):
            flags = (n == 700) | (n == shared) << 13
            extent = struct.pack("=QQQ16xI12x", 4096 * n, 2**40 - n, 4096, flags)
            buffer[32 + 56 * place : 88 + 56 * place] = extent

    xa.create(path, (4,)).close()
    monkeypatch.setattr(File, "file_system", 0x58465342)
    monkeypatch.setattr(fcntl, "ioctl", fiemap)
    with xa.open(path, "r+") as array:
        assert array.info()["engine"] == ("mmap" if shared is None else "pread")
    with xa.open(path) as array:
        assert array.info()["engine"] == "mmap"


def test_blocks_of_a_new_file_are_its_own(tmp_path):
    with contextlib.closing(File.open(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)) as file:
        file.write(bytes(9000), 0)
        assert not shares_blocks(file)


def test_engines_that_do_not_exist(scene):
    with pytest.raises(xa.ArgumentError, match="engine"):
        xa.open(scene[0], engine="hdf5")
