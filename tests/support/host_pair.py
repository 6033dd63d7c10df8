"""Ranks and programs on two hosts that share a file system.

EXTARRAY_TEST_HOSTS has one line for each host, with the command that runs another there;
EXTARRAY_TEST_SHARED is a folder that both see under this path.  Ends with the reason where a test
cannot run.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from pathlib import Path

from mpirun import Launcher, family

__all__ = ["Host", "RanksOnHosts", "hosts_given"]

# MPICH's launcher asks "ssh" to start a process on another host.
_START = """\
#!/bin/sh
if [ "$1" = -x ]; then shift; fi
host=$1
shift
case $host in
{cases}
esac
echo "no host $host" >&2
exit 1
"""


class Host:
    """A host, which commands enter by `prefix`."""

    def __init__(self, prefix: list[str]):
        self.prefix = prefix
        self.address = self("hostname", "-I").split()[0]
        # Processes of a host are found by its network.
        self.network = self("readlink", "/proc/self/ns/net").strip()

    def __call__(self, *command, timeout=250, **options) -> str:
        """Return the output of a command, which must succeed."""
        done = subprocess.run(
            [*self.prefix, *map(str, command)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **options,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kill(self, pids: list[int]) -> int:
        """Kill those of some processes that run on this host; return their number."""
        n = 0
        for pid in pids:
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/net") == self.network:
                    os.kill(pid, signal.SIGKILL)
                    n += 1
        return n


def hosts_given() -> list[Host]:
    """Return the hosts of the environment; none if it names fewer than two."""
    lines = os.environ.get("EXTARRAY_TEST_HOSTS", "").splitlines()
    if len(lines) != 2 or "EXTARRAY_TEST_SHARED" not in os.environ:
        return []
    return [Host(shlex.split(line)) for line in lines]


class RanksOnHosts(Launcher):
    """A launcher that deals ranks to hosts in turn; rank 0 and the launcher are on the first."""

    def __init__(self, mpiexec: Path, environment: dict[str, str], hosts: list[Host], folder: Path):
        super().__init__(mpiexec, environment)
        self.hosts = hosts
        self._starter = folder / "start"
        cases = "\n".join(f'{h.address}) exec {shlex.join(h.prefix)} sh -c "$*" ;;' for h in hosts)
        self._starter.write_text(_START.format(cases=cases))
        self._starter.chmod(0o755)

    def command(self, ranks: int, program, *args) -> list[str]:
        first, *rest = self.hosts
        mpiexec, *command = super().command(ranks, program, *args)
        addresses = ",".join(host.address for host in (first, *rest))
        launcher = ["-launcher", "ssh", "-launcher-exec", str(self._starter)]
        hosts = ["-localhost", first.address, "-hosts", addresses]
        return [*first.prefix, mpiexec, *launcher, *hosts, *command]

    @staticmethod
    def processes(process: subprocess.Popen) -> list[int]:
        """Return the launcher of a running program and its ranks, on all hosts."""
        return family(process.pid)
