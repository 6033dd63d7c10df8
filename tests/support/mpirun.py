"""Run programs under the environment's mpiexec, always with a timeout."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from surroundings import shares_little
from team import Team

SCRIPTS = Path(__file__).resolve().parents[1] / "mpi" / "programs"


class Launcher:
    """Runs scripts of tests/mpi on several ranks, started for each script."""

    def __init__(self, mpiexec: Path, environment: dict[str, str], *options: str):
        self.mpiexec = mpiexec
        self.options = options  # options of mpi4py's runner
        # Ranks outnumber the processors, so waiting ranks must yield to others.
        yielding = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
        self.environment = {**environment, **yielding}

    def command(self, ranks: int, program, *args) -> list[str]:
        # Without mpi4py's runner, a failing rank would leave the others waiting.
        python = [sys.executable, "-W", "error", "-m", "mpi4py", *self.options]
        return list(map(str, [self.mpiexec, "-n", ranks, *python, SCRIPTS / program, *args]))

    @property
    def is_mpich(self) -> bool:
        """Whether the launcher belongs to MPICH."""
        return self.mpiexec.with_name("mpiexec.hydra").exists()

    def on_hosts(self, prefix: list[str], ranks: int, program, *args) -> str:
        """Return the output of a program on two hosts; `prefix` creates a network namespace."""
        mpiexec, option, number, *command = self.command(ranks, program, *args)
        assert option == "-n"
        hosts = [*prefix, "sh", str(SCRIPTS / "hosts.sh"), mpiexec, number, *command]
        return self._finished(*self._run(hosts, timeout=250))

    def start(self, ranks: int, program, *args) -> subprocess.Popen:
        """Start a program, which `kill` ends."""
        return self._start(self.command(ranks, program, *args))

    def _start(self, command: list[str]) -> subprocess.Popen:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,  # the launcher would forward it, and may wait for it
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )

    def __call__(self, ranks: int, program, *args, timeout=250) -> str:
        """Return the output of a program, which must succeed."""
        return self._finished(*self.status(ranks, program, *args, timeout=timeout))

    def status(self, ranks: int, program, *args, timeout=250) -> tuple[int, str]:
        """Return the exit status of a program and its output."""
        return self._run(self.command(ranks, program, *args), timeout)

    def _run(self, command: list[str], timeout: float) -> tuple[int, str]:
        process = self._start(command)
        try:
            text, _ = process.communicate(timeout=timeout)
        finally:
            if process.poll() is None:
                kill(process)
        return process.returncode, text

    @staticmethod
    def _finished(status: int, text: str) -> str:
        assert status == 0, f"exit status {status}\n{text}"
        return text


class Teams(Launcher):
    """A launcher whose ranks stay for the next program.

    Ranks end when their program fails, since others may still wait in it; all end when new ranks
    would find no room.  `start` and `status` use separate ranks.
    """

    def __init__(self, mpiexec: Path, environment: dict[str, str]):
        super().__init__(mpiexec, environment)
        self._teams: dict[tuple, Team] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="extarray-teams-")

    def __call__(self, ranks: int, program, *args, timeout=250, **environment: str) -> str:
        """Return the output of a program, which must succeed."""
        which = ranks, *sorted(environment.items())
        team = self._teams.get(which)
        if team is None:
            team = self._teams[which] = self._started(ranks, environment)
        well = False
        try:
            well, text = team.run(SCRIPTS / program, list(map(str, args)), timeout)
        finally:
            if not well:
                del self._teams[which]
                kill(team.process)
                team.close()
        if well and shares_little():
            self._teams.pop(which).close()
        assert well, text
        return text

    def _started(self, ranks: int, environment: dict[str, str]) -> Team:
        launcher = Launcher(self.mpiexec, {**self.environment, **environment})
        folder = tempfile.mkdtemp(dir=self._folder.name)
        return Team(Path(folder), ranks, lambda args: launcher.start(ranks, *args))

    def close(self) -> None:
        while self._teams:
            self._teams.popitem()[1].close()
        self._folder.cleanup()


def kill(process: subprocess.Popen) -> None:
    """End a launcher and its ranks at once."""
    processes = family(process.pid)
    left = {name for pid in processes for name in shared_memory(pid)}
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=250)
    for name in left:
        Path(name).unlink(missing_ok=True)
    if process.stdout is not None:
        process.stdout.close()


def shared_memory(pid: int) -> list[str]:
    """Return the shared memory that an MPI library would have removed at its end."""
    with contextlib.suppress(OSError):
        maps = Path(f"/proc/{pid}/maps").read_text()
        return re.findall(r"(/dev/shm/mpich\S+)$", maps, re.MULTILINE)
    return []


def family(pid: int) -> list[int]:
    """Return a running process and its descendants, as far as the system has /proc."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Behind the name, which may have spaces: state, parent.
            parent = int(place.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found
