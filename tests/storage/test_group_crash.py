"""Interrupted commits of several arrays: everybody finds all of a commit, or nothing."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import re
import shutil
import warnings

import format_reader
import numpy as np
import places
import pytest
from systems import needs_replaced_open_files

import extarray as xa
from extarray.common import system
from extarray.storage import group_member
from extarray.storage.filesystem import File
from extarray.storage.states import StateReader

NAMES = "abc"
SECTOR = 512


class Fleet:
    """Arrays that grow together, and the shapes and attributes they have had."""

    def __init__(self, folder, names=NAMES, **how):
        self.folder, self.step = folder, 0
        self.arrays = {
            name: xa.create(folder / name, (1, 2), "i4", chunks=(1 + number, 2), **how)
            for number, name in enumerate(names)
        }
        self.versions = [self.now()]

    def now(self):
        return {name: (a.shape, dict(a.attrs)) for name, a in self.arrays.items()}

    def grow(self, names):
        """Grow arrays in one block; the first decides."""
        self.step += 1
        with xa.commit([self.arrays[name] for name in names]):
            for name in names:
                array = self.arrays[name]
                array.append(np.full((2, array.shape[1]), self.step, "i4"))
                array.attrs["step"] = "x" * 700 * (self.step % 3) + name
                if self.step % 2:
                    array.append(np.full((array.shape[0], 1), self.step), axis=1)
                else:
                    array.shrink(0, 1, side="start")
        self.versions.append(self.now())

    def close(self):
        for array in self.arrays.values():
            array.close()

    def reopen(self):
        self.close()
        self.arrays = {name: xa.open(self.folder / name, "r+") for name in self.arrays}


def images(folder):
    """Return the bytes of all files in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def restored(image, folder):
    """Fill a folder with these files and return it."""
    folder.mkdir(exist_ok=True)
    for name, content in image.items():
        (folder / name).write_bytes(content)
    return folder


def version_of(found, versions):
    """Return the number of the version that all arrays agree on."""
    matches = [
        number
        for number, version in enumerate(versions)
        if all(version[name] == what for name, what in found.items())
    ]
    assert matches, f"a mixture: {found}"
    return matches


def opened(folder, name, mode="r"):
    with xa.open(folder / name, mode) as array:
        array[...]
        return array.shape, dict(array.attrs)


def name_of(file):
    """Return the final name of a file, which may still have a temporary one."""
    with file as fd:
        name = os.path.realpath(system.name_of_descriptor(fd))
    found = re.match(r"[abc]\.x..", os.path.basename(name))
    return found and found[0]


class Recorder:
    """Takes an image of the files at each write of metadata, halfway and at its end."""

    def __init__(self, monkeypatch, folder):
        self.images = []
        real = File.write

        def write(file, data, offset):
            if name_of(file) is not None:
                real(file, bytes(data)[: len(data) // 2], offset)
                self.images.append(images(folder))
            real(file, data, offset)
            self.images.append(images(folder))

        monkeypatch.setattr(File, "write", write)


GROUPS = [["abc", "abc"], ["abc", "bca"], ["ab", "ac"], ["abc", "ca"], ["ca", "ab", "cb"]]


@pytest.mark.invariant("I2")
@pytest.mark.filterwarnings("ignore:.*are not verified:extarray.errors.RecoveryWarning")  # copies
@pytest.mark.slow
@pytest.mark.parametrize("groups", GROUPS, ids="-".join)
def test_stopped_at_each_write_and_opened_in_every_order(tmp_path, monkeypatch, groups):
    folder = tmp_path / "fleet"
    folder.mkdir()
    fleet = Fleet(folder)
    for names in groups[:-1]:
        fleet.grow(names)
    last = groups[-1]
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, folder)
        fleet.grow(last)
    fleet.close()
    versions = fleet.versions[-2:]
    modes = list(itertools.product(["r", "r+"], repeat=3))
    orders = list(itertools.product(itertools.permutations(NAMES), modes))
    rng = random.Random(0)
    seen = []
    for image in recorder.images:
        found = set()
        target = restored(image, tmp_path / "crashed")
        read = [format_reader.read(str(target / name)) for name in NAMES]
        for order, mode in rng.sample(orders, 3):
            target = restored(image, tmp_path / "crashed")
            states = {}
            for name, how in zip(order, mode, strict=True):
                states[name] = opened(target, name, how)
                matches = version_of(states, versions)
            assert version_of({name: opened(target, name) for name in NAMES}, versions) == matches
            for name, (data, attrs) in zip(NAMES, read, strict=True):
                assert (data.shape, attrs) == states[name]
            found.add(matches[0])
        assert len(found) == 1, "the order of opening does not matter"
        seen += found
    assert seen == sorted(seen) and set(seen) == {0, 1}, "once decided, always decided"
    assert len(seen) > 15


@pytest.mark.filterwarnings("ignore:.*are not verified:extarray.errors.RecoveryWarning")  # copies
@pytest.mark.sampled(1)
@pytest.mark.parametrize("groups", GROUPS, ids="-".join)
def test_what_was_stopped_goes_on(tmp_path, monkeypatch, groups):
    """Whichever array is opened first, all grow on with the right elements."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    fleet = Fleet(folder)
    for names in groups[:-1]:
        fleet.grow(names)
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, folder)
        fleet.grow(groups[-1])
    fleet.close()
    versions = fleet.versions[-2:]
    rng = random.Random(1)
    for image in recorder.images:
        target = restored(image, tmp_path / "crashed")
        readers = {name: xa.open(target / name) for name in NAMES}
        xa.refresh(readers.values())
        state = {name: (a.shape, dict(a.attrs)) for name, a in readers.items()}
        (number,) = set(version_of(state, versions))
        names = rng.sample(NAMES, rng.randint(1, 3))
        arrays = [xa.open(target / name, "r+") for name in names]
        with xa.commit(arrays):
            for array in arrays:
                array.extend(0, 3)
        assert not any(array[-3:].any() for array in arrays)
        assert xa.refresh(readers.values())
        for name, (shape, attrs) in versions[number].items():
            rows = shape[0] + 3 * (name in names)
            assert readers[name].shape == (rows, shape[1])
            assert dict(readers[name].attrs) == attrs
            readers[name].close()
        for array in arrays:
            array.close()


# -- failures ------------------------------------------------------------------------------------


class Faults:
    """Make one of the calls fail that change files or wait for the disk."""

    def __init__(self, patch, number, how, code):
        self.calls, self.failed = itertools.count(), False
        self.number, self.how, self.code = number, how, code
        for name in ("write", "lengthen", "datasync"):
            patch.setattr(File, name, self.wrapped(getattr(File, name)))

    def wrapped(self, call):
        def wrapper(file, *args):
            if next(self.calls) != self.number:
                return call(file, *args)
            self.failed = True
            if self.how == "half" and len(args) == 2 and isinstance(args[0], bytes):
                call(file, args[0][: len(args[0]) // 2], args[1])
            elif self.how == "behind":
                call(file, *args)
            raise OSError(self.code, os.strerror(self.code))

        return wrapper


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "half", "behind"])
def test_each_failure_leaves_all_as_before(tmp_path, monkeypatch, how):
    for number in itertools.count():
        folder = tmp_path / f"{number}"
        folder.mkdir()
        fleet = Fleet(folder)
        fleet.grow("bca")
        fleet.reopen()
        readers = {name: xa.open(folder / name) for name in NAMES}
        code = errno.ENOSPC if number % 2 else errno.EIO
        with monkeypatch.context() as patch:
            faults = Faults(patch, number, how, code)
            error = None
            try:
                fleet.grow("abc")
            except xa.StorageError as caught:
                error = caught
        if not faults.failed:
            assert number > 20
            fleet.close()
            break
        after = fleet.now()
        assert error is None or error.errno == code
        # Without an error, the failure was repaired.
        assert (after == fleet.versions[-1]) == (error is None or "the commit of" not in str(error))
        xa.refresh(readers.values())
        assert {name: (r.shape, dict(r.attrs)) for name, r in readers.items()} == after
        copy = restored(images(folder), tmp_path / "copy")
        for mode in ("r", "r+"):
            assert {name: opened(copy, name, mode) for name in NAMES} == after
        # The arrays still grow.
        fleet.grow("abc")
        fleet.arrays["a"].extend(0, 1)
        fleet.grow("ca")
        xa.refresh(readers.values())
        for name, array in fleet.arrays.items():
            assert (readers[name][...] == array[...]).all()
            readers[name].close()
        fleet.close()
        shutil.rmtree(folder)


def test_a_state_that_could_not_be_finished_still_counts(tmp_path, monkeypatch):
    """After the decision, the disk fails for the other arrays for a while."""
    fleet = Fleet(tmp_path)
    with monkeypatch.context() as patch:

        def fail(self, state):
            if self.pair.path.name != "a":
                raise OSError(errno.EIO, "input/output error")
            return real(self, state)

        real = group_member.GroupShare._write_live
        patch.setattr(group_member.GroupShare, "_write_live", fail)
        fleet.grow("abc")
        assert {name: opened(tmp_path, name) for name in NAMES} == fleet.versions[-1]
        # The coordinator must not forget its decision.
        with pytest.raises(xa.LockedError):
            fleet.grow("ab")
        assert fleet.now() == fleet.versions[-1]
        fleet.grow("abc")
    assert {name: opened(tmp_path, name) for name in NAMES} == fleet.versions[-1]
    fleet.arrays["b"].attrs["more"] = 1
    fleet.arrays["c"].extend(0, 1)
    fleet.arrays["c"].flush()
    fleet.grow("ab")
    fleet.close()
    assert {name: opened(tmp_path, name) for name in NAMES} == fleet.versions[-1]


# -- a coordinator that cannot be asked ----------------------------------------------------------


@pytest.fixture
def decided(tmp_path, monkeypatch):
    """Return a folder with `a`, which has decided, `b`, which is to follow, and `c`."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    fleet = Fleet(folder)
    real, seen = group_member.GroupShare.decide, []

    def decide(self, *args):
        real(self, *args)
        seen.append(images(folder))

    with monkeypatch.context() as patch:
        patch.setattr(group_member.GroupShare, "decide", decide)
        fleet.grow("ab")
    fleet.close()
    return restored(seen[0], folder)


def unreadable(monkeypatch, name, code):
    """Make opening an array's metadata fail."""
    real = system.open_file

    def refuse(path, *args, **options):
        if os.fspath(path).endswith(f"{os.sep}{name}.xmd"):
            raise OSError(code, os.strerror(code), path)
        return real(path, *args, **options)

    monkeypatch.setattr(system, "open_file", refuse)


def spoil(path, at=60):
    """Change a byte of a file; return a function that undoes it."""
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
    return lambda: path.write_bytes(whole)


BEFORE, AFTER = (1, 2), (3, 3)


def all_of_it(folder):
    assert [opened(folder, name)[0] for name in "ab"] == [AFTER, AFTER]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_a_coordinator_that_cannot_be_opened_is_there(decided, monkeypatch, code, share):
    """Nobody decides without it."""
    with monkeypatch.context() as patch:
        unreadable(patch, "a", code)
        for options in ({"mode": "r"}, {"mode": "r+", "share": share}):
            with pytest.raises(xa.StorageError, match=r"a\.xmd") as caught:
                xa.open(decided / "b", **options)
            assert caught.value.errno == code
    all_of_it(decided)
    with xa.open(decided / "b", "r+", share=share) as b:
        assert b.shape == AFTER
    all_of_it(decided)


@pytest.mark.parametrize("where", ["header", "superblocks"])
def test_a_coordinator_that_is_damaged_is_there(decided, where):
    """A reader gets the previous state and a reason; a writer decides nothing."""
    path = decided / "a.xmd"
    blocks = [places.superblock(slot) + 4 for slot in range(5)]
    undo = [spoil(path, at) for at in ([60] if where == "header" else blocks)]
    with (
        pytest.warns(xa.RecoveryWarning, match="'[^']*a', which decides .* is damaged"),
        xa.open(decided / "b") as b,
    ):
        assert b.shape == BEFORE
    with pytest.raises(xa.CorruptError, match=r"is damaged \('[^']*a.xmd': .* force=True"):
        xa.open(decided / "b", "r+")
    undo[0]()
    all_of_it(decided)
    spoil(path)
    xa.check(decided / "b", repair=True, force=True)
    assert opened(decided, "b", "r+")[0] == BEFORE


@needs_replaced_open_files
@pytest.mark.parametrize("code", [errno.EACCES, "header"])
def test_who_is_replaced_need_not_ask(decided, monkeypatch, code):
    if code == "header":
        spoil(decided / "a.xmd")
    else:
        unreadable(monkeypatch, "a", code)
    xa.create(decided / "b", (9,), overwrite=True).close()
    assert opened(decided, "b")[0] == (9,)


def test_a_refresh_that_cannot_ask_the_coordinator(decided, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        # The readers opened before anything was pending.
        patch.setattr(StateReader, "decided_states", lambda self, known: [])
        readers = [xa.open(decided / name) for name in "bc"]
    assert readers[0].shape == BEFORE
    with monkeypatch.context() as patch:
        unreadable(patch, "a", errno.EMFILE)
        for refresh in (readers[0].refresh, lambda: xa.refresh(readers)):
            with pytest.raises(xa.StorageError, match=r"a\.xmd") as caught:
                refresh()
            assert caught.value.errno == errno.EMFILE
            assert readers[0].shape == BEFORE
    assert xa.refresh(readers)
    assert readers[0].shape == AFTER
    for reader in readers:
        reader.close()


def commit_with_another(folder):
    """Let `a` decide for `c`, and thereby forget its decision for `b`."""
    with (
        xa.open(folder / "a", "r+") as a,
        xa.open(folder / "c", "r+") as c,
        xa.commit([a, c]),
    ):
        a.attrs["more"] = c.attrs["more"] = 1


def overwrite(folder):
    xa.create(folder / "a", (9,), overwrite=True)


@pytest.mark.parametrize(
    "obstacle", [errno.EACCES, errno.EMFILE, "header", "no data", "overwritten"]
)
def test_the_coordinator_does_not_forget_who_cannot_be_asked(decided, monkeypatch, obstacle):
    """Refuse a commit with other arrays while a previous member may need the decision."""
    with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
        if isinstance(obstacle, int):
            unreadable(patch, "b", obstacle)
        elif obstacle == "no data":
            data = decided / "b.xta"
            data.rename(decided / "away")
            stack.callback((decided / "away").rename, data)
        else:
            stack.callback(spoil(decided / "b.xmd"))
        forget = overwrite if obstacle == "overwritten" else commit_with_another
        with pytest.raises(
            (xa.StorageError, xa.FormatError), match="'[^']*b' may not have completed"
        ):
            forget(decided)
    assert "more" not in opened(decided, "c")[1]
    all_of_it(decided)
    commit_with_another(decided)
    all_of_it(decided)


def test_an_interrupt_behind_the_decision(tmp_path, monkeypatch):
    fleet = Fleet(tmp_path)
    before = fleet.now()
    with monkeypatch.context() as patch:

        def interrupted(self, *args):
            real(self, *args)
            raise KeyboardInterrupt

        real = group_member.GroupShare.decide
        patch.setattr(group_member.GroupShare, "decide", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fleet.grow("abc")
    after = fleet.now()
    assert after != before
    assert {name: opened(tmp_path, name) for name in NAMES} == after
    fleet.grow("abc")
    fleet.close()


# -- power cuts ----------------------------------------------------------------------------------


class Disks:
    """Watches the calls of all arrays, to know what is surely on disk, and what may be.

    Keeps each write to ``.xmd`` since that file's last synchronization; of ``.xta``, which is also
    written through the mapping, it keeps the bytes as last synchronized.
    """

    def __init__(self, patch, folder, seed):
        self.folder, self.rng = folder, random.Random(seed)
        self.files, self.writes, self.cuts, self.returned = {}, {}, [], None
        real = File.write

        def write(file, data, offset):
            name = name_of(file)
            if name is None or not name.endswith(".xmd"):
                real(file, data, offset)
                return
            self.writes.setdefault(name, []).append((offset, bytes(data)))
            real(file, data, offset)
            self.moment()

        def sync(file):
            name = name_of(file)
            if name is not None:
                self.files[name] = file.read(file.length, 0)
                self.writes.pop(name, None)
                self.moment()

        patch.setattr(File, "write", write)
        patch.setattr(File, "datasync", sync)

    def moment(self):
        """Consider a power cut at this moment."""
        if self.returned is not None:
            self.cuts.append((self.image(), self.returned))

    def image(self):
        rng, image = self.rng, {}
        for name, content in images(self.folder).items():
            old = self.files.get(name, b"")
            if name.endswith(".xmd"):
                metadata, writes = bytearray(old), self.writes.get(name, [])
                for offset, data in rng.sample(writes, rng.randint(0, len(writes))):
                    if rng.random() < 0.2:  # torn between two sectors
                        joint = -offset % SECTOR + SECTOR * rng.randint(0, len(data) // SECTOR + 1)
                        pieces = [(offset, data[:joint]), (offset + joint, data[joint:])]
                        offset, data = rng.choice(pieces)
                    metadata += bytes(max(0, offset + len(data) - len(metadata)))
                    metadata[offset : offset + len(data)] = data
                image[name] = bytes(metadata)
            else:
                size = rng.choice([len(old), len(content)])
                old, new = old.ljust(size, b"\0"), content.ljust(size, b"\0")
                image[name] = b"".join(
                    rng.choice([old, new])[low : low + SECTOR] for low in range(0, size, SECTOR)
                )[:size]
        return image


STEPS = ["together", "pair", "alone", "attrs", "flush", "reopen"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("durability", ["commit", "flush"])
def test_all_or_nothing_after_a_loss_of_power(tmp_path, monkeypatch, seed, durability):
    """Finished commits are on disk; an unfinished one is there for all arrays, or for none.

    Without "commit" durability, each array is whole by itself, and has its flushed data.
    """
    folder = tmp_path / "fleet"
    folder.mkdir()
    rng = random.Random(seed)
    disks = Disks(monkeypatch, folder, seed)
    fleet = Fleet(folder, durability=durability)
    flushed = {}
    for array in fleet.arrays.values():
        array.flush()
    for _ in range(14):
        step = rng.choices(STEPS, [4, 3, 3, 1, 1, 1])[0]
        array = rng.choice(list(fleet.arrays.values()))
        disks.returned = fleet.step, dict(flushed)
        if step in ("together", "pair"):
            names = rng.sample(NAMES, 3 if step == "together" else 2)
            fleet.step += 1
            with xa.commit([fleet.arrays[name] for name in names]):
                for name in names:
                    fleet.arrays[name].append(np.zeros((1, 2), "i4"))
                    fleet.arrays[name].attrs[str(fleet.step)] = names
        elif step == "alone":
            array.extend(0, 1)
        elif step == "attrs":
            array.attrs["x"] = "x" * rng.randint(1, 2000)
        elif step == "flush":
            array.flush()
            flushed[array.path.name] = dict(array.attrs)
        else:
            name = array.path.name
            array.close()
            fleet.arrays[name] = xa.open(folder / name, "r+", durability=durability)
    fleet.close()
    monkeypatch.undo()
    for image, (returned, kept) in rng.sample(disks.cuts, 60):
        target = restored(image, tmp_path / "cut")
        modes = rng.choices(["r", "r+"], k=3)
        found = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xa.RecoveryWarning)
            for name, mode in zip(rng.sample(NAMES, 3), modes, strict=True):
                with xa.open(target / name, mode) as array:
                    array[...]
                    found[name] = dict(array.attrs)
        for name, attrs in kept.items():
            assert attrs.keys() <= found[name].keys(), f"{name} was flushed"
        if durability == "flush":
            continue
        for number in range(1, fleet.step + 1):
            told = [name for name in NAMES if str(number) in found[name]]
            if number <= returned:
                assert told, f"group {number} had returned"
            if told:
                assert set(told) == set(found[told[0]][str(number)]), f"half of group {number}"


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_check_tells_that_arrays_are_not_together(tmp_path, lost):
    """A power cut has taken the last commit from one of them."""
    fleet = Fleet(tmp_path, "abc")
    fleet.grow("ab")
    fleet.grow("ab")
    fleet.close()
    assert all(xa.check(tmp_path / name).ok for name in "abc")
    before = images(tmp_path)
    fleet.reopen()
    fleet.grow("ab")
    fleet.close()
    for suffix in (".xmd", ".xta"):
        (tmp_path / f"{lost}{suffix}").write_bytes(before[f"{lost}{suffix}"])
    for name in "ab":
        (problem,) = (p for p in xa.check(tmp_path / name).problems if p.kind == "group")
        assert problem.severity == "warning"
        assert "differ in their last commit of several arrays" in problem.what
    assert not [p for p in xa.check(tmp_path / "c").problems if p.kind == "group"]


# -- kills ---------------------------------------------------------------------------------------

KILLED = """
import os, random, signal, sys, time
import numpy as np
import extarray as xa

folder, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
names = ["data", "time", "quality"]
shapes, chunks = [(0, 3), (0,), (0, 2)], [(2, 2), 5, (1, 2)]
for name, shape, chunk in zip(names, shapes, chunks):
    xa.create(f"{folder}/{name}", shape, "i8", chunks=chunk).close()
rng = random.Random(seed)

def write(news):
    order = rng.sample(names, 3)
    arrays = [xa.open(f"{folder}/{name}", "r+") for name in order]
    rows = [array.shape[0] for array in arrays]
    assert len(set(rows)) == 1, rows
    while True:
        row = arrays[0].shape[0]
        with xa.commit(arrays):
            for array in arrays:
                array.append(np.full((1, *array.shape[1:]), row))
                array.attrs["rows"] = row + 1
        os.write(news, b".")
        if row % 7 == 3:
            rng.choice(arrays).attrs["other"] = row

def look(news):
    arrays = [xa.open(f"{folder}/{name}") for name in names]
    row = 0
    while True:
        xa.refresh(arrays)
        rows = {array.shape[0] for array in arrays} | {a.attrs.get("rows", 0) for a in arrays}
        assert len(rows) == 1, rows
        assert row <= min(rows), "back in time"
        (row,) = rows
        if row:
            assert all((array[-1] == row - 1).all() for array in arrays)

def forked(work):
    news, told = os.pipe()
    child = os.fork()
    if child:
        os.close(told)
        return child, news
    try:
        work(told)
    finally:
        import traceback
        traceback.print_exc()
        os._exit(1)

def trial(least):
    child, news = forked(write)
    for _ in range(rng.randint(0, 5)):
        least += len(os.read(news, 1))
    time.sleep(rng.uniform(0, 0.003))
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the writer failed"
    while os.read(news, 1):
        least += 1
    os.close(news)
    found = []
    for name in rng.sample(names, 3):
        with xa.open(f"{folder}/{name}", rng.choice(["r", "r", "r+"])) as array:
            rows = len(array)
            values = array[...].reshape(rows, array.size // max(1, rows))
            assert (values == np.arange(rows)[:, None]).all()
            found.append(rows)
    # Every block that was left counts; the one that was under way may.
    assert set(found) in ({least}, {least + 1}), (found, least)
    return found[0]

readers, rows = [forked(look) for _ in range(2)], 0
try:
    for _ in range(kills):
        rows = trial(rows)
finally:
    for child, _ in readers:
        os.kill(child, signal.SIGKILL)
    ends = [os.waitpid(child, 0)[1] for child, _ in readers]
assert all(map(os.WIFSIGNALED, ends)), "a reader failed"
print(rows)
"""


@pytest.mark.slow
def test_killed_with_readers_at_work(tmp_path, forked):
    assert int(forked(KILLED, tmp_path, 25, 0)) > 25


READ = """
import sys
import extarray as xa
arrays = [xa.open(path) for path in sys.argv[1:]]
print("ready", flush=True)
while arrays[0].attrs.get("stop") is None:
    xa.refresh(arrays)
    assert arrays[0].shape[0] == arrays[1].shape[0], (arrays[0].shape, arrays[1].shape)
print(arrays[0].shape[0])
"""


@pytest.mark.slow
def test_readers_of_arrays_that_also_change_alone(tmp_path, script):
    """Other axes and attributes change constantly, some through one array alone."""
    a, b = (xa.create(tmp_path / n, (0, 1), "i4", chunks=(64, 64)) for n in "ab")
    with script.start(READ, a.path, b.path) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            for step in range(60):
                with xa.commit([a, b]):
                    for array in (a, b):
                        array.append(np.full((1, array.shape[1]), step))
                for _ in range(20):
                    a.extend(1, 1)
            a.attrs["stop"] = 1
            assert process.communicate(timeout=250)[0] == "60\n"
        finally:
            process.kill()
    a.close()
    b.close()


@pytest.mark.slow
def test_states_existed_together_also_without_blocks(tmp_path, script):
    """The arrays grow alternately at full speed: their extents never differ by more than one."""
    reader = READ.replace(
        "assert arrays[0].shape[0] == arrays[1].shape[0]",
        "assert 0 <= arrays[0].shape[0] - arrays[1].shape[0] <= 1",
    )
    a, b = (xa.create(tmp_path / n, (0,), "i4", chunks=1 << 20) for n in "ab")
    with script.start(reader, a.path, b.path) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            for _ in range(20_000):
                a.extend(0, 1)
                b.extend(0, 1)
            a.attrs["stop"] = 1
            assert process.communicate(timeout=250)[0] == "20000\n"
        finally:
            process.kill()
    a.close()
    b.close()
