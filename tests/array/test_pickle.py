"""Pickles and copies: by path, writable if the original is, or by value."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import errno
import multiprocessing
import os
import pickle

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from strategies import built, cases

import extarray as xa
from extarray.array.creation import filled
from extarray.common import system

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def assert_equal_arrays(got, array) -> None:
    for name in ("shape", "dtype", "chunks", "order"):
        assert getattr(got, name) == getattr(array, name)
    assert got.fill_value.tobytes() == array.fill_value.tobytes()
    assert dict(got.attrs) == dict(array.attrs)
    assert_same(got[...], array[...])


@given(case=cases())
def test_round_trip(factory, case):
    with built(factory, case) as (array, _):
        array.attrs["unit"] = "mm"
        with pickle.loads(pickle.dumps(array)) as got:
            assert_equal_arrays(got, array)
            assert got.mode == "r+"
            if factory.on_disk:
                assert got.axial.segments == array.axial.segments


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol(factory, protocol):
    with factory.array((4, 3), "i2", chunks=2) as array:
        array[...] = np.arange(12).reshape(4, 3)
        with pickle.loads(pickle.dumps(array, protocol)) as got:
            assert_equal_arrays(got, array)


def test_files_are_pickled_by_path(disk):
    with disk.array((1000, 1000), "f8", chunks=100) as array:
        data = pickle.dumps(array)
        assert len(data) < 500
        with pickle.loads(data) as got:
            assert got.path == array.path
            assert got.info()["engine"] == "pread"
            array[3, 4] = 7
            assert got[3, 4] == 7
            array.extend(0, 5)
            assert got.refresh()
            got[1004, 0] = 1
            assert array[1004, 0] == 1
            with pytest.raises(xa.ReadOnlyError, match="share='elements'"):
                got.extend(0, 1)
            with pickle.loads(pickle.dumps(got)) as again:
                assert again.shape == (1005, 1000)
                again[1004, 1] = 2
                assert array[1004, 1] == 2


def test_of_a_reader_comes_a_reader(disk):
    with disk.array((4,), "f8") as array, xa.open(array.path, engine=disk.engine) as reader:
        data = pickle.dumps(reader)
        with pickle.loads(data) as got:
            assert got.info()["engine"] == disk.engine
            assert got.mode == "r"
            with pytest.raises(xa.ReadOnlyError, match="mode 'r'"):
                got[0] = 1


def test_files_that_can_only_be_read_are(disk, monkeypatch):
    with disk.array((4,), "f8") as array:
        data = pickle.dumps(array)
        real = system.open_file

        def refuse(name, flags, *mode, **options):
            if flags & os.O_RDWR and os.fspath(name).endswith(".xmd"):
                raise PermissionError(errno.EACCES, "no", name)
            return real(name, flags, *mode, **options)

        monkeypatch.setattr(system, "open_file", refuse)
        with pickle.loads(data) as got:
            assert got.mode == "r"
            assert got[...].tolist() == [0] * 4


@pytest.mark.parametrize("share", [True, "elements"])
def test_of_one_of_several_writers_comes_a_writer_of_elements(path, share):
    xa.zeros((4,), path=path).close()
    with xa.open(path, "r+", share=share, durability="commit") as array:
        with pickle.loads(pickle.dumps(array)) as got:
            got[1] = 5
            assert array[1] == 5
            got.lazy[2:] = 6
            view = pickle.loads(pickle.dumps(got.lazy[2:]))
            view[0] = 7
            view.base.close()
        assert array[...].tolist() == [0, 5, 7, 6]


def test_the_path_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with xa.create("run.xmd.2024", 3) as array:
        array[...] = 5
        data = pickle.dumps(array)
        monkeypatch.chdir(os.sep)
        with pickle.loads(data) as got:
            assert got.path == tmp_path / "run.xmd.2024"
            assert got[...].tolist() == [5, 5, 5]


def test_unpickled_arrays_show_what_is_there_now(disk):
    with disk.array((2,), "i4") as array:
        data = pickle.dumps(array)
        array.append([5])
        with pickle.loads(data) as got:
            assert got[...].tolist() == [0, 0, 5]


def test_files_that_are_gone(path):
    array = xa.zeros(3, path=path)
    data = pickle.dumps(array)
    array.close()
    for suffix in (".xmd", ".xta"):
        path.with_name(path.name + suffix).unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)
    xa.ones(3, path=path).close()
    with pytest.raises(xa.MissingError, match="another array has replaced it") as caught:
        pickle.loads(data)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("replaces", [False, True])
def test_an_array_that_is_being_made(path, replaces):
    """Unpickled arrays write to it before it has its name, and find it once it has."""
    if replaces:
        xa.create(path, 3, "i4").close()
    with filled(path, (4,), "i4", overwrite=replaces, fill_value=5) as new:
        data = pickle.dumps(new)
        with pickle.loads(data) as early:
            early[1:3] = 7
            again = pickle.dumps(early)
        assert path.with_suffix(".xmd").exists() == replaces
        early = pickle.loads(data)
    for late in (early, pickle.loads(data), pickle.loads(again)):
        with late:
            late.refresh()
            late[3] += 1
    new.close()
    with xa.open(path) as a:
        assert a[...].tolist() == [5, 7, 7, 8]
    assert len(list(path.parent.iterdir())) == 2


@pytest.mark.parametrize("replaces", [False, True])
def test_an_array_that_was_not_made(path, replaces):
    if replaces:
        xa.create(path, 3, "i4").close()
    with contextlib.suppress(RuntimeError), filled(path, (4,), "i4", overwrite=replaces) as new:
        data = pickle.dumps(new)
        early = pickle.loads(data)
        raise RuntimeError
    early[0] = 1  # no array owns the files any more
    early.close()
    with pytest.raises(
        xa.errors.MissingError, match="no longer exists" if replaces else "there is no file"
    ):
        pickle.loads(data)
    if replaces:
        with xa.open(path) as a:
            assert a[...].tolist() == [0, 0, 0]


def test_a_closed_array_has_nothing_to_pickle(factory):
    with factory.array(3) as array:
        array.close()
        with pytest.raises(xa.ClosedError):
            pickle.dumps(array)


def test_memory_is_pickled_by_value(memory):
    with memory.array((3, 4), "i4", chunks=2, fill_value=9) as array:
        array.extend(1, 2)
        array.extend(0, 2)
        data = pickle.dumps(array)
        array[...] = 1
        got = pickle.loads(data)
        assert (got[...] == 9).all()
        assert got.axial.segments == 1
        got.extend(1, 1)
        assert (got[...] == 9).all()
        assert (array[...] == 1).all()


def test_elements_travel_out_of_band(memory):
    with memory.array((1000, 100), "f8") as array:
        array[...] = 3
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(array, 5, buffer_callback=buffers.append)
        assert len(data) < 2000
        assert_equal_arrays(pickle.loads(data, buffers=buffers), array)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_arrays_of_their_own(factory, copied):
    with factory.array((3, 4), "i4", chunks=2, order="F", fill_value=2) as array:
        array.attrs["unit"] = "mm"
        got = copied(array)
        assert_equal_arrays(got, array)
        assert got.path is None
        got[0] = 7
        array[1] = 8
        assert got[:, 0].tolist() == [7, 2, 2]
        assert array[:, 0].tolist() == [2, 8, 2]


def test_a_deep_copy_copies_once(memory):
    with memory.array(3) as array:
        first, second = copy.deepcopy([array, array])
        assert first is second is not array


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("shared_memory")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_take_arrays(factory, method):
    if method == "fork" and multiprocessing.get_start_method() == "spawn":
        pytest.skip("this system spawns")
    with factory.array((10, 10), "f8", chunks=3) as array:
        array[...] = np.arange(100).reshape(10, 10)
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            assert pool.submit(np.sum, array).result(250) == 4950
        array[0, 0] = 1
        assert np.sum(array) == 4951
