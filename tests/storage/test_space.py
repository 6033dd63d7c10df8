"""A full disk raises OSError at the call that needed the space, and loses nothing.

Each test runs in a separate process, so that a bus error would be noticed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import fulldisk
import numpy as np
import pytest

import extarray as xa

pytestmark = pytest.mark.slow

PREAMBLE = """
import contextlib, errno, os, subprocess, sys
import fulldisk
import numpy as np
import extarray as xa

folder, engine = sys.argv[1:]
path = f"{folder}/scene"


def must_fail(call, *numbers):
    try:
        call()
    except OSError as error:
        assert isinstance(error, xa.ExtArrayError), repr(error)
        assert error.errno in (numbers or (errno.ENOSPC,)), repr(error)
    else:
        raise AssertionError("there was space for this")


def check(array, shape, values):
    assert array.shape == shape, array.shape
    assert (array[:4] == values).all()


values = np.arange(12.0).reshape(4, 3)
options = {"shape": (4, 3), "dtype": "f8", "chunks": (64, 64), "engine": engine}
"""

RESERVING = """
fulldisk.mount(folder, "2m")
with xa.create(path, **options) as array:
    array[...] = values
    before = array.info()
    must_fail(lambda: array.extend(0, 10_000))
    must_fail(lambda: array.resize((100, 10_000)))
    must_fail(lambda: array.append(np.ones((10_000, 3))))
    check(array, (4, 3), values)
    assert array.grid == before["grid"]
    assert array.info()["segments"] == before["segments"]
    assert array.info()["disk_bytes"] <= before["disk_bytes"] + 4096, "the space is given back"
    array.extend(0, 200)
    array[4:] = 5
    check(array, (204, 3), values)
    with xa.open(path) as reader:
        check(reader, (204, 3), values)
with xa.open(path, mode="r+", engine=engine) as array:
    check(array, (204, 3), values)
    array.extend(0, 200)
    assert (array[4:204] == 5).all() and not array[204:].any()
must_fail(lambda: xa.create(f"{folder}/large", shape=(10_000, 100), engine=engine))
assert sorted(os.listdir(folder)) == ["scene.xmd", "scene.xta"], os.listdir(folder)
"""

SPARSE = """
fulldisk.mount(folder, "2m")
with xa.create(path, sparse=True, **options) as array:
    array[...] = values
    array.extend(0, 100_000)
    assert array.shape == (100_004, 3)

    def fill_scalars():
        for i in range(64, 100_000, 64):
            array[i, 0] = i

    def fill_chunks():
        for i in range(1, array.grid[0]):
            array.chunk((i, 0))[0, 0] = 1

    def fill_boxes():
        for i in range(64, 100_000, 64):
            array[i : i + 2, 0:2] = 1

    with open(f"{folder}/ballast", "wb") as ballast:
        ballast.write(bytes(2**18))
    must_fail({fill})
    check(array, (100_004, 3), values)
    must_fail(lambda: array.__setitem__((slice(4, None), ...), 7))
    check(array, (100_004, 3), values)
    assert array[99_999, 0] == 0
    array[0] = values[0]
    assert array[64, 0] in (0, 1, 7, 64)
    must_fail(lambda: array.append(np.ones((100_000, 3))))
    os.remove(f"{folder}/ballast")
    array.extend(0, 60)
    assert not array[100_004:].any(), "what was never committed must not show"
with xa.open(path) as reader:
    check(reader, (100_064, 3), values)
"""

HALF_AN_APPEND = """
fulldisk.mount(folder, "2m")
with xa.create(path, sparse=True, **options) as array:
    array[...] = values
    fulldisk.fill(folder)
    # There is space for the rows in the first chunk, and for no others.
    must_fail(lambda: array.append(np.ones((10_000, 3))))
    check(array, (4, 3), values)
    array.extend(0, 30)
    check(array, (34, 3), values)
    assert not array[4:].any(), "what was never committed must not show"
    must_fail(lambda: array.append(np.ones((10_000, 3))))
    os.remove(f"{folder}/ballast")
    array.append(np.full((1000, 3), 2.0))
    array.extend(1, 2)
    assert not array[4:34].any() and not array[:, 3:].any() and (array[34:, :3] == 2).all()
with xa.open(path) as reader:
    check(reader[:, :3], (1034, 3), values)
"""

METADATA = """
fulldisk.mount(folder, "1m")
with xa.create(path, sparse=True, shape=(1, 1), dtype="u1", chunks=1, engine=engine) as array:
    array.attrs["a"] = 1
    must_fail(lambda: array.attrs.__setitem__("large", "x" * 2_000_000))
    assert dict(array.attrs) == {"a": 1}
    # What is left of the disk goes to another file; now the log cannot grow.
    fulldisk.fill(folder)

    def grow():
        for _ in range(100_000):
            array.extend(0, 1)
            array.extend(1, 1)

    must_fail(grow)
    shape = array.shape
    os.remove(f"{folder}/ballast")
    with xa.open(path) as reader:
        assert reader.shape == shape, (reader.shape, shape)
        assert dict(reader.attrs) == {"a": 1}
    array.extend(0, 1)
    array.attrs["b"] = 2
with xa.open(path) as reader:
    assert reader.shape == (shape[0] + 1, shape[1])
    assert dict(reader.attrs) == {"a": 1, "b": 2}
"""

MOUNT = """
kind = {kind!r}
if kind == "tmpfs":
    fulldisk.mount(folder, "2m")
else:
    fulldisk.mount_image(folder, kind)
"""

EACH_CALL = """
sparse = {sparse}


def state(array):
    return array.shape, array.grid, array.origin, dict(array.attrs), array[:4, :3].tolist()


options["chunks"] = (32, 16)  # a page at least
array = xa.create(path, sparse=sparse, **options)
array[...] = values
array.extend(0, 60)
array.close()
small = xa.create(f"{folder}/small", (4, 3), chunks=(8, 8), sparse=sparse, engine=engine)
small.extend(0, 60)
small[:8, 0] = np.arange(1, 9)
array = xa.open(path, "r+", engine=engine)
array.extend(1, 1)  # the seal goes, while there is space for that
array.flush()
fulldisk.fill(folder)
fulldisk.fill(folder, "more", 64)
grows = {
    "growth at the end": lambda a: a.extend(0, 20_000),
    "growth at the start": lambda a: a.extend(1, 20_000, "start"),
    "resize": lambda a: a.resize((20_000, 30)),
    "reserve": lambda a: a.reserve((20_000, 30)),
}
fails = {
    "append": lambda a: a.append(np.ones((20_000, 4))),
    "append at the start": lambda a: a.append(np.ones((64, 9_000)), 1, "start"),
    "large attribute": lambda a: a.attrs.update(large="x" * 2_000_000),
    "attributes of any size": lambda a: [a.attrs.update(a="x" * n) for n in range(0, 10**6, 999)],
}
if sparse:
    fails["write into a hole"] = lambda a: a.write(np.s_[32:, :3], 5)
    fails["element in a hole"] = lambda a: [a.__setitem__((i, 0), 5) for i in range(32, 64)]
else:
    fails |= grows
for name, call in fails.items():
    before = state(array)
    must_fail(lambda: call(array))
    if not name.startswith("attributes"):
        assert state(array) == before, (name, state(array), before)
    with xa.open(path) as reader:
        assert state(reader) == state(array), name
# Chunks smaller than a page have neighbours in it: a store meets no hole of these either.
for i in range(64):
    with contextlib.suppress(xa.StorageError):
        small[i, 0] = i + 1
with contextlib.suppress(xa.StorageError):
    small.shrink(0, 33)
    small.extend(0, 33)
    small[40:] = 1
assert (small[:8, 0] == np.arange(1, 9)).all()
small.close()
# What needs no space goes on.
array[:4, :3] = values + 1
array[0, 0] = 7
array.extend(1, 1)
array.shrink(1, 1)
array.flush()
os.remove(f"{folder}/ballast")
os.remove(f"{folder}/more")
attrs = dict(array.attrs)
array.append(np.full((1, 4), 9.0))
array.append(np.full((65, 1), 8.0), 1, "start")
array.attrs["b"] = "y" * 3000
if sparse:
    grows["growth at the end"](array)
array.close()
if kind != "tmpfs":
    with open("/proc/self/mountinfo") as mounts:
        assert folder in mounts.read()
with xa.open(path, "r+", engine=engine) as array:
    assert array.origin == (0, 1) and dict(array.attrs) == {**attrs, "b": "y" * 3000}
    assert array[0, 1] == 7 and (array[1:4, 1:4] == values[1:] + 1).all()
    assert (array[:65, 0] == 8).all() and (array[64, 1:] == 9).all()
    assert not array[4:64, 4:].any() and not array[65:].any()
    array.extend(0, 3)
"""

# A file system that moves a block at every write, even of existing data.
MOVES_BLOCKS = """
rng = np.random.default_rng(1)
with open(f"{folder}/ballast", "wb") as ballast:
    ballast.write(rng.bytes(2**21))
expected = np.empty((0, 512))
with xa.create(path, (0, 512), chunks=(16, 512)) as array:
    assert array.info()["sparse"] and array.info()["engine"] == "pread"
    with contextlib.suppress(xa.StorageError):
        while True:
            rows = rng.random((64, 512))
            array.append(rows)
            expected = np.concatenate([expected, rows])
    assert 1000 < len(array) == len(expected)
    written, refused = [], 0
    for i in range(0, len(array), 3):
        try:
            array[i] = i
            written.append(i)
        except xa.StorageError as error:
            assert error.errno == errno.ENOSPC
            refused += 1
    must_fail(lambda: array.append(rng.random((2000, 512))))
    with contextlib.suppress(xa.StorageError):
        array.flush()
    untouched = np.arange(len(array)) % 3 > 0
    assert (array[...] == expected)[untouched].all()
    assert (array[written] == np.array(written)[:, None]).all()
    os.remove(f"{folder}/ballast")
    os.sync()
    array.append(rows)
with xa.open(path) as reader:
    assert (reader[: len(expected)] == expected)[untouched].all()
    assert (reader[written] == np.array(written)[:, None]).all() and (reader[-64:] == rows).all()
"""

# Chunks of one page, many of which the page cache keeps together.
BESIDE_HOLES = """
options.update(shape=(150, 512), dtype="f8", chunks=(1, 512))
sparse = xa.create(path, sparse=True, **options)
dense = xa.create(f"{folder}/dense", **options)
dense[...] = 1
dense.flush()
dense[...] = 2  # still to be written when there are holes beside it
dense.shrink(0, 37, "start")
fulldisk.fill(folder)
os.sync()
fulldisk.fill(folder)
os.truncate(f"{folder}/ballast", os.path.getsize(f"{folder}/ballast") - 40_960)
written = []
with contextlib.suppress(xa.errors.StorageError):
    for i in range(0, 150, 9):
        sparse[i, 3] = 5
        written.append(i)
assert written
assert (sparse[written, 3] == 5).all() and np.count_nonzero(sparse) == len(written)
dense[:40, 3] = 5
assert (dense[:40, 3] == 5).all() and (dense[:, 4:] == 2).all()
with contextlib.suppress(xa.errors.StorageError):
    for i in range(1, 38):
        dense.extend(0, 1, "start")
        dense[0] = 6
assert (dense[:-113] == 6).all() and (dense[-113:, 4:] == 2).all()
sparse.close()
dense.close()
"""

# Chunks of one page, written in a row that is longer than a huge page.
IN_A_ROW = """
options.update(shape=(6000, 512), chunks=(1, 512))
with xa.create(path, sparse=True, **options) as array:
    written = 0
    with contextlib.suppress(xa.StorageError):
        for i in range(6000):
            array[i, :9] = i
            written += 1
    assert 512 < written < 6000
    must_fail(lambda: array.__setitem__((slice(written, None), slice(9)), 7))
    expected = np.repeat(np.arange(written)[:, None], 9, 1)
    assert (array[:written, :9] == expected).all() and not array[:written, 9:].any()
    rest = 5 * (engine == "mmap")  # through the file, each part of a chunk takes its own space
    if rest:
        array[:written, 9:] = rest
    array.flush()
    assert (array[:written, :9] == expected).all()
    array.shrink(0, 5600)
    for i in range(400, 800):
        array.extend(0, 1)
        array[i, :9] = i
with xa.open(path) as reader:
    assert reader.shape == (800, 512) and (reader[:800, :9] == np.arange(800)[:, None]).all()
    assert (reader[:400, 9:] == rest).all() and not reader[400:, 9:].any()
"""

AHEAD_AND_AXIS = """
fulldisk.mount(folder, "1m")
with xa.create(path, growth=("linear", 100), **options) as array:
    array[...] = values
    array.extend(0, 64)  # there is no room for 100 chunks
    assert array.grid == (2, 1), array.grid
    fulldisk.fill(folder)
    must_fail(array.add_axis)
    assert sorted(os.listdir(folder)) == ["ballast", "scene.xmd", "scene.xta"]
    check(array, (68, 3), values)
    with xa.open(path) as reader:
        check(reader, (68, 3), values)
        os.remove(f"{folder}/ballast")
        array.extend(1, 1)
        array.add_axis(2)
        assert reader.refresh()
        check(reader, (68, 4, 1), np.pad(values, ((0, 0), (0, 1)))[..., None])
"""

GROUP = """
fulldisk.mount(folder, "2m")
with xa.create(path, **options) as a, xa.create(f"{folder}/b", (4,), "u1", chunks=64) as b:
    a[...] = values

    def grow(rows, text):
        with xa.commit([a, b]):
            b.append(np.ones(10_000, "u1"))
            b.attrs["text"] = text
            a.append(np.ones((rows, 3)))

    before = [os.path.getsize(f"{folder}/{name}.xta") for name in ("scene", "b")]
    must_fail(lambda: grow(200_000, ""))
    must_fail(lambda: grow(10, "x" * 2_000_000))
    assert [os.path.getsize(f"{folder}/{name}.xta") for name in ("scene", "b")] == before
    fulldisk.fill(folder)
    must_fail(lambda: grow(10, ""))
    for array, expected in ((a, values), (b, np.zeros(4))):
        with xa.open(array.path) as reader:
            assert (reader[...] == expected).all() and (array[...] == expected).all()
            assert not reader.attrs and not array.attrs
    # What takes no space goes on.
    with xa.commit([a, b]):
        a.extend(0, 2)
        b.extend(0, 2)
    os.remove(f"{folder}/ballast")
    grow(1000, "all is well")
    assert not a[4:6].any() and not b[:6].any() and (a[6:] == 1).all() and (b[6:] == 1).all()
with xa.open(path) as a, xa.open(f"{folder}/b") as b:
    assert a.shape == (1006, 3) and b.shape == (10_006,) and b.attrs["text"] == "all is well"
"""

# Chunks of one page, in a file that counts as large: while it grows, it ends with a huge page.
LARGE = """
from extarray.storage import space

space._LARGE = 0  # so that this one is large
fulldisk.mount(folder, "3m")
names = f"{path}.xta", f"{path}.xmd"
row = np.ones((1, 512))
with xa.create(path, (1, 512), "f8", chunks=(1, 512), engine=engine) as array:
    array[0] = 0
    for i in range(1, 300):
        array.append(i * row)
        assert os.path.getsize(names[0]) == 2**21
        if i == 200:  # by another program, which cuts off nothing that counts
            os.truncate(names[0], 201 * 4096)
            array.append(201 * row)
            array.shrink(0, 1)
    with xa.open(path) as reader:
        assert (reader[:, 5] == np.arange(300)).all()
    # Another huge page has no room, and what is asked for has.
    for i in range(300, 600):
        array.append(i * row)
    assert os.path.getsize(names[0]) == 600 * 4096 + 32
    fulldisk.fill(folder)
    must_fail(lambda: array.append(row))
    assert os.path.getsize(names[0]) == 600 * 4096 + 32
    array[599] = 599
    os.remove(f"{folder}/ballast")
    array.append(600 * row)
    array.extend(0, 1)
with xa.open(path) as reader:
    assert (reader[:601, 5] == np.arange(601)).all() and not reader[601].any()
    assert os.path.getsize(names[0]) == 602 * 4096 + 32
"""

# A table of frozen chunks, of which even a load from a hole takes space on tmpfs.
FROZEN = """
fulldisk.mount(folder, "1m")
options = {"compression": "zlib", "freeze": "never", "chunks": (1, 3), "engine": engine}
with xa.create(path, (1000, 3), "f8", **options) as array:
    array[:4] = values
    fulldisk.fill(folder)
    check(array, (1000, 3), values)
    assert not array[900:].any()
    must_fail(lambda: [array.extend(0, 100) for _ in range(100)])
    shape = array.shape
    assert not array[900:].any()
    must_fail(lambda: setattr(array, "compression", "zlib:9"))
    with xa.open(path) as reader:
        check(reader, shape, values)
        assert not reader[900:].any()
    os.remove(f"{folder}/ballast")
    array.compression = "zlib:2"  # in new metadata
    fulldisk.fill(folder)
    check(array, shape, values)
    assert not array[900:].any()
    os.remove(f"{folder}/ballast")
for end in ("xmd", "xta", "xtz"):
    with open(f"{path}.{end}", "rb") as file:
        data = file.read()
    with open(f"{folder}/copied.{end}", "wb") as file:
        for at in range(0, len(data), 4096):  # as programs do that make holes of zeros
            page = data[at : at + 4096]
            if any(page):
                file.seek(at)
                file.write(page)
        file.truncate(len(data))
fulldisk.fill(folder)
must_fail(lambda: xa.open(f"{folder}/copied", engine=engine))
os.remove(f"{folder}/ballast")
with xa.open(f"{folder}/copied", engine=engine) as reader:
    check(reader, shape, values)
    fulldisk.fill(folder)
    assert not reader[900:].any()
"""

FILE_LIMIT = """
import resource
with xa.create(path, sparse={sparse}, **options) as array:
    array[...] = values
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, resource.RLIM_INFINITY))
    must_fail(lambda: array.extend(0, 10**6), errno.EFBIG)
    must_fail(lambda: array.append(np.ones((10**6, 3))), errno.EFBIG)
    check(array, (4, 3), values)
    array.extend(0, 1000)
    array[4:] = 5
    check(array, (1004, 3), values)
with xa.open(path) as array:
    check(array, (1004, 3), values)
"""


@pytest.mark.invariant("I7")
def test_full_disk_at_growth(private_mount, script, tmp_path, engine):
    script(PREAMBLE + RESERVING, tmp_path, engine, prefix=private_mount)


@pytest.mark.invariant("I7")
def test_full_disk_beside_a_table_of_frozen_chunks(private_mount, script, tmp_path, engine):
    script(PREAMBLE + FROZEN, tmp_path, engine, prefix=private_mount)


@pytest.mark.invariant("I7")
@pytest.mark.parametrize(
    "fill",
    ["fill_scalars", "fill_chunks", "fill_boxes", "lambda: array.write(slice(4, None), 7)"],
    ids=["scalars", "views", "boxes", "whole"],
)
def test_full_disk_at_the_write_of_a_sparse_array(private_mount, script, tmp_path, engine, fill):
    code = PREAMBLE + SPARSE.replace("{fill}", fill)
    script(code, tmp_path, engine, prefix=private_mount)


def test_full_disk_in_the_midst_of_an_append(private_mount, script, tmp_path, engine):
    script(PREAMBLE + HALF_AN_APPEND, tmp_path, engine, prefix=private_mount)


def test_full_disk_for_metadata(private_mount, script, tmp_path, engine):
    script(PREAMBLE + METADATA, tmp_path, engine, prefix=private_mount)


def test_room_up_to_the_end_of_a_huge_page(private_mount, script, tmp_path, engine):
    script(PREAMBLE + LARGE, tmp_path, engine, prefix=private_mount)


def test_full_disk_in_a_commit_of_several_arrays(private_mount, script, tmp_path, engine):
    script(PREAMBLE + GROUP, tmp_path, engine, prefix=private_mount)


def test_full_disk_for_a_new_axis_and_for_growth_ahead(private_mount, script, tmp_path, engine):
    script(PREAMBLE + AHEAD_AND_AXIS, tmp_path, engine, prefix=private_mount)


def mounted(kind, private_mount, place):
    """Return the kind of a file system mountable from a file, or skip."""
    place.mkdir()
    code = "import sys, fulldisk; fulldisk.mount_image(*sys.argv[1:])"
    command = [*private_mount, sys.executable, "-c", code, place, kind]
    env = {**os.environ, "PYTHONPATH": os.path.dirname(fulldisk.__file__)}
    if subprocess.run(command, capture_output=True, timeout=250, env=env).returncode:
        pytest.skip(f"needs mkfs.{kind}, and the right to mount a file (Linux, root)")
    return kind


@pytest.fixture(params=["tmpfs", "ext4"])
def file_system(request, private_mount, tmp_path):
    """Return the kind of a mountable file system that keeps blocks in place."""
    if request.param == "tmpfs":
        return request.param
    return mounted(request.param, private_mount, tmp_path / "place")


@pytest.mark.parametrize("sparse", [False, True])
def test_full_disk_at_each_call(private_mount, script, tmp_path, engine, file_system, sparse):
    folder = tmp_path / "full"
    folder.mkdir()
    code = (MOUNT + EACH_CALL).replace("{kind!r}", repr(file_system))
    code = code.replace("{sparse}", str(sparse))
    script(PREAMBLE + code, folder, engine, prefix=private_mount)


@pytest.mark.invariant("I7")
def test_stores_beside_holes_on_a_full_disk(private_mount, script, tmp_path, engine, file_system):
    folder = tmp_path / "full"
    folder.mkdir()
    code = (MOUNT + BESIDE_HOLES).replace("{kind!r}", repr(file_system))
    script(PREAMBLE + code, folder, engine, prefix=private_mount)


@pytest.mark.invariant("I7")
def test_full_disk_behind_a_row_of_chunks(private_mount, script, tmp_path, engine, file_system):
    folder = tmp_path / "full"
    folder.mkdir()
    code = (MOUNT.replace("2m", "5m") + IN_A_ROW).replace("{kind!r}", repr(file_system))
    script(PREAMBLE + code, folder, engine, prefix=private_mount)


def test_space_of_a_sparse_array_is_what_was_written(tmp_path, engine):
    """Rows of chunks may take a huge page more; chunks here and there take their own space."""
    for name, step, spare in (("alone", 2, 0), ("row", 1, 2**21)):
        with xa.create(
            tmp_path / name, (1000, 2048), "f8", chunks=(1, 2048), sparse=True, engine=engine
        ) as a:
            before = a.info()["disk_bytes"]
            for i in range(0, 300, step):
                a[i, :9] = i
            taken = a.info()["disk_bytes"] - before
            assert taken <= len(range(0, 300, step)) * 2**14 + spare + 2**16  # of the file system
            assert (a[:300:step, :9] == np.arange(0, 300, step)[:, None]).all()
            assert not a[:, 9:].any()


def test_a_full_disk_where_writes_move_blocks(private_mount, script, tmp_path):
    kind = mounted("btrfs", private_mount, tmp_path / "place")
    folder = tmp_path / "full"
    folder.mkdir()
    code = MOUNT.replace("{kind!r}", repr(kind)) + MOVES_BLOCKS
    script(PREAMBLE + code, folder, "auto", prefix=private_mount)


@pytest.mark.parametrize("sparse", [False, True])
def test_limit_of_a_file(forked, tmp_path, engine, sparse):
    """The process limits a file's size here; elsewhere the file system does."""
    forked(PREAMBLE + FILE_LIMIT.replace("{sparse}", str(sparse)), tmp_path, engine)


@pytest.mark.parametrize("power", [45, 50, 58])
def test_growth_past_the_file_system(disk, power):
    """If a file cannot be so large, the error changes nothing."""
    with disk.array((2,), "u1", chunks=2**12, sparse=True) as array:
        array[...] = 5
        before = array.info()
        try:
            array.extend(0, 2**power)
        except xa.ExtArrayError:
            after = array.info()
            for key in ("shape", "grid", "segments", "file_bytes"):
                assert after[key] == before[key]
        else:
            array[-1] = 6
            assert array[-1] == 6
        array.extend(0, 3)
        assert array[:2].tolist() == [5, 5]


def test_memory_that_nobody_has(memory):
    """Growth in place fails and changes nothing."""
    with memory.array((2,), "u1", chunks=2**20, fill_value=5) as array:
        view = array.chunk((0,))
        with pytest.raises(xa.ReserveError):
            array.extend(0, 2**50)
        assert array.shape == (2,)
        array.extend(0, 2**21)
        assert (array[:] == 5).all()
        assert view.tolist() == [5, 5]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the size of a process")
@pytest.mark.parametrize("path", [None, "a"])
def test_a_window_leaves_address_space_to_others(forked, tmp_path, path):
    """With limited address space, an array takes little of it and still grows."""
    forked(
        """
import mmap, resource, sys
import numpy as np
import extarray as xa
pages = int(open("/proc/self/statm").read().split()[0])
room = 2**31
limit = pages * mmap.PAGESIZE + room
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
path = None if sys.argv[1] == "None" else sys.argv[1]
with xa.create(path, (2,), "u1", chunks=2**16, engine="mmap" if path else "auto") as array:
    array[...] = 3
    view = array.chunk((0,))
    mmap.mmap(-1, room * 5 // 8).close()
    for _ in range(4):
        array.append(np.full(2**24, 7, "u1"))
    assert view.tolist() == [3, 3] == array[:2].tolist()
    assert array[-1] == 7
    view[0] = 4
    assert array[0] == 4
""",
        None if path is None else tmp_path / path,
        timeout=250,
    )
