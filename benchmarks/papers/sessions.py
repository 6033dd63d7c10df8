"""Sessions of a parallel program, while a program outside grows its arrays.

In each session the ranks compute at the bounds that they know, and the program outside grows the
arrays to the next ones.  The session ends when the ranks are done and know the new bounds.  The
program outside then compares all elements with NumPy's.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa

from ..sizes import Unsupported
from .harness import Chart, Report, Verdict, Work, columns, unmeasured

ROOT = Path(__file__).resolve().parents[2]
OURS = "extarray"
OURS_MPI_IO = "extarray, MPI-IO"
FILE = "conventional, MPI-IO"
HDF5 = "HDF5, one writer"
#: Not another storage, but another algorithm.
APPS = "multiply of extarray.apps"
#: The candidates, and the class of each in `outside`.
KINDS = {
    OURS: "Ours",
    OURS_MPI_IO: "Ours",
    FILE: "Conventional",
    HDF5: "OneWriterHDF5",
    APPS: "Ours",
}
RANKS = {"tiny": (2,), "small": (1, 2), "full": (1, 2, 4)}
#: The number of ranks in most charts.
MANY = 2
PARTS = ("computing", "reads and writes", "waiting for growth", "growth, outside")
# Two-phase buffering costs several times what it saves if all ranks are on one host.
HINTS = {f"romio_{kind}": "disable" for kind in ("cb_read", "cb_write", "ds_read", "ds_write")}

Box = tuple[slice, ...]


class Application:
    """A computation on arrays that grow; a module of an experiment defines its own.

    Attributes
    ----------
    GROWN, OWN : tuple of str
        Arrays that the program outside grows, and arrays that the ranks make.
    READ : tuple of str
        Those of the former that the ranks only read.
    CHUNKS : dict
        The chunks of each array.
    SIZES : dict
        The bounds of each scale: one for each session, and that to which the last one grows.
    """

    GROWN: tuple[str, ...] = ()
    READ: tuple[str, ...] = ()
    OWN: tuple[str, ...] = ()
    CHUNKS: Mapping[str, tuple[int, ...]]
    SIZES: Mapping[str, Sequence[int]]

    def __init__(self, scale: str) -> None:
        self.scale = scale
        self.bounds = list(self.SIZES[scale])

    def shape(self, name: str, bound: int) -> tuple[int, ...]:
        """Return the shape of an array at a bound."""
        return (bound, bound)

    def part(self, name: str, box: Box) -> Any:
        """Return the elements of a box that the program outside adds."""
        raise NotImplementedError

    def session(self, arrays: Mapping[str, Any], bound: int) -> None:
        """Compute at a bound; collective."""
        raise NotImplementedError

    def expected(self, bound: int) -> dict[str, np.ndarray]:
        """Return the elements of arrays after the next session, by one process in memory."""
        if not hasattr(self, "memory"):
            self.memory = {name: InMemory() for name in self.GROWN}
        for name, array in self.memory.items():
            array.reach(self.shape(name, bound), lambda box, name=name: self.part(name, box))
        self.session(self.memory, bound)
        return {name: array.values for name, array in self.memory.items()}


class InMemory:
    """A NumPy array as the applications see it, without ranks."""

    comm = None

    def __init__(self) -> None:
        self.values = np.zeros(0)
        self.attrs: dict[str, Any] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    def reach(self, shape: Sequence[int], part: Any) -> None:
        larger = np.array(part(tuple(slice(0, n) for n in shape)), float)
        if self.values.size:
            larger[tuple(map(slice, self.values.shape))] = self.values
        self.values = larger

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.values[key].copy()

    def write(self, key: Any, values: Any) -> None:
        self.values[key] = values


class Seen:
    """An array as the applications see it on each rank, at the bounds of the session.

    Ranks read and write together.
    """

    def __init__(self, comm: Any, shape: Sequence[int]) -> None:
        self.comm = comm
        self.shape = tuple(shape)
        self.ndim = len(self.shape)
        self.attrs: dict[str, Any] = {}
        self.transfer = 0.0
        self.axis = 0

    def distribute(self, kind: str, process_grid: Sequence[int]) -> None:
        """Divide the array along one axis."""
        self.axis = int(np.argmax(process_grid))

    def zone(self) -> Box:
        """Return the part of this rank."""
        box = [slice(0, n) for n in self.shape]
        n, size, rank = self.shape[self.axis], self.comm.size, self.comm.rank
        box[self.axis] = slice(n * rank // size, n * (rank + 1) // size)
        return tuple(box)

    def box(self, key: Any) -> Box:
        keys = key if isinstance(key, tuple) else (key,)
        keys += (slice(None),) * (self.ndim - len(keys))
        return tuple(slice(*k.indices(n)[:2]) for k, n in zip(keys, self.shape, strict=True))

    def __getitem__(self, key: Any) -> np.ndarray:
        start = time.perf_counter()
        values = self._read(self.box(key))
        self.transfer += time.perf_counter() - start
        return values

    def write(self, key: Any, values: Any) -> None:
        start = time.perf_counter()
        self._write(self.box(key), values)
        self.transfer += time.perf_counter() - start

    def refresh(self) -> None:
        """Take over the bounds that the program outside has committed; collective."""
        raise NotImplementedError

    def reach(self, shape: Sequence[int]) -> None:
        """Give an array of the ranks another shape; collective."""
        raise NotImplementedError

    def close(self) -> None: ...

    def _read(self, box: Box) -> np.ndarray:
        raise NotImplementedError

    def _write(self, box: Box, values: Any) -> None:
        raise NotImplementedError


class Ours(Seen):
    """Read: opened for reading.  Written: elements alone, which the program outside permits."""

    def __init__(
        self, comm: Any, path: Path, chunks: Sequence[int], role: str, engine: str = "auto"
    ) -> None:
        if role == "own":
            self.array = xa.create(path, (0,) * len(chunks), chunks=chunks, comm=comm)
        elif role == "read":
            self.array = xa.open(path, comm=comm, engine=engine)
        else:
            self.array = xa.open(path, "r+", comm=comm, share="elements", engine=engine)
        super().__init__(comm, self.array.shape)
        self.close = self.array.close

    def distribute(self, kind: str, process_grid: Sequence[int]) -> None:
        self.array.distribute(kind, process_grid=process_grid)

    def zone(self) -> Box:
        return self.array.zone()

    def refresh(self) -> None:
        self.array.refresh()
        self.shape = self.array.shape

    def reach(self, shape: Sequence[int]) -> None:
        self.array.resize(shape)
        self.shape = self.array.shape

    def _read(self, box: Box) -> np.ndarray:
        return self.array.read(box)

    def _write(self, box: Box, values: Any) -> None:
        self.array.write(box, values)


class Conventional(Seen):
    """A row-major file, which MPI-IO reads and writes, until a larger one takes its place."""

    def __init__(self, comm: Any, path: Path, chunks: Sequence[int], role: str) -> None:
        from mpi4py import MPI

        self.mpi, self.path, self.role = MPI, path, role
        self.info = MPI.Info.Create()
        for hint, value in HINTS.items():
            self.info.Set(hint, value)
        self.file: Any = None
        self.lock = open(f"{path}.lock", "a") if not comm.rank else None  # noqa: SIM115
        super().__init__(comm, (0,) * len(chunks))
        if role != "own":
            self.refresh()

    def refresh(self) -> None:
        newest = Path(f"{self.path}.newest")
        told = json.loads(newest.read_text()) if not self.comm.rank else None
        self._open(*self.comm.bcast(told))
        self.shape = self.bounds

    def reach(self, shape: Sequence[int]) -> None:
        """Make room for other elements: the ranks write all of them anew."""
        if not self.comm.rank:
            with open(f"{self.path}.0", "ab") as file:
                file.truncate(8 * int(np.prod(shape)))
            Path(f"{self.path}.newest").write_text(json.dumps([0, list(shape)]))
        self.comm.Barrier()
        self._open(0, shape)
        self.shape = self.bounds

    def _open(self, number: int, bounds: Sequence[int]) -> None:
        if self.file is not None:
            if number == self.number and tuple(bounds) == self.bounds:
                return
            self.file.Close()
        self.number, self.bounds = number, tuple(bounds)
        mode = self.mpi.MODE_RDONLY if self.role == "read" else self.mpi.MODE_RDWR
        self.file = self.mpi.File.Open(self.comm, f"{self.path}.{number}", mode, self.info)

    def _view(self, box: Box) -> None:
        """Show a box of the file, whose bounds may be beyond those of the session."""
        extents = [s.stop - s.start for s in box]
        if not all(extents):
            self.file.Set_view(0, self.mpi.DOUBLE, info=self.info)
            return
        starts = [s.start for s in box]
        kind = self.mpi.DOUBLE.Create_subarray(self.bounds, extents, starts).Commit()
        self.file.Set_view(0, self.mpi.DOUBLE, kind, info=self.info)
        kind.Free()

    def _read(self, box: Box) -> np.ndarray:
        self._view(box)
        values = np.empty([s.stop - s.start for s in box])
        self.file.Read_all(values)
        return values

    def _write(self, box: Box, values: Any) -> None:
        with self._held():
            self._view(box)
            self.file.Write_all(np.ascontiguousarray(values))

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Keep the program outside from copying, and write to the newest file."""
        if self.role == "own":
            yield
            return
        import fcntl

        told = None
        if self.lock is not None:
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            told = json.loads(Path(f"{self.path}.newest").read_text())
        self._open(*self.comm.bcast(told))
        yield
        self.comm.Barrier()
        if self.lock is not None:
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def close(self) -> None:
        self.file.Close()
        if self.lock is not None:
            self.lock.close()


class OneWriterHDF5(Seen):
    """HDF5 without MPI: ranks read the file of the one writer; each writes a file of its own."""

    def __init__(self, comm: Any, path: Path, chunks: Sequence[int], role: str) -> None:
        import h5py

        self.open, self.path, self.chunks = h5py.File, path, tuple(chunks)
        self.file = self.data = None
        super().__init__(comm, (0,) * len(chunks))
        if role != "own":
            self.file = self.open(f"{path}.h5", "r", libver="latest", swmr=True)
            self.data = self.file["a"]
            self.refresh()

    def refresh(self) -> None:
        self.data.refresh()
        self.shape = self.data.shape

    def reach(self, shape: Sequence[int]) -> None:
        """Make room for other elements: the ranks write all of them anew."""
        self.shape = tuple(shape)

    def _read(self, box: Box) -> np.ndarray:
        return self.data[box]

    def _write(self, box: Box, values: Any) -> None:
        with self.open(f"{self.path}-{self.comm.rank}.h5", "w", libver="latest") as file:
            file.create_dataset("a", data=values, chunks=self.chunks, maxshape=(None,) * self.ndim)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def opened(candidate: str, comm: Any, path: Path, chunks: Sequence[int], role: str) -> Seen:
    """Open an array that the program outside has made, or make one of the ranks."""
    if KINDS[candidate] == "Conventional":
        return Conventional(comm, path, chunks, role)
    if KINDS[candidate] == "OneWriterHDF5":
        return OneWriterHDF5(comm, path, chunks, role)
    return Ours(comm, path, chunks, role, "mpi-io" if candidate == OURS_MPI_IO else "auto")


class Outside:
    """The program outside, as rank 0 sees it; other ranks have none."""

    def __init__(self) -> None:
        program = (
            f"import sys; sys.path.append({str(ROOT)!r}); from benchmarks.papers.outside import "
            "main; main()"
        )
        command = [sys.executable, "-c", program]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, what: str, *arguments: Any) -> None:
        print(json.dumps([what, arguments]), file=self.process.stdin, flush=True)

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the program outside has ended")
        return json.loads(line)

    def ask(self, what: str, *arguments: Any) -> Any:
        self.send(what, *arguments)
        return self.answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)


def sessions(
    comm: Any, outside: Outside | None, module: str, scale: str, candidate: str, folder: Path
) -> list[list[float]]:
    """Return the seconds of each session: in all, and of each of its `PARTS`."""
    application = sys.modules[module].Application(scale)
    if outside:
        outside.ask("make", module, scale, KINDS[candidate], str(folder))
    comm.Barrier()
    arrays = {}
    for name, chunks in application.CHUNKS.items():
        role = "own" if name in application.OWN else "read" if name in application.READ else "write"
        arrays[name] = opened(candidate, comm, folder / name, chunks, role)
    rows = []
    run = application.together if candidate == APPS else application.session
    for bound, following in itertools.pairwise(application.bounds):
        before = sum(array.transfer for array in arrays.values())
        comm.Barrier()
        start = time.perf_counter()
        if outside:
            outside.send("grow", following)
        run(arrays, bound)
        comm.Barrier()
        done = time.perf_counter()
        grown = comm.bcast(outside.answer() if outside else None)
        for name in application.GROWN:
            arrays[name].refresh()
            assert arrays[name].shape == application.shape(name, following), "the growth is unseen"
        comm.Barrier()
        end = time.perf_counter()
        moved = sum(array.transfer for array in arrays.values()) - before
        mine = np.array([end - start, done - start - moved, moved, end - done, grown])
        rows.append((comm.allreduce(mine) / comm.size).tolist())
        if outside:
            outside.ask("check", bound)
    for array in arrays.values():
        array.close()
    if outside:
        outside.ask("close")
    return rows


def main() -> None:
    """Run candidates in turn on all ranks: MODULE SCALE ROUNDS FOLDER CANDIDATE..."""
    import importlib

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    module, scale, rounds, folder, *candidates = sys.argv[1:]
    importlib.import_module(module)
    outside = None if comm.rank else Outside()
    found: dict[str, list[Any]] = {}
    for _ in range(int(rounds)):
        for candidate in candidates:
            place = None
            if not comm.rank:
                place = tempfile.TemporaryDirectory(dir=folder)
            here = Path(comm.bcast(place.name if place else None))
            rows = sessions(comm, outside, module, scale, candidate, here)
            found.setdefault(candidate, []).append(rows)
            comm.Barrier()
            if place:
                place.cleanup()
    if outside:
        outside.close()
        Path(folder, "seconds.json").write_text(json.dumps(found))


def on_ranks(work: Work, module: str, ranks: int, candidates: Sequence[str]) -> dict[str, Any]:
    """Return the seconds of all sessions of each candidate, each from its fastest run."""
    mpiexec = Path(sysconfig.get_path("scripts"), "mpiexec")
    if not mpiexec.exists():
        raise Unsupported("MPI is not installed")
    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); from benchmarks.papers.sessions import "
        "main; main()"
    )
    folder = work.new()
    command = [mpiexec, "-n", ranks, sys.executable, "-m", "mpi4py", "-c", program]
    command += [module, work.scale, work.rounds, folder, *candidates]
    # Ranks and the program outside may outnumber the processors: waiting ranks must yield.
    environment = {**os.environ, "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    found = json.loads((folder / "seconds.json").read_text())
    work.clear()
    # The least time of each session, with the parts of the same run.
    return {
        name: np.array([min(tried, key=lambda row: row[0]) for tried in zip(*runs, strict=True)])
        for name, runs in found.items()
    }


def report(work: Work, module: str, x: str, candidates: Sequence[str]) -> Report:
    """Chart sessions by their bounds, by ranks, and by parts."""
    if HDF5 in candidates and find_spec("h5py") is None:
        work.note(f"{HDF5} takes no part: h5py is not installed.")
        candidates = [name for name in candidates if name != HDF5]
    found = {n: on_ranks(work, module, n, candidates) for n in work.choose(RANKS)}
    many = found[MANY]
    bounds = list(sys.modules[module].Application(work.scale).bounds[:-1])
    by_bound = [{name: rows[i, 0] for name, rows in many.items()} for i in range(len(bounds))]
    by_ranks = [{name: rows[:, 0].sum() for name, rows in one.items()} for one in found.values()]
    charts = [
        Chart(f"a session on {MANY} ranks", x, bounds, "seconds", columns(by_bound)),
        Chart("all sessions", "ranks", list(found), "seconds", columns(by_ranks)),
        Chart(
            f"where the time goes on {MANY} ranks",
            "",
            list(PARTS),
            "seconds",
            {name: parts(name, rows) for name, rows in many.items()},
        ),
    ]
    return Report(charts)


def parts(name: str, rows: np.ndarray) -> list[float | None]:
    """Return the seconds of each part; `APPS` does not tell its reads from its computing."""
    computing, *others = rows[:, 1:].sum(0).tolist()
    return [computing, *([None, *others[1:]] if name == APPS else others)]


def judge(report: Report) -> list[Verdict]:
    """Give the figures of claim 16."""
    by_bound, by_ranks, by_parts = report.charts
    place = by_ranks.xs.index(MANY)
    total = {name: line[place] for name, line in by_ranks.lines.items()}
    growth = {name: line[-1] for name, line in by_parts.lines.items()}
    said = "; ".join(
        f"{name} {total[name] / total[OURS]:.1f} ({growth[name] / growth[OURS]:.1f})"
        for name in by_bound.lines
        if name != OURS
    )
    why = (
        f"Times as long as extarray on {MANY} ranks (the growth outside alone): {said}. At every "
        "bound all elements equal NumPy's."
    )
    return [unmeasured(16, "DRA and parallel HDF5 are not here: h5py's wheel has no MPI.", why)]
