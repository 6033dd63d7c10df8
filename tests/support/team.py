"""Ranks that run one program after the other, since starting them takes longer than most programs.

`python -m mpi4py team.py FOLDER` is a rank.  It waits for a line in `FOLDER/orders-RANK` without
using a processor, runs the program that the line names, and reports the result in `FOLDER/reports`.
The output of all ranks goes to the file that the line names.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

__all__ = ["Team"]

#: Seconds for other ranks to end after one has failed, since they may wait for it.
PATIENCE = 2


class Team:
    """Started ranks that run programs."""

    def __init__(self, folder: Path, ranks: int, start: Callable[[list], subprocess.Popen]):
        self.folder, self.ranks = folder, ranks
        names = ["reports", *(f"orders-{rank}" for rank in range(ranks))]
        for name in names:
            os.mkfifo(folder / name)
        # Open for reading too: this neither blocks nor meets the end of file of a closed end.
        self._reports, *self._orders = (os.open(folder / name, os.O_RDWR) for name in names)
        self._log = folder / "log"
        self._runs = 0
        self.process = start([__file__, folder])

    def run(self, program: Path, arguments: list[str], timeout: float) -> tuple[bool, str]:
        """Return whether a program succeeds on all ranks in time, and its output.

        After a failure, some ranks may still wait for others, so all are useless.
        """
        self._runs += 1
        output = self.folder / f"output-{self._runs}"
        output.touch()
        order = json.dumps([os.fspath(program), arguments, os.getcwd(), os.fspath(output)])
        for orders in self._orders:
            os.write(orders, order.encode() + b"\n")
        well, left, end = True, self.ranks, time.monotonic() + timeout
        while left and self.process.poll() is None and time.monotonic() < end:
            if select.select([self._reports], [], [], 0.5)[0]:
                for report in os.read(self._reports, 1):
                    left -= 1
                    if report != ord("0"):
                        well, end = False, min(end, time.monotonic() + PATIENCE)
        text = output.read_text(errors="replace")
        output.unlink()
        if left:
            text += f"{left} of {self.ranks} ranks have not come to the end\n"
        return well and not left, text

    def close(self) -> None:
        for descriptor in (self._reports, *self._orders):
            os.close(descriptor)
        self.process.communicate(timeout=250)


def serve(folder: Path) -> None:
    """Run orders, as one of the ranks, until there are no more."""
    from mpi4py import MPI
    from patches import patch

    rank = MPI.COMM_WORLD.rank
    reports = os.open(folder / "reports", os.O_WRONLY)
    with open(folder / f"orders-{rank}") as orders:
        for order in orders:
            program, arguments, place, output = json.loads(order)
            os.chdir(place)
            with printing_to(output):
                well = run(program, arguments)
            patch.undo()
            os.write(reports, b"0" if well else b"1")


@contextlib.contextmanager
def printing_to(output: str):
    """Append the output of this process and its children to a file."""
    kept = [os.dup(1), os.dup(2)]
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, old in enumerate(kept, 1):
            os.dup2(old, descriptor)
        for descriptor in (file, *kept):
            os.close(descriptor)


def run(program: str, arguments: list[str]) -> bool:
    """Run a program in a fresh namespace; return whether it succeeds."""
    sys.argv = [program, *arguments]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as error:
        if error.code in (None, 0):
            return True
        print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    else:
        return True
    return False


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
