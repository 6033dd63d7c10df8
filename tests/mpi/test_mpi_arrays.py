"""Arrays of several processes: real programs under mpiexec, compared with NumPy's model."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from compare import assert_same_files
from mpirun import SCRIPTS, Launcher, family, kill

import extarray as xa
from extarray._core._axial import Axial
from extarray._core._history import replay_log
from extarray.format.records import record_bytes
from extarray.mpi.replica import segments_since


@pytest.mark.parametrize("sides", [("end",), ("end", "start")])
def test_ranks_hear_of_a_long_history_in_few_bytes(sides):
    axial = Axial((1, 1, 1))
    for step in range(500):
        axial.grow(step % 3, 1, sides[step % len(sides)])
    assert axial.segments > 400
    for known in (0, 100, axial.segments):
        message = pickle.dumps(segments_since(axial, known))
        assert len(message) < (axial.segments - known) * record_bytes(3) + 200
    news = pickle.loads(pickle.dumps(segments_since(axial, 0)))
    heard = replay_log(Axial, *news.columns(), news.grid)
    chunks = np.indices(axial.grid).reshape(3, -1).T[::1001]
    assert heard.addresses(chunks).tolist() == axial.addresses(chunks).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 3])
def test_selections(mpirun, path, ranks):
    mpirun(ranks, "selections.py", path, "mpi-io", 0)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_selections_on_other_engines(mpirun, path, engine):
    mpirun(2, "selections.py", path, engine, 0)


@pytest.mark.slow
def test_selections_in_many_pieces(mpirun, path):
    mpirun(2, "selections.py", path, "mpi-io", 16)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "engine"), [(1, "mpi-io"), (3, "mpi-io"), (4, "mpi-io"), (2, "mmap"), (2, "pread")]
)
def test_zones(mpirun, path, ranks, engine):
    mpirun(ranks, "zones.py", path, engine)


@pytest.mark.slow
def test_zones_where_mpi_allows_one_thread(mpiexec, script, path):
    mpirun = Launcher(mpiexec, script.environment, "-rc", "thread_level=funneled")
    mpirun(2, "zones.py", path, "mpi-io")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "engine", "seed"),
    [(2, "mpi-io", 1), (4, "mpi-io", 3), (2, "mmap", 4)],
)
def test_growth_leaves_the_bytes_of_a_serial_run(mpirun, forked, tmp_path, ranks, engine, seed):
    serial, parallel = tmp_path / "serial", tmp_path / "parallel"
    mpirun(ranks, "growth.py", parallel, engine, seed, 25)
    forked((SCRIPTS / "growth.py").read_text(), serial, "serial", seed, 25)
    assert_same_files(serial, parallel)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "engine"), [(1, "mpi-io"), (3, "mpi-io"), (2, "mmap")])
def test_errors_are_those_of_all_ranks(mpirun, path, ranks, engine):
    mpirun(ranks, "errors.py", path, engine)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("engine", ["mmap", "pread", "mpi-io"])
def test_compressed_arrays(mpirun, path, ranks, engine):
    mpirun(ranks, "compressed.py", path, engine)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_freeze_together(mpirun, path, ranks):
    mpirun(ranks, "freezing.py", path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "engine", "fill"),
    [(1, "mpi-io", 0), (3, "mpi-io", 7), (2, "mmap", 7), (3, "pread", 0)],
)
def test_checksums(mpirun, path, ranks, engine, fill):
    mpirun(ranks, "sums.py", path, engine, fill, timeout=250)


@pytest.mark.slow
@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    ("ranks", "engine", "seed"), [(2, "pread", 1), (3, "mpi-io", 2), (2, "mmap", 3), (1, "mmap", 4)]
)
def test_no_new_sum_for_damage_in_doubt(mpirun, path, ranks, engine, seed):
    mpirun(ranks, "doubt.py", path, engine, seed, 30)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "engine"), [(2, "mpi-io"), (3, "pread")])
def test_no_new_sum_for_damage_in_doubt_on_several_hosts(mpiexec, script, path, ranks, engine):
    mpirun = Launcher(mpiexec, script.environment | {"MPIR_CVAR_NOLOCAL": "1"})
    if not mpirun.is_mpich:
        pytest.skip("Open MPI has no setting that takes ranks for separate hosts")
    mpirun(ranks, "doubt.py", path, engine, 5, 30)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "engine"), [(2, "mpi-io"), (3, "mmap"), (2, "pread")])
def test_chunks_that_come_late(mpirun, path, ranks, engine):
    mpirun(ranks, "late.py", path, engine)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "engine"), [(3, "mpi-io"), (2, "mmap")])
def test_ranks_leave_statements(mpirun, path, ranks, engine):
    mpirun(ranks, "leaving.py", path, engine, timeout=250)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["mpi-io", "mmap"])
def test_one_rank_alone_calls_nothing_collective(mpirun, path, engine):
    mpirun(2, "alone.py", path, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mpi-io", "mmap"])
def test_growth_from_outside(mpirun, path, engine):
    mpirun(3, "outside.py", path, engine)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "engine"), [(1, "auto"), (3, "mmap"), (2, "pread"), (3, "mpi-io")]
)
def test_ranks_share_an_array(mpirun, path, ranks, engine):
    mpirun(ranks, "sharing.py", path, engine)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "engine", "fill"),
    [(1, "mpi-io", 7), (3, "mpi-io", 0), (2, "mpi-io", 7), (2, "mmap", 7)],
)
def test_axes_policies_and_durability(mpirun, path, ranks, engine, fill):
    mpirun(ranks, "axes.py", path, engine, fill)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments"), [("zones.py", ["mpi-io"]), ("growth.py", ["pread", 3, 12])]
)
def test_hosts_that_keep_copies(mpirun, path, program, arguments):
    """The steps for such file systems; `tests/hosts` has hosts that need them."""
    mpirun(2, "copies.py", program, path, *arguments, MPIR_CVAR_NOLOCAL="1")


@pytest.mark.slow
def test_hints_that_keep_ranks_from_opening_the_file(mpirun, path):
    mpirun(3, "hints.py", path)


def check_planes(path):
    """Check that the array left by `appending.py` is whole and unlocked."""
    with xa.open(path, "r+", timeout=60) as array:
        planes = array[...]
        array.append(np.zeros((1, *array.shape[1:]), "i4"))
        array.extend(0, 3)
        assert not array[len(planes) :].any()
    assert (planes == np.arange(len(planes))[:, None, None]).all()
    return len(planes)


@pytest.mark.slow
def test_a_rank_that_fails_leaves_the_array_whole(mpirun, path):
    status, text = mpirun.status(3, "appending.py", path, 12)
    assert status != 0
    assert "a mistake of the program" in text
    assert check_planes(path) == 12


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.11])
def test_a_program_that_is_killed_leaves_the_array_whole(mpirun, path, seconds):
    process = mpirun.start(2, "appending.py", path, 0)
    try:
        assert process.stdout.readline() == "READY\n"
        time.sleep(seconds)
    finally:
        processes = family(process.pid)
        kill(process)
    assert len(processes) >= 3  # including the ranks
    assert check_planes(path) >= 11


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "engine", "seed"),
    [(1, "mpi-io", 0), (2, "mpi-io", 1), (3, "mpi-io", 2), (4, "mpi-io", 3), (2, "pread", 5)],
)
def test_interleavings(mpirun, forked, tmp_path, ranks, engine, seed):
    """Growth, writes, refreshes and reads agree with NumPy, and the bytes with a serial run."""
    serial, parallel = tmp_path / "serial", tmp_path / "parallel"
    mpirun(ranks, "interleaved.py", parallel, engine, seed)
    forked((SCRIPTS / "interleaved.py").read_text(), serial, "serial", seed)
    assert_same_files(serial, parallel)


@pytest.mark.slow
def test_two_hosts(private_network, mpirun, path):
    if not mpirun.is_mpich:
        pytest.skip("needs MPICH's launcher")
    mpirun.on_hosts(private_network, 4, "hosts.py", path)


@pytest.mark.slow
def test_each_rank_as_on_a_host_of_its_own(mpirun, path):
    mpirun(3, "zones.py", path, "mpi-io", MPIR_CVAR_NOLOCAL="1")
