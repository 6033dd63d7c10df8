"""Another program truncates ``.xta`` while it is open."""

from __future__ import annotations

import contextlib
import os
import signal

import numpy as np
import pytest
from systems import cut_file, needs_signals

import extarray as xa

ROWS = 512
CUT = 4096


@pytest.fixture
def cut(path):
    """Open an array in a mode, with an engine, and truncate its file."""
    arrays = []

    def opened(mode, engine):
        with xa.create(path, (ROWS, 1024), "i4", chunks=(64, 256)) as array:
            array[...] = 1
        arrays.append(xa.open(path, mode, engine=engine))
        assert (arrays[0][...] == 1).all()
        cut_file(f"{path}.xta", CUT)
        return arrays[0]

    yield opened
    for array in arrays:
        with contextlib.suppress(xa.errors.TruncatedError):
            array.close()


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("key", [(500, 1000), np.s_[400:402], np.s_[...], ([400, 3],)], ids=str)
def test_reads_by_calls_say_so(cut, mode, key):
    array = cut(mode, "pread")
    with pytest.raises(xa.errors.TruncatedError, match="another program has truncated it"):
        array[key]


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_large_transfers_say_so_with_either_engine(cut, mode, engine):
    array = cut(mode, engine)
    with pytest.raises(xa.errors.TruncatedError, match="another program has truncated it"):
        array.read()
    if mode == "r+":
        with pytest.raises(xa.errors.TruncatedError, match="another program has truncated it"):
            array[...] = 5
    assert array.closed is False


def test_what_is_still_there_can_be_read(cut):
    array = cut("r", "pread")
    assert array[0, 0] == 1


def test_it_does_not_open_again(cut, path, engine):
    cut("r", engine)
    for mode in ("r", "r+"):
        with pytest.raises((xa.errors.TruncatedError, xa.errors.PartnerError)):
            xa.open(path, mode, engine=engine)


def test_a_reader_that_refreshes_finds_out(path, engine):
    array = xa.create(path, (4, 1024), "i4", chunks=(4, 1024))
    with xa.open(path, engine=engine) as reader:
        array.append(np.ones((4, 1024), "i4"))
        cut_file(f"{path}.xta", CUT, array)
        with pytest.raises(xa.errors.TruncatedError):
            reader.refresh()
        assert reader.shape == (4, 1024)
        assert reader[0, 0] == 0
    # The writer does not hide the loss.
    for end in (array.flush, array.close):
        with pytest.raises(xa.errors.TruncatedError):
            end()
    assert array.closed
    assert os.path.getsize(f"{path}.xta") == CUT


SMALL = 4 * 4096
CALLS = {
    "append": lambda a: a.append(np.ones((9, 1024), "i4")),
    "append inside a chunk": lambda a: a.append(np.ones((1, 1024), "i4")),
    "extend": lambda a: a.extend(1, 1000),
    "flush": lambda a: a.flush(),
    "close": lambda a: a.close(),
}


@pytest.mark.parametrize("lost", [SMALL, 1])
@pytest.mark.parametrize("grown", [False, True], ids=["sealed", "grown"])
@pytest.mark.parametrize("kind", ["alone", "shared", "checksums"])
@pytest.mark.parametrize("call", CALLS)
def test_writers_find_out_before_they_grow_and_when_they_close(
    path, engine, kind, grown, lost, call
):
    with xa.create(path, (6, 1024), "i4", chunks=(4, 512), checksum=kind == "checksums") as array:
        array[...] = 1
    array = xa.open(path, "r+", engine=engine, share=kind == "shared")
    if grown:
        array.append(np.ones((1, 1024), "i4"))
    state = array._store.now.state
    length = state.data_bytes + 32 * state.sealed - lost
    cut_file(f"{path}.xta", length, array)
    with pytest.raises(xa.errors.TruncatedError, match="another program has truncated it"):
        CALLS[call](array)
    if call != "close":
        with pytest.raises(xa.errors.TruncatedError, match="another program has truncated it"):
            array.close()
    assert array.closed
    assert os.path.getsize(f"{path}.xta") == length, "nothing covers it up"


def test_growth_into_what_was_cut_finds_out_before_it_looks_there(path, engine):
    array = xa.create(path, (6, 1024), "i4", chunks=(4, 512), engine=engine)
    array[...] = 1
    array.flush()
    cut_file(f"{path}.xta", CUT, array)
    array.shrink(0, 1)
    for end in (lambda: array.extend(0, 1), array.close):
        with pytest.raises(xa.errors.TruncatedError, match="another program has truncated it"):
            end()
    assert os.path.getsize(f"{path}.xta") == CUT


SIGNALLED = """
import os, sys
import extarray as xa
with xa.create(sys.argv[1], (1024, 1024), "i4", chunks=(256, 1024)) as array:
    array[...] = 1
array = xa.open(sys.argv[1], engine="mmap")
os.truncate(sys.argv[1] + ".xta", 4096)
array[1000, 1000]
"""


@needs_signals
def test_single_loads_through_a_mapping_meet_the_system_s_signal(forked, path):
    """Only another engine avoids the signal, as the documentation says."""
    status, *_ = forked.run(SIGNALLED, path)
    assert status == -signal.SIGBUS
