"""Packed files with chunks in another order: read in place, unpacked, checked, refused."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
from grown_arrays import KINDS, grown

import extarray as xa
from extarray.format.blobs import FILL, UNIT, blob_bytes
from extarray.grid.chunk_order import chunk_sequence
from extarray.storage.names import Packed

ORDERS = ["hilbert", "morton", 0, -1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_is_read_and_unpacked(kind, order, tmp_path):
    a = grown(tmp_path / "a", **KINDS[kind])
    expected = a[...]
    xa.pack(a, tmp_path / "a.xap", order=order)
    facts = (a.shape, a.origin, a.dims, a.growth, a.axial.segments, dict(a.attrs), a.fill_value)
    uuid = a.info()["uuid"]
    a.close()
    with zipfile.ZipFile(tmp_path / "a.xap") as file:
        assert file.testzip() is None
        assert sorted(file.namelist()) == ["a.xmd", "a.xta", "a.xtz"]
    xa.unpack(tmp_path / "a.xap", tmp_path / "b")
    for path in (tmp_path / "a.xap", tmp_path / "a.xap" / "a", tmp_path / "b"):
        for engine in ("mmap", "pread"):
            for verify in ("never", "read"):
                with xa.open(path, engine=engine, verify=verify) as b:
                    assert np.array_equal(b[...], expected)
                    assert np.array_equal(b[1:, ::2], expected[1:, ::2])
                    assert b[0, -1] == expected[0, -1]
                    assert facts == (
                        b.shape, b.origin, b.dims, b.growth, b.axial.segments, dict(b.attrs),
                        b.fill_value,
                    )  # fmt: skip
                    assert b.info()["uuid"] == uuid
    assert xa.check(tmp_path / "a.xap", data=True).ok
    assert xa.check(tmp_path / "b", data=True).ok
    with xa.open(tmp_path / "b", "r+") as b:
        b.extend(0, 3)
        assert np.array_equal(b[: len(expected)], expected)
    with xa.open(tmp_path / "b") as b:
        assert b.info()["sparse"] == KINDS[kind].get("sparse", False)


@pytest.fixture
def scene(tmp_path):
    """Pack an array of 6 chunks of 3 x 4 along a curve; yield its path and elements."""
    with xa.create(tmp_path / "a", (6, 8), "<i4", chunks=(3, 4), dims=["y", "x"]) as a:
        a.extend("x", 4)
        a[...] = np.arange(1, 73).reshape(6, 12)
        a[3:, 4:8] = 0
        xa.pack(a, tmp_path / "a.xap", order="hilbert")
        yield tmp_path / "a.xap", a[...]


def test_chunks_lie_in_the_order_and_those_of_the_fill_value_nowhere(scene):
    path, elements = scene
    sequence = [tuple(i) for i in chunk_sequence((2, 3), "hilbert").tolist()]
    image = path.read_bytes()
    with Packed.find(path) as packed:
        member = packed.blobs["a"]
    data = image[member.start : member.start + member.size]
    step = blob_bytes(48)
    found = [data[at + 32 : at + 80] for at in range(UNIT, UNIT + 5 * step, step)]
    boxes = [
        elements[3 * i : 3 * i + 3, 4 * j : 4 * j + 4] for i, j in sequence if (i, j) != (1, 1)
    ]
    assert found == [box.tobytes() for box in boxes]
    words = struct.unpack("<6Q", data[UNIT + 5 * step :])
    with xa.open(path) as a:
        assert words[a.axial.address((1, 1))] == FILL
        assert a.info()["chunk_order"] == "hilbert"
        assert a.info()["file_bytes"] == member.size
        assert "chunk order" in str(a.info())


def test_an_order_that_changes_nothing_is_packed_as_ever(tmp_path):
    with xa.create(tmp_path / "a", 10, "i2", chunks=3) as a:
        a[...] = range(10)
        xa.pack(a, tmp_path / "a.xap", order="morton")
        xa.pack(a, tmp_path / "b.xap")
    assert (tmp_path / "a.xap").read_bytes() == (tmp_path / "b.xap").read_bytes()
    with xa.create(tmp_path / "0", (), "i2") as a, xa.create(tmp_path / "e", (0, 3)) as b:
        for n, x in enumerate((a, b)):
            xa.pack(x, tmp_path / f"{n}.xap", order="hilbert")
            with xa.open(tmp_path / f"{n}.xap") as found:
                assert found.shape == x.shape


def test_a_packed_file_is_packed_again_in_another_order(scene, tmp_path):
    path, elements = scene
    with xa.open(path) as a:
        assert a.info()["chunk_order"] == "hilbert"
        xa.pack(a, tmp_path / "y.xap", order="x")
        xa.pack(a, tmp_path / "plain.xap")
    with xa.open(tmp_path / "y.xap") as a:
        assert np.array_equal(a[...], elements)
        assert a.info()["chunk_order"] == 1
    with zipfile.ZipFile(tmp_path / "plain.xap") as file:
        assert sorted(file.namelist()) == ["a.xmd", "a.xta"]
    with xa.open(tmp_path / "plain.xap") as a, xa.open(tmp_path / "a") as original:
        assert np.array_equal(a[...], elements)
        assert a.info()["uuid"] == original.info()["uuid"]


def test_groups_are_packed_in_an_order(tmp_path):
    rng = np.random.default_rng(5)
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("time", 6, "i8", dims=["time"], chunks=2)[:] = range(6)
        for name in ("wind", "north/ice"):
            a = g.create(name, (6, 8), "f4", dims=["time", "x"], chunks=(2, 2))
            a[...] = rng.random(a.shape)
        expected = {name: g[name][...] for name in ("time", "wind", "north/ice")}
        for order in ("morton", "x", 1, -1):
            path = tmp_path / f"{order}.xap"
            xa.pack(g, path, order=order)
            with xa.open_group(path) as packed:
                assert all(np.array_equal(packed[n][...], x) for n, x in expected.items())
                assert sorted(name for name, _ in packed.walk()) == [
                    "north", "north/ice", "time", "wind"
                ]  # fmt: skip
                has_order = ["chunk_order" in packed[name].info() for name in expected]
                assert has_order == [False, True, True]
            xa.unpack(path, tmp_path / f"u{order}")
            with xa.open_group(tmp_path / f"u{order}", "r+") as back:
                assert all(np.array_equal(back[n][...], x) for n, x in expected.items())
            assert xa.check(path, data=True).ok
        with pytest.raises(xa.ArgumentError, match="no array to pack has the axis 'y'"):
            xa.pack(g, tmp_path / "y.xap", order="y")
    assert not os.path.exists(tmp_path / "y.xap")


def test_orders_that_are_none(tmp_path):
    possible = r"no array to pack has the axis .*'hilbert', 'morton'"
    with xa.ones((4, 4), chunks=(2, 2)) as a:
        for order in ("z", "y", 2, -3):
            with pytest.raises(xa.ArgumentError, match=possible):
                xa.pack(a, tmp_path / "a.xap", order=order)
        with pytest.raises(xa.ArgumentTypeError, match="not float"):
            xa.pack(a, tmp_path / "a.xap", order=1.5)
    assert os.listdir(tmp_path) == []


def test_chunks_that_are_too_large_for_a_blob_are_refused(tmp_path):
    chunks = (1 << 15, 1 << 15)
    with xa.create(tmp_path / "a", (1, 1), "u1", chunks=chunks, sparse=True) as a:
        a.extend(0, 1 << 15)
        a.extend(1, 1 << 15)
        with pytest.raises(xa.LimitError, match="below 1 GiB"):
            xa.pack(a, tmp_path / "a.xap", order=0)
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]


def test_it_is_read_by_everything_that_reads(scene):
    path, elements = scene
    with xa.open(path) as a:
        assert a.sum() == elements.sum()
        assert np.array_equal(np.max(a, axis=0), elements.max(0))
        assert np.array_equal(a[[0, 5], :][:, [1, 11]], elements[[0, 5]][:, [1, 11]])
        assert np.array_equal(a.chunk((0, 2)), elements[:3, 8:])
        assert np.array_equal(a.T[3:, 2], elements.T[3:, 2])
        again = pickle.loads(pickle.dumps(a))
        assert np.array_equal(again[...], elements)
        with a.copy(path.parent / "copy") as copy:
            assert np.array_equal(copy[...], elements)
        with xa.open(path.parent / "copy", "r+") as copy:
            copy.extend(0, 1)
            assert np.array_equal(copy[:6], elements)
        with a.rechunk((2, 5), path.parent / "other") as other:
            assert np.array_equal(other[...], elements)
        with xa.open(path.parent / "other") as other:
            assert np.array_equal(other[...], elements)
        assert not a.refresh()
        assert xa.check(path / "a", data=True).ok
        with pytest.raises(xa.ReadOnlyError):
            a[0, 0] = 1
        child = os.fork()
        if not child:
            os._exit(0 if np.array_equal(a[...], elements) else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert np.array_equal(a[2:], elements[2:])
    with pytest.raises(xa.ReadOnlyError, match="unpack"):
        xa.open(path, "r+")


def test_memory_is_bounded(tmp_path):
    x = np.arange(64 * 64, dtype="u1").reshape(64, 64)
    with xa.create(tmp_path / "a", (64, 64), "u1", chunks=(8, 8)) as a:
        a[...] = x
        xa.pack(a, tmp_path / "a.xap", order="morton")
    with xa.config.set(max_memory=8 * 64), xa.open(tmp_path / "a.xap") as a:
        for i in range(0, 64, 5):
            assert np.array_equal(a[i], x[i])
        assert np.array_equal(a[...], x)
        assert len(a._store.now.supply.present) <= 8


def test_threads_share_the_chunks_that_are_there(tmp_path):
    x = np.arange(1, 48 * 48 + 1, dtype="<i4").reshape(48, 48)
    x[8:24] = 5
    with xa.create(tmp_path / "a", (48, 48), "<i4", chunks=(8, 8), fill_value=5) as a:
        a[...] = x
        xa.pack(a, tmp_path / "a.xap", order="hilbert")
    wrong = []

    def read(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            i, j = rng.integers(0, 40, 2)
            box = slice(i, i + 9), slice(j, j + 7)
            if not np.array_equal(a[box], x[box]):
                wrong.append(box)

    with xa.config.set(max_memory=6 * 256), xa.open(tmp_path / "a.xap") as a:
        threads = [threading.Thread(target=read, args=[n]) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_sparse_array_takes_the_space_of_its_chunks(tmp_path):
    # More than 4 GiB if all chunks had blobs: then the head of the member would be longer.
    shape, chunks = (1 << 20, 1 << 13), (1 << 10, 1 << 9)
    with xa.create(tmp_path / "a", shape, "u1", chunks=chunks, sparse=True) as a:
        a.extend(0, 1 << 10)
        a[5, 7] = 3
        xa.pack(a, tmp_path / "a.xap", order="hilbert")
    with zipfile.ZipFile(tmp_path / "a.xap") as file:
        assert file.testzip() is None
        assert file.getinfo("a.xtz").file_size < 1 << 20
    with xa.open(tmp_path / "a.xap") as a:
        assert a[5, 7] == 3
        assert not a[1 << 19 : (1 << 19) + 3000, 3].any()


# -- damage --------------------------------------------------------------------------------------


def test_damage_of_a_chunk_is_told_with_its_elements(scene, tmp_path):
    path, elements = scene
    image = bytearray(path.read_bytes())
    at = image.index(elements[:3, 8:].tobytes())
    image[at + 5] ^= 1
    path.write_bytes(image)
    with xa.open(path) as a:
        assert np.array_equal(a[:, :8], elements[:, :8])
        with pytest.raises(xa.ChecksumError, match=r"its elements are \[0:3, 8:12\]") as caught:
            a[0]
        assert caught.value.box == (slice(0, 3), slice(8, 12))
        assert np.array_equal(a[3:], elements[3:])
    report = xa.check(path, data=True)
    assert [problem.boxes for problem in report.problems if problem.boxes] == [
        ((slice(0, 3), slice(8, 12)),)
    ]
    with pytest.raises(xa.ChecksumError):
        xa.unpack(path, tmp_path / "b")
    assert not os.path.exists(tmp_path / "b.xmd")
    with pytest.raises(xa.ArgumentError, match="cannot be repaired"):
        xa.check(path, repair=True)
    with xa.open(path, verify="never") as a:
        assert (a[...] != elements).sum() == 1


def test_a_torn_head_table_or_block_is_refused(scene):
    path, _ = scene
    image = path.read_bytes()
    with Packed.find(path) as packed:
        blobs, metadata = packed.blobs["a"], packed.arrays["a"][0]
    places = [blobs.start + 3, blobs.start + 20, blobs.start + blobs.size - 5]
    places.append(metadata.start + metadata.size - 4096 + 70)
    for at in places:
        broken = bytearray(image)
        broken[at] ^= 4
        path.write_bytes(broken)
        with pytest.raises(xa.CorruptError):
            xa.open(path, verify="never")
        assert not xa.check(path, data=True).ok


def test_members_that_are_missing_or_of_another_file(scene, tmp_path):
    path, _ = scene
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with xa.open(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "again.xap", order="hilbert")
    with zipfile.ZipFile(tmp_path / "again.xap") as file:
        other = file.read("a.xtz")

    def changed(**given):
        with zipfile.ZipFile(path, "w") as file:
            for name, data in (parts | given).items():
                if data is not None:
                    file.writestr(name, data)

    changed(**{"a.xtz": None})
    with pytest.raises(xa.PartnerError, match="'.*a.xtz' is missing"):
        xa.open(path)
    changed(**{"a.xtz": other})
    with pytest.raises(xa.CorruptError, match="belongs to another array"):
        xa.open(path)
    changed(**{"a.xta": bytes(32)})
    with pytest.raises(xa.PartnerError, match="seal"):
        xa.open(path)
    changed(**{"b.xtz": b"not counted without its metadata"})
    with xa.open(path) as a:
        assert a.shape == (6, 12)


def test_files_that_a_zip_program_extracted_say_what_they_are(scene, tmp_path):
    path, _ = scene
    (tmp_path / "x").mkdir()
    with zipfile.ZipFile(path) as file:
        file.extractall(tmp_path / "x")
    for mode in ("r", "r+"):
        with pytest.raises(xa.VersionError, match="comes from a packed file"):
            xa.open(tmp_path / "x" / "a", mode)
    before = {file.name: file.read_bytes() for file in (tmp_path / "x").iterdir()}
    for repair in ({}, {"repair": True}, {"repair": True, "force": True}):
        report = xa.check(tmp_path / "x" / "a", data=True, **repair)
        assert "comes from a packed file" in report.problems[0].what
    assert {file.name: file.read_bytes() for file in (tmp_path / "x").iterdir()} == before


def test_work_tells_how_far_it_has_come(scene, tmp_path):
    path, _ = scene
    done = []
    with xa.open(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "b.xap", order="x", progress=lambda *now: done.append(now))
    assert done[-1] == (6 * 48, 6 * 48)
    for work in (
        lambda f: xa.unpack(path, tmp_path / "b", progress=f),
        lambda f: xa.check(path, data=True, progress=f),
    ):
        done.clear()
        work(lambda *now: done.append(now))
        assert done[-1][0] == done[-1][1] > 0


def test_an_interruption_leaves_nothing(tmp_path):
    with xa.create(tmp_path / "a", (9, 9), chunks=(2, 2)) as a:

        def stop(done, total):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            xa.pack(a, tmp_path / "a.xap", order="morton", progress=stop)
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]


def test_the_command_packs_in_an_order(tmp_path):
    xa.create(tmp_path / "a", (6, 6), "i2", chunks=(2, 2), dims=["y", "x"]).close()
    for order, told in (("hilbert", "hilbert"), ("x", 1), ("1", 1)):
        command = ["-m", "extarray", "pack", tmp_path / "a", tmp_path / f"{order}.xap"]
        subprocess.run([sys.executable, *command, "--order", order], check=True, timeout=60)
        with xa.open(tmp_path / f"{order}.xap") as a:
            assert a.info()["chunk_order"] == told
