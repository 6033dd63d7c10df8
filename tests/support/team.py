"""Ranks that run one program after the other: to start them takes longer than most programs.

`python -m mpi4py team.py FOLDER` is a rank.  It waits for a line in `FOLDER/orders-RANK` without
using a processor, runs the program that the line names, and says in `FOLDER/reports` how it ended.
What all ranks print goes to the file that the line names.
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

#: Seconds that other ranks have to end when one has failed: they may wait for it.
PATIENCE = 2


class Team:
    """Ranks that have been started, and run programs."""

    def __init__(self, folder: Path, ranks: int, start: Callable[[list], subprocess.Popen]):
        self.folder, self.ranks = folder, ranks
        names = ["reports", *(f"orders-{rank}" for rank in range(ranks))]
        for name in names:
            os.mkfifo(folder / name)
        # For reading as well: to open the other end waits for nobody, and nobody's end is an end.
        self._reports, *self._orders = (os.open(folder / name, os.O_RDWR) for name in names)
        self._log = folder / "log"
        self._runs = 0
        self.process = start([__file__, folder])

    def run(self, program: Path, arguments: list[str], timeout: float) -> tuple[bool, str]:
        """Whether a program ends well on all ranks, in this time, and what they print.

        If not, some of them may still wait for others: the ranks are of no further use.
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
        """Let the ranks end."""
        for descriptor in (self._reports, *self._orders):
            os.close(descriptor)
        self.process.communicate(timeout=250)


def serve(folder: Path) -> None:
    """Run what is ordered, as one of the ranks, until there are no more orders."""
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
    """Send what this process prints, and what it starts, to the end of a file."""
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
    """Run a program in a namespace of its own; tell whether it ends well."""
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
