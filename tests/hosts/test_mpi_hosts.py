"""Ranks, and workers of dask, on two hosts; each has its own client of a shared file system."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from host_pair import RanksOnHosts, hosts_given
from mpirun import kill

PROGRAMS = Path(__file__).parent / "programs"
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "dask-cluster.md"

pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture(scope="module")
def pair_of_hosts():
    hosts = hosts_given()
    if not hosts:
        pytest.skip("needs two hosts that share a file system: .ci/run hosts makes them")
    return hosts


@pytest.fixture
def folder(pair_of_hosts):
    """Yield a folder that both hosts see under the same path."""
    first, second = pair_of_hosts
    path = first("mktemp", "-d", f"{os.environ['EXTARRAY_TEST_SHARED']}/mpi-XXXXXX").strip()
    second("ls", path)
    yield path
    first("rm", "-r", path)


@pytest.fixture(scope="module")
def launcher(mpiexec, script, pair_of_hosts, tmp_path_factory):
    """Return a maker of launchers whose rank 0 is on the first host, or on the second."""
    if not mpiexec.with_name("mpiexec.hydra").exists():
        pytest.skip("needs MPICH's launcher")
    first, _ = pair_of_hosts
    path = first("mktemp", "-d", f"{os.environ['EXTARRAY_TEST_SHARED']}/mpi-XXXXXX").strip()
    numbers = {host("stat", "-c", "%i", path) for host in pair_of_hosts}
    first("rmdir", path)
    if len(numbers) > 1:  # as with sshfs: ranks are refused there
        pytest.skip("ranks need a file system whose files have the same numbers on all hosts")

    def made(back: bool = False) -> RanksOnHosts:
        hosts = pair_of_hosts[::-1] if back else pair_of_hosts
        return RanksOnHosts(mpiexec, script.environment, hosts, tmp_path_factory.mktemp("start"))

    return made


@pytest.fixture
def ranks(launcher):
    return launcher()


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("engine", ["auto", "pread"])
def test_ranks_write_grow_and_read(launcher, folder, engine, back):
    """The first host has the servers of some file systems."""
    launcher(back)(4, PROGRAMS / "two_hosts.py", f"{folder}/a", engine)


def test_a_mapping_is_refused(ranks, folder):
    status, text = ranks.status(4, PROGRAMS / "two_hosts.py", f"{folder}/a", "mmap")
    assert status != 0
    assert "ArgumentError" in text and "mapping" in text


PLAIN = """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1]) as array:
    model = 100 * np.arange(30)[:, None] + np.arange(42)
    model[:, 40:] = -5
    assert np.array_equal(array[...], model), array[...]
"""


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_plain_programs_open_the_array_of_ranks(launcher, folder, script, pair_of_hosts, back):
    launcher(back)(4, PROGRAMS / "last.py", f"{folder}/a")
    for host in pair_of_hosts:
        host(sys.executable, "-c", PLAIN, f"{folder}/a", env=script.environment)


# Programs that compare with NumPy, and the arguments that follow the path.  Rank 0 is not on the
# host of ranks 1 and 3.
OF_ONE_HOST = {
    "zones.py": ["auto"],
    "growth.py": ["auto", 3, 25],
    "selections.py": ["auto", 16],
    "names.py": ["auto"],
    "outside.py": ["auto"],
    "late.py": ["auto"],
    "globals.py": [2],
}


@pytest.mark.parametrize("program", OF_ONE_HOST)
def test_programs_of_one_host(ranks, folder, program):
    ranks(4, program, f"{folder}/a", *OF_ONE_HOST[program])


@pytest.mark.parametrize("program", ["dra.py", "pexta_growth.py", "sections.py", "rechunk.py"])
def test_programs_of_one_host_in_a_folder(ranks, folder, program):
    ranks(4, program, folder)


def test_one_sided_arrays(ranks):
    """Put, get and add to memory of the other host."""
    ranks(4, "onesided.py")


# -- programs outside ----------------------------------------------------------------------------

GROWS = """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1], "r+") as array:
    for i in range(int(sys.argv[2])):
        array.append(np.full((1, *array.shape[1:]), i, "i4"))
"""


@pytest.mark.parametrize("where", [0, 1])
def test_ranks_follow_a_writer(ranks, folder, script, pair_of_hosts, where):
    """The writer is on the host of rank 0, or on the other."""
    made = "import sys, extarray as xa; xa.create(sys.argv[1], (0, 9, 7), 'i4', chunks=(4, 4, 4))"
    with_end = f"{made}.close()"
    pair_of_hosts[where](sys.executable, "-c", with_end, f"{folder}/a", env=script.environment)
    readers = ranks.start(4, PROGRAMS / "followers.py", f"{folder}/a", 60)
    try:
        assert readers.stdout.readline() == "READY\n"
        pair_of_hosts[where](sys.executable, "-c", GROWS, f"{folder}/a", 60, env=script.environment)
        text, _ = readers.communicate(timeout=200)
        assert readers.returncode == 0, text
    finally:
        kill(readers)


WRITES_ELEMENTS = """
import sys
import extarray as xa
path, rounds = sys.argv[1], int(sys.argv[2])
with xa.open(path, "r+", share="elements") as array:
    for k in range(1, rounds + 1):
        array[4::5] = 5 * k
        array.flush()
"""

SHARES = """
import sys
import extarray as xa
try:
    xa.open(sys.argv[1], "r+", share=True, timeout=0)
except xa.errors.LockedError:
    print("refused")
"""


@pytest.mark.parametrize("where", [0, 1])
def test_a_program_writes_elements_beside_ranks(ranks, folder, script, pair_of_hosts, where):
    """No element is lost, though the program and ranks of both hosts write to the same chunks."""
    program = ranks.start(4, PROGRAMS / "beside.py", f"{folder}/a", 30)
    try:
        assert program.stdout.readline() == "READY\n"
        host = pair_of_hosts[where]
        told = host(sys.executable, "-c", SHARES, f"{folder}/a", env=script.environment)
        assert told == "refused\n"  # the ranks are the writer
        host(sys.executable, "-c", WRITES_ELEMENTS, f"{folder}/a", 30, env=script.environment)
        text, _ = program.communicate(timeout=200)
        assert program.returncode == 0, text
    finally:
        kill(program)


# -- hosts that die ------------------------------------------------------------------------------

PLANES = """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1], "r+", timeout=100) as array:
    planes = array[...]
    assert (planes == np.arange(len(planes))[:, None, None]).all(), planes[:, 0, 0]
    array.append(np.full((1, *array.shape[1:]), len(planes), "i4"))
    array.flush()
with xa.open(sys.argv[1]) as array:
    assert (array[...] == np.arange(len(array))[:, None, None]).all()
    print(len(planes))
"""


def planes_of(host, path, script) -> int:
    """Check the array that killed ranks left; return the number of planes."""
    return int(host(sys.executable, "-c", PLANES, path, env=script.environment))


def flushed(process, n) -> int:
    """Wait for so many flushes; return the planes of the last."""
    return [int(process.stdout.readline()) for _ in range(n)][-1]


@pytest.mark.parametrize("dead", [0, 1])
def test_processes_of_one_host_are_killed(ranks, folder, script, pair_of_hosts, dead):
    """The launcher ends all ranks; no host lacks what was flushed."""
    process = ranks.start(4, PROGRAMS / "growing.py", f"{folder}/a")
    try:
        n = flushed(process, 5)
        processes = ranks.processes(process)
        processes.remove(process.pid)
        assert pair_of_hosts[dead].kill(processes) >= 3  # the starter's process, and two ranks
        process.wait(100)
    finally:
        kill(process)
    for host in pair_of_hosts:
        found = planes_of(host, f"{folder}/a", script)
        assert found >= n
        n = found + 1


@pytest.mark.parametrize("back", [False, True], ids=["others", "of rank 0"])
def test_a_host_is_cut_off(launcher, folder, script, pair_of_hosts, back):
    """Its ranks wait, and the others for them, until the launcher is ended; all flushed is there.

    No MPI library notices a host that is silent, since it might just be slow.  If it held the
    writer's lock, the server gives that up after a while.
    """
    ranks = launcher(back)
    first, second = pair_of_hosts
    device = second("sh", "-c", f"ip -o -4 address | grep -w {second.address}").split()[1]
    process = ranks.start(4, PROGRAMS / "growing.py", f"{folder}/a")
    try:
        n = flushed(process, 5)
        second("ip", "link", "set", device, "down")
        try:
            time.sleep(1)
            assert process.poll() is None
        finally:
            kill(process)
        found = planes_of(first, f"{folder}/a", script)
        assert found >= n
    finally:
        second("ip", "link", "set", device, "up")
        kill(process)
    for _ in range(200):  # until the other host's client is connected again
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            second("ls", folder, timeout=100)
            break
        time.sleep(0.5)
    assert planes_of(second, f"{folder}/a", script) == found + 1


# -- dask ----------------------------------------------------------------------------------------


def program_of_page() -> str:
    """Return the program of the how-to."""
    blocks = re.findall(r"```python\n(.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    return next(block for block in blocks if "def add_one" in block)


@contextlib.contextmanager
def running(host, *command, environment):
    """Run a server on a host until the block ends."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*host.prefix, *map(str, command)], stdout=log, stderr=log, env=environment
        )
        try:
            yield process
        finally:
            kill(process)


def test_dask_as_in_the_how_to(folder, script, pair_of_hosts, tmp_path):
    """`cluster.py` of the page, by hand: a scheduler, a worker on each host, and the client."""
    pytest.importorskip("distributed")
    first, second = pair_of_hosts
    page = program_of_page()
    server = f"tcp://{first.address}:8786"
    code = page.replace('Client(n_workers=2, dashboard_address=":0")', f'Client("{server}")')
    assert code != page
    wait = f'with Client("{server}") as client:\n        client.wait_for_workers(2)'
    code = code.replace(f'with Client("{server}") as client:', wait)
    program = tmp_path / "cluster.py"
    program.write_text(code)
    dask = [sys.executable, "-m", "dask"]
    options = ["--no-dashboard", "--nworkers", 1, "--nthreads", 2, "--no-nanny"]
    scratch = [tmp_path / "first", tmp_path / "second"]
    quiet = {**script.environment, "PYTHONWARNINGS": "default"}
    with (
        running(
            first, *dask, "scheduler", "--host", first.address, "--no-dashboard", environment=quiet
        ),
        contextlib.ExitStack() as workers,
    ):
        for host, place in zip(pair_of_hosts, scratch, strict=True):
            own = ["--host", host.address, "--local-directory", place]
            workers.enter_context(
                running(host, *dask, "worker", server, *own, *options, environment=quiet)
            )
        text = first("env", "-C", folder, sys.executable, program, env=quiet, timeout=200)
    assert text == "(300, 800) [0. 1. 2.]\n[1. 2. 3.]\n"
    code = "import extarray as xa; array = xa.open('days'); print(set(array[:].ravel().tolist()))"
    for host in (first, second):
        assert host("env", "-C", folder, sys.executable, "-c", code, env=script.environment) == (
            "{1.0, 2.0, 3.0}\n"
        )
