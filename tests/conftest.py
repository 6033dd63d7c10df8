"""Fixtures of the suite: arrays on every engine, and Hypothesis' profiles."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import traceback
import zlib
from collections import defaultdict
from pathlib import Path

import preload
import pytest
from engines import ENGINES, FOLDER
from factory import Factory
from forked import Nursery
from giving_back import MOST, GivesBack, Peak
from hypothesis import HealthCheck, settings
from in_threads import of_folders, with_own_folder
from mpirun import Teams
from peaks import FREED_AT_ONCE
from scratch import MEMORY, new_folder
from surroundings import Folder, one_at_a_time, shares_little, shares_memory, shed
from systems import lacking, lacking_elsewhere

from extarray.array.life import open_in_files

# Before anything starts, even processes of pytest-xdist.
shed(os.environ)

# The same examples in every run, unless others are asked for.  No test measures time, so a busy
# machine makes no difference.
settings.register_profile(
    "fixed",
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("few", settings.get_profile("fixed"), max_examples=15)
settings.register_profile("seeded", settings.get_profile("fixed"), derandomize=False)
settings.register_profile("explore", settings.get_profile("seeded"), max_examples=100)
settings.register_profile("nightly", settings.get_profile("seeded"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

#: Fixtures of tests that start processes.
PROCESSES = {"mpiexec", "script", "forked", "freeing", "shim", "private_mount", "private_network"}

RUN = pytest.StashKey[Folder]()
NO_FURTHER_USE = pytest.StashKey[bool]()
GIVES_BACK = pytest.StashKey[GivesBack]()
PEAK = pytest.StashKey[Peak]()
PEAKS = pytest.StashKey[dict[str, tuple[int, str]]]()

#: Cases that the fast half keeps of a test.
FEW_CASES = 4

# A shell's background jobs ignore SIGINT, and so do their children: tests send it to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    """Add the option that chooses tests by the invariants they hold."""
    parser.addoption(
        "--invariant",
        action="append",
        default=[],
        metavar="NAME",
        help="run the tests of an invariant of docs/design.md (I4, say) and no others",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Choose the examples and the run's folder."""
    choose_examples(config)
    config.stash[GIVES_BACK] = GivesBack()
    config.stash[PEAK] = Peak()
    config.stash[PEAKS] = {}
    # Processes of pytest-xdist have parts of this folder.  A folder given by option is used as is.
    if config.option.basetemp is None and not hasattr(config, "workerinput"):
        folder = config.stash[RUN] = Folder(files=FOLDER)
        config.option.basetemp = str(folder.base)
        os.environ["TMPDIR"] = str(folder.temporary)
        tempfile.tempdir = None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """Note whether anybody may need the files again."""
    session.config.stash[NO_FURTHER_USE] = exitstatus in {
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    }
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = peak_of(session.config)


def peak_of(config) -> tuple[int, str]:
    """Return the peak of this process, and the test that took it there."""
    peak = config.stash[PEAK]
    return peak.nbytes, peak.test


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Note the peak of memory of a process of pytest-xdist."""
    output = getattr(node, "workeroutput", {})
    if "peak" in output:
        node.config.stash[PEAKS][node.gateway.id] = tuple(output["peak"])


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Print the peaks of memory, and the folder with the files of failed tests."""
    peaks = config.stash[PEAKS] or {"this process": peak_of(config)}
    for name, (nbytes, test) in sorted(peaks.items()):
        where = f", too much, first in {test}" if nbytes > MOST else ""
        terminalreporter.line(f"peak of memory: {name} {nbytes / 1e6:.0f} MB{where}")
    folder = config.stash.get(RUN, None)
    if folder is not None and exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.line(f"files of tests that failed: {folder.base}")


def pytest_unconfigure(config):
    """Give up the run's folder."""
    folder = config.stash.get(RUN, None)
    if folder is not None:
        folder.end(remove=config.stash.get(NO_FURTHER_USE, False))


def choose_examples(config) -> None:
    """Choose few examples for the fast half, and random ones for a seed."""
    if "not slow" in config.option.markexpr and settings.get_current_profile_name() == "fixed":
        settings.load_profile("few")
    if config.option.hypothesis_seed is None:
        if not settings.default.derandomize:
            config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))
    elif settings.get_current_profile_name() in {"fixed", "few"}:
        settings.load_profile("seeded")


def pytest_report_header(config):
    """Print how to repeat the run."""
    seed = config.option.hypothesis_seed
    if seed is None:
        return f"hypothesis: fixed examples, {settings.default.max_examples} of a property"
    profile = settings.get_current_profile_name()
    return f"hypothesis: examples of HYPOTHESIS_PROFILE={profile} pytest --hypothesis-seed={seed}"


def fast_cases(item) -> int:
    """Return how many cases of a test the fast half keeps: a few, or one of a property."""
    marker = item.get_closest_marker("sampled")
    if marker is not None:
        (count,) = marker.args
        return count
    return 1 if hasattr(getattr(item, "obj", None), "hypothesis") else FEW_CASES


def keep_those_of(config, items) -> None:
    """Leaves out the tests that hold none of the invariants asked for."""
    asked = set(config.getoption("invariant"))
    if asked:
        held = [{n for m in item.iter_markers("invariant") for n in m.args} for item in items]
        pairs = list(zip(items, held, strict=True))
        config.hook.pytest_deselected(items=[item for item, names in pairs if not names & asked])
        items[:] = [item for item, names in pairs if names & asked]


def text_parameters(item) -> set[str]:
    """Return the parameters of a case that are text."""
    case = getattr(item, "callspec", None)
    return {value for value in case.params.values() if isinstance(value, str)} if case else set()


def keep_possible_engines(config, items) -> None:
    """Leave out cases with an engine that does not fit the file system to be tried."""
    if "mmap" not in ENGINES:
        mapped = [item for item in items if "mmap" in text_parameters(item)]
        config.hook.pytest_deselected(items=mapped)
        items[:] = [item for item in items if item not in mapped]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark tests by their fixtures and cases; let each process begin with long ones."""
    keep_those_of(config, items)
    keep_possible_engines(config, items)
    cases = defaultdict(list)
    in_threads = int(config.getoption("parallel_threads", 1)) > 1
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if "mpiexec" in fixtures:
            item.add_marker("mpi")
        if fixtures & PROCESSES:
            item.add_marker("process")
        if in_threads and of_folders(item) - {"tmp_path"}:
            item.obj = with_own_folder(item)
        cases[item.nodeid.partition("[")[0], fast_cases(item)].append(item)
    for (_, count), found in cases.items():
        # A fixed pseudo-random order: tests differ in the engine that they keep.
        found.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in found[count:]:
            item.add_marker("slow")
    result = yield
    if hasattr(config, "workerinput"):
        items[:] = long_ones_first(items, config.workerinput["workercount"])
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)  # so that waiting does not count as a test's time
def pytest_runtest_protocol(item, nextitem):
    """Run one test of MPI at a time if their ranks would not fit side by side.

    What a test has freed goes back to the system.
    """
    try:
        if shares_little() and item.get_closest_marker("mpi"):
            with one_at_a_time():
                return (yield)
        return (yield)
    finally:
        item.config.stash[PEAK].look(item.nodeid)
        item.config.stash[GIVES_BACK].look()


def close_others(before: set[int]) -> None:
    """Close the arrays that a test has not come to close, but not those of fixtures."""
    for array in reversed(open_in_files()):
        if id(array) not in before:
            with contextlib.suppress(Exception):
                array.close()
    gc.collect()


def clear_frames_of(error: BaseException) -> None:
    """Empty the frames that an error has gone through, which keep files open and mapped.

    pytest holds the error itself for a while.
    """
    errors = [error]
    for each in errors:
        traceback.clear_frames(each.__traceback__)
        others = each.__cause__, each.__context__, *getattr(each, "exceptions", ())
        errors += [other for other in others if other is not None and other not in errors]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that the system lacks something for."""
    before = {id(array) for array in open_in_files()}
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        reason = lacking(error)
        if not reason:
            raise
        clear_frames_of(error)
    close_others(before)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Skip the tests of a fixture that the system lacks something for."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        if reason := lacking(error):
            pytest.skip(reason)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep collected tests out of garbage collections, which would go through all of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def long_ones_first(items, parts: int) -> list:
    """Return the tests in an order of `parts` equal parts that each begin with long ones."""
    kinds = ([], [])
    for item in items:
        long = any(item.get_closest_marker(name) for name in ("slow", "process", "hypothesis"))
        kinds[not long].append(item)
    return [
        item
        for part in range(parts)
        for kind in kinds
        for item in kind[len(kind) * part // parts : len(kind) * (part + 1) // parts]
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let processes that have finished take short tests of others, so that all end together."""
    if config.option.dist == "load":
        from xdist.scheduler import WorkStealingScheduling

        return WorkStealingScheduling(config, log)
    return None


@pytest.fixture(scope="session", autouse=True)
def outside_the_checkout(tmp_path_factory):
    """Run the suite in an empty folder: -c and -m would put the unbuilt checkout first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("cwd"))
        yield


@pytest.fixture(scope="session", params=[*ENGINES, "memory"])
def factory(request, tmp_path_factory):
    """Make arrays on each I/O engine and in memory."""
    return Factory(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session", params=ENGINES)
def disk(request, tmp_path_factory):
    """Make arrays in files, on each I/O engine."""
    return Factory(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def memory(tmp_path_factory):
    """Make arrays in memory, for tests in which the engine makes no difference."""
    return Factory("memory", tmp_path_factory.mktemp("memory"))


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    """Return a path for a new array."""
    return tmp_path / "scene"


class Script:
    """Runs Python code in another process, which finds the same packages."""

    def __init__(self):
        places = [place for place in sys.path if place]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}

    def command(self, code: str, *args, prefix=()) -> list[str]:
        return [*prefix, sys.executable, "-W", "error", "-c", code, *map(str, args)]

    def start(self, code: str, *args, prefix=()) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(code, *args, prefix=prefix),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def __call__(self, code: str, *args, prefix=(), env=(), text=None, timeout=250) -> str:
        """Return the output of code that gets a text as input; it must succeed."""
        done = subprocess.run(
            self.command(code, *args, prefix=prefix),
            input=text,
            capture_output=True,
            text=True,
            env={**self.environment, **dict(env)},
            timeout=timeout,
            check=False,
        )
        if done.returncode and (reason := lacking_elsewhere(done.stderr)):
            pytest.skip(reason)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def script():
    return Script()


@pytest.fixture(scope="session")
def forked(script):
    """Run code as `script` does, in a forked process where there are such."""
    if not hasattr(os, "fork"):
        yield script
        return
    with Nursery(script.environment) as nursery:
        yield nursery


@pytest.fixture(scope="session")
def freeing(script):
    """Run code as `forked` does, with freed memory going back to the system at once."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork, and the C library's settings of memory")
    with Nursery({**script.environment, **FREED_AT_ONCE}) as nursery:
        yield nursery


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    """Build the library that stands between a process and the system."""
    library = preload.build(tmp_path_factory.mktemp("preload"))
    if library is None:
        pytest.skip("needs a C compiler, and Linux: calls to the system are watched by LD_PRELOAD")
    return library


@pytest.fixture(scope="session")
def macos(tmp_path_factory):
    """Return the calls of macOS' implementation, which C code compiled here makes."""
    library = preload.build(tmp_path_factory.mktemp("macos"), "macos")
    if library is None:
        pytest.skip("needs a C compiler, and Linux, to compile the calls of macOS")
    return ctypes.CDLL(str(library))


def namespace(options, command, right) -> list[str]:
    """Return the prefix of a command in its own namespace, where `command` succeeds; or skip."""
    for user in ([], ["--user", "--map-root-user"]):
        prefix = ["unshare", *user, *options]
        try:
            done = subprocess.run(
                [*prefix, *command], capture_output=True, timeout=250, check=False
            )
        except FileNotFoundError:
            break
        if done.returncode == 0:
            return prefix
    pytest.skip(f"needs the right to {right} in a namespace of its own (Linux)")


@pytest.fixture(scope="session")
def private_mount(tmp_path_factory):
    """Return the prefix of a command whose mounts nobody else sees."""
    folder = tmp_path_factory.mktemp("mount")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]
    return namespace(["--mount", "--propagation", "private"], mount, "mount a file system")


@pytest.fixture(scope="session")
def private_network():
    """Return the prefix of a command whose network devices nobody else sees."""
    add = ["ip", "link", "add", "left", "type", "veth", "peer", "name", "right"]
    return namespace(["--net"], add, "make network devices")


@pytest.fixture(params=["folder", "tmpfs"])
def place(request, tmp_path):
    """Yield a folder on the usual file system, or one in memory."""
    if request.param == "folder":
        yield tmp_path
        return
    if not os.access(MEMORY, os.W_OK):
        pytest.skip("no tmpfs to write to")
    folder = MEMORY / f"extarray-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def scratch():
    """Yield a folder in memory if there is room, for tests in which a disk has no part."""
    folder = new_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def shared_memory():
    """Skip a test where processes cannot share memory, as MPI and `multiprocessing` do."""
    if not shares_memory():
        pytest.skip("needs shared memory, which this system does not give (Linux: /dev/shm)")


@pytest.fixture(scope="session")
def mpiexec(shared_memory):
    """Return the environment's own launcher: another one may belong to another MPI library."""
    launcher = Path(sysconfig.get_path("scripts")) / "mpiexec"
    if importlib.util.find_spec("mpi4py") is None or not launcher.exists():
        pytest.skip("mpi4py and mpich are not installed (extra 'mpi')")
    return launcher


@pytest.fixture(scope="session")
def patience(tmp_path_factory):
    """Return the libraries with which waiting ranks leave the processor to others: one or none."""
    library = preload.build(tmp_path_factory.mktemp("patience"), "patience")
    return [] if library is None else [library]


@pytest.fixture(scope="session")
def mpirun(mpiexec, script, patience):
    """Run scripts of tests/mpi on several ranks, which stay for the next script."""
    teams = Teams(mpiexec, {**script.environment, **preload.preloaded(*patience)})
    yield teams
    teams.close()
