"""After a power cut, flushed data survive, whatever happened to later writes."""

from __future__ import annotations

import os
import random
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray.storage.filesystem import File

SECTOR = 512


class Disk:
    """Watches the calls of a store, to know what is surely on disk, and what may be.

    Keeps each write to ``.xmd`` since that file's last synchronization; of ``.xta``, which is also
    written through the mapping, it keeps the bytes as last synchronized.
    """

    def __init__(self, monkeypatch):
        self.files: dict[str, bytes] = {}
        self.writes: list[tuple[int, bytes]] = []
        real, datasync = File.write, File.datasync

        def write(file, data, offset):
            if self.suffix(file) == ".xmd":
                self.writes.append((offset, bytes(data)))
            real(file, data, offset)

        def sync(file):
            datasync(file)
            suffix = self.suffix(file)
            if suffix is None:
                return
            self.files[suffix] = file.read(file.length, 0)
            if suffix == ".xmd":
                self.writes.clear()

        monkeypatch.setattr(File, "write", write)
        monkeypatch.setattr(File, "datasync", sync)

    @staticmethod
    def suffix(file):
        # A new file still has its temporary name.  Other arrays are not watched.
        with file as fd:
            found = re.match(r"a(\.xmd|\.xta)", Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        return found and found[1]

    def settle(self, path):
        """Let the system write everything back."""
        self.files = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in (".xmd", ".xta")}
        self.writes.clear()

    def cut(self, path, target, rng):
        """Write to `target` what a power cut now may leave of the pair at `path`."""
        metadata = bytearray(self.files[".xmd"])
        for offset, data in rng.sample(self.writes, rng.randint(0, len(self.writes))):
            if rng.random() < 0.2:  # torn between two sectors
                joint = -offset % SECTOR + SECTOR * rng.randint(0, len(data) // SECTOR + 1)
                offset, data = rng.choice([(offset, data[:joint]), (offset + joint, data[joint:])])
            metadata += bytes(max(0, offset + len(data) - len(metadata)))
            metadata[offset : offset + len(data)] = data
        old, new = self.files[".xta"], Path(f"{path}.xta").read_bytes()
        size = rng.choice([len(old), len(new)])
        old, new = old.ljust(size, b"\0"), new.ljust(size, b"\0")
        chunks = b"".join(
            rng.choice([old, new])[low : low + SECTOR] for low in range(0, size, SECTOR)
        )
        Path(f"{target}.xmd").write_bytes(metadata)
        Path(f"{target}.xta").write_bytes(chunks[:size])


class Twin:
    """An array, and all states that a power cut may leave of it."""

    def __init__(self, path, engine, **options):
        self.path, self.engine, self.step = path, engine, 0
        self.array = xa.create(path, (2, 3), "i4", chunks=(2, 4), engine=engine, **options)
        self.flush()

    def note(self):
        self.states.append((self.array.shape, dict(self.array.attrs)))

    def flush(self):
        self.array.flush()
        self.states, self.values = [], [self.array[...]]
        self.note()

    def write(self):
        self.step += 1
        i = self.step % self.array.shape[0]
        self.array[i] = self.step
        self.values.append(self.array[...])

    def extend(self):
        self.array.extend(self.step % 2, 1 + self.step % 3)
        self.note()

    def append(self):
        self.step += 1
        axis = self.step % 2
        shape = [n if j != axis else 2 for j, n in enumerate(self.array.shape)]
        self.array.append(np.full(shape, self.step, "i4"), axis)
        self.note()

    def tell(self):
        self.step += 1
        self.array.attrs["step"] = self.step if self.step % 3 else "x" * 700 * (self.step % 5)
        self.note()

    def reopen(self):
        self.array.close()
        self.array = xa.open(self.path, "r+", engine=self.engine)

    def check(self, found):
        assert (found.shape, dict(found.attrs)) in self.states
        self.check_elements(found)

    def check_elements(self, found):
        flushed = self.values[0].shape
        inside = tuple(slice(n) for n in flushed)
        possible = np.stack([value[inside] for value in self.values])
        assert (possible == found[inside]).any(axis=0).all()


STEPS = ["write", "extend", "append", "tell", "flush", "reopen"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_what_was_flushed_survives(tmp_path, monkeypatch, engine, seed):
    rng = random.Random(seed)
    disk = Disk(monkeypatch)
    twin = Twin(tmp_path / "a", engine)
    for number in range(30):
        getattr(twin, rng.choices(STEPS, [3, 3, 3, 3, 1, 1])[0])()
        target = tmp_path / f"cut{number}"
        for _ in range(2):
            disk.cut(twin.path, target, rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", xa.errors.RecoveryWarning)
                with xa.open(target) as found:
                    twin.check(found)
                with xa.open(target, "r+", engine=engine) as found:
                    twin.check(found)
                    shape = found.shape
                    found.extend(0, 3)
                    assert not found[shape[0] :].any(), "what was lost does not come back"
            with xa.open(target) as found:  # whole again, so without a warning
                assert found.shape == (shape[0] + 3, shape[1])
        for suffix in (".xmd", ".xta"):
            Path(f"{target}{suffix}").unlink()
    twin.array.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("fill", [0, 5])
def test_what_is_lost_is_no_damaged_chunk(tmp_path, monkeypatch, engine, seed, fill):
    """Sums are in doubt whenever chunks on disk may not match them; and repair works."""
    rng = random.Random(seed)
    disk = Disk(monkeypatch)
    twin = Twin(tmp_path / "a", engine, checksum=True, fill_value=fill)
    target = tmp_path / "cut"
    for _ in range(30):
        getattr(twin, rng.choices(STEPS, [3, 3, 3, 3, 2, 1])[0])()
        disk.cut(twin.path, target, rng)
        report = xa.check(target, data=True)
        errors = [p for p in report.problems if p.severity == "error"]
        assert not any(p.kind in ("chunk", "sums", "header") for p in errors), str(report)
        report = xa.check(target, data=True, repair=True)
        if not report.ok:
            assert "force" in " ".join(report.refused)
            report = xa.check(target, data=True, repair=True, force=True)
        assert report.ok, str(report)
        with xa.open(target, "r+", engine=engine) as found:
            # A newer state may have older attributes.
            assert found.shape in [shape for shape, _ in twin.states]
            twin.check_elements(found)
            found[...] = 1
        assert xa.check(target, data=True).ok
        for left in tmp_path.glob("cut*"):
            left.unlink()
    twin.array.close()


def test_what_an_earlier_session_left_survives_without_a_flush(tmp_path, monkeypatch, engine):
    disk = Disk(monkeypatch)
    path, target = tmp_path / "a", tmp_path / "cut"
    with xa.create(path, (3, 4), "i4", chunks=(2, 4), engine=engine) as array:
        array[...] = 7
    disk.settle(path)
    with xa.open(path, "r+", engine=engine) as array:
        for step in range(20):
            array.append(np.full((1, 4), step, "i4"))
            array.attrs["step"] = step
            disk.cut(path, target, random.Random(step))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", xa.errors.RecoveryWarning)
                with xa.open(target) as found:
                    assert (found[:3] == 7).all()


def test_recovery_says_so(tmp_path):
    with xa.create(tmp_path / "a", (4, 4), "i4", chunks=2) as array:
        array[...] = 7
        array.flush()
        array.extend(0, 9)
    os.truncate(tmp_path / "a.xta", 64)
    with (
        pytest.warns(
            xa.errors.RecoveryWarning, match=r"older|newest complete state, of shape \(4, 4\)"
        ),
        xa.open(tmp_path / "a") as array,
    ):
        assert (array[...] == 7).all()


def test_another_arrays_data_are_no_remains(tmp_path):
    for name in "ab":
        with xa.create(tmp_path / name, (4, 4), "i4", chunks=2) as array:
            array.flush()
    os.replace(tmp_path / "b.xta", tmp_path / "a.xta")
    with pytest.raises(xa.errors.PartnerError, match="another array"):
        xa.open(tmp_path / "a")


def test_a_seal_that_is_torn_between_two_sectors_is_no_other_array_s(tmp_path, engine):
    """The second half of the uuid is missing; the state of the last flush opens."""
    with xa.create(tmp_path / "a", (SECTOR - 24,), "u1", chunks=SECTOR - 24) as array:
        array[...] = 7
        array.flush()
    seal = (tmp_path / "a.xta").read_bytes()[-32:]
    for rest in (bytes(8), b"\7" * 8):
        (tmp_path / "a.xta").write_bytes(b"\7" * (SECTOR - 24) + seal[:24] + rest)
        with pytest.warns(xa.errors.RecoveryWarning), xa.open(tmp_path / "a") as array:
            assert (array[...] == 7).all()
    with (
        pytest.warns(xa.errors.RecoveryWarning),
        xa.open(tmp_path / "a", "r+", engine=engine) as array,
    ):
        array.append(array[:3])
    with xa.open(tmp_path / "a") as array:
        assert array.shape == (SECTOR - 21,)
