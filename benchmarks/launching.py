"""Programs of several ranks that take turns: each starts once, and sleeps until it gets an order.

Peers may come with their own Python and MPI, so a candidate is a program; ranks/orders.py is the
other end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

__all__ = ["Worker", "in_turn", "started"]

RANKS = Path(__file__).resolve().parent / "ranks"
#: These come with Debian's Python and MPI.
FOREIGN = ("hdf5", "pnetcdf", "dra", "ga")
#: These need Global Arrays.
LINKED = ("dra", "ga")
LONGEST = 600  # seconds for an order


class CandidateError(Exception):
    """A candidate has ended, or does not answer."""


class Runtime:
    """A Python with mpi4py, and the launcher of its MPI library."""

    def __init__(self, python: str, mpiexec: str, options: Sequence[str] = ()) -> None:
        self.start = [mpiexec, *options]
        self.python = [python, "-m", "mpi4py"]

    def command(self, ranks: int, *arguments: str) -> list[str]:
        return [*self.start, "-n", str(ranks), *self.python, *arguments]


def python_with_ga(folder: Path) -> str | None:
    """Link the system's Python with Global Arrays, and return it; None if they are missing."""
    libraries = Path("/usr/lib/x86_64-linux-gnu")
    arrays, armci = (libraries / f"lib{name}-openmpi.a" for name in ("ga", "armci"))
    python = sorted(libraries.glob("libpython3.*.so.1.0"))
    program = folder / "python-with-ga"
    if program.exists():
        return str(program)
    if not (arrays.exists() and armci.exists() and python):
        return None
    # BLAS and the like are never called: their names may stay unresolved.
    linking = "-no-pie -rdynamic -Wl,--unresolved-symbols=ignore-all -Wl,--whole-archive"
    command = ["cc", "-o", program, RANKS / "with_ga.c", *linking.split(), arrays]
    command += ["-Wl,--no-whole-archive", armci, python[0], libraries / "libmpi.so.40", "-lm"]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False)
    return None if done.returncode else str(program)


def runtime_of(name: str, folder: Path) -> Runtime | None:
    """Return a candidate's runtime, or None."""
    if name not in FOREIGN:
        launcher = Path(sysconfig.get_path("scripts"), "mpiexec")
        return Runtime(sys.executable, str(launcher)) if launcher.exists() else None
    foreign = shutil.which("mpiexec.openmpi")
    python = python_with_ga(folder) if name in LINKED else shutil.which("/usr/bin/python3")
    if foreign is None or python is None:
        return None
    # Its ROMIO is several times faster here than its own MPI-IO.
    options = ["--allow-run-as-root", "--oversubscribe", "--mca", "io", "romio321"]
    return Runtime(python, foreign, options)


class Worker:
    """A candidate at work on some ranks.

    Parameters
    ----------
    name : str
        Name of its module in ranks/.
    runtime : Runtime
    ranks : int
    folder : Path
        Folder to create, for orders and results.
    program : str, optional
        Program in ranks/ that runs the module.
    """

    def __init__(
        self, name: str, runtime: Runtime, ranks: int, folder: Path, program: str = "program.py"
    ) -> None:
        self.name = name
        self.folder = folder
        self._number = 0
        folder.mkdir()
        self._log = open(folder / "log", "w+")  # noqa: SIM115 (close does)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        if name not in FOREIGN and "PYTHONPATH" in os.environ:
            environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        environment["OMP_NUM_THREADS"] = environment["EXTARRAY_NUM_THREADS"] = "1"
        # Ranks may outnumber the processors: waiting ranks must yield.
        environment["MPIR_CVAR_POLLS_BEFORE_YIELD"] = environment[
            "OMPI_MCA_mpi_yield_when_idle"
        ] = "1"
        self._process = subprocess.Popen(
            runtime.command(ranks, str(RANKS / program), name, str(folder), str(os.getpid())),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environment,
        )

    def ask(self, what: str, **arguments: Any) -> Any:
        """Give an order, and return the candidate's answer after it is carried out."""
        order, result = (self.folder / f"{kind}-{self._number}" for kind in ("order", "result"))
        self._number += 1
        fresh = self.folder / "fresh-order"
        fresh.write_text(json.dumps((what, arguments)))
        fresh.rename(order)
        end = time.monotonic() + LONGEST
        while not result.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self._log.flush()
                lines = (self.folder / "log").read_text().strip().splitlines()
                told = [line for line in lines if "Error" in line] or lines[-1:]
                raise CandidateError(told[-1] if told else "it has ended")
            time.sleep(0.001)
        return json.loads(result.read_text())

    def close(self) -> None:
        with suppress(CandidateError):
            if self._process.poll() is None:
                (self.folder / f"order-{self._number}").write_text(json.dumps(("end", {})))
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait(timeout=30)
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def started(
    names: Sequence[str], ranks: int, folder: Path, stack: ExitStack, program: str = "program.py"
) -> dict[str, Worker]:
    """Start candidates, which the stack ends; print a description of each, or that it is missing.

    Parameters
    ----------
    names : sequence of str
    ranks : int
    folder : Path
    stack : ExitStack
    program : str, optional
        As for `Worker`.

    Returns
    -------
    dict of {str: Worker}
        The candidates that were found.
    """
    workers = {}
    for name in names:
        runtime = runtime_of(name, folder)
        if runtime is None:
            print(f"{name}: not found")
            continue
        worker = Worker(name, runtime, ranks, folder / name, program)
        stack.callback(worker.close)
        try:
            print(f"{name}: {worker.ask('describe')}", flush=True)
            workers[name] = worker
        except CandidateError as error:
            print(f"{name}: not found ({error})")
    return workers


def in_turn(workers: dict[str, Worker], rounds: int, what: str, **arguments: Any) -> dict[str, Any]:
    """Give all candidates an order in turn, several times; drop those that fail."""
    results: dict[str, list[Any]] = {}
    for _ in range(rounds):
        for name, worker in list(workers.items()):
            try:
                results.setdefault(name, []).append(worker.ask(what, **arguments))
            except CandidateError as error:
                print(f"{name} fails at {what} {arguments}: {error}", flush=True)
                del workers[name]
    return {name: found for name, found in results.items() if name in workers}
