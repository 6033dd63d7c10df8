"""Calls of the system by open files and by memory: alike on every system."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from extarray._core._file import UNSUPPORTED
from extarray._core._mapping import Region
from extarray.storage.filesystem import File

BEYOND = (1 << 32) + 5  # more than an offset of 32 bits


@pytest.fixture
def file(tmp_path):
    file = File.open(str(tmp_path / "a"), os.O_RDWR | os.O_CREAT)
    yield file
    file.close()


def test_bytes_are_written_as_they_are(file):
    """No line ends and no byte that ends a text are changed."""
    data = bytes(range(256)) + b"\n\r\n\x1a\n"
    file.write(data, 3)
    assert file.length == len(data) + 3
    assert file.read(1000, 0) == bytes(3) + data


def test_reads_stop_at_the_end(file):
    file.write(b"abc", 0)
    assert file.read(10, 2) == b"c"
    assert file.read(10, 3) == file.read(10, BEYOND) == b""
    target = bytearray(b"....")
    assert file.read_into(target, 1) == 2
    assert target == b"bc.."


def test_offsets_and_lengths_beyond_32_bits(file):
    file.write(b"begin", 0)
    file.truncate(BEYOND)
    assert file.length == BEYOND
    assert file.read(10, BEYOND - 4) == bytes(4)
    file.write(b"end", BEYOND)
    assert file.length == BEYOND + 3
    assert file.read(10, BEYOND - 1) == b"\0end"
    assert file.read(5, BEYOND % (1 << 32)) == bytes(5)
    file.truncate(5)
    assert file.read(10, 0) == b"begin"


def test_threads_read_and_write_through_one_descriptor(file):
    size, n_threads, n = 1000, 4, 50

    def write(number):
        for at in range(number * size, n * n_threads * size, n_threads * size):
            file.write(bytes([number]) * size, at)
            assert file.read(size, at) == bytes([number]) * size

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(write, range(n_threads)))
    found = np.frombuffer(file.read(n * n_threads * size, 0), np.uint8).reshape(n, n_threads, size)
    assert (found == np.arange(n_threads)[:, None]).all()


def test_space_is_given_taken_and_zeroed_or_nothing_happens(file):
    """A file system without a call changes nothing, and says so by one number."""
    page, data = 1 << 16, os.urandom(4 << 16)
    assert UNSUPPORTED == errno.ENOTSUP
    file.write(data, 0)
    assert file.reserve(page, 8 * page) in (0, UNSUPPORTED)
    assert file.read(8 * page, 0) == data
    for call, low in ((File.zero, 0), (File.punch, 2 * page)):
        done = call(file, low, page)
        assert done in (0, UNSUPPORTED)
        if done == 0:
            data = data[:low] + bytes(page) + data[low + page :]
        assert file.read(8 * page, 0) == data
    done = file.lengthen(len(data), page)
    assert done in (0, UNSUPPORTED)
    assert file.length == len(data) + page * (done == 0)
    assert file.read(8 * page, len(data)) == bytes(page * (done == 0))


def test_what_no_disk_holds(file):
    assert file.exceeds_disk(1 << 60)
    assert not file.exceeds_disk(1 << 20)
    assert file.reserve(0, 1 << 60) in (errno.ENOSPC, UNSUPPORTED)
    assert file.length == 0


@pytest.mark.parametrize(
    "call", [lambda f: f.write(b"a", 0), lambda f: f.truncate(1)], ids=["write", "truncate"]
)
def test_files_opened_for_reading_stay_as_they_are(file, call):
    file.write(b"abc", 0)
    reader = File.open(file.name, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"\[Errno"):
            call(reader)
        assert file.read(10, 0) == b"abc"
    finally:
        reader.close()


def test_a_descriptor_that_somebody_else_closed(file):
    """The process goes on, with an error."""
    with file as fd:
        spare = os.dup(fd)
    other = File(spare, "b")
    os.close(spare)
    for call in (lambda: other.read(1, 0), lambda: other.write(b"a", 0), lambda: other.datasync()):
        with pytest.raises(OSError, match=r"\[(Errno|WinError)") as caught:
            call()
        assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError, match=r"\[Errno"):
        other.close()


def test_memory_is_zeroed_opened_and_discarded():
    region = Region.memory(1 << 20)
    region.commit(5 << 20)
    assert region.copied(0, 5 << 20) == bytes(5 << 20)
    region.fill(np.full(1 << 16, 7, np.uint8), 0, 5 << 20)
    low, high = 12345, (4 << 20) + 321
    region.discard(low, high)
    found = np.frombuffer(region.copied(0, 5 << 20), np.uint8)
    assert (found[:low] == 7).all() and (found[high:] == 7).all()
    assert not found[low:high].any()
    region.commit(9 << 20)
    assert not any(region.copied(6 << 20, 9 << 20))


def test_memory_of_many_arrays_at_a_time():
    """Each begins where huge pages can begin, while other threads take address space as well."""

    def reserve(_number):
        region = Region.memory(1 << 20)
        region.commit(1 << 12)
        return region

    with ThreadPoolExecutor(4) as pool:
        regions = list(pool.map(reserve, range(40)))
    assert all(region.copied(0, 1 << 12) == bytes(1 << 12) for region in regions)
