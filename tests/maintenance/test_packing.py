"""Packed files, opened in place with any history and engine, and unpacked."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import subprocess
import sys
import time
import zipfile
import zlib

import numpy as np
import pytest
from grown_arrays import KINDS, grown
from hypothesis import given
from hypothesis import strategies as st
from systems import disk_bytes, needs_links, needs_posix

import extarray as xa
from extarray.common import system
from extarray.common.limits import limits
from extarray.format.archive import ALIGNMENT
from extarray.maintenance import packing
from extarray.maintenance.group_files import left_folders, remove_left_folders


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_is_opened_in_place_and_unpacked(kind, tmp_path):
    a = grown(tmp_path / "a", **KINDS[kind])
    expected = a[...]
    xa.pack(a, tmp_path / "a.xap")
    facts = (a.shape, a.origin, a.dims, a.growth, a.axial.segments, dict(a.attrs), a.fill_value)
    a.close()
    with zipfile.ZipFile(tmp_path / "a.xap") as file:
        assert file.testzip() is None
        assert sorted(file.namelist()) == ["a.xmd", "a.xta"]
    xa.unpack(tmp_path / "a.xap", tmp_path / "b")
    for path in (tmp_path / "a.xap", tmp_path / "a.xap" / "a", tmp_path / "b"):
        for engine in ("mmap", "pread"):
            for verify in ("never", "read"):
                with xa.open(path, engine=engine, verify=verify) as b:
                    assert np.array_equal(b[...], expected)
                    assert np.array_equal(b[1:, ::2], expected[1:, ::2])
                    assert np.array_equal(b[[1, 3], :], expected[[1, 3], :])
                    assert b[2, 3] == expected[2, 3]
                    assert facts == (
                        *(b.shape, b.origin, b.dims, b.growth, b.axial.segments),
                        *(dict(b.attrs), b.fill_value),
                    )
                    if a.order in "CF":
                        assert _shows_chunks(b, expected)
    with xa.open(tmp_path / "b", "r+") as b:
        b.extend(0, 9)
        assert np.array_equal(b[: len(expected)], expected)
        assert np.all(b[len(expected) :] == b.fill_value)
    assert xa.check(tmp_path / "b", data=True).ok


def _shows_chunks(a, expected):
    """Tell whether views of all chunks show the expected elements."""
    places = list(a.iter_chunks())
    views = [view.copy() for _, view in a.chunk_views() if view.size]
    return len(places) == len(views) > 0 and all(
        np.array_equal(expected[place], view) for place, view in zip(places, views, strict=True)
    )


def test_chunks_are_mapped_where_they_lie(tmp_path):
    with grown(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "a.xap")
        bytes_of_a = (tmp_path / "a.xta").read_bytes()[:-32]  # without the seal
    with zipfile.ZipFile(tmp_path / "a.xap") as file:
        at = file.getinfo("a.xta").header_offset
    data = (tmp_path / "a.xap").read_bytes()
    start = at + 30 + sum(np.frombuffer(data, "<u2", 2, at + 26))
    assert start % ALIGNMENT == 0
    assert data[start:].startswith(bytes_of_a)
    with xa.open(tmp_path / "a.xap") as b:
        assert b.info()["engine"] == ("mmap" if system.MAPS_FREELY else "pread")
        view = b.chunk((0, 0))
    assert not view.flags.writeable
    assert view.sum() == view.copy().sum()  # the view keeps the mapping alive


@pytest.mark.parametrize("in_files", [True, False])
def test_arrays_in_memory_and_views_of_time_are_packed(in_files, tmp_path):
    a = grown(None if not in_files else tmp_path / "scene")
    xa.pack(a, tmp_path / "x.xap")
    before = a[...]
    a[...] = 0
    with xa.open(tmp_path / "x.xap") as b:
        assert np.array_equal(b[...], before)
        assert b.origin == a.origin
        assert b.path.name == ("scene" if in_files else "x")
    a.close()


def test_a_packed_file_cannot_be_written(tmp_path):
    xa.pack(xa.zeros(3), tmp_path / "a.xap")
    with pytest.raises(xa.errors.ReadOnlyError, match="unpack"):
        xa.open(tmp_path / "a.xap", "r+")
    with xa.open(tmp_path / "a.xap") as a:
        with pytest.raises(xa.errors.ReadOnlyError):
            a[0] = 1
        with pytest.raises(xa.errors.ReadOnlyError):
            a.extend(0, 1)
        assert a.refresh() is False
        assert not a.replaced


def test_a_packed_array_is_pickled_packed_and_replaced(tmp_path):
    path = tmp_path / "a.xap"
    xa.pack(xa.ones(3), path)
    with xa.open(path) as a:
        with pickle.loads(pickle.dumps(a)) as other:
            assert other.sum() == 3
        xa.pack(a, tmp_path / "again.xap")
        with pytest.raises(xa.errors.ExistsError):
            xa.pack(a, path)
        xa.pack(xa.zeros(5), path, overwrite=True)
        assert a.sum() == 3
        assert a.replaced
        a.refresh("reopen")
        assert a.shape == (5,)
    with xa.open(tmp_path / "again.xap") as a:
        assert a.sum() == 3


def test_what_is_no_packed_array_says_what_it_is(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a"] = np.ones(3)
        g["b/c"] = np.ones(4)
        xa.pack(g, tmp_path / "g.xap")
    with pytest.raises(xa.errors.MissingError, match="g.xap/a"):
        xa.open(tmp_path / "g.xap")
    with pytest.raises(xa.errors.MissingError, match="no array 'x'"):
        xa.open(tmp_path / "g.xap" / "x")
    with xa.open(tmp_path / "g.xap" / "b" / "c") as c:
        assert c.shape == (4,)
    (tmp_path / "text").write_text("no array")
    with pytest.raises(xa.errors.MissingError, match="is not an array"):
        xa.open(tmp_path / "text")
    with pytest.raises(xa.errors.FormatError):
        xa.unpack(tmp_path / "text", tmp_path / "x")
    with pytest.raises(xa.errors.MissingError):
        xa.unpack(tmp_path / "missing", tmp_path / "x")


def test_an_array_without_its_partner_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "g.xap", "w") as file:
        file.writestr("a.xmd", b"")
        file.writestr("dataset.json", b"{}")
    for path in ("g.xap", "g.xap/a", "g.xap/b"):
        with pytest.raises(xa.errors.PartnerError, match="partner of 'a.xmd' is missing"):
            xa.open(tmp_path / path)
    with pytest.raises(xa.errors.PartnerError):
        xa.open_group(tmp_path / "g.xap")


def test_a_file_that_is_not_aligned_is_read_by_calls(tmp_path):
    with grown(tmp_path / "a") as a:
        expected = a[...]
        xa.pack(a, tmp_path / "a.xap")
    with (
        zipfile.ZipFile(tmp_path / "a.xap") as source,
        zipfile.ZipFile(tmp_path / "b.zip", "w") as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with xa.open(tmp_path / "b.zip") as b:
        assert b.info()["engine"] == "pread"
        assert np.array_equal(b[...], expected)
        assert _shows_chunks(b, expected)
    with pytest.raises(xa.errors.ArgumentError, match="pread"):
        xa.open(tmp_path / "b.zip", engine="mmap")


def test_damage_is_found_when_it_is_unpacked(tmp_path):
    with grown(tmp_path / "a", checksum=True) as a:
        xa.pack(a, tmp_path / "a.xap")
    path = tmp_path / "a.xap"
    image = bytearray(path.read_bytes())
    image[zipfile.ZipFile(path).getinfo("a.xta").header_offset + ALIGNMENT] ^= 1
    path.write_bytes(image)
    for name in ("b", "a"):
        with pytest.raises(xa.errors.CorruptError):
            xa.unpack(path, tmp_path / name, overwrite=name == "a")
    assert sorted(os.listdir(tmp_path)) == ["a.xap", "a.xmd", "a.xta"]
    assert xa.check(tmp_path / "a", data=True).ok
    with xa.open(path, verify="read") as b, pytest.raises(xa.errors.ChecksumError):
        b[...]


def test_a_packed_file_is_checked(tmp_path):
    path = tmp_path / "g.xap"
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a"] = np.ones(3)
        g["b/c"] = np.ones(4)
        xa.pack(g, path)
    for each in (path, path / "a", path / "b"):
        assert xa.check(each, data=True).ok and not xa.check(each, data=True).unseen
        assert xa.check(each).ok and xa.check(each).unseen
    assert not xa.check(path / "x").ok
    with pytest.raises(xa.errors.ArgumentError, match="packed"):
        xa.check(path, repair=True)
    image = bytearray(path.read_bytes())
    image[image.index(np.ones(4).tobytes()) + 3] ^= 1
    path.write_bytes(image)
    assert xa.check(path).ok and xa.check(path / "a", data=True).ok
    for each in (path, path / "b", path / "b" / "c"):
        (problem,) = xa.check(each, data=True).problems
        assert (problem.kind, problem.severity) == ("chunk", "error") and "b/c.xta" in problem.what
    path.write_bytes(image[:-1])
    assert "does not end as a ZIP file" in xa.check(path).problems[0].what


def test_a_part_of_a_packed_file_is_checked_with_all_below_it(tmp_path):
    path = tmp_path / "b.xap"
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create_group("outer/inner").attrs["title"] = "a long title"
        g.create_group("empty")
        xa.pack(g, path)
    assert xa.check(path / "empty").ok and not xa.check(path / "none").ok
    image = path.read_bytes()
    path.write_bytes(image.replace(b"a long title", b"a wrong one!"))
    for part in ("", "outer", "outer/inner"):
        (problem,) = xa.check(path / part).problems
        assert "'outer/inner/dataset.json' in it is damaged" in problem.what
    assert xa.check(path / "empty").ok


@needs_links
def test_a_link_to_an_empty_folder_stays_one_when_a_group_is_unpacked_there(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a"] = np.arange(3)
        xa.pack(g, tmp_path / "g.xap")
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    xa.unpack(tmp_path / "g.xap", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    with xa.open_group(tmp_path / "disk") as g:
        assert g["a"][...].tolist() == [0, 1, 2]


def test_work_tells_how_far_it_has_come(tmp_path):
    seen = []
    xa.pack(xa.ones(100), tmp_path / "a.xap", progress=lambda *done: seen.append(done))
    xa.unpack(tmp_path / "a.xap", tmp_path / "a", progress=lambda *done: seen.append(done))
    assert (800, 800) in seen
    for work in (xa.pack, xa.unpack):
        with pytest.raises(xa.errors.ArgumentTypeError):
            work(xa.ones(3) if work is xa.pack else tmp_path / "a.xap", tmp_path / "b", progress=3)


@pytest.mark.invariant("I11")
def test_damage_is_not_packed(tmp_path):
    grown(tmp_path / "a", checksum=True).close()
    with open(tmp_path / "a.xta", "r+b") as file:
        file.write(b"damage")
    with xa.open(tmp_path / "a") as a, pytest.raises(xa.errors.ChecksumError):
        xa.pack(a, tmp_path / "a.xap")
    with xa.open(tmp_path / "a", verify="never") as a:
        xa.pack(a, tmp_path / "a.xap")
    assert not (tmp_path / "a.xap.new").exists()
    with xa.open(tmp_path / "a.xap", verify="read") as a, pytest.raises(xa.errors.ChecksumError):
        a[...]


def test_sums_that_are_in_doubt_stay_so(tmp_path):
    with grown(tmp_path / "a", checksum=True) as a:
        a[0] = 5
        with xa.open(tmp_path / "a") as reader:
            xa.pack(reader, tmp_path / "a.xap")
        with xa.open(tmp_path / "a.xap", verify="read") as b:
            assert np.array_equal(b[...], a[...])


def test_what_cannot_be_packed(tmp_path):
    a = xa.create(tmp_path / "a", (3,))
    with pytest.raises(xa.errors.ArgumentError), xa.commit([a]):
        xa.pack(a, tmp_path / "a.xap")
    with pytest.raises(xa.errors.ArgumentTypeError):
        xa.pack(np.ones(3), tmp_path / "a.xap")
    with pytest.raises(xa.errors.ArgumentTypeError):
        xa.pack(a, 3)
    with pytest.raises(xa.errors.MissingError):
        xa.pack(a, tmp_path / "no folder" / "a.xap")
    a.close()
    with pytest.raises(xa.errors.ClosedError):
        xa.pack(a, tmp_path / "a.xap")
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]


def test_unpacking_takes_no_other_names(tmp_path):
    xa.pack(xa.ones(3), tmp_path / "a.xap")
    xa.zeros(2, path=tmp_path / "b").close()
    with pytest.raises(xa.errors.ExistsError):
        xa.unpack(tmp_path / "a.xap", tmp_path / "b")
    with xa.open(tmp_path / "b", "r+"), pytest.raises(xa.errors.LockedError):
        xa.unpack(tmp_path / "a.xap", tmp_path / "b", overwrite=True)
    xa.unpack(tmp_path / "a.xap", tmp_path / "b", overwrite=True)
    with xa.open(tmp_path / "b") as b:
        assert b.sum() == 3
    with xa.open_group(tmp_path / "g", "w") as g:
        g["x"] = [1]
        xa.pack(g, tmp_path / "g.xap")
    with pytest.raises(xa.errors.ExistsError):
        xa.unpack(tmp_path / "g.xap", tmp_path / "g")
    xa.unpack(tmp_path / "g.xap", tmp_path / "h")
    with xa.open_group(tmp_path / "h") as h:
        assert list(h) == ["x"]


@pytest.mark.thread_unsafe(reason="its file is that of the session")
@given(data=st.data())
def test_hostile_bytes_give_errors_of_the_family(data, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "hostile"
    if not folder.exists():
        folder.mkdir()
        with grown(folder / "a", checksum=True) as a:
            xa.pack(a, folder / "a.xap")
    image = bytearray((folder / "a.xap").read_bytes())
    metadata = zipfile.ZipFile(folder / "a.xap").getinfo("a.xmd").header_offset
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(metadata, len(image) - 1) | st.integers(0, 40))
        image[place] = data.draw(st.integers(0, 255))
    (folder / "b.xap").write_bytes(image[: data.draw(st.just(len(image)) | st.integers(0, 60000))])
    with contextlib.suppress(xa.errors.ExtArrayError), xa.open(folder / "b.xap") as b:
        b[...]
    with contextlib.suppress(xa.errors.ExtArrayError):
        xa.unpack(folder / "b.xap", folder / "b", overwrite=True)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without names are Linux's")
@pytest.mark.parametrize("order", ["address", "hilbert"])
def test_a_kill_leaves_nothing(order, tmp_path, forked):
    with xa.create(tmp_path / "a", (4, 5 << 20), "u1", chunks=(1, 1 << 20)) as a:
        a[...] = 1
    code = (
        "import sys, extarray as xa; print(flush=True); "
        f"xa.pack(xa.open(sys.argv[1]), sys.argv[2], order={order!r})"
    )
    code = code.replace("print", "a = xa.open(sys.argv[1], engine='pread'); a[...]; print")
    seen = set()
    for n in range(12):
        target = tmp_path / f"{n}.xap"
        with forked.start(code, tmp_path / "a", target) as process:
            process.stdout.readline()
            time.sleep(0.004 * n)
            process.kill()
        names = set(os.listdir(tmp_path)) - {"a.xmd", "a.xta", *seen}
        assert names in (set(), {target.name})
        if names:
            assert zipfile.ZipFile(target).testzip() is None
            assert xa.check(target, data=True).ok
        seen |= names


@pytest.mark.process
@pytest.mark.slow
def test_what_a_kill_in_unpacking_leaves_is_found_and_removed(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["north/a"] = np.arange(1 << 20)
        g["b"] = np.arange(1 << 22)
        xa.pack(g, tmp_path / "g.xap")
    code = (
        "import signal, sys, extarray as xa\n"
        "def stop(done, total):\n"
        "    print(flush=True)\n"
        "    signal.pause()\n"
        "xa.unpack(sys.argv[1], sys.argv[2], progress=stop)"
    )
    target = tmp_path / "h"
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "g.xap", target], stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        (left,) = tmp_path.glob("h.*.new")
        assert remove_left_folders(left_folders(str(target))) == []  # a job in progress
        assert left.exists()
        process.kill()
    assert not target.exists()
    assert list(xa.open_group(tmp_path)) == ["g"]
    told = subprocess.run(
        [sys.executable, "-m", "extarray", "check", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert left.name in told
    assert "2 of 2 arrays" in told
    xa.unpack(tmp_path / "g.xap", target)
    assert sorted(os.listdir(tmp_path)) == ["g", "g.xap", "h"]
    left.mkdir()
    (left / "b.xta").write_bytes(b"")
    command = [sys.executable, "-m", "extarray", "check", target, "--repair"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{left} was removed" in told
    assert sorted(os.listdir(tmp_path)) == ["g", "g.xap", "h"]


def test_folders_of_others_are_not_removed(tmp_path):
    names = [tmp_path / f"h.{n:012x}.new" for n in range(3)]
    for name in names:
        name.mkdir()
    (names[0] / "notes.txt").write_text("mine")
    with xa.create(names[1] / "a", 3):
        assert remove_left_folders(left_folders(str(tmp_path / "h"))) == []
        assert all(name.exists() for name in names)  # the third is too young
    os.utime(names[2], (0, 0))
    assert remove_left_folders(left_folders(str(tmp_path / "h"))) == [
        f"{name} was removed" for name in names[1:]
    ]
    assert os.listdir(tmp_path) == [names[0].name]


@needs_posix("links and replacements by os.link and os.replace alone")
def test_an_error_leaves_nothing(tmp_path, monkeypatch):
    a = grown(tmp_path / "a")
    failing = OSError(errno.ENOSPC, "no space")

    def fail(*args, **kwargs):
        raise failing

    for name in ("link", "replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(xa.errors.StorageError):
                xa.pack(a, tmp_path / "a.xap", overwrite=True)
        if name != "fsync":
            assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]
    a.close()


@pytest.mark.slow
def test_more_than_4_gib_that_are_holes(scratch):
    n = 5 << 30
    with xa.create(scratch / "a", (n,), "u1", chunks=1 << 20, sparse=True) as a:
        a[7] = 1
        a[-5:] = 9
        xa.pack(a, scratch / "a.xap")
    packed = scratch / "a.xap"
    assert packed.stat().st_size > n
    assert disk_bytes(packed) < 64 << 20
    with xa.open(packed) as a:
        assert a[7] == 1 and a[-1] == 9 and a[1 << 32] == 0
    with zipfile.ZipFile(packed) as file:
        assert file.testzip() is None
    xa.unpack(packed, scratch / "c")
    assert disk_bytes(scratch / "c.xta") < 64 << 20
    with xa.open(scratch / "c", "r+") as c:
        assert c[7] == 1 and c[-1] == 9
        c.extend(0, 1 << 20)


@pytest.mark.slow
def test_members_beyond_4_gib_are_found(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("a", 5 << 30, "u1", chunks=1 << 20, sparse=True)[3] = 1
        g["z"] = np.arange(10)
        xa.pack(g, tmp_path / "g.xap")
    with xa.open_group(tmp_path / "g.xap") as g:
        assert g["z"].sum() == 45
        assert g["a"][3] == 1
    with zipfile.ZipFile(tmp_path / "g.xap") as file:
        assert file.getinfo("z.xta").header_offset > 5 << 30
        assert zlib.crc32(file.read("z.xta")) == file.getinfo("z.xta").CRC


def test_sums_are_made_beside_the_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "share_bytes", 1000)
    monkeypatch.setattr(packing, "_PIECE", 4096)
    x = np.zeros((40, 30, 20))
    x[3:9] = x[30:33] = np.random.default_rng(0).random((30, 20))
    with xa.config.set(threads=2), xa.create(tmp_path / "a", x.shape, chunks=8, sparse=True) as a:
        a[3:9], a[30:33] = x[3:9], x[30:33]
        xa.pack(a, tmp_path / "a.xap")
    with zipfile.ZipFile(tmp_path / "a.xap") as file:
        assert file.testzip() is None
    with xa.open(tmp_path / "a.xap") as packed:
        np.testing.assert_array_equal(packed[...], x)
