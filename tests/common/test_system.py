"""Calls of the operating system: open files, and blocks that Ctrl-C does not interrupt."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import threading

import pytest

from extarray.common import system
from extarray.common.system import uninterrupted
from extarray.storage.filesystem import File

# -- open files ----------------------------------------------------------------------------------


def test_programs_that_are_started_inherit_no_open_file(tmp_path):
    """Python asks the system for that in each `os.open`, whatever the flags."""
    opened = [
        system.lock_folder(str(tmp_path)),
        system.open_place(str(tmp_path)),
        system.open_nameless(str(tmp_path), 0o600),
    ]
    file = File.open(str(tmp_path / "a"), os.O_RDWR | os.O_CREAT | system.NO_WAIT)
    with file as fd:
        for each in [fd, *opened]:
            assert each is None or not os.get_inheritable(each)
    file.close()
    for each in opened:
        if each is not None:
            os.close(each)


# -- processes -----------------------------------------------------------------------------------


def test_a_process_knows_whether_the_one_that_started_it_runs(script):
    code = (
        "import sys; from extarray.common import system; print(system.has_parent(int(sys.argv[1])))"
    )
    gone = script("import os; print(os.getpid())")
    assert script(code, os.getpid()).split() == ["True"]
    assert script(code, gone.strip()).split() == ["False"]


# -- Ctrl-C --------------------------------------------------------------------------------------


@pytest.fixture
def handler():
    """Set what Ctrl-C does, for the time of a test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda function: signal.signal(signal.SIGINT, function)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_the_end_of_a_block(handler):
    handler(signal.default_int_handler)
    steps = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 -- the block is what is tested
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            steps.append("went on")
        steps.append("not reached")
    assert steps == ["went on"]
    with uninterrupted():
        pass


def test_ctrl_c_then_does_what_the_program_has_set(handler):
    came = []
    handler(lambda number, frame: came.append(number))
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        assert came == []
    assert came == [signal.SIGINT]
    handler(signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_is_not_lost_where_the_block_fails(handler):
    came = []
    handler(lambda number, frame: came.append(number))
    with pytest.raises(ValueError, match="failed"), uninterrupted():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        raise ValueError("failed")
    assert came == [signal.SIGINT]


def test_other_threads_have_no_signals_to_hold_back():
    ran = []

    def work():
        with uninterrupted():
            ran.append(threading.current_thread())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran == [thread]


# -- to the disk ---------------------------------------------------------------------------------

# Commands of macOS; 0: fsync.
FULL, BARRIER, FSYNC, PREALLOCATE, PUNCH = 51, 85, 0, 42, 99
# Answers of `macos.c`: the command says that it allocates less than asked, or does nothing.
GIVES_LESS, GIVES_NOTHING = 1000, 1001
REFUSALS = [errno.ENOTSUP, errno.ENOTTY, errno.EINVAL]


@pytest.fixture
def asked(macos):
    """Answers to commands, a list for each, 0 when they run out; and the commands given."""
    answers, commands = {}, []

    def answer(command):
        commands.append(command)
        left = answers.get(command)
        return left.pop(0) if left else 0

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(answer)
    macos.set_answer(function)
    yield answers, commands
    macos.set_answer(None)


def test_macos_waits_for_the_platter(macos, asked):
    answers, commands = asked
    assert macos.has_barrier()
    assert macos.datasync(3) == 0 and commands == [FULL]
    commands.clear()
    answers[FULL] = [errno.EINTR, errno.EINTR]
    assert macos.datasync(3) == 0 and commands == [FULL] * 3


def test_macos_keeps_an_order_by_a_barrier(macos, asked):
    answers, commands = asked
    answers[BARRIER] = [errno.EINTR]
    assert macos.barrier(3) == 0 and commands == [BARRIER] * 2


@pytest.mark.parametrize("refusal", REFUSALS, ids=errno.errorcode.get)
def test_a_file_system_of_macos_that_refuses_a_command_is_given_the_next(macos, asked, refusal):
    answers, commands = asked
    answers.update({FULL: [refusal], BARRIER: [refusal], FSYNC: [errno.EINTR]})
    assert macos.datasync(3) == 0 and commands == [FULL, FSYNC, FSYNC]
    commands.clear()
    answers[FULL] = []
    assert macos.barrier(3) == 0 and commands == [BARRIER, FULL]
    commands.clear()
    answers.update({FULL: [refusal], BARRIER: [refusal]})
    assert macos.barrier(3) == 0 and commands == [BARRIER, FULL, FSYNC]


@pytest.mark.parametrize("command", [FULL, BARRIER, FSYNC])
def test_an_error_of_the_disk_is_told_on_macos(macos, asked, command):
    answers, commands = asked
    answers.update({BARRIER: [errno.ENOTTY], FULL: [errno.ENOTTY]})
    answers[command] = [errno.EIO]
    assert macos.barrier(3) == errno.EIO and commands[-1] == command
    answers.update({FULL: [errno.EIO]})
    assert macos.datasync(3) == errno.EIO


@pytest.mark.parametrize("name", ["file", "folder"])
def test_files_and_folders_named_reach_the_platter_on_macos(name, tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "a"
    path.write_bytes(b"a")
    call, of = (system.sync_file, path) if name == "file" else (system.sync_folder, tmp_path)
    given, answers = [], []

    def control(fd, command, *rest):
        given.append((command, os.fstat(fd).st_ino))
        if answers:
            number = answers.pop()
            raise OSError(number, os.strerror(number))
        return 0

    def fsync(fd):
        given.append((FSYNC, os.fstat(fd).st_ino))

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", fsync)
    inode = of.stat().st_ino
    call(str(of))
    assert given == [(FULL, inode)]
    for refusal in REFUSALS:
        given.clear()
        answers.append(refusal)
        call(str(of))
        assert given == [(FULL, inode), (FSYNC, inode)]
    answers.append(errno.EIO)
    with pytest.raises(OSError, match="Input/output") as caught:
        call(str(of))
    assert caught.value.errno == errno.EIO


# -- disk space of macOS -------------------------------------------------------------------------

BLOCK, UNSUPPORTED = 4096, errno.ENOTSUP
PAGE = mmap.PAGESIZE


@pytest.fixture
def ones(place):
    """A file of eight pages and a bit, of ones."""
    with open(place / "ones", "w+b", buffering=0) as file:
        file.write(b"\1" * (8 * PAGE + 5))
        os.fsync(file.fileno())
        yield file


def contents(file):
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def disk(file):
    return 512 * os.fstat(file.fileno()).st_blocks


def test_macos_makes_holes_of_whole_pages(macos, asked, ones):
    before = disk(ones)
    asked[0][PUNCH] = [errno.EINTR]
    assert macos.punch(ones.fileno(), 5, 4 * PAGE) == 0
    assert asked[1] == [PUNCH] * 2
    kept = b"\1" * PAGE
    assert contents(ones) == kept + bytes(3 * PAGE) + b"\1" * (4 * PAGE + 5)
    assert disk(ones) == before - 3 * PAGE
    assert macos.punch(ones.fileno(), 5 * PAGE + 1, 2 * PAGE - 1) == 0  # one page lies in it
    assert macos.punch(ones.fileno(), 7 * PAGE + 1, PAGE - 2) == 0  # none does
    assert contents(ones)[5 * PAGE :] == kept + bytes(PAGE) + kept + b"\1" * 5
    assert len(asked[1]) == 3


@pytest.mark.parametrize("refusal", REFUSALS, ids=errno.errorcode.get)
def test_a_file_system_of_macos_without_holes_keeps_bytes(macos, asked, ones, refusal):
    asked[0][PUNCH] = [refusal, errno.EIO]
    assert macos.punch(ones.fileno(), 0, PAGE) == UNSUPPORTED
    assert macos.punch(ones.fileno(), 0, PAGE) == errno.EIO
    assert contents(ones) == b"\1" * (8 * PAGE + 5)


@pytest.mark.parametrize("start", [8 * PAGE + 5, 8 * PAGE, 6 * PAGE + 3])
@pytest.mark.parametrize("more", [1, BLOCK - 5, BLOCK, 40 * BLOCK + 7])
def test_macos_lengthens_files_by_space(macos, asked, ones, start, more):
    end = 8 * PAGE + 5 + more
    assert macos.lengthen(ones.fileno(), start, end - start) == 0
    assert contents(ones) == b"\1" * start + bytes(end - start)
    assert disk(ones) >= end
    assert set(asked[1]) <= {PREALLOCATE}


@pytest.mark.parametrize("answer", [*REFUSALS, GIVES_LESS, GIVES_NOTHING])
def test_space_that_macos_does_not_give_is_not_believed_in(macos, asked, ones, answer):
    asked[0][PREALLOCATE] = [answer]
    assert macos.lengthen(ones.fileno(), 8 * PAGE, 9 * PAGE) == UNSUPPORTED


def test_macos_tells_of_a_full_disk_and_leaves_the_rest_to_writes(macos, asked, ones):
    asked[0][PREALLOCATE] = [errno.ENOSPC]
    assert macos.lengthen(ones.fileno(), 8 * PAGE + 5, PAGE) == errno.ENOSPC
    # It allocates behind the end of a file alone.
    assert macos.lengthen(ones.fileno(), 0, PAGE) == UNSUPPORTED
    assert macos.lengthen(ones.fileno(), 9 * PAGE, PAGE) == UNSUPPORTED
    assert contents(ones) == b"\1" * (8 * PAGE + 5)
