"""Two hosts that share a file system, as `.ci/hosts` sets them up."""

from __future__ import annotations

import contextlib
import os
import shlex
import uuid

import pytest
from forked import Nursery


@pytest.fixture(scope="session")
def hosts(script):
    """Return two nurseries, each on a host of its own; paths are the same on both."""
    commands = [
        shlex.split(line) for line in os.environ.get("EXTARRAY_TEST_HOSTS", "").splitlines()
    ]
    if len(commands) != 2 or "EXTARRAY_TEST_SHARED" not in os.environ:
        pytest.skip("needs two hosts that share a file system: .ci/run hosts makes them")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Nursery(script.environment, prefix)) for prefix in commands]


@pytest.fixture
def shared(hosts):
    """Yield the path of a fresh folder on the shared file system."""
    path = f"{os.environ['EXTARRAY_TEST_SHARED']}/{uuid.uuid4().hex}"
    hosts[0]("import os, sys; os.mkdir(sys.argv[1])", path)
    yield path
    hosts[0]("import shutil, sys; shutil.rmtree(sys.argv[1])", path)


@pytest.fixture(params=[(0, 1), (1, 0)], ids=["there", "back"])
def pair(request, hosts):
    """Return the hosts in both orders: the servers of some file systems run on the first."""
    return [hosts[number] for number in request.param]


LOCKS = """
import fcntl, sys
with open(sys.argv[1], "wb") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def locks(hosts, shared):
    """Skip a test where the file system keeps locks of one host from others, as sshfs does."""
    here, there = hosts
    with here.start(LOCKS, f"{shared}/lock") as process:
        process.stdout.readline()
        status, _, errors = there.run(LOCKS, f"{shared}/lock")
    if status == 0:
        pytest.skip("this file system does not tell one host of the locks of others")
    assert "BlockingIOError" in errors
